"""Verdicts: run eager PyTorch and ONNX Runtime at sizes that break a finding's guards."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch

from guarddiff.core import guard_text
from guarddiff.core.dims import Dimension
from guarddiff.core.domain import SizeRange
from guarddiff.core.finding import Counterexample, Finding
from guarddiff.core.forked import step
from guarddiff.core.log import say
from guarddiff.core.proof import Ladder, Try
from guarddiff.replay import isolate, ladder, sizes, verdicts
from guarddiff.replay.footprint import Footprint
from guarddiff.replay.inputs import Example
from guarddiff.replay.operator_run import OperatorRun
from guarddiff.replay.run import Eager, Outcome, Pair, Session, Unavailable, one_line
from guarddiff.replay.sizes import Point
from guarddiff.replay.tools import Tools

_VALUE_CHECKED = ("embedding", "index", "gather", "scatter", "take", "one_hot", "bincount")
MOST_LEFT = 8
"""At most so many further sizes for a finding whose first sizes agree, for guards that none of those has broken."""
LIGHT_INPUTS, LIGHT_VALUES = 2**18, 2**24
"""Elements of all inputs, and of any value inside the model, up to which a size far above the example is tried too."""
SECONDS = 120.0
"""Budget of one export's replay; what has not been tried by then stays unconfirmed."""


