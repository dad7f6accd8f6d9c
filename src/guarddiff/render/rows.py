"""The rows of a report's tables, as cleaned text that each format escapes for itself."""

from __future__ import annotations

from dataclasses import dataclass

from guarddiff.core.report import Change, ReportData
from guarddiff.render import words

_ORDER = ("restricts", "unknown", "lower", "far", "small", "entailed", "unbacked", "none")


@dataclass(frozen=True)
class InputRow:
    """One dimension of one input, or an input that has none to tell of (``axis`` is then empty)."""

    input: str
    axis: str
    name: str
    declared: str
    example: str
    admitted: str


@dataclass(frozen=True)
class ChangeRow:
    """What one origin added in one stage."""

    stage: str
    guards: str
    origin: str
    effect: str


def input_rows(report: ReportData) -> list[InputRow]:
    """Every dimension with what all findings together admit for it."""
    held, repaired = _held(report), _repaired(report)
    rows = []
    for spec in report.inputs:
        name = words.clean(spec.name, 80)
        if not spec.dims:
            shape = ", ".join(words.clean(str(size), 40) for size in spec.shape)
            rows.append(InputRow(name, "", "", "fixed", words.clean(f"({shape})"), ""))
        for dim in spec.dims:
            own = "" if dim.name == dim.place else words.clean(dim.name, 80)
            text = words.clean(dim.declared.text, 80) if dim.declared else ""
            asked = words.declared(dim) + (f" ({text})" if text and text != dim.name else "")
            limits = held.get((dim.input, dim.axis))
            rest = "" if not dim.declared else "unknown" if report.missing or report.error else "as declared"
            if dim.declared and (numbers := repaired.get((dim.input, dim.axis))):
                rest = f"repaired (finding {words.join(numbers)})"
            shown = words.join(limits) if limits else rest
            rows.append(InputRow(name, str(dim.axis), own, asked, str(dim.example), shown))
    return rows


def _held(report: ReportData) -> dict[tuple[str, int], list[str]]:
    """For each dimension what the findings admit, with their numbers; harmless and repaired ones restrict nothing."""
    held: dict[tuple[str, int], dict[str, list[str]]] = {}
    for number, finding in enumerate(report.findings, 1):
        if finding.verdict == "harmless" or finding.repaired:
            continue
        for dim in finding.dims:
            by_text = held.setdefault((dim.input, dim.axis), {})
            by_text.setdefault(words.admitted(dim), []).append(str(number))
    return {
        key: [f"{text} (finding {words.join(numbers)})" for text, numbers in by_text.items()]
        for key, by_text in held.items()
    }


def _repaired(report: ReportData) -> dict[tuple[str, int], list[str]]:
    """For each dimension the numbers of the repaired findings that touch it."""
    found: dict[tuple[str, int], list[str]] = {}
    for number, finding in enumerate(report.findings, 1):
        for dim in finding.dims if finding.repaired else ():
            found.setdefault((dim.input, dim.axis), []).append(str(number))
    return found


def change_rows(report: ReportData, most: int) -> tuple[list[ChangeRow], int]:
    """At most ``most`` changes, the ones that matter first, and how many are left out."""
    changes = sorted(report.changes, key=lambda change: _ORDER.index(change.effect))
    return [_change_row(change, report) for change in changes[:most]], max(0, len(changes) - most)


def _change_row(change: Change, report: ReportData) -> ChangeRow:
    origin = next((guard.origin for guard in change.guards if guard.origin), None)
    source = (origin.rule or origin.source) if origin else None
    parts = [words.clean(origin.op or "", 80) if origin else "", words.place(source, 80) if source else ""]
    return ChangeRow(
        stage=change.stage,
        guards=words.some([words.clean(guard.text, 80) for guard in change.guards], 3),
        origin=" at ".join(part for part in parts if part),
        effect=words.effect(change, report.findings),
    )
