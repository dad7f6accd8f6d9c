"""A report as Markdown that can be attached to a bug filing: CommonMark, with tables as on GitHub."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from guarddiff.core.finding import Counterexample, Finding
from guarddiff.core.report import ReportData
from guarddiff.render import rows, words

_MOST_INPUTS = 100
_MOST_CHANGES = 30
_MOST_GUARDS = 40
_MOST_LISTED = 50

_SPECIAL = re.compile(r"[\\`*_\[\]<>~$]|(?<=:)//|(?<=www)\.")
_LEADING = re.compile(r"^(?:[#+\-=]|\d{1,9}(?=[.)]))")
_REFERENCE = re.compile(r"@(?=\w)|#(?=\d)")
_PUNCTUATION = re.compile(r"[!-/:-@\[-`{-~]")


def render(report: ReportData) -> str:
    """The whole report; the JSON file holds what is left out of long tables."""
    loud = [(n, f) for n, f in enumerate(report.findings, 1) if f.warns]
    quiet = [(n, f) for n, f in enumerate(report.findings, 1) if not f.warns]
    blocks = [f"# guarddiff report: {report.status}"]
    if report.model:
        blocks.append(f"Model: {code(report.model)}")
    blocks.append(plain(words.summary(report)))
    if report.error:
        blocks.append(f"The export raised: {code(report.error)}")
    blocks += _inputs(report)
    if loud:
        blocks.append("## Findings")
    for number, finding in loud:
        blocks += _finding(number, finding)
    blocks += _quiet(quiet)
    blocks += _changes(report)
    blocks += _listed("Notes", [plain(note) for note in report.notes])
    blocks += _listed("Missing parts", [f"{plain(m.part)}: {plain(m.why)}" for m in report.missing])
    environment = sorted(report.environment.items())
    blocks += _listed("Environment", [f"{plain(name)}: {code(value)}" for name, value in environment])
    return "\n\n".join(blocks) + "\n"


def plain(text: str, limit: int = words.LIMIT) -> str:
    """``text`` as one line that Markdown shows as it is: no markup, HTML, links or mentions come of it."""
    shown = words.clean(text, limit).strip()
    shown = shown.replace("&", "&amp;")
    shown = _SPECIAL.sub(r"\\\g<0>", shown)
    shown = _LEADING.sub(lambda m: m[0] + "\\" if m[0].isdigit() else "\\" + m[0], shown)
    return _REFERENCE.sub(r"\g<0><!-- -->", shown).replace("|", "&#124;")


def code(text: str) -> str:
    """``text`` as inline code, also inside a table; empty for an empty text."""
    shown = words.clean(text)
    if not shown.strip():
        return ""
    if "`" in shown or "|" in shown:
        return f"<code>{_PUNCTUATION.sub(lambda m: f'&#{ord(m[0])};', shown.strip())}</code>"
    return f"` {shown} `" if shown[0] == shown[-1] == " " else f"`{shown}`"


def _fenced(lines: Sequence[str], most: int) -> str:
    shown = [words.clean(line) for line in lines[:most]]
    if len(lines) > most:
        shown.append(f"# {len(lines) - most} more in the JSON report")
    longest = max((len(run) for line in shown for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([f"{fence}python", *shown, fence])


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    shown = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in shown)


def _listed(title: str, items: Sequence[str]) -> list[str]:
    """A section with a list; nothing for no items."""
    if not items:
        return []
    shown = [f"- {item}" for item in items[:_MOST_LISTED]]
    if len(items) > _MOST_LISTED:
        shown.append(f"- {len(items) - _MOST_LISTED} more in the JSON report")
    return [f"## {title}", "\n".join(shown)]


def _inputs(report: ReportData) -> list[str]:
    table = rows.input_rows(report)
    if not table:
        return []
    lines = [
        (code(r.input), r.axis, code(r.name), plain(r.declared), plain(r.example), plain(r.admitted))
        for r in table[:_MOST_INPUTS]
    ]
    head = ("Input", "Axis", "Name", "Declared", "Example", "Admitted")
    left = len(table) - _MOST_INPUTS
    more = [f"{words.count(left, 'row')} left out; the JSON report has them."] if left > 0 else []
    return ["## Inputs", _table(head, lines), *more]


def _finding(number: int, finding: Finding) -> list[str]:
    """One finding: the claim, its facts, guards, nodes, proof and the next move."""
    claim = f"**{plain(words.headline(finding), 2000)}**"
    blocks = [f"### Finding {number}: {finding.verdict}", claim, _facts(finding)]
    if finding.guards:
        warned = "The exported model is known to be right only where all of these hold:"
        blocks += [warned if finding.warns else "Guards:", _fenced(finding.guards, _MOST_GUARDS)]
    if finding.onnx_nodes:
        table = [(code(n.op_type), code(n.name), plain(n.where)) for n in finding.onnx_nodes[:_MOST_LISTED]]
        blocks += ["ONNX nodes that carry the size:", _table(("Operator", "Node", "Where"), table)]
    if finding.counterexample:
        blocks += _proof(finding.counterexample)
    if finding.repair:
        blocks.append(f"Repair: {plain(finding.repair)}")
    return [*blocks, f"Next: {plain(words.next_move(finding))}"]


def _facts(finding: Finding) -> str:
    """Stage, operator, source, rule and verdict as a list."""
    origin = finding.origin
    path = words.module(origin.module_path)
    source = [code(path) if origin.module_path else plain(path)]
    if origin.source:
        source += [code(words.place(origin.source)), code(origin.source.text)]
    reason = f" ({plain(finding.reason)})" if finding.reason else ""
    facts = {
        "Stage": f"{finding.stage} ({words.STAGES[finding.stage]})",
        "Operator": code(finding.op),
        "Source": ", ".join(filter(None, source)),
        "Rule": code(words.rule(origin.rule)) if origin.rule else "",
        "FX node": code(origin.node or ""),
        "Verdict": f"{words.verdict(finding)}{reason}",
    }
    return "\n".join(f"- {name}: {value}" for name, value in facts.items() if value)


def _proof(proof: Counterexample) -> list[str]:
    lines = [
        ("eager PyTorch", code(proof.expected)),
        ("ONNX Runtime", code(proof.got)),
        ("difference", plain(proof.kind.replace("_", " "))),
    ]
    sizes = code(words.shapes(proof.sizes)) or "the same inputs"
    own = f" ({plain(words.alone(proof))})" if proof.scope == "operator" else ""
    return [f"Counterexample at {sizes}{own}:", _table(("Run", "Result"), lines)]


def _quiet(findings: Sequence[tuple[int, Finding]]) -> list[str]:
    """Findings that warn of nothing, folded away."""
    if not findings:
        return []
    title = f"{words.count(len(findings), 'finding')} checked, nothing to do (harmless or inherent)"
    blocks = ["<details>", f"<summary>{title}</summary>"]
    for number, finding in findings:
        blocks += _finding(number, finding)
    return [*blocks, "</details>"]


def _changes(report: ReportData) -> list[str]:
    if not report.changes:
        return []
    shown, left = rows.change_rows(report, _MOST_CHANGES)
    table = [(plain(r.stage), code(r.guards), code(r.origin), plain(r.effect)) for r in shown]
    more = [f"{words.count(left, 'row')} left out; the JSON report has them."] if left else []
    return ["## What each stage added", _table(("Stage", "Guards", "Origin", "Effect"), table), *more]