@dataclass
class Prover:
    """Gives findings their verdicts. ``model`` is the user's module.

    ``astray`` are points at which the whole model is wrong and no guard is to blame.
    """

    tools: Tools
    model: Any
    example: Example
    dims: Sequence[Dimension]
    declared: Mapping[str, SizeRange]
    sizes: Mapping[str, int]
    deadline: float = field(default_factory=lambda: time.monotonic() + SECONDS)
    tries: list[Try] = field(default_factory=list)
    astray: list[Point] = field(default_factory=list)
    _outcomes: dict[tuple[Any, ...], Outcome] = field(default_factory=dict)
    _ladders: dict[tuple[Any, ...], Ladder | None] = field(default_factory=dict)
    _baseline: Outcome | None = None
    _lively: Pair | None = None
    _lively_base: bool | None = None

    def __post_init__(self) -> None:
        self.eager = Eager(self.model, self.tools.flatten, self.tools.mutated)
        self.pair = Pair(self.eager, lambda: Session(self.tools.program), self.example)
        self.footprint = Footprint(self.tools.captured, self.tools.size_text, self.sizes)
        lively = self.example.lively()
        self._lively = None if lively is self.example else Pair(self.eager, lambda: self.pair.session, lively)

    def prove(self, findings: Sequence[Finding]) -> list[Finding]:
        """The findings with verdict, reason and counterexample."""
        proved = list(findings)
        for alone in (True, False):  # operators by themselves first: what is proved there is not laid at another's door
            self._round(findings, proved, alone, lambda found: found.verdict != "confirmed")
        if not all(finding.warns for finding in proved):  # what breaks their guards too tells of a finding all the same
            self._round(findings, proved, False, lambda found: found.verdict == "unconfirmed")
        return proved

    def _round(
        self, findings: Sequence[Finding], proved: list[Finding], alone: bool, wanted: Callable[[Finding], bool]
    ) -> None:
        """Try the findings that are wanted, beside what is known of the others by then."""
        for index, finding in enumerate(findings):
            if wanted(proved[index]):
                others = [other for place, other in enumerate(proved) if place != index]
                proved[index] = self._tried(finding, others, alone) or proved[index]

    def _tried(self, finding: Finding, others: Sequence[Finding], alone: bool) -> Finding | None:
        others = [sizes.holding(other, self.sizes) for other in others]
        try:
            return self._isolated(finding, others) if alone else self._whole(finding, others)
        except Unavailable as error:
            return verdicts.given(finding, "unconfirmed", str(error))
        except Exception as error:
            say(logging.ERROR, "guarddiff could not try a finding", error)
            return verdicts.given(finding, "unconfirmed", f"the try itself failed ({one_line(error)})")

    def shapes(self, point: Point) -> dict[str, tuple[int, ...]]:
        """Shapes of the model's inputs at a point."""
        return sizes.shapes_at(point, self.dims, self.example.shapes)

    def attempt(self, point: Point) -> Outcome:
        """One try of the whole model; each point is tried once."""
        shapes = self.shapes(point)
        elements = self.footprint.too_large(point)
        if elements is None:
            return self.attempt_at(shapes)
        outcome = Outcome("unknown", text=f"a value inside the model would have {elements:,} elements")
        self.note(shapes, outcome, "model")
        return outcome

    def attempt_at(self, shapes: dict[str, tuple[int, ...]]) -> Outcome:
        """One try of the whole model at these shapes of its inputs."""
        key = tuple(sorted(shapes.items()))
        if key not in self._outcomes:
            if time.monotonic() > self.deadline:
                return Outcome("unknown", text=f"the time for trying ({SECONDS:.0f} s) was used up")
            outcome = self.pair.attempt(shapes)
            if outcome.state == "agrees" and self._lively is not None and self._lively_agrees():
                varied = self._lively.attempt(shapes)
                outcome = varied if varied.state == "differs" else outcome
            self._outcomes[key] = outcome
            self.note(shapes, outcome, "model")
        return self._outcomes[key]

    def note(self, shapes: dict[str, tuple[int, ...]], outcome: Outcome, scope: Literal["operator", "model"]) -> None:
        """Keep a try for the report; ``shapes`` are those of the model's inputs."""
        text = outcome.text if outcome.difference is None else f"{outcome.difference.kind}: {outcome.difference.got}"
        made = Try(shapes, outcome.state, scope, text)
        if made not in self.tries:
            self.tries.append(made)

    def elsewhere(self, outcome: Outcome) -> bool:
        """Whether a difference is that of translation or optimization and not of a guard: the program after
        decomposition, which holds whatever a guard fixed, still is right there."""
        if outcome.state != "differs" or self.tools.programs is None:
            return False
        if outcome.difference is not None and outcome.difference.kind == "rejected_input":
            return False
        try:
            programs = self.tools.programs
            return ladder.right_until_translation(programs, self.example, outcome.leaves, outcome.results)
        except Exception as error:
            say(logging.DEBUG, "the decomposed program could not be run", error)
            return False

    def ladder(self, shapes: dict[str, tuple[int, ...]]) -> Ladder | None:
        """Every stage's program at these shapes; None where the whole model does not differ there, or where its stages
        are not known."""
        if self.tools.programs is None or self.tools.program is None:
            return None
        key = tuple(sorted(shapes.items()))
        if key not in self._ladders:
            outcome = self.attempt_at(shapes)
            made = None
            if outcome.state == "differs":
                made = ladder.climb(self.tools.programs, self.pair, self.example, outcome.leaves, outcome.results)
            self._ladders[key] = made
        return self._ladders[key]

    def _lively_agrees(self) -> bool:
        """Whether varied values in place of constant inputs agree at the example's own sizes."""
        if self._lively_base is None:
            self._lively_base = self._lively is not None and self._lively.attempt(self.example.shapes).state == "agrees"
        return self._lively_base

    def baseline(self) -> Outcome:
        """The try at the example's own sizes: if that does not agree, nothing else can be concluded."""
        if self._baseline is None:
            self._baseline = self.attempt(dict(self.sizes))
        return self._baseline

    def _points(self, finding: Finding, findings: Sequence[Finding]) -> list[Point]:
        return sizes.breaking(finding, self.declared, self.sizes, findings)

    def _isolated(self, finding: Finding, findings: Sequence[Finding]) -> Finding | None:
        """The verdict from the operator alone; None where only the whole model can tell."""
        if finding.origin.node is None or finding.origin.branch or self.tools.captured is None:
            return None
        if finding.stage == "capture" and self._holds_sizes(finding):
            return None
        try:
            operator = isolate.cut(self.tools.captured, finding.origin.node, self.tools.size_text)
            runner = OperatorRun(operator, self.tools, self.example.lively(), self.sizes)
            if not runner.take_nodes() and not runner.export():
                return None
            return self._try_operator(finding, runner, self._points(finding, findings))
        except (isolate.NotIsolable, Unavailable):
            raise_if_no_runtime()
            return None
        except Exception as error:
            say(logging.DEBUG, f"{finding.op} could not be tried alone", error)
            return None

    def _holds_sizes(self, finding: Finding) -> bool:
        """Whether the captured operator has a number of its own that is a size of the finding or stands in its guards
        (``h // 2 == 4``): capture may have put it in place of what the model computes from a size, and then the
        operator by itself is not what the model does at others."""
        node = next((node for node in self.tools.captured.graph.nodes if node.name == finding.origin.node), None)
        numbers = {dim.example for dim in finding.dims}.union(*map(guard_text.constants, finding.guards))
        leaves = self.tools.flatten((node.args, dict(node.kwargs))) if node is not None else ()
        return any(type(leaf) is int and leaf > 1 and leaf in numbers for leaf in leaves)

    def _try_operator(self, finding: Finding, runner: OperatorRun, points: Sequence[Point]) -> Finding | None:
        for point in points:
            outcome = runner.attempt(point)
            self.note(self.shapes(point), outcome, "operator")
            if outcome.state != "differs" or outcome.difference is None or not self._accepts(point):
                continue
            found = outcome.difference
            example = Counterexample(
                self.shapes(point), found.expected, found.got, found.kind, "operator", runner.shapes(point)
            )
            reason = (
                f"{runner.cut.op} was run by itself at these sizes, in eager PyTorch and in ONNX Runtime{runner.how}"
            )
            return replace(
                finding, verdict="confirmed", reason=verdicts.join(finding.reason, reason), counterexample=example
            )
        return None

    def _accepts(self, point: Point) -> bool:
        """Whether eager PyTorch accepts these sizes in the whole model."""
        shapes = self.shapes(point)

        def call(module: Any) -> Any:
            leaves = [
                torch.empty(shapes[name], dtype=leaf.dtype)
                if name in shapes and isinstance(leaf, torch.Tensor)
                else leaf
                for name, leaf in zip(self.example.names, self.example.leaves)
            ]
            args, kwargs = self.example.call(leaves)
            return module(*args, **kwargs)

        try:
            with step():
                answer = self.tools.fake_accepts(self.eager.copied(), call)
        except Exception as error:
            say(logging.DEBUG, "a fake run could not tell", error)
            answer = None
        if answer and not _checks_values(self.tools.captured):
            return True
        try:
            self.eager.run(self.example, self.example.at(shapes))
        except Exception:
            return False
        return True

    def _whole(self, finding: Finding, findings: Sequence[Finding]) -> Finding:
        """The verdict from the whole model."""
        if self.tools.program is None:
            return verdicts.given(finding, "unconfirmed", "the export raised, so there is no ONNX model to run")
        points = self._points(finding, findings)
        if not points:
            return verdicts.given(finding, "unconfirmed", "no size inside the declared range breaks its guards")
        base = self.baseline()
        if base.state != "agrees":
            return verdicts.given(finding, "unconfirmed", verdicts.at_example(base))
        tried: list[tuple[Point, Outcome]] = []
        found = self._differing(finding, findings, points, tried)
        if found is None and any(outcome.state == "agrees" for _, outcome in tried):
            found = self._differing(finding, findings, self._left(finding, findings, tried), tried)
        doubtful = [other for other in findings if other.warns]
        alone = any(sizes.keeps_others(p, finding, doubtful) for p in points)
        return found or verdicts.without_difference(finding, [outcome for _, outcome in tried], alone)

    def _left(
        self, finding: Finding, findings: Sequence[Finding], tried: Sequence[tuple[Point, Outcome]]
    ) -> list[Point]:
        """Where the sizes that were tried agree: what is still to be tried before the finding is called harmless."""
        ranks = {name: len(shape) for name, shape in self.example.shapes.items()}
        turned = sizes.broadcast_the_other_way(finding, self.dims, ranks, self.declared, self.sizes)
        known = [point for point, _ in tried]
        left = turned + sizes.untouched(finding, known, self.declared, self.sizes, findings)
        far = sizes.far_off(finding, self._is_light, self.declared, self.sizes)
        return (left[: MOST_LEFT - len(far)] + [point for point in far if point not in known])[:MOST_LEFT]

    def _is_light(self, point: Point) -> bool:
        """Whether a run at these sizes costs little: the inputs are small, and so is whatever is made of them."""
        try:
            inputs = sum(math.prod(shape) for shape in self.shapes(point).values())
        except ValueError:
            return False
        return inputs <= LIGHT_INPUTS and self.footprint.elements(point) <= LIGHT_VALUES

    def _differing(
        self,
        finding: Finding,
        findings: Sequence[Finding],
        points: Sequence[Point],
        tried: list[tuple[Point, Outcome]],
    ) -> Finding | None:
        """The finding, confirmed at the first of the points where the results differ; None where none does. What was
        tried goes to ``tried``."""
        for point in points:
            apart = sizes.keeps_others(point, finding, findings)
            if not apart and any(done.state == "agrees" for _, done in tried):
                break  # where this finding's guards alone were broken, the results agreed
            outcome = self.attempt(point)
            if self.elsewhere(outcome):
                self.astray.append(point)
                outcome = Outcome("agrees", text=verdicts.ELSEWHERE)
            if outcome.state == "differs" and not apart and verdicts.proved_there(findings, self.shapes(point)):
                outcome = Outcome("unknown", text="every size that breaks it breaks a confirmed finding's guards too")
            tried.append((point, outcome))
            if outcome.state == "differs" and outcome.difference is not None:
                told = outcome.difference
                return replace(
                    finding,
                    verdict="confirmed",
                    reason=verdicts.join(finding.reason, "the whole model was run at these sizes"),
                    counterexample=Counterexample(self.shapes(point), told.expected, told.got, told.kind),
                )
        return None


def _checks_values(program: Any) -> bool:
    """Whether eager may reject sizes because of values, which a fake run can't see: a position outside a table."""
    nodes = program.graph.nodes if program is not None else ()
    return any(word in str(n.target) for n in nodes if n.op == "call_function" for word in _VALUE_CHECKED)


def raise_if_no_runtime() -> None:
    """Raises Unavailable where ONNX Runtime is not installed: nothing can be tried then."""
    try:
        import onnxruntime  # noqa: F401
    except ImportError as error:
        raise Unavailable("ONNX Runtime is not installed") from error
