"""A report as JUnit XML: one test case for each dimension that was declared dynamic."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from guarddiff.core.dims import Dimension
from guarddiff.core.finding import Finding
from guarddiff.core.report import ReportData
from guarddiff.render import text, words

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MOST_MISSING = 50


@dataclass(frozen=True)
class _Case:
    """One test case: ``kind`` is empty for one that passes."""

    owner: str
    name: str
    kind: str = ""
    type: str = ""
    message: str = ""
    body: str = ""
    output: str = ""


def render(report: ReportData) -> str:
    """XML 1.0 with one test suite.

    A confirmed finding is a failure of each of its dimensions, an unconfirmed one an error. Where a part of the
    evidence is missing or the export raised, that is an error of its own, and so is every dimension of which nothing
    was found: unknown is no pass.
    """
    cases = _cases(report)
    kinds = [case.kind for case in cases]
    counts = {
        "tests": str(len(cases)),
        "failures": str(kinds.count("failure")),
        "errors": str(kinds.count("error")),
        "skipped": str(kinds.count("skipped")),
    }
    root = ElementTree.Element("testsuites", {"name": "guarddiff", **_without_skipped(counts)})
    suite = ElementTree.SubElement(root, "testsuite", {"name": _xml(f"guarddiff {_model(report)}"), **counts})
    _properties(suite, report)
    for case in cases:
        _add(suite, case)
    ElementTree.indent(root, " ")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _without_skipped(counts: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in counts.items() if name != "skipped"}


def _model(report: ReportData) -> str:
    return words.clean(report.model, 120) or "model"


def _properties(suite: ElementTree.Element, report: ReportData) -> None:
    """Status and versions."""
    holder = ElementTree.SubElement(suite, "properties")
    for name, value in (("status", report.status), *sorted(report.environment.items())):
        shown = {"name": _xml(words.clean(name, 80)), "value": _xml(words.clean(value, 200))}
        ElementTree.SubElement(holder, "property", shown)


def _add(suite: ElementTree.Element, case: _Case) -> None:
    element = ElementTree.SubElement(suite, "testcase", {"classname": _xml(case.owner), "name": _xml(case.name)})
    if case.kind:
        facts = {"message": _xml(case.message)}
        if case.type:
            facts["type"] = case.type
        outcome = ElementTree.SubElement(element, case.kind, facts)
        outcome.text = _xml(case.body) or None
    if case.output:
        ElementTree.SubElement(element, "system-out").text = _xml(case.output)


def _cases(report: ReportData) -> list[_Case]:
    """What the suite holds: never nothing, and nothing unknown as a pass."""
    found = [_case(report, dim, _about(report, dim)) for dim in _dimensions(report)]
    found += [_nowhere(report, number, f) for number, f in enumerate(report.findings, 1) if f.warns and not f.dims]
    if report.error:
        said = words.clean(report.error)
        found.append(_Case(_model(report), "the export", "error", "raised", said, report.error[:4000]))
    for part in report.missing[:_MOST_MISSING]:
        name = f"evidence: {words.clean(part.part, 120)}"
        found.append(_Case(_model(report), name, "error", "incomplete", f"missing: {words.clean(part.why)}"))
    left = len(report.missing) - _MOST_MISSING
    if left > 0:
        found.append(_Case(_model(report), f"evidence: {left} more parts", "error", "incomplete", "missing"))
    if not found:
        said = "no dimension was declared dynamic"
        found.append(_Case(_model(report), "dynamic dimensions", "skipped", "", said))
    return found


def _dimensions(report: ReportData) -> list[Dimension]:
    """Every dimension that was declared dynamic, and those that a warning names though they were not."""
    chosen = {(d.input, d.axis): d for spec in report.inputs for d in spec.dims if d.declared}
    for finding in report.findings:
        for dim in finding.dims:
            if dim.declared or finding.warns:
                chosen.setdefault((dim.input, dim.axis), dim)
    return list(chosen.values())


def _about(report: ReportData, dim: Dimension) -> list[tuple[int, Finding]]:
    """The findings that touch ``dim``, with their numbers, those that warn first."""
    touching = [
        (number, finding)
        for number, finding in enumerate(report.findings, 1)
        if any((d.input, d.axis) == (dim.input, dim.axis) for d in finding.dims)
    ]
    order = ("confirmed", "unconfirmed", "inherent", "harmless")
    return sorted(touching, key=lambda pair: order.index(pair[1].verdict))


def _case(report: ReportData, dim: Dimension, found: Sequence[tuple[int, Finding]]) -> _Case:
    owner = f"{_model(report)}/{words.clean(dim.input, 80)}"
    return _judged(report, owner, words.dimension(dim), found)


def _nowhere(report: ReportData, number: int, finding: Finding) -> _Case:
    """A finding whose dimensions are not known."""
    return _judged(report, _model(report), f"finding {number}", [(number, finding)])


def _judged(report: ReportData, owner: str, name: str, found: Sequence[tuple[int, Finding]]) -> _Case:
    output = "\n\n".join("\n".join(text.finding_lines(number, finding)) for number, finding in found)
    loud = [finding for _, finding in found if finding.warns]
    if loud:
        kind = "failure" if loud[0].verdict == "confirmed" else "error"
        said = words.headline(loud[0])
        body = "\n\n".join(text.warning_text(finding) for finding in loud)
        return _Case(owner, name, kind, loud[0].verdict, said, body, output)
    if report.error:
        return _Case(owner, name, "error", "unknown", "the export raised before this could be known", "", output)
    if report.missing:
        said = "a part of the evidence is missing: unknown, not fine"
        return _Case(owner, name, "error", "incomplete", said, "", output)
    return _Case(owner, name, output=output)


def _xml(shown: str) -> str:
    """``shown`` without the characters that XML 1.0 can't hold."""
    return _NOT_XML.sub("\ufffd", shown)
