"""``replay="full"``: the whole model at further sizes, to find faults that leave no guard."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from guarddiff.core.dims import Dimension
from guarddiff.core.domain import SizeRange
from guarddiff.core.finding import Counterexample, Finding
from guarddiff.core.origin import Origin
from guarddiff.core.report import Missing
from guarddiff.replay import sizes
from guarddiff.replay.prove import SECONDS, Prover, raise_if_no_runtime
from guarddiff.replay.run import Outcome, Unavailable
from guarddiff.replay.sizes import Point
from guarddiff.replay.verdicts import at_example

_MOST_LADDERS = 6
_JOINS = frozenset({"aten.cat.default", "aten.concat.default", "aten.concatenate.default"})


AT_FURTHER_SIZES = "runs at further sizes"
"""The part of the report that is missing where nothing could be run."""
NOT_RUN = "runs at the sizes that were asked for"
"""The part that is missing where the user's own sizes were right ones and could not be run."""
ASKED = "the sizes that were asked for"
"""The part that is missing where they can't be made."""
WRONG_AT_EXAMPLE = "the model is wrong at the example's own sizes already, so that sizes are not to blame"
"""The reason of such a finding."""
_NO_GUARD = "no guard tells of it: the whole model was run at these sizes"
_LATER = "no guard is to blame: the whole model was run at these sizes, at which the decomposed program is right"


@dataclass
class Found:
    """The findings after the search, and what could not be tried."""

    findings: list[Finding] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)


def search(
    prover: Prover,
    findings: Sequence[Finding],
    small: Sequence[Finding],
    own: Iterable[Point] = (),
    further: bool = True,
) -> Found:
    """Run the whole model at the user's ``own`` points and, with ``further``, at three or more further sizes per
    dynamic dimension.

    A model that differs at the example's own sizes already gets one finding that says so, and is run nowhere else.
    A difference at sizes that a finding (or a change in ``small``, which is none for its sizes alone) excludes confirms
    it; those that nothing excludes become findings of the stage that the ladder names.
    """
    found = Found(list(findings))
    try:
        raise_if_no_runtime()
        base = prover.baseline()
    except Unavailable as error:
        found.missing.append(Missing(AT_FURTHER_SIZES, str(error)))
        return found
    if base.state != "agrees":
        found.missing.append(Missing(AT_FURTHER_SIZES, at_example(base)))
        found.findings += [_at_example(prover, base)] if base.state == "differs" else []
        return found
    unexplained: list[tuple[Point, Outcome]] = []
    guards = [guard for finding in (*findings, *small) for guard in finding.guards]
    points = list(own)
    points += sizes.further(prover.dims, prover.declared, prover.sizes, guards) + _empty(prover) if further else []
    for point in points:
        outcome = prover.attempt(point)
        if outcome.state == "differs" and not _confirm(found, prover, small, point, outcome):
            unexplained.append((point, outcome))
    found.findings += _unguarded(prover, unexplained, [*found.findings, *small])
    return found


def _empty(prover: Prover) -> list[Point]:
    """Points at which one part of what the model concatenates is empty, as a cache is before the first step: no guard
    tells of a branch on that, for torch takes no dynamic size for 0."""
    found = []
    program = prover.tools.programs.decomposed if prover.tools.programs is not None else None
    for node in program.graph.nodes if program is not None else ():
        if str(node.target) not in _JOINS or not isinstance(node.args[0], (list, tuple)):
            continue
        axis = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
        for part in node.args[0]:
            shape = getattr(part.meta.get("val"), "shape", ())
            size = prover.tools.size_text(shape[axis]) if -len(shape) <= axis < len(shape) else 1
            if size in prover.sizes and prover.declared.get(str(size), SizeRange()).lower == 0:
                found.append({**prover.sizes, str(size): 0})
    return sizes.unique(found)


def not_run(prover: Prover, asked: Sequence[Point]) -> Iterator[Missing]:
    """The sizes that were asked for at which nothing is known for all that, and why."""
    for point in asked:
        shapes = prover.shapes(point)
        tries = [made for made in prover.tries if made.scope == "model" and made.sizes == shapes]
        if all(made.state == "unknown" for made in tries):
            why = tries[0].text if tries else f"the time for trying ({SECONDS:.0f} s) was used up"
            moved = [f"{name}={size}" for name, size in point.items() if size != prover.sizes.get(name)]
            yield Missing(NOT_RUN, f"{', '.join(moved)}: {why}")


