"""Wording of what was run: tries, the ladder and its first differing node, the reproduction, both sides of an operator.

As in ``words``, text from the model is cleaned here and each format escapes the result for its own syntax.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from guarddiff.core.finding import Finding
from guarddiff.core.proof import (
    Decomposition,
    DifferingNode,
    GraphLine,
    Ladder,
    Repair,
    Reproduction,
    ReproductionScope,
    Rung,
    RungName,
    RungState,
    Try,
    TryState,
)
from guarddiff.core.stage import Stage, later
from guarddiff.render import words

RUNGS: dict[RungName, str] = {
    "eager": "eager PyTorch",
    "captured": "captured program",
    "decomposed": "decomposed program",
    "onnx": "ONNX before the optimizer",
    "optimized": "ONNX after the optimizer",
}

RUNG_STATES: dict[RungState, str] = {
    "agrees": "agrees",
    "differs": "differs",
    "raises": "raises",
    "refuses": "refuses these sizes",
    "skipped": "not run",
}

TRY_STATES: dict[TryState, str] = {
    "agrees": "agrees",
    "differs": "differs",
    "rejected": "eager PyTorch refuses it",
    "unknown": "unknown",
}

_ALONE = "eager PyTorch refuses it by itself"
_COUNTED: tuple[tuple[TryState, str, str], ...] = (
    ("differs", "differ", "differs"),
    ("agrees", "agree", "agrees"),
    ("rejected", "refused by eager PyTorch", "refused by eager PyTorch"),
    ("unknown", "unknown", "unknown"),
)
_LOUDEST: dict[TryState, int] = {"differs": 0, "unknown": 1, "rejected": 2, "agrees": 3}

SCOPES: dict[ReproductionScope, str] = {
    "operator": "the operator alone",
    "statement": "the statement of the model's code",
    "module": "the module",
    "model": "the whole model",
    "": "a part of the model",
}

MARK = "  # <-- this one"

_NO_SCRIPT = "No small script was found that shows the difference: "
_BEFORE: dict[Stage, RungName] = {"decompose": "captured", "translate": "decomposed", "optimize": "onnx", "run": "onnx"}
_LOST: dict[Stage, str] = {
    "declare": "the declaration",
    "capture": "capture",
    "decompose": "decomposition",
    "translate": "the translation",
    "optimize": "the optimizer",
    "run": "the run",
}
_SHOWS: dict[Stage, str] = {
    "capture": "it is captured",
    "decompose": "it is decomposed",
    "translate": "it is translated to ONNX",
    "optimize": "the ONNX optimizer has run",
    "run": "ONNX Runtime runs it",
}


@dataclass(frozen=True)
class RungRow:
    """One rung: ``first`` is the first one that does not agree."""

    program: str
    state: str
    gave: str
    first: bool


@dataclass(frozen=True)
class TryRow:
    """One run at the same sizes."""

    sizes: str
    scope: str
    state: str
    text: str


def first_wrong(ladder: Ladder) -> Rung | None:
    """The first rung that does not agree with eager PyTorch; None where all that were run do."""
    return next((rung for rung in ladder.rungs if rung.state not in ("agrees", "skipped")), None)


def rung_rows(ladder: Ladder) -> list[RungRow]:
    """Every rung in order; eager PyTorch is the reference."""
    wrong = first_wrong(ladder)
    return [
        RungRow(
            RUNGS[rung.name],
            "reference" if rung.name == "eager" and rung.state == "agrees" else RUNG_STATES[rung.state],
            words.shorter(rung.text),
            rung is wrong,
        )
        for rung in ladder.rungs
    ]


def ladder_claim(ladder: Ladder) -> str:
    """Which rung is the first that does not agree, or that all do."""
    wrong = first_wrong(ladder)
    if wrong is None:
        skipped = any(rung.state == "skipped" for rung in ladder.rungs)
        return f"{'What could be run' if skipped else 'Every program'} agrees with eager PyTorch at these sizes."
    stage = f" (stage {ladder.stage})" if ladder.stage else ""
    return f"The first that does not agree with eager PyTorch: {RUNGS[wrong.name]}{stage}."


def lost_earlier(finding: Finding) -> str:
    """Why the ladder's first wrong program is of a later stage than the finding; empty where it is not."""
    found = finding.ladder
    if found is None or found.stage is None or not later(found.stage, finding.stage):
        return ""
    rung = _BEFORE.get(found.stage)
    agrees = rung is not None and any(r.name == rung and r.state == "agrees" for r in found.rungs)
    held = ""
    if agrees and rung == "captured" and finding.op.startswith("aten."):
        held = f" the captured graph still holds {words.clean(finding.op.split('.')[1], 60)} as one operator, so"
    elif agrees and rung is not None:
        held = f" the {RUNGS[rung].removeprefix('the ')} still agrees, as the lost sizes do not matter to it;"
    return f"Lost at {_LOST[finding.stage]};{held} the numbers show only when {_SHOWS[found.stage]}."


