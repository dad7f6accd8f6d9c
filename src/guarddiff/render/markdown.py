"""A report as Markdown that can be attached to a bug filing: CommonMark, with tables as on GitHub."""

from __future__ import annotations

from collections.abc import Sequence

from guarddiff.core.declaration import Misdeclaration
from guarddiff.core.finding import Counterexample, Finding, OnnxNode
from guarddiff.core.proof import Decomposition, DifferingNode, Ladder, Reproduction
from guarddiff.core.report import ReportData
from guarddiff.render import moves, proofs, rows, words
from guarddiff.render.commonmark import code, fenced, plain, table

_MOST_INPUTS = 100
_MOST_CHANGES = 30
_MOST_GUARDS = 40
_MOST_LISTED = 50
_MOST_TRIES = 30
_MOST_LINES = 80


def render(report: ReportData) -> str:
    """The whole report; the JSON file holds what is left out of long tables."""
    loud = [(n, f) for n, f in enumerate(report.findings, 1) if f.warns]
    quiet = [(n, f) for n, f in enumerate(report.findings, 1) if not f.warns]
    blocks = [f"# guarddiff report: {report.status}"]
    if report.model:
        blocks.append(f"Model: {code(report.model)}")
    blocks.append(plain(words.summary(report)))
    if report.error:
        blocks.append(f"The export raised: {code(words.raised(report.error))}")
    blocks += _inputs(report)
    blocks += _listed("Declarations", [_declaration(wrong) for wrong in report.declarations])
    if loud:
        blocks.append("## Findings")
    for number, finding in loud:
        blocks += _finding(number, finding)
    blocks += _quiet(quiet)
    if report.repair:
        blocks += _listed("Repair", [plain(said, 600) for said in proofs.repair_claims(report.repair, report.findings)])
    blocks += _tries(report)
    blocks += _changes(report)
    blocks += _listed("Notes", [plain(note) for note in report.notes])
    blocks += _listed("Missing parts", [f"{plain(m.part)}: {plain(m.why)}" for m in report.missing])
    environment = sorted(report.environment.items())
    blocks += _listed("Environment", [f"{plain(name)}: {code(value)}" for name, value in environment])
    return "\n\n".join(blocks) + "\n"


def _listed(title: str, items: Sequence[str]) -> list[str]:
    """A section with a list; nothing for no items."""
    if not items:
        return []
    shown = [f"- {item}" for item in items[:_MOST_LISTED]]
    if len(items) > _MOST_LISTED:
        shown.append(f"- {len(items) - _MOST_LISTED} more in the JSON report")
    return [f"## {title}", "\n".join(shown)]


def _declaration(wrong: Misdeclaration) -> str:
    return f"{code(wrong.where, 120)}: {plain(wrong.problem)}. Instead: {plain(wrong.instead)}"


def declarations(report: ReportData) -> list[str]:
    """A list of what is wrong with what was declared; empty where nothing is."""
    return _listed("Declarations", [_declaration(wrong) for wrong in report.declarations])[1:]


def _inputs(report: ReportData) -> list[str]:
    found = rows.input_rows(report)
    if not found:
        return []
    lines = [
        (code(r.input), r.axis, code(r.name), plain(r.declared), plain(r.example), plain(r.admitted))
        for r in found[:_MOST_INPUTS]
    ]
    head = ("Input", "Axis", "Name", "Declared", "Example", "Admitted")
    return ["## Inputs", table(head, lines), *_left_out(len(found) - _MOST_INPUTS)]


def _left_out(left: int) -> list[str]:
    return [f"{words.count(left, 'row')} left out; the JSON report has them."] if left > 0 else []


def _finding(number: int, finding: Finding) -> list[str]:
    """One finding: the claim, its facts, guards, nodes, proof and the next move."""
    claim = f"**{plain(words.headline(finding), 2000)}**"
    blocks = [f"### Finding {number}: {words.state(finding)}", claim]
    blocks += [plain(said)] if (said := words.by_design(finding)) else []
    blocks.append(_facts(finding))
    if finding.guards:
        blocks += guards(finding, _MOST_GUARDS)
    if finding.onnx_nodes:
        blocks += onnx_nodes(finding.onnx_nodes[:_MOST_LISTED])
    if finding.counterexample:
        blocks += _proof(finding.counterexample)
    if finding.ladder:
        blocks += ladder(finding.ladder)
        blocks += [plain(said)] if (said := proofs.lost_earlier(finding)) else []
    if finding.decomposition:
        blocks += decomposition(finding.decomposition, finding, _MOST_LINES)
    if finding.reproduction:
        blocks += ["Reproduction:", *reproduction(finding.reproduction, 2 * _MOST_LINES)]
    if finding.repair:
        blocks.append(f"Repair: {plain(finding.repair)}")
    return [*blocks, f"Next: {plain(moves.next_move(finding))}"]