def _confirm(found: Found, prover: Prover, small: Sequence[Finding], point: Point, outcome: Outcome) -> bool:
    """Whether guards exclude the point; the first finding that does so becomes confirmed if it wasn't. No guard
    explains a fault of the translation."""
    shapes = prover.shapes(point)
    if prover.elsewhere(outcome):
        return False
    excluding = [i for i, finding in enumerate(found.findings) if finding.admits(shapes) is False]
    if any(found.findings[i].verdict == "confirmed" for i in excluding):
        return True
    example = _counterexample(prover, point, outcome)
    if excluding:
        index = excluding[0]
        found.findings[index] = _confirmed(found.findings[index], example)
        return True
    for finding in small:
        if finding.admits(shapes) is False:
            found.findings.append(_confirmed(finding, example))
            return True
    return False


def _confirmed(finding: Finding, example: Counterexample) -> Finding:
    return replace(
        finding, verdict="confirmed", reason="the whole model was run at these sizes", counterexample=example
    )


def _counterexample(prover: Prover, point: Point, outcome: Outcome) -> Counterexample:
    difference = outcome.difference
    if difference is None:
        raise ValueError("an outcome without a difference is no counterexample")
    return Counterexample(prover.shapes(point), difference.expected, difference.got, difference.kind)


def _unguarded(prover: Prover, unexplained: Sequence[tuple[Point, Outcome]], known: Sequence[Finding]) -> list[Finding]:
    """Findings for points that no guard explains, one per node at which the ladder first sees a difference.

    The ladder is climbed at the points that move the fewest dimensions, one per set of moved dimensions.
    """
    rest = sorted(unexplained, key=lambda row: (len(_moved(prover, row[0])), sum(row[0].values())))
    if not rest:
        return []
    rest[0] = _smallest(prover, *rest[0])
    fewest = len(_moved(prover, rest[0][0]))
    chosen: dict[frozenset[str], tuple[Point, Outcome]] = {}
    for point, outcome in rest:
        moved = frozenset(_moved(prover, point))
        if len(moved) == fewest and len(chosen) < _MOST_LADDERS:
            chosen.setdefault(moved, (point, outcome))
    found: dict[tuple[Any, ...], tuple[set[str], Finding]] = {}
    for moved, (point, outcome) in chosen.items():
        excluded = any(one.admits(prover.shapes(point)) is False for one in known)
        finding = _new_finding(prover, point, outcome, excluded)
        key = (finding.stage, finding.origin.node, finding.op)
        variables, first = found.setdefault(key, (set(), finding))
        variables |= moved
    return [
        replace(finding, dims=_moving(prover, variables) or _declared(prover)) for variables, finding in found.values()
    ]


def _new_finding(prover: Prover, point: Point, outcome: Outcome, excluded: bool = False) -> Finding:
    """A finding of the stage and the node that the ladder names at this point; ``excluded``: a guard excludes it, and
    is not to blame."""
    ladder = prover.ladder(prover.shapes(point))
    stage = (ladder.stage if ladder is not None else None) or "translate"
    node = ladder.node if ladder is not None else None
    return Finding(
        dims=(),
        stage=stage,
        op=(node.fx_op or node.op) if node is not None else "unknown",
        origin=Origin(node=node.fx_node, module_path=node.module_path, source=node.source) if node else Origin(),
        verdict="confirmed",
        reason=_LATER if excluded else _NO_GUARD,
        counterexample=_counterexample(prover, point, outcome),
        ladder=ladder,
        inputs=tuple(prover.dims),
    )


def _at_example(prover: Prover, outcome: Outcome) -> Finding:
    """The finding of a model that is wrong at the example itself: sizes are not to blame, and none is known to be
    right."""
    made = _new_finding(prover, dict(prover.sizes), outcome)
    return replace(made, reason=WRONG_AT_EXAMPLE)


def _moving(prover: Prover, variables: set[str]) -> tuple[Dimension, ...]:
    return tuple(dim for dim in prover.dims if dim.declared and sizes.variables_of(dim) & variables)


def _smallest(prover: Prover, point: Point, outcome: Outcome) -> tuple[Point, Outcome]:
    """Move dimensions back to the example's sizes one at a time, as long as the difference stays."""
    for variable in sorted(_moved(prover, point)):
        if len(_moved(prover, point)) == 1:
            break
        back = {**point, variable: prover.sizes[variable]}
        again = prover.attempt(back)
        if again.state == "differs":
            point, outcome = back, again
    return point, outcome


def _moved(prover: Prover, point: Point) -> set[str]:
    return {variable for variable, size in point.items() if size != prover.sizes.get(variable)}


def _declared(prover: Prover) -> tuple[Dimension, ...]:
    return tuple(dim for dim in prover.dims if dim.declared)
