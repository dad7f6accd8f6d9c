"""Wording of what was run: tries, the ladder and its first differing node, the reproduction, both sides of an operator.

As in ``words``, text from the model is cleaned here and each format escapes the result for its own syntax.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from guarddiff.core.finding import Finding
from guarddiff.core.proof import (
    Decomposition,
    DifferingNode,
    GraphLine,
    Ladder,
    Reproduction,
    ReproductionScope,
    Rung,
    RungName,
    RungState,
    Try,
    TryState,
)
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

_COUNTED: tuple[tuple[TryState, str, str], ...] = (
    ("differs", "differ", "differs"),
    ("agrees", "agree", "agrees"),
    ("rejected", "refused by eager PyTorch", "refused by eager PyTorch"),
    ("unknown", "unknown", "unknown"),
)

SCOPES: dict[ReproductionScope, str] = {
    "operator": "the operator alone",
    "statement": "the statement of the model's code",
    "module": "the module",
    "model": "the whole model",
    "": "a part of the model",
}

MARK = "  # <-- this one"


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
    source = found.source
    parts = [words.module(found.module_path), words.place(source, 60) if source else ""]
    text = ", ".join(part for part in parts if part)
    return f"{text}: {words.clean(source.text)}" if source and source.text else text


def differing(finding: Finding) -> DifferingNode | None:
    """The ladder's first differing node; None where it is not known."""
    return finding.ladder.node if finding.ladder else None


def try_rows(tries: Sequence[Try], most: int) -> tuple[list[TryRow], int]:
    """At most ``most`` tries, those that do not agree first, and how many are left out."""
    ordered = sorted(tries, key=lambda one: one.state == "agrees")
    rows = [
        TryRow(
            words.shapes(one.sizes) or "no tensor inputs",
            "operator by itself" if one.scope == "operator" else "whole model",
            TRY_STATES[one.state],
            words.shorter(one.text),
        )
        for one in ordered[:most]
    ]
    return rows, max(0, len(tries) - most)


def try_count(tries: Sequence[Try]) -> str:
    """``7 runs: 5 agree, 2 differ``."""
    seen = Counter(one.state for one in tries)
    parts = [
        f"{number} {verb if number > 1 else single}" for state, verb, single in _COUNTED if (number := seen[state])
    ]
    return f"{words.count(len(tries), 'run')}: {', '.join(parts)}"


def script_claim(found: Reproduction) -> str:
    """What the script is and what was done with it, or why there is none."""
    if not found.script:
        return (
            f"No small script was found that shows the difference: {words.clean(found.reason) or 'no reason is known'}."
        )
    return (
        f"{words.count(found.lines, 'line')} with {SCOPES[found.scope]}; needs torch, numpy and ONNX Runtime alone. "
        "It was run in a fresh process and showed the difference."
    )


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