def node(found: DifferingNode) -> str:
    """``ONNX node node_squeeze (Squeeze), from FX node squeeze (aten.squeeze.dims)``: which node it is."""
    graph = "ONNX" if found.graph == "onnx" else "FX"
    came = found.fx_node if found.fx_node != found.name else None
    made_by = f" ({words.clean(found.fx_op, 80)})" if found.fx_op else ""
    back = f", from FX node {words.clean(came, 60)}{made_by}" if came else ""
    op = f" ({words.clean(found.op, 80)})" if found.op else ""
    return f"{graph} node {words.clean(found.name, 60)}{op}{back}"


def node_place(found: DifferingNode) -> str:
    """Its module and source line; empty where neither is known."""
    return words.at(found.module_path, found.source)


def differing(finding: Finding) -> DifferingNode | None:
    """The ladder's first differing node; None where it is not known."""
    return finding.ladder.node if finding.ladder else None


def try_rows(tries: Sequence[Try], most: int) -> tuple[list[TryRow], int]:
    """At most ``most`` tries, those that do not agree first, and how many are left out.

    Of each way that runs went the first ones are shown (sizes that the user asked for are run first), and of the whole
    model before those of an operator by itself.
    """
    by_way: dict[tuple[str, TryState], list[Try]] = {}
    for one in sorted(tries, key=lambda one: (one.scope, _LOUDEST[one.state])):
        by_way.setdefault((one.scope, one.state), []).append(one)
    waiting = [one for turn in zip_longest(*by_way.values()) for one in turn if one is not None]
    shown = sorted(waiting[:most], key=lambda one: (one.scope, _LOUDEST[one.state]))
    rows = [
        TryRow(
            words.shapes(one.sizes) or "no tensor inputs",
            "operator by itself" if one.scope == "operator" else "whole model",
            _ALONE if one.scope == "operator" and one.state == "rejected" else TRY_STATES[one.state],
            words.shorter(one.text),
        )
        for one in shown
    ]
    return rows, max(0, len(tries) - most)


def try_count(tries: Sequence[Try]) -> str:
    """``7 runs: 5 agree, 2 differ``, and those of operators by themselves after them."""
    told = []
    for scope, whose in (("model", ""), ("operator", " of an operator by itself")):
        own = [one.state for one in tries if one.scope == scope]
        seen = Counter(own)
        parts = [
            f"{number} {verb if number > 1 else single}" for state, verb, single in _COUNTED if (number := seen[state])
        ]
        if own:
            told.append(f"{words.count(len(own), 'run')}{whose}: {', '.join(parts)}")
    return "; ".join(told) or "0 runs"


def script_claim(found: Reproduction) -> str:
    """What the script is and what was done with it, or why there is none."""
    if not found.script:
        why = words.clean(found.reason.removeprefix(_NO_SCRIPT)).rstrip(".")
        return f"{_NO_SCRIPT}{why or 'no reason is known'}."
    return (
        f"{words.count(found.lines, 'line')} with {SCOPES[found.scope]}; needs torch, numpy and ONNX Runtime alone. "
        "It was run in a fresh process and showed the difference."
    )


def repair_claims(found: Repair, findings: Sequence[Finding]) -> list[str]:
    """What was repaired and how, which findings that clears, and what was run, in sentences."""
    pairs = zip(found.names, (*found.ways, *[""] * len(found.names)), strict=False)
    listed = [f"{words.clean(name, 80)}{f': {words.clean(way)}' if way else ''}" for name, way in pairs]
    cleared = [str(number) for number, finding in enumerate(findings, 1) if finding.repaired]
    left = [str(number) for number, finding in enumerate(findings, 1) if finding.warns]
    reason = f"{words.clean(found.reason).rstrip('.')}." if found.reason else ""
    if not found.returned:
        listed.append(
            f"The repaired model was not taken, and the returned model is torch's own: {reason or 'no reason.'}"
        )
    else:
        listed.append(f"The repaired model was returned{f': {reason}' if reason else '.'}")
    before = sorted({*cleared, *left}, key=int)
    after = f"open {words.join(left)}" if left else "none open"
    repaired = f", repaired {words.join(cleared)}" if cleared else ""
    listed.append(f"Findings before: {words.join(before) or 'none'}; after: {after}{repaired}.")
    if found.tries:
        listed.append(f"Repaired model against eager PyTorch, {try_count(found.tries)}.")
    return listed


def lines(text: str, limit: int = 2 * words.LIMIT) -> list[str]:
    """The lines of a script or of an output, each printable; tabs become spaces."""
    return [words.clean(line, limit) for line in text.expandtabs(4).splitlines()]


def graph_lines(side: Sequence[GraphLine]) -> list[str]:
    """Nodes of one side, one a line; the ones that a finding is about end in ``MARK``."""
    return [words.clean(line.text) + (MARK if line.marked else "") for line in side]


def sides(found: Decomposition, finding: Finding) -> tuple[str, str]:
    """Titles of what stands before and after."""
    if finding.stage in ("translate", "optimize", "run"):
        return "Captured program", "ONNX nodes that it became"
    return "Before decomposition", "After decomposition"
