"""A report as plain terminal text, and the text of one warning."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from guarddiff.core.finding import Finding
from guarddiff.core.report import ReportData
from guarddiff.render import rows, words

WIDTH = 110
MOST_LINES = 10
_LABEL = 16
_MOST_ROWS = 40
_CELL = 40


def warning_text(finding: Finding) -> str:
    """What the user has to hear of ``finding``: at most ten lines."""
    where = _labelled("where", words.where(finding))
    lines = [*_head(finding), *where, *_labelled("operator", words.operator(finding))]
    proof = finding.counterexample
    if proof and (finding.stage == "declare" or proof.kind == "rejected_input"):
        lines += _labelled("why", words.clean(finding.reason), most=1 if where else 2)
    elif finding.origin.rule:
        lines += _labelled("rule", words.rule(finding.origin.rule))
    lines += _proof(finding)
    lines += _labelled("next", words.next_move(finding), most=2)
    return "\n".join(words.clean(line, WIDTH) for line in lines[:MOST_LINES])


def render(report: ReportData) -> str:
    """The whole report for a terminal."""
    model = f" of {words.clean(report.model, 80)}" if report.model else ""
    sections = [
        [f"guarddiff report{model}: {report.status}", *textwrap.wrap(words.summary(report), WIDTH)],
        [f"The export raised: {words.clean(report.error)}"] if report.error else [],
        _table(report),
        *(_finding(number, finding) for number, finding in enumerate(report.findings, 1) if finding.warns),
        _quiet(report),
        _listed("Notes", (words.clean(note) for note in report.notes)),
        _listed("Missing", (f"{words.clean(m.part, 80)}: {words.clean(m.why)}" for m in report.missing)),
        _environment(report),
    ]
    return "\n\n".join("\n".join(section) for section in sections if section) + "\n"


def _head(finding: Finding) -> list[str]:
    """The claim in at most two lines; names are left out before any word of the claim is."""
    lines: list[str] = []
    for names, most in ((4, 6), (4, 4), (2, 3), (1, 2), (1, 1)):
        lines = textwrap.wrap(words.headline(finding, names, most), WIDTH, subsequent_indent="  ")
        if len(lines) <= 2:
            return lines
    return [lines[0], words.clean(" ".join(lines[1:]), WIDTH)]


def _labelled(label: str, text: str, most: int = 1) -> list[str]:
    """``text`` beside its label in at most ``most`` lines of the usual width; nothing for an empty text."""
    if not text:
        return []
    head = f"  {label}".ljust(_LABEL)
    if most == 1:
        return [words.clean(head + text, WIDTH)]
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=head,
        subsequent_indent=" " * _LABEL,
        max_lines=most,
        placeholder=" …",
        break_on_hyphens=False,
    )


def _proof(finding: Finding) -> list[str]:
    """The sizes that were run with both results, or why nothing was."""
    proof = finding.counterexample
    if proof is None:
        label = "not tried" if finding.verdict == "unconfirmed" else "why"
        return _labelled(label, words.clean(finding.reason) or "no reason was recorded", most=2)
    return [
        *_labelled("tried at", words.tried(proof)),
        *_labelled("PyTorch", words.shorter(proof.expected)),
        *_labelled("ONNX Runtime", words.shorter(proof.got)),
    ]


def _finding(number: int, finding: Finding) -> list[str]:
    """One finding with its guards and nodes as well."""
    nodes = [
        f"{words.clean(n.op_type, 40)} {words.clean(n.name, 60)}: {words.clean(n.where, 80)}"
        for n in finding.onnx_nodes
    ]
    proven = finding.counterexample is not None
    return [
        f"Finding {number}, {finding.verdict}",
        *textwrap.wrap(words.headline(finding), WIDTH, subsequent_indent="  "),
        *_labelled("where", words.where(finding)),
        *_labelled("operator", words.operator(finding)),
        *_labelled("rule", words.rule(finding.origin.rule) if finding.origin.rule else ""),
        *_labelled("guards", words.some([words.clean(g, 80) for g in finding.guards], 8), most=4),
        *_labelled("ONNX nodes", words.some(nodes, 4), most=4),
        *_proof(finding),
        *_labelled("why", words.clean(finding.reason) if proven else "", most=3),
        *_labelled("next", words.next_move(finding), most=3),
    ]


def _table(report: ReportData) -> list[str]:
    """The dimensions of the inputs in columns."""
    cells: list[tuple[str, ...]] = [("dimension", "name", "declared", "example", "admitted")]
    table = rows.input_rows(report)
    for row in table[:_MOST_ROWS]:
        place = f"{row.input}[{row.axis}]" if row.axis else row.input
        narrow = (words.clean(cell, _CELL) for cell in (place, row.name, row.declared, row.example))
        cells.append((*narrow, row.admitted))
    if len(cells) == 1:
        return []
    widths = [max(len(line[column]) for line in cells) for column in range(4)]
    widths.append(0)
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in cells]
    left = len(table) - _MOST_ROWS
    more = [f"… and {words.count(left, 'row')} more"] if left > 0 else []
    return [line.rstrip() for line in lines] + more


def _quiet(report: ReportData) -> list[str]:
    """Findings that warn of nothing, in one line each."""
    lines = []
    for number, finding in enumerate(report.findings, 1):
        if not finding.warns:
            at = words.where(finding) or words.operator(finding)
            lines.append(f"Finding {number}, {finding.verdict}: {words.headline(finding)} [{at}]")
    return _listed("Checked, nothing to do", lines)


def _listed(title: str, items: Iterable[str]) -> list[str]:
    lines = [line for item in items for line in textwrap.wrap(f"- {item}", WIDTH, subsequent_indent="  ")]
    return [f"{title}:", *lines] if lines else []


def _environment(report: ReportData) -> list[str]:
    parts = [f"{words.clean(k, 40)} {words.clean(v, 80)}" for k, v in sorted(report.environment.items())]
    return textwrap.wrap("Environment: " + ", ".join(parts), WIDTH, break_on_hyphens=False) if parts else []
