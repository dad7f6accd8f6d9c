"""What is true of an export, found by running it: ONNX Runtime against eager PyTorch at the sizes of the case."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from guarddiff.replay import compare
from guarddiff.replay.compare import Difference, Result
from guarddiff.replay.inputs import Example
from guarddiff.replay.run import Eager, Session, Unavailable, feeds, one_line
from guarddiff.sweep.case import Shapes, Trial
from guarddiff.sweep.outcome import SILENT, State, Wrong
from guarddiff.torch_bridge.replaying import flatten, flatten_with_tree, unflatten

MOST_POINTS = 8
"""Further sizes at which a model is run: the first of the trial's that eager PyTorch accepts."""
_STATES: dict[str, State] = {
    "shape": "wrong shape",
    "values": "wrong values",
    "runtime_error": "runtime error",
    "rejected_input": "refused input",
}


class NotComparable(Exception):
    """There is nothing to compare with; the message says why."""


@dataclass(frozen=True)
class Point:
    """Inputs, and what eager PyTorch gives for them."""

    shapes: Shapes
    leaves: tuple[Any, ...]
    expected: tuple[Result, ...]


def points(trial: Trial) -> list[Point]:
    """The example, and further sizes that eager PyTorch accepts, at most MOST_POINTS.

    Raises NotComparable where the model differs from itself, gives no tensors, or accepts no other size, and what the
    model raises at the example's own sizes.
    """
    eager = Eager(trial.model, flatten)
    try:
        found = [_point(eager, trial, trial.shapes)]
    except TypeError as error:
        if "layout" in str(error):
            raise NotComparable("the model gives tensors of another layout than ONNX Runtime's") from None
        raise
    if not any(result.is_tensor for result in found[0].expected):
        raise NotComparable("the model gives no tensors")
    if _random(eager, trial, found[0]):
        raise NotComparable("the model differs from itself in two eager runs")
    for shapes in trial.others:
        if len(found) > MOST_POINTS:
            break
        try:
            found.append(_point(eager, trial, shapes))
        except Exception:  # eager PyTorch refuses these sizes, or no such inputs can be made
            continue
    if len(found) == 1:
        raise NotComparable("eager PyTorch accepts no other size of the case")
    return found


def point(trial: Trial, shapes: Shapes) -> Point:
    """Inputs of these shapes and eager's results. Raises what the model raises."""
    return _point(Eager(trial.model, flatten), trial, shapes)


def _point(eager: Eager, trial: Trial, shapes: Shapes, seed: int = 0) -> Point:
    args, kwargs = trial.at(shapes)
    leaves, spec = flatten_with_tree((args, kwargs))
    example = Example(tuple(leaves), (None,) * len(leaves), spec, unflatten)
    expected = eager.run(example, leaves, seed)
    return Point(shapes, tuple(leaves), tuple(expected))


def _random(eager: Eager, trial: Trial, first: Point) -> bool:
    again = _point(eager, trial, trial.shapes, seed=1)
    return compare.difference(list(first.expected), [result.array for result in again.expected]) is not None


class Exported:
    """An exported program, ready to be run at points. ``names``: the ONNX input of each leaf, None for no input."""

    def __init__(self, program: Any, names: Sequence[str | None]) -> None:
        self._program = program
        self._names = tuple(names)
        self._session: Session | None = None
        self._other_dtypes: frozenset[int] = frozenset()

    def wrong(self, tried: Sequence[Point]) -> list[tuple[Point, Wrong]]:
        """The points at which the program is not what eager PyTorch is. ``tried[0]`` is the example: dtypes that differ
        there differ at every size, and count as wrong there alone. A program that ONNX Runtime can't load is wrong at
        the example. Raises NotComparable for a program that gives other values each time, and Unavailable."""
        try:
            self._session = self._session or Session(self._program)
        except Unavailable as error:
            if importlib.util.find_spec("onnxruntime") is None:
                raise
            return [(tried[0], Wrong(tried[0].shapes, "runtime error", str(error)))]
        found = []
        for number, one in enumerate(tried):
            difference = self._difference(one, of_example=number == 0)
            if difference is not None:
                if number == 0 and difference.kind == "values" and self._random(one):
                    raise NotComparable("the exported model differs from itself in two runs")
                text = f"expected {difference.expected}; got {difference.got}"
                found.append((one, Wrong(one.shapes, self._state(difference, one), text)))
        return found

    def _random(self, one: Point) -> bool:
        """Whether two runs at the same inputs differ."""
        if self._session is None:
            return False
        given = feeds(Example(one.leaves, self._names, None, None), one.leaves)
        runs = [self._session.run(given) for _ in range(2)]
        return any(not np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in zip(*runs))

    def _difference(self, one: Point, of_example: bool) -> Difference | None:
        if self._session is None:
            raise Unavailable("the session is not open")
        example = Example(one.leaves, self._names, None, None)
        expected = list(one.expected)
        try:
            got = self._session.run(feeds(example, one.leaves))
        except Exception as error:
            text = one_line(error, 400)
            kind = "rejected_input" if "invalid dimensions for input" in text else "runtime_error"
            shapes = ", ".join(str(tuple(result.array.shape)) for result in expected)
            return Difference(kind, f"shapes {shapes}", text)  # type: ignore[arg-type]
        aligned = compare.align(expected, len(got))
        if of_example and len(aligned) == len(got):
            self._other_dtypes = frozenset(compare.other_dtypes(aligned, got))
        return compare.difference(aligned, got, frozenset() if of_example else self._other_dtypes)

    def _state(self, difference: Difference, one: Point) -> State:
        state = _STATES[difference.kind]
        return "static input" if state == "refused input" and self._fixed(one) else state

    def _fixed(self, one: Point) -> bool:
        """Whether the file says openly that an input has another size than at this point."""
        declared = {value.name: value.shape for value in self._program.model.graph.inputs}
        for name, leaf in zip(self._names, one.leaves):
            shape = declared.get(name)
            pairs = zip(shape, leaf.shape) if shape is not None and isinstance(leaf, torch.Tensor) else ()
            if any(isinstance(size, int) and size != now for size, now in pairs):
                return True
        return False


def first(found: Sequence[tuple[Point, Wrong]], example: Shapes) -> tuple[Point, Wrong] | None:
    """The point that decides: the example where it is wrong, else one that is silently wrong, else any."""
    ranked = sorted(found, key=lambda pair: (pair[1].shapes != example, pair[1].state not in SILENT))
    return ranked[0] if ranked else None
