from __future__ import annotations

import dataclasses
import json

import pytest
from tests.render.fixtures import SAMPLES, adaptive_pool, clean_with_notes, hostile, incomplete, kron, snapshot

from guarddiff.core.compare_reports import compare
from guarddiff.core.report import ReportData
from guarddiff.render import report_diff


def newer(report: ReportData) -> ReportData:
    """The report of a later torch: the operator is specialized at capture, and another finding is there."""
    first = dataclasses.replace(report.findings[0], stage="capture", verdict="unconfirmed")
    environment = {**report.environment, "torch": "2.15.0"}
    return dataclasses.replace(
        report, findings=(first, *kron().findings), environment=environment, status="specialized"
    )


def test_text_snapshot() -> None:
    text = report_diff.to_text(compare(adaptive_pool(), newer(adaptive_pool())))
    snapshot("report_diff.txt", text)


def test_json_snapshot() -> None:
    text = report_diff.to_json(compare(adaptive_pool(), newer(adaptive_pool())))
    snapshot("report_diff.json", text)
    assert json.loads(text)["worse"] is True


@pytest.mark.parametrize("old", SAMPLES)
@pytest.mark.parametrize("new", SAMPLES)
def test_every_pair_renders(old: str, new: str) -> None:
    found = compare(SAMPLES[old](), SAMPLES[new]())
    text = report_diff.to_text(found)
    data = json.loads(report_diff.to_json(found))
    assert all(len(line) <= 110 or " " not in line.strip() for line in text.splitlines())
    assert data["worse"] == found.worse == ("something got worse (" in text)
    assert len(data["fixed"]) == len(found.fixed)


def test_hostile_text_is_escaped() -> None:
    text = report_diff.to_text(compare(clean_with_notes(), hostile()))
    assert "Only in the new report:" in text
    assert "1 only in the new" in text
    assert all(char == "\n" or char.isprintable() for char in text)
    report_diff.to_json(compare(hostile(), clean_with_notes())).encode("ascii")


def test_what_is_missing_is_told() -> None:
    text = report_diff.to_text(compare(adaptive_pool(), dataclasses.replace(incomplete(), findings=())))
    assert "Not seen, as the new report is incomplete" in text
    assert "Missing now:" in text
    assert "Fixed" not in text


def test_nothing_changed() -> None:
    text = report_diff.to_text(compare(adaptive_pool(), adaptive_pool()))
    assert "guarddiff diff of Pool: nothing got worse (specialized before and after)\nFindings: 1 the same." in text
