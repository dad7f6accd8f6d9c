"""Where guards still turn beyond the sizes that are all looked at: ``n < 20000`` does, ``n % 7 == 0`` does not."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from guarddiff.core.guard_text import Expression
from guarddiff.core.points import truth

LIMIT = 2**31 - 1
"""The largest size looked at."""
LONGEST_PERIOD = 2**19
"""What repeats after more sizes than these is not seen to."""
_COUNTING = frozenset(2**bits + shift for bits in (31, 32, 53, 62, 63, 64) for shift in (-2, -1, 0, 1))
"""A guard with such a number is about how elements are counted, not about the sizes that a model is run at."""
_STRETCH = 64  # consecutive sizes that are seen together, or as many as the guard repeats after
_LONGEST_STRETCH = 512
_MOST_NUMBERS = 6
_MOST_AT_ONCE = 2**21

_Array = NDArray[Any]
At = Callable[[_Array], Mapping[str, Any]]


def turns(guard: Expression, at: At, start: int, stop: int) -> list[int]:
    """Sizes after ``start``, up to ``stop``, from which on the guard is not what it was one period before, in order:
    those that lie between stretches of sizes which differ, those about the numbers written in the guard, and those at
    the end.

    ``at`` gives the sizes of the guard's dimensions. A guard with a remainder of a division by a size, and one about
    how elements are counted, has no turns here.
    """
    stop = min(stop, LIMIT)
    period = _period(guard.text)
    if period is None or start >= stop or counts(guard):
        return []
    period = period if period <= LONGEST_PERIOD else 1
    length = min(max(_STRETCH, period), _LONGEST_STRETCH)
    doublings = int(np.ceil(np.log2(stop / max(start, 1))))
    about = np.geomspace(max(start, 1), max(stop - length, start, 1), doublings + 1).astype(np.int64)
    begins = np.unique(about // period)  # in periods
    true, false = _truth(guard, at, begins * period, length)
    differ = ((true[1:] & false[:-1]) | (false[1:] & true[:-1])).any(1)
    found = {
        _between(guard, at, (int(begins[place]), int(begins[place + 1])), period, length)
        for place in np.flatnonzero(differ)
    }
    found.add(_first(guard, at, np.arange(int(begins[-1]) * period, stop + 1), period))
    found.update(_firsts(guard, at, numbers(guard, start, stop)[:, None] + np.arange(-2, 3), period))
    return sorted(size for size in found if size is not None and start < size <= stop)


def counts(guard: Expression) -> bool:
    """Whether a guard is about how elements are counted, by a number such as 2^31 in it: far sizes say nothing then."""
    return not _COUNTING.isdisjoint(map(abs, guard.constants))


def period_of(text: str) -> int | None:
    """After how many sizes a guard repeats where it repeats at all: what it divides by. None where that can't be told
    (a remainder of a division by a size), or is more than ``LONGEST_PERIOD``."""
    period = _period(text)
    return period if period is not None and period <= LONGEST_PERIOD else None


def _period(text: str) -> int | None:
    """As ``period_of``, but of any length."""

    def of(node: ast.AST) -> int:
        period = math.lcm(*(of(child) for child in ast.iter_child_nodes(node)))
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, (ast.Mod, ast.FloorDiv, ast.Div)):
            return period
        by = node.right.value if isinstance(node.right, ast.Constant) else None
        if isinstance(by, int) and by >= 1:
            return period * by
        if isinstance(node.op, ast.Mod):
            raise ValueError(text)
        return period

    try:
        return of(ast.parse(text, mode="eval"))
    except ValueError:
        return None


def common_period(guards: Iterable[Expression], most: int) -> int:
    """After how many sizes, ``most`` of them at most, those guards repeat together whose period can be told."""
    period = 1
    for guard in guards:
        both = math.lcm(period, period_of(guard.text) or 1)
        period = both if both <= most else period
    return period


def end(guard: Expression, at: At, found: Sequence[int]) -> int | None:
    """The last size that the guard admits, where it admits none after all the turns that were ``found``; None where it
    goes on, or that can't be told."""
    after = 2 * (period_of(guard.text) or LONGEST_PERIOD) + _STRETCH
    if found[-1] + after - found[0] > _MOST_AT_ONCE:
        return None
    true, _ = truth(guard, at(np.arange(found[0], found[-1] + after)))
    places = np.flatnonzero(true)
    if not places.size:
        return found[0] - 1
    return found[0] + int(places[-1]) if places[-1] < found[-1] - found[0] else None


def varies(guard: Expression, at: At, start: int, period: int) -> bool:
    """Whether the guard both holds and fails within one period after ``start``."""
    true, false = truth(guard, at(np.arange(start, start + period)))
    return bool(true.any() and false.any())


def numbers(guard: Expression, start: int, stop: int) -> _Array:
    """Sizes within the bounds at which a guard may turn for the numbers in it: the largest of these, their sums and
    differences, what these are divided by the others, and where the guard divides their products as well."""
    written = sorted({abs(number) for number in guard.constants if number}, reverse=True)[:_MOST_NUMBERS]
    ends = {*written, *(one * other for one in written for other in written if "//" in guard.text)}
    sums = {one + sign * other for one in ends for other in (0, *written) for sign in (1, -1)}
    parts = {number // other for number in sums for other in (1, *written)}
    return np.asarray(sorted(number for number in parts if start < number <= stop), np.int64)


def _truth(guard: Expression, at: At, begins: _Array, length: int) -> tuple[_Array, _Array]:
    """Where the guard is known to hold, and not to, over the stretches that begin there: a row for each."""
    true, false = truth(guard, at(begins[:, None] + np.arange(length)))
    shape = (len(begins), length)
    return np.broadcast_to(true, shape), np.broadcast_to(false, shape)


def _between(guard: Expression, at: At, places: tuple[int, int], period: int, length: int) -> int | None:
    """The first size after the first of two stretches, whose places are in periods and which differ, at which the guard
    is not what it was a period before."""
    low, high = places
    true, false = _truth(guard, at, np.asarray([low * period]), length)
    while high - low > 1:
        middle = (low + high) // 2
        true2, false2 = _truth(guard, at, np.asarray([middle * period]), length)
        if ((true & false2) | (false & true2)).any():
            high = middle
        else:
            low = middle
    return _first(guard, at, np.arange(low * period + 1, high * period + length), period)


def _first(guard: Expression, at: At, sizes: _Array, period: int) -> int | None:
    """The first of these sizes at which the guard is not what it is one period before."""
    sizes = sizes[sizes >= period]
    (true, false), (true2, false2) = truth(guard, at(sizes)), truth(guard, at(sizes - period))
    places = np.flatnonzero(np.broadcast_to((true & false2) | (false & true2), sizes.shape))
    return int(sizes[places[0]]) if places.size else None


def _firsts(guard: Expression, at: At, rows: _Array, period: int) -> list[int]:
    """As ``_first``, for each of these rows of sizes that has one."""
    inside = rows >= period
    (true, false), (true2, false2) = truth(guard, at(rows)), truth(guard, at(np.maximum(rows - period, 0)))
    turned = np.broadcast_to(((true & false2) | (false & true2)) & inside, rows.shape)
    return [int(size) for size in rows[np.arange(len(rows)), turned.argmax(1)][turned.any(1)]]