def guards(finding: Finding, most: int | None) -> list[str]:
    """The conditions of a finding; ``most`` None: all."""
    warned = "The exported model is known to be right only where all of these hold:"
    shown = [words.clean(guard) for guard in finding.guards]
    return [warned if finding.warns else "Guards:", fenced(shown, "python", most)]


def onnx_nodes(nodes: Sequence[OnnxNode]) -> list[str]:
    """The ONNX nodes that carry a baked size."""
    lines = [(code(n.op_type), code(n.name), plain(n.where)) for n in nodes]
    return ["ONNX nodes that carry the size:", table(("Operator", "Node", "Where"), lines)]


def ladder(found: Ladder) -> list[str]:
    """Each stage's program at the counterexample's sizes, and the first node that differs."""
    lines = []
    for row in proofs.rung_rows(found):
        state = f"**{plain(row.state)}**" if row.first else plain(row.state)
        lines.append((plain(row.program), state, code(row.gave)))
    sizes = code(words.shapes(found.sizes)) or "the same inputs"
    blocks = [f"Ladder at {sizes}:", table(("Program", "Outcome", "It gave"), lines), plain(proofs.ladder_claim(found))]
    return [*blocks, *differing_node(found.node)] if found.node else blocks


def differing_node(found: DifferingNode) -> list[str]:
    """Which node it is, where it comes from, and what it should give."""
    facts = {
        "First differing node": code(proofs.node(found)),
        "Source": code(proofs.node_place(found)),
        "Should give": code(words.shorter(found.expected)),
        "Gives": code(words.shorter(found.got)),
    }
    return ["\n".join(f"- {name}: {value}" for name, value in facts.items() if value)]


def decomposition(found: Decomposition, finding: Finding, most: int | None) -> list[str]:
    """The operator before and after, the nodes that matter marked; ``most`` lines each, None: all."""
    titles = proofs.sides(found, finding)
    shown = zip(titles, (found.before, found.after), strict=True)
    return [
        block
        for title, side in shown
        if side
        for block in (f"{title}:", fenced(proofs.graph_lines(side), "text", most))
    ]


def reproduction(found: Reproduction, most: int | None) -> list[str]:
    """The script and what it printed, or why there is none; ``most`` lines each, None: all."""
    blocks = [plain(proofs.script_claim(found), 2 * words.LIMIT)]
    if not found.script:
        return blocks
    blocks.append(fenced(proofs.lines(found.script), "python", most))
    if found.output:
        blocks += ["It printed:", fenced(proofs.lines(found.output), "text", most)]
    return blocks


def _facts(finding: Finding) -> str:
    """Stage, operator, source, rule and verdict as a list."""
    origin = finding.origin
    path = words.module(origin.module_path, origin.source)
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
        ("eager PyTorch", code(words.shorter(proof.expected))),
        ("ONNX Runtime", code(words.shorter(proof.got))),
        ("difference", plain(proof.kind.replace("_", " "))),
    ]
    sizes = code(words.shapes(proof.sizes)) or "the same inputs"
    own = f" ({plain(words.alone(proof))})" if proof.scope == "operator" else ""
    return [f"Counterexample at {sizes}{own}:", table(("Run", "Result"), lines)]


def _quiet(findings: Sequence[tuple[int, Finding]]) -> list[str]:
    """Findings that warn of nothing, folded away."""
    if not findings:
        return []
    title = f"{words.count(len(findings), 'finding')} checked, nothing to do ({_kinds(findings)})"
    blocks = ["<details>", f"<summary>{title}</summary>"]
    for number, finding in findings:
        blocks += _finding(number, finding)
    return [*blocks, "</details>"]


def _kinds(findings: Sequence[tuple[int, Finding]]) -> str:
    return "repaired, harmless or inherent" if any(f.repaired for _, f in findings) else "harmless or inherent"


def _tries(report: ReportData) -> list[str]:
    if not report.tries:
        return []
    shown, left = proofs.try_rows(report.tries, _MOST_TRIES)
    lines = [(code(r.sizes), plain(r.scope), plain(r.state), code(r.text)) for r in shown]
    counted = plain(proofs.try_count(report.tries))
    return ["## What was run", counted, table(("Sizes", "Of", "Outcome", "What"), lines), *_left_out(left)]


def _changes(report: ReportData) -> list[str]:
    if not report.changes:
        return []
    shown, left = rows.change_rows(report, _MOST_CHANGES)
    lines = [(plain(r.stage), code(r.guards), code(r.origin), plain(r.effect)) for r in shown]
    return [
        "## What each stage added",
        table(("Stage", "Guards", "Origin", "Effect"), lines),
        *_left_out(left),
    ]
