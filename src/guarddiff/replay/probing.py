"""Runs an ONNX model at several sizes of the inputs that it declares dynamic. Needs no torch.

There is no source model to compare with: what fails, or gives other shapes than declared, can only be suspected.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from guarddiff.replay import probe_points
from guarddiff.replay.probe_model import Model, NoModel, Suspect, Value, read
from guarddiff.replay.probe_points import NoInputs, Point
from guarddiff.replay.probe_process import Answer, Runner, Unloadable
from guarddiff.replay.probe_worker import SUPPORTED

__all__ = ["Carrier", "NoModel", "Point", "ProbeResult", "Run", "Suspect", "Value", "probe"]

State = Literal["ran", "failed", "crashed", "slow"]
Status = Literal["clean", "suspected", "incomplete"]

SECONDS = 120.0
"""How long all runs may take together; what is not run by then is told."""
_SMALL = 32
_MOST_POINTS, _MOST_CRASHES, _MOST_CARRIERS = 40, 3, 12


@dataclass(frozen=True)
class Run:
    """The model at one point.

    Attributes:
        sizes: Symbol to size.
        shapes: Input name to shape.
        state: ``ran``, ``failed`` (ONNX Runtime raised), ``crashed`` (its process died) or ``slow``.
        why: What was raised, or how the process died; empty where it ran.
        outputs: Output name to the shape that came; empty where it did not run.
        contradictions: Outputs whose shape is not the declared one, in words.
    """

    sizes: Point
    shapes: dict[str, tuple[int, ...]]
    state: State
    why: str = ""
    outputs: dict[str, tuple[int, ...]] = field(default_factory=dict)
    contradictions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Carrier:
    """A node that carries a number which is a size at which the model runs, while it fails at others."""

    node: str
    op: str
    where: str
    number: int


@dataclass(frozen=True)
class ProbeResult:
    """What running the model showed.

    Attributes:
        status: ``suspected``; ``incomplete`` where it could not be run, or not at enough sizes; else ``clean``: nothing
            was seen, which proves nothing.
        inputs: As declared, and so are ``outputs``.
        symbols: The dynamic sizes that were moved.
        runs: In order.
        suspects: Nodes that can't fit every declared size, by what the file says of itself.
        carriers: Nodes that carry a size at which the model runs; empty unless it fails at others.
        missing: What was not looked at, and why.
    """

    status: Status
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    symbols: tuple[str, ...] = ()
    runs: tuple[Run, ...] = ()
    suspects: tuple[Suspect, ...] = ()
    carriers: tuple[Carrier, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def failing(self) -> tuple[Run, ...]:
        """Runs that failed though the model runs at other sizes. A model may well have a smallest size: sizes up to
        32 count only where it runs at others of which none is larger."""
        return tuple(r for r in self.runs if r.state != "ran" and r.state != "slow" and self._above(r))

    @property
    def too_small(self) -> tuple[Run, ...]:
        """Runs that failed at small sizes, below every one at which the model runs."""
        if not any(run.state == "ran" for run in self.runs):
            return ()
        return tuple(r for r in self.runs if r.state == "failed" and not self._above(r))

    def _above(self, run: Run) -> bool:
        """Whether it crashed, or the model should run there by what is known of its smallest size."""
        if run.state == "crashed":
            return True
        right = [other for other in self.runs if other.state == "ran"]
        if right and max(run.sizes.values(), default=0) > _SMALL:
            return True
        return any(all(other.sizes[name] <= size for name, size in run.sizes.items()) for other in right)


def probe(
    path: str,
    points: Sequence[Mapping[str, int]] = (),
    told: Callable[[int, int], None] = lambda done, of: None,
    seconds: float = SECONDS,
) -> ProbeResult:
    """Run the model in ``path`` at several sizes.

    Args:
        path: An ONNX file; its external weights beside it.
        points: Sizes of the user's own, by symbol or place (``x[2]``), to be run as well.
        told: Called with the number of runs done and of all runs.
        seconds: How long all runs may take together.

    Raises:
        NoModel: The file is none, or is broken.
        ValueError: ``points`` names a size that the model does not declare dynamic.
    """
    model = read(path)
    symbols = probe_points.free_symbols(model.inputs)
    own = [_by_symbol(point, symbols, model.inputs) for point in points]
    empty = ProbeResult("clean", model.inputs, model.outputs, tuple(symbols), suspects=model.suspects)
    odd = _odd_inputs(model)
    if odd:
        return _ended(replace(empty, missing=(odd,)), model)
    if not symbols:
        return _ended(replace(empty, missing=()), model)
    with Runner(path, seconds) as runner:
        try:
            runner.open()
        except Unloadable as error:
            return _ended(replace(empty, missing=(f"ONNX Runtime can't run the model: {error}",)), model)
        session = _Session(model, runner, told, time.monotonic() + seconds)
        session.all(symbols, own)
    return _ended(replace(empty, runs=tuple(session.runs), missing=tuple(session.missing)), model)


class _Session:
    """The runs of one probe, within its time and number."""

    def __init__(self, model: Model, runner: Runner, told: Callable[[int, int], None], until: float) -> None:
        self.runs: list[Run] = []
        self.missing: list[str] = []
        self._model, self._runner, self._told, self._until = model, runner, told, until
        self._seen: set[tuple[tuple[str, int], ...]] = set()
        self._crashes = 0
        self._stopped = False

    def all(self, symbols: Mapping[str, int], own: Sequence[Point]) -> None:
        """Find a point that runs, try those about it and the user's own."""
        start: Point | None = None
        candidates = probe_points.starts(symbols, self._model.numbers)
        for number, point in enumerate(candidates):
            self._told(number, len(candidates))
            if self._run(point) == "ran":
                start = point
                break
        asked = [*probe_points.given(symbols, own, start)]
        further = probe_points.around(start)[:_MOST_POINTS] if start is not None else []
        for number, point in enumerate([*asked, *further]):
            self._told(number, len(asked) + len(further))
            self._run(point, asked=number < len(asked))
        if start is None and not any(run.state == "ran" for run in self.runs):
            self.missing.append("it ran at none of the sizes that were tried: give some with --sizes")

    def _run(self, point: Point, asked: bool = False) -> State | None:
        """Run one point; None where it was run before, no inputs can be made there, which is told of one that was
        ``asked`` for, or time is up."""
        key = tuple(sorted(point.items()))
        if key in self._seen or self._over():
            return None
        try:
            shapes = probe_points.shapes(self._model.inputs, point)
        except NoInputs as error:
            if asked:
                self._seen.add(key)
                self.missing.append(
                    f"{' '.join(f'{name}={size}' for name, size in point.items())} was not run: {error}"
                )
            return None
        self._seen.add(key)
        try:
            answer = self._runner.run(shapes)
        except Unloadable as error:
            self.missing.append(f"ONNX Runtime could not load the model again: {error}")
            self._stopped = True
            return None
        run = _run_of(point, shapes, answer, self._model)
        self.runs.append(run)
        self._crashes += run.state in ("crashed", "slow")
        return run.state

    def _over(self) -> bool:
        if not self._stopped and time.monotonic() > self._until:
            self.missing.append("the time for all runs was used up before every size was run")
            self._stopped = True
        if not self._stopped and self._crashes >= _MOST_CRASHES:
            self.missing.append(f"ONNX Runtime crashed or hung {self._crashes} times: the other sizes were not run")
            self._stopped = True
        return self._stopped


