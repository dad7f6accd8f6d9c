"""Sizes to run an ONNX model at when nobody knows the example's."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from guarddiff.core import domain
from guarddiff.replay.probe_model import Value

Point = dict[str, int]
"""Symbol to size. Axes that share a symbol move together; an axis without one has a symbol of its own, ``x[2]``."""

MOST_ELEMENTS = 2**26
"""No single input is made larger than this."""


class NoInputs(ValueError):
    """No inputs can be made at a point; the message says why."""


_USUAL = (8, 16, 32, 64, 224, 4, 2, 128, 256, 7, 6, 10, 12, 3, 5, 384, 512, 1)
_MOST_STARTS = 40


def symbol(value: Value, axis: int) -> str | None:
    """The symbol of one axis; None where its size is fixed."""
    size = (value.shape or ())[axis]
    if isinstance(size, int):
        return None
    return size or f"{value.name}[{axis}]"


def free_symbols(inputs: Sequence[Value]) -> dict[str, int]:
    """The symbols that can be chosen, each with its first axis. A derived size (``2*h``) is no choice."""
    found: dict[str, int] = {}
    for value in inputs:
        for axis in range(len(value.shape or ())):
            name = symbol(value, axis)
            if name is not None and not _derived(name):
                found.setdefault(name, axis)
    for value in inputs:
        for axis in range(len(value.shape or ())):
            name = symbol(value, axis)
            if name is not None and _derived(name) and not variables(name) <= set(found):
                found.setdefault(name, axis)
    return found


def _derived(name: str) -> bool:
    return variables(name) not in (set(), {name})


def variables(text: str) -> set[str]:
    """The symbols in the text of a size; none where it can't be read."""
    try:
        return set(domain.parse(text).variables)
    except domain.GuardTextError:
        return set()


def size_of(text: str, point: Mapping[str, int]) -> int | None:
    """The size that a symbol or a text over symbols has at a point; None where that can't be worked out."""
    if text in point:
        return point[text]
    try:
        return domain.value(text, point)
    except (domain.GuardTextError, ArithmeticError, ValueError):
        return None


def shapes(inputs: Sequence[Value], point: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """The shapes of the inputs at a point. Raises NoInputs where one can't be worked out, is negative or too large."""
    found = {}
    for value in inputs:
        shape = tuple(_size(value, axis, point) for axis in range(len(value.shape or ())))
        if math.prod(shape) > MOST_ELEMENTS:
            raise NoInputs(f"{value.name} would have more than {MOST_ELEMENTS:,} elements")
        found[value.name] = shape
    return found


def _size(value: Value, axis: int, point: Mapping[str, int]) -> int:
    fixed, name = (value.shape or ())[axis], symbol(value, axis)
    size = fixed if name is None else size_of(name, point)
    if not isinstance(size, int):
        raise NoInputs(f"the size {name} of {value.name}[{axis}] can't be worked out")
    if size < 0:
        raise NoInputs(f"the size {name or fixed} of {value.name}[{axis}] would be negative")
    return size


def starts(symbols: Mapping[str, int], numbers: Sequence[int]) -> list[Point]:
    """Points to look for one at which the model runs: usual sizes, and numbers that the model carries.

    First axes are often batches and stay small.
    """
    own = [number for number in numbers if 2 <= number <= 4096][:8]
    found: list[Point] = []
    candidates = itertools.chain(_USUAL[:4], own, _USUAL[4:])
    for size in dict.fromkeys(candidates):
        for first in (2, 1):
            found.append({name: min(first, size) if axis == 0 else size for name, axis in symbols.items()})
        if 0 in symbols.values():
            found.append(dict.fromkeys(symbols, min(size, 64)))
    return _unique(found)[:_MOST_STARTS]


def around(start: Point) -> list[Point]:
    """Points about one that runs: all sizes moved at once, then each by itself, then two swapped."""
    found: list[Point] = []
    for index in range(6):
        moved = {name: _moves(size)[index] for name, size in start.items()}
        found.append({**start, **moved})
        if len(start) > 1:
            found += [{**start, name: size} for name, size in moved.items()]
    for one, other in itertools.combinations(start, 2):
        found.append({**start, one: start[other], other: start[one]})
    return [point for point in _unique(found) if point != start]


def _moves(size: int) -> tuple[int, ...]:
    return 2 * size, size + 1, 2 * size + 1, max(1, size // 2), max(1, size - 1), 1


def _unique(points: Sequence[Point]) -> list[Point]:
    return list({tuple(sorted(point.items())): point for point in points}.values())


def given(symbols: Mapping[str, int], points: Sequence[Mapping[str, int]], start: Point | None) -> Iterator[Point]:
    """The user's own points; what one does not name keeps the size that runs, or is usual."""
    for point in points:
        usual = {name: 1 if axis == 0 else _USUAL[0] for name, axis in symbols.items()}
        yield {**(start or usual), **point}
