"""``replay="full"``: the whole model at further sizes, to find faults that leave no guard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from guarddiff.core.dims import Dimension
from guarddiff.core.finding import Counterexample, Finding
from guarddiff.core.origin import Origin
from guarddiff.core.report import Missing
from guarddiff.replay import ladder, sizes
from guarddiff.replay.prove import Prover, at_example, raise_if_no_runtime
from guarddiff.replay.run import Outcome, Unavailable
from guarddiff.replay.sizes import Point


@dataclass
class Found:
    """The findings after the search, and what could not be tried."""

    findings: list[Finding] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)


def search(
    prover: Prover, findings: Sequence[Finding], small: Sequence[Finding], unoptimized: Callable[[], Any]
) -> Found:
    """Run the whole model at at least three further sizes per dynamic dimension.

    A difference at sizes that a finding (or a change in ``small``, which excludes 0 and 1 only) excludes confirms
    it; one that nothing excludes becomes a finding of the stage that the ladder names.
    """
    found = Found(list(findings))
    try:
        raise_if_no_runtime()
        base = prover.baseline()
    except Unavailable as error:
        found.missing.append(Missing("runs at further sizes", str(error)))
        return found
    if base.state != "agrees":
        found.missing.append(Missing("runs at further sizes", at_example(base)))
        return found
    unexplained: list[tuple[Point, Outcome]] = []
    guards = [guard for finding in (*findings, *small) for guard in finding.guards]
    for point in sizes.further(prover.dims, prover.declared, prover.sizes, guards):
        outcome = prover.attempt(point)
        if outcome.state == "differs" and not _confirm(found, prover, small, point, outcome):
            unexplained.append((point, outcome))
    if unexplained:
        found.findings.append(_new_finding(prover, unexplained, unoptimized))
    return found


def _confirm(found: Found, prover: Prover, small: Sequence[Finding], point: Point, outcome: Outcome) -> bool:
    """Whether guards exclude the point; the first finding that does so becomes confirmed if it wasn't."""
    shapes = prover.shapes(point)
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


def _new_finding(
    prover: Prover, unexplained: Sequence[tuple[Point, Outcome]], unoptimized: Callable[[], Any]
) -> Finding:
    """One finding for all points that no guard explains, shown by the one that moves the fewest dimensions; its
    dimensions are those that are moved by such points."""
    point, outcome = min(unexplained, key=lambda row: (len(_moved(prover, row[0])), sum(row[0].values())))
    point, outcome = _smallest(prover, point, outcome)
    fewest = len(_moved(prover, point))
    moved = {v for other, _ in unexplained for v in _moved(prover, other) if len(_moved(prover, other)) == fewest}
    dims = tuple(d for d in prover.dims if d.declared and sizes.variables_of(d) & moved) or _declared(prover)
    leaves = prover.example.at(prover.shapes(point))
    stage = ladder.first_wrong_stage(
        outcome.results,
        prover.example,
        leaves,
        prover.tools.captured,
        prover.tools.decomposed,
        unoptimized,
        prover.eager,
    )
    reason = "no guard tells of it: the whole model was run at these sizes"
    return Finding(
        dims=dims,
        stage=stage,
        op="unknown",
        origin=Origin(),
        verdict="confirmed",
        reason=reason,
        counterexample=_counterexample(prover, point, outcome),
        inputs=tuple(prover.dims),
    )


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