def _odd_inputs(model: Model) -> str:
    """What stands in the way of making inputs; empty for nothing."""
    names = {f"tensor({n})" for n in ("float", "double", "float16", "bool", "string")} | SUPPORTED
    for value in model.inputs:
        if value.shape is None:
            return f"no inputs can be made: {value.name} is a {value.type} without a shape"
        if f"tensor({value.type})" not in names:
            return f"no inputs can be made: {value.name} has the type {value.type}"
    return ""


def _by_symbol(point: Mapping[str, int], symbols: Mapping[str, int], inputs: Sequence[Value]) -> Point:
    """The user's point by symbols. Raises ValueError for a name that is none."""
    places = {
        f"{value.name}[{axis}]": name
        for value in inputs
        for axis in range(len(value.shape or ()))
        if (name := probe_points.symbol(value, axis)) in symbols and name is not None
    }
    found: Point = {}
    for name, size in point.items():
        symbol = name if name in symbols else places.get(name)
        if symbol is None:
            known = ", ".join([*symbols, *(place for place in places if place not in symbols)][:12])
            raise ValueError(f"the model has no dynamic size {name!r}; there are {known or 'none'}")
        found[symbol] = size
    return found


def _run_of(point: Point, shapes: dict[str, tuple[int, ...]], answer: Answer, model: Model) -> Run:
    state: State = answer.state  # type: ignore[assignment]
    outputs = dict(answer.outputs)
    return Run(point, shapes, state, answer.why, outputs, tuple(_contradictions(model, point, outputs)))


def _contradictions(model: Model, point: Point, outputs: Mapping[str, tuple[int, ...]]) -> list[str]:
    """Outputs whose shape is not the declared one. A symbol that no input has may be any size, but one size only."""
    bound = dict(point)
    found = []
    for value in model.outputs:
        came = outputs.get(value.name)
        if value.shape is None or came is None:
            continue
        if len(came) != len(value.shape):
            found.append(f"{value.name} has {len(came)} axes, declared are {len(value.shape)}")
            continue
        for axis, (declared, size) in enumerate(zip(value.shape, came, strict=True)):
            wanted = declared if isinstance(declared, int) else probe_points.size_of(declared or "", bound)
            if isinstance(declared, str) and wanted is None and declared.isidentifier():
                bound[declared] = size
            elif wanted is not None and wanted != size and wanted > 0:  # below that the request itself makes no sense
                shown = "" if isinstance(declared, int) else f"{declared} = "
                found.append(f"{value.name}[{axis}] is {size}, declared is {shown}{wanted}")
    return found


def _ended(result: ProbeResult, model: Model) -> ProbeResult:
    """The status that follows, and the nodes that carry a size that runs."""
    wrong = bool(result.failing or result.suspects or any(run.contradictions for run in result.runs))
    missing = result.missing
    slow = sum(run.state == "slow" for run in result.runs)
    if slow:
        missing = (*missing, f"{slow} of {len(result.runs)} sizes took too long")
    status: Status = "suspected" if wrong else "incomplete" if missing else "clean"
    carriers = _carriers(result, model) if result.failing or result.too_small else []
    return replace(result, status=status, missing=missing, carriers=tuple(carriers[:_MOST_CARRIERS]))


def _carriers(result: ProbeResult, model: Model) -> list[Carrier]:
    """Nodes that carry one of the few sizes at which the model runs. One size among many that run tells nothing."""
    right = [run.sizes for run in result.runs if run.state == "ran"]
    each = [{sizes[name] for sizes in right} for name in result.symbols]
    numbers = sorted({size for sizes in each if len(sizes) <= 3 for size in sizes if size > 2})
    return [Carrier(*place, number) for number in numbers for place in model.carriers.get(number, ())]
