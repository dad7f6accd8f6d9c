"""A report as plain terminal text, and the text of one warning."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable, Sequence
from typing import IO

from guarddiff.core.declaration import Misdeclaration
from guarddiff.core.finding import Finding
from guarddiff.core.report import ReportData
from guarddiff.render import moves, proofs, rows, words

WIDTH = 110
MOST_LINES = 10
_LABEL = 16
_MOST_GUARDS = 12
_MOST_ROWS = 40
_CELL = 40
_MOST_TRIES = 12
_MOST_SCRIPT = 60
_MOST_OUTPUT = 20

_LABELS = (
    "declared",
    "where",
    "operator",
    "rule",
    "guards",
    "ONNX nodes",
    "not tried",
    "why",
    "tried at",
    "PyTorch",
    "ONNX Runtime",
    "ladder",
    "first node",
    "repair",
    "reproduction",
    "it printed",
    "next",
)
_RESET = "\x1b[0m"
_COLORS = {
    "title": "\x1b[1m",
    "label": "\x1b[36m",
    "confirmed": "\x1b[1;31m",
    "specialized": "\x1b[1;31m",
    "unconfirmed": "\x1b[1;33m",
    "incomplete": "\x1b[1;33m",
    "clean": "\x1b[1;32m",
    "repaired": "\x1b[1;32m",
}


def warning_text(finding: Finding) -> str:
    """What the user has to hear of ``finding``: at most ten lines."""
    where = _labelled("where", _where(finding))
    lines = [*_head(finding), *where, *_labelled("operator", words.operator(finding))]
    proof = finding.counterexample
    if proof and (finding.stage == "declare" or proof.kind == "rejected_input"):
        lines += _labelled("why", words.clean(finding.reason), most=1 if where else 2)
    elif finding.origin.rule:
        lines += _labelled("rule", words.rule(finding.origin.rule))
    else:
        lines += _node(finding)
    lines += _proof(finding, WIDTH - _LABEL, 1)
    lines += _labelled("next", moves.next_move(finding), most=2)
    return "\n".join(words.clean(line, WIDTH) for line in lines[:MOST_LINES])


def declaration_text(wrong: Misdeclaration) -> str:
    """What the user has to hear of a declaration: at most eight lines."""
    head = textwrap.wrap(_declared(wrong), WIDTH, subsequent_indent="  ", max_lines=4, placeholder=" …")
    return "\n".join([*head, *_labelled("instead", words.clean(wrong.instead, words.LIMIT), most=4)])


def wants_color(stream: IO[str] | None) -> bool:
    """Whether text for ``stream`` should be coloured: on a terminal only.

    ``NO_COLOR`` (not empty) says no wherever it is; else ``FORCE_COLOR`` (not empty, not ``0``) says yes.
    """
    if os.environ.get("NO_COLOR"):
        return False
    forced = os.environ.get("FORCE_COLOR", "")
    if forced:
        return forced != "0"
    return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"


def render(report: ReportData, color: bool = False) -> str:
    """The whole report for a terminal; ``color`` adds escape sequences for colours and nothing else."""
    model = f" of {words.clean(report.model, 80)}" if report.model else ""
    title = _paint(f"guarddiff report{model}: ", "title", color) + _paint(report.status, report.status, color)
    sections = [
        [title, *textwrap.wrap(words.summary(report), WIDTH)],
        _wrapped(f"The export raised: {words.raised(report.error)}") if report.error else [],
        _table(report),
        _declarations(report),
        *(
            _painted(finding_lines(number, finding), words.state(finding), color)
            for number, finding in enumerate(report.findings, 1)
            if finding.warns or finding.repaired
        ),
        _repair(report),
        _quiet(report),
        _tries(report),
        _listed("Notes", (words.clean(note) for note in report.notes)),
        _listed("Missing", (f"{words.clean(m.part, 80)}: {words.clean(m.why)}" for m in report.missing)),
        _environment(report),
    ]
    return "\n\n".join("\n".join(section) for section in sections if section) + "\n"


def _paint(shown: str, style: str, color: bool) -> str:
    return f"{_COLORS[style]}{shown}{_RESET}" if color and style in _COLORS else shown


def _painted(lines: list[str], verdict: str, color: bool) -> list[str]:
    """The lines of a finding with its heading and labels coloured."""
    if not color:
        return lines
    body = [_paint(line[:_LABEL], "label", True) + line[_LABEL:] if _has_label(line) else line for line in lines[1:]]
    return [_paint(lines[0], verdict, True), *body]


def _has_label(line: str) -> bool:
    return any(line.startswith(f"  {label}".ljust(_LABEL)) for label in _LABELS)


def _head(finding: Finding) -> list[str]:
    """The claim in at most two lines; names are left out before any word of the claim is."""
    lines: list[str] = []
    for names, most in ((4, 6), (4, 4), (2, 3), (1, 2), (1, 1)):
        lines = textwrap.wrap(words.headline(finding, names, most), WIDTH, subsequent_indent="  ")
        if len(lines) <= 2:
            return lines
    return [lines[0], words.clean(" ".join(lines[1:]), WIDTH)]


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def _labelled(label: str, text: str, most: int | None = 1) -> list[str]:
    """``text`` beside its label in at most ``most`` lines of the usual width (None: all); nothing for an empty text."""
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


def _proof(finding: Finding, limit: int = words.LIMIT, most: int | None = None) -> list[str]:
    """The sizes that were run with both results, or why nothing was; each result in at most ``limit`` characters and
    ``most`` lines (None: all)."""
    proof = finding.counterexample
    if proof is None:
        label = "not tried" if finding.verdict == "unconfirmed" else "why"
        return _labelled(label, words.clean(finding.reason) or "no reason was recorded", most=2 if most else None)
    return [
        *_labelled("tried at", words.tried(proof), most),
        *_labelled("PyTorch", words.shorter(proof.expected, limit), most),
        *_labelled("ONNX Runtime", words.shorter(proof.got, limit), most),
    ]


def finding_lines(number: int, finding: Finding) -> list[str]:
    """One finding with its guards, nodes, ladder and reproduction as well."""
    nodes = [
        f"{words.clean(n.op_type, 40)} {words.clean(n.name, 60)}: {words.clean(n.where, 80)}"
        for n in finding.onnx_nodes
    ]
    proven = finding.counterexample is not None
    return [
        f"Finding {number}, {words.state(finding)}",
        *textwrap.wrap(words.headline(finding), WIDTH, subsequent_indent="  "),
        *_labelled("declared", words.by_design(finding), None),
        *_labelled("where", _where(finding), None),
        *_labelled("operator", words.operator(finding), None),
        *_labelled("rule", words.rule(finding.origin.rule) if finding.origin.rule else "", None),
        *_guards(finding),
        *_labelled("ONNX nodes", words.some(nodes, 4), None),
        *_proof(finding),
        *_labelled("why", words.clean(finding.reason) if proven else "", None),
        *_ladder(finding),
        *_labelled("repair", words.clean(finding.repair or ""), None),
        *_labelled("next", moves.next_move(finding), None),
        *_reproduction(finding),
    ]


def _guards(finding: Finding) -> list[str]:
    """One guard a line."""
    lines: list[str] = []
    for guard in finding.guards[:_MOST_GUARDS]:
        lines += _labelled("" if lines else "guards", words.clean(guard), None)
    left = len(finding.guards) - _MOST_GUARDS
    return lines + (_labelled("", f"… and {words.count(left, 'guard')} more") if left > 0 else [])


def _where(finding: Finding) -> str:
    """Where it is in the model; where the origin tells nothing, the place of the first node that differs."""
    found = proofs.differing(finding)
    return words.where(finding) or (proofs.node_place(found) if found else "")


def _node(finding: Finding, most: int | None = 1) -> list[str]:
    """The first node that differs; nothing where it is not known."""
    found = proofs.differing(finding)
    return _labelled("first node", proofs.node(found), most) if found else []


def _ladder(finding: Finding) -> list[str]:
    """One line for each rung, and the first node that differs."""
    if finding.ladder is None:
        return []
    table = proofs.rung_rows(finding.ladder)
    wide = max((len(row.program) for row in table), default=0)
    lines: list[str] = []
    for row in table:
        mark = "  <-- first" if row.first else ""
        gave = f": {row.gave}" if row.gave else ""
        head = f"{row.program.ljust(wide)}  {row.state}{mark}{gave}"
        lines += _rung("" if lines else "ladder", head)
    lines += _labelled("", proofs.lost_earlier(finding), None)
    found = finding.ladder.node
    lines += _node(finding, most=None)
    if found:
        lines += _labelled("", proofs.node_place(found), None)
        lines += _labelled("", f"should give: {words.shorter(found.expected)}" if found.expected else "", None)
        lines += _labelled("", f"gives: {words.shorter(found.got)}" if found.got else "", None)
    return lines


def _rung(label: str, text: str) -> list[str]:
    """A line of the ladder; its columns are kept, what does not fit goes into further lines."""
    head = f"  {label}".ljust(_LABEL)
    if len(head + text) <= WIDTH:
        return [head + text]
    cut = text.rfind(" ", 0, WIDTH - _LABEL)
    cut = cut if cut > 40 else WIDTH - _LABEL
    return [(head + text[:cut]).rstrip(), *_labelled("", f"  {text[cut:].strip()}", None)]


def _repair(report: ReportData) -> list[str]:
    return _listed("Repair", proofs.repair_claims(report.repair, report.findings)) if report.repair else []


def _reproduction(finding: Finding) -> list[str]:
    """The script and what it printed, or why there is none."""
    found = finding.reproduction
    if found is None:
        return []
    lines = _labelled("reproduction", proofs.script_claim(found), None)
    if found.script:
        lines += ["", *_indented(proofs.lines(found.script), _MOST_SCRIPT)]
    if found.script and found.output:
        lines += ["", "  it printed", *_indented(proofs.lines(found.output), _MOST_OUTPUT)]
    return lines


def _indented(lines: Sequence[str], most: int) -> list[str]:
    left = len(lines) - most
    more = [f"    … and {words.count(left, 'line')} more"] if left > 0 else []
    return [f"    {line}".rstrip() for line in lines[:most]] + more


def _tries(report: ReportData) -> list[str]:
    """What was run, those that do not agree first."""
    if not report.tries:
        return []
    shown, left = proofs.try_rows(report.tries, _MOST_TRIES)
    said = (f"- {row.sizes} ({row.scope}): {row.state}{f', {row.text}' if row.text else ''}" for row in shown)
    lines = [line for one in said for line in _wrapped(one)]
    more = [f"… and {words.count(left, 'run')} more"] if left else []
    return [f"Tried, {proofs.try_count(report.tries)}:", *lines, *more]


def _declared(wrong: Misdeclaration) -> str:
    """The part of a declaration and what is wrong with it."""
    return f"{words.clean(wrong.where, 120)}: {words.clean(wrong.problem)}"


def _declarations(report: ReportData) -> list[str]:
    """What is wrong with what was declared, each with what to write instead."""
    said = [f"{_declared(wrong)}. Instead: {words.clean(wrong.instead)}" for wrong in report.declarations]
    return _listed("Declarations", said)


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
        if not finding.warns and not finding.repaired:
            at = words.where(finding) or words.operator(finding)
            lines.append(f"Finding {number}, {finding.verdict}: {words.headline(finding)} [{at}]")
    return _listed("Checked, nothing to do", lines)


def _listed(title: str, items: Iterable[str]) -> list[str]:
    lines = [line for item in items for line in textwrap.wrap(f"- {item}", WIDTH, subsequent_indent="  ")]
    return [f"{title}:", *lines] if lines else []


def _environment(report: ReportData) -> list[str]:
    shown = [(k, v) for k, v in sorted(report.environment.items()) if k not in words.DETAILS]
    parts = [f"{words.clean(k, 40)} {words.clean(v, 80)}" for k, v in shown]
    return textwrap.wrap("Environment: " + ", ".join(parts), WIDTH, break_on_hyphens=False) if parts else []
