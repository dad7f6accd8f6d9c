from __future__ import annotations

import dataclasses
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.render.evidence_fixtures import EVIDENCE, full_evidence
from tests.render.fixtures import SAMPLES, adaptive_pool, clean_with_notes, dim, incomplete, quiet, snapshot, untried

from guarddiff.core.finding import Finding
from guarddiff.core.origin import Origin
from guarddiff.core.report import Missing, ReportData
from guarddiff.render import text
from guarddiff.render.junit import render

ALL = {**SAMPLES, **EVIDENCE}
NUMBER = re.compile(r"\d+")


def suite(report: ReportData) -> ElementTree.Element:
    """The one test suite, after a look at the structure that readers of JUnit XML share."""
    root = ElementTree.fromstring(render(report).encode("utf-8"))
    assert root.tag == "testsuites"
    (only,) = root
    check(root, only)
    return only


def check(root: ElementTree.Element, only: ElementTree.Element) -> None:
    assert only.tag == "testsuite"
    assert only[0].tag == "properties"
    assert len(only[0]) > 0
    for entry in only[0]:
        assert entry.tag == "property"
        assert set(entry.attrib) == {"name", "value"}
    cases = only[1:]
    assert cases
    for case in cases:
        assert case.tag == "testcase"
        assert set(case.attrib) == {"classname", "name"}
        assert case.get("name") and case.get("classname")
        outcomes = [part for part in case if part.tag in ("failure", "error", "skipped")]
        assert len(outcomes) <= 1
        assert [part.tag for part in case if part not in outcomes] in ([], ["system-out"])
        for outcome in outcomes:
            assert set(outcome.attrib) <= {"message", "type"}
            assert outcome.get("message")
    for holder in (root, only):
        for name, tag in (("failures", "failure"), ("errors", "error")):
            assert holder.get(name) == str(len(only.findall(f"testcase/{tag}")))
        assert holder.get("tests") == str(len(cases))
    assert only.get("skipped") == str(len(only.findall("testcase/skipped")))


def outcomes(report: ReportData) -> dict[str, str]:
    """Name of each test case to its outcome."""
    found = {}
    for case in suite(report).findall("testcase"):
        kinds = [part.tag for part in case if part.tag != "system-out"]
        found[case.get("name", "")] = kinds[0] if kinds else "pass"
    return found


@pytest.mark.parametrize("name", ALL)
def test_looks_as_reviewed(name: str) -> None:
    snapshot(f"{name}.junit.xml", render(ALL[name]()))


@pytest.mark.parametrize("name", ALL)
def test_is_valid_and_complete(name: str) -> None:
    report = ALL[name]()
    cases = suite(report).findall("testcase")
    declared = [dim for spec in report.inputs for dim in spec.dims if dim.declared]
    assert len(cases) >= len(declared)
    assert render(report).startswith('<?xml version="1.0" encoding="UTF-8"?>\n<testsuites ')


def test_one_case_for_each_declared_dimension() -> None:
    cases = suite(adaptive_pool()).findall("testcase")
    assert [(case.get("classname"), case.get("name")) for case in cases] == [
        ("Pool/x", "x[0] (n)"),
        ("Pool/x", "x[2] (h)"),
        ("Pool/x", "x[3] (w)"),
    ]


def test_outcomes_follow_the_verdicts() -> None:
    assert outcomes(adaptive_pool()) == {"x[0] (n)": "pass", "x[2] (h)": "failure", "x[3] (w)": "failure"}
    assert set(outcomes(untried()).values()) == {"error"}
    assert outcomes(quiet()) == {"x[0] (batch)": "pass", "x[1] (length)": "failure"}


@pytest.mark.parametrize("verdict", ["harmless", "inherent"])
def test_quiet_findings_pass_and_are_told(verdict: str) -> None:
    finding = dataclasses.replace(adaptive_pool().findings[0], verdict=verdict)  # type: ignore[arg-type]
    report = dataclasses.replace(adaptive_pool(), findings=(finding,), status="clean")
    assert set(outcomes(report).values()) == {"pass"}
    assert f"Finding 1, {verdict}" in (suite(report).findtext("testcase[@name='x[2] (h)']/system-out") or "")


def test_confirmed_goes_before_unconfirmed() -> None:
    one = adaptive_pool().findings[0]
    other = dataclasses.replace(one, verdict="unconfirmed", reason="no time")
    report = dataclasses.replace(adaptive_pool(), findings=(other, one))
    assert outcomes(report)["x[2] (h)"] == "failure"
    failure = suite(report).find("testcase[@name='x[2] (h)']/failure")
    assert failure is not None
    assert failure.get("type") == "confirmed"
    assert text.warning_text(one) in (failure.text or "")
    assert text.warning_text(other) in (failure.text or "")


def test_the_whole_finding_is_in_the_output() -> None:
    shown = suite(full_evidence()).findtext("testcase[@name='x[2] (h)']/system-out")
    assert shown == "\n".join(text.finding_lines(1, full_evidence().findings[0]))


def test_a_finding_is_told_in_full_once() -> None:
    cases = suite(adaptive_pool()).findall("testcase")
    told = "Finding 1, confirmed: told in full at x[2] (h)"
    assert [case.findtext("system-out") == told for case in cases] == [False, False, True]
    assert cases[2].findtext("failure") == told
    assert render(adaptive_pool()).count("models/pool.py:12") == 2, "as a warning and in full"


def test_an_export_that_raised_is_no_pass() -> None:
    report = dataclasses.replace(incomplete(), missing=())
    assert outcomes(report) == {"x[0] (n)": "error", "the export": "error"}


def test_missing_parts_are_no_passes() -> None:
    report = dataclasses.replace(incomplete(), error=None)
    assert outcomes(report) == {"x[0] (n)": "error", "evidence: deferred runtime asserts": "error"}
    many = dataclasses.replace(report, missing=tuple(Missing(f"part {i}", "gone") for i in range(70)))
    assert outcomes(many)["evidence: 20 more parts"] == "error"
    assert len(outcomes(many)) == 52


def test_nothing_to_test_is_skipped_not_passed() -> None:
    assert outcomes(ReportData()) == {"dynamic dimensions": "skipped"}
    assert outcomes(clean_with_notes()) == {"x[1] (length)": "pass"}


def test_a_finding_without_dimensions_is_a_case() -> None:
    report = ReportData(findings=(Finding((), "run", "", Origin(), verdict="confirmed"),), status="specialized")
    assert outcomes(report) == {"finding 1": "failure"}


def test_a_static_dimension_that_a_warning_names_is_a_case() -> None:
    finding = dataclasses.replace(adaptive_pool().findings[0], dims=(dim("x[1]", 2, sizes=None),))
    report = dataclasses.replace(adaptive_pool(), findings=(finding,))
    assert outcomes(report)["x[1]"] == "failure"
    silent = dataclasses.replace(report, findings=(dataclasses.replace(finding, verdict="harmless"),))
    assert "x[1]" not in outcomes(silent)


def test_versions_are_properties() -> None:
    found = {p.get("name"): p.get("value") for p in suite(adaptive_pool())[0]}
    assert found["status"] == "specialized"
    assert found["torch"] == "2.14.1"


@given(st.text(max_size=60))
def test_any_text_gives_valid_xml(any_text: str) -> None:
    report = adaptive_pool()
    finding = dataclasses.replace(report.findings[0], op=any_text, reason=any_text, verdict="unconfirmed")
    named = dataclasses.replace(
        report, findings=(finding,), model=any_text, error=any_text, environment={any_text: "1"}
    )
    assert len(suite(named)) == 4 + bool(any_text)
