"""A report as JUnit XML: one test case for each dimension that was declared dynamic."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from guarddiff.core.causes import uncoloured
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
    told: dict[int, str] = {}
    found = [_case(report, dim, _about(report, dim), told) for dim in _dimensions(report)]
    nowhere = [(number, f) for number, f in enumerate(report.findings, 1) if f.warns and not f.dims]
    found += [_judged(report, _model(report), f"finding {number}", [(number, f)], told) for number, f in nowhere]
    if report.error:
        said = words.raised(report.error)
        found.append(_Case(_model(report), "the export", "error", "raised", said, uncoloured(report.error[:4000])))
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


def _case(report: ReportData, dim: Dimension, found: Sequence[tuple[int, Finding]], told: dict[int, str]) -> _Case:
    owner = f"{_model(report)}/{words.clean(dim.input, 80)}"
    return _judged(report, owner, words.dimension(dim), found, told)


def _judged(
    report: ReportData, owner: str, name: str, found: Sequence[tuple[int, Finding]], told: dict[int, str]
) -> _Case:
    """One case; ``told`` holds the findings that an earlier case tells in full, with its name."""
    before = {number: told[number] for number, _ in found if number in told}
    output = _joined(found, before, lambda number, finding: "\n".join(text.finding_lines(number, finding)))
    told.update({number: told.get(number, name) for number, _ in found})
    loud = [(number, finding) for number, finding in found if finding.warns]
    if loud:
        first = loud[0][1]
        kind = "failure" if first.verdict == "confirmed" else "error"
        body = _joined(loud, before, lambda _, finding: text.warning_text(finding))
        return _Case(owner, name, kind, first.verdict, words.headline(first), body, output)
    if report.error:
        return _Case(owner, name, "error", "unknown", "the export raised before this could be known", "", output)
    if report.missing:
        said = "a part of the evidence is missing: unknown, not fine"
        return _Case(owner, name, "error", "incomplete", said, "", output)
    return _Case(owner, name, output=output)


def _joined(found: Sequence[tuple[int, Finding]], before: dict[int, str], full: Callable[[int, Finding], str]) -> str:
    """The text of each finding, or where it stands already."""
    return "\n\n".join(
        f"Finding {number}, {words.state(finding)}: told in full at {before[number]}"
        if number in before
        else full(number, finding)
        for number, finding in found
    )


def _xml(shown: str) -> str:
    """``shown`` without the characters that XML 1.0 can't hold."""
    return _NOT_XML.sub("\ufffd", shown)
