"""Which sizes to try: groups of equal dimensions, and grids of well-chosen combinations of sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.ma  # noqa: F401  # numpy.unique loads it at its first call: better here than in the first export
from numpy.typing import NDArray

from guarddiff.core.guard_text import Expression
from guarddiff.core.words import SizeRange

MOST_SIZES = 2**21  # of one dimension; a larger example is beyond what is solved
_FAR = 2**40

_Array = NDArray[Any]


@dataclass
class Group:
    """Dimensions known to be equal, solved as one; most groups have one name."""

    names: tuple[str, ...]
    lower: int
    upper: int | None
    example: int | None
    top: int  # the largest size looked at
    own: list[Expression] = field(default_factory=list)  # guards on this group alone
    clear: bool = True  # what is admitted after ``top`` follows from what is admitted before it

    @property
    def beyond(self) -> bool:
        """Sizes after ``top`` are declared too."""
        return self.upper is None or self.upper > self.top

    @property
    def solvable(self) -> bool:
        """The example is among the sizes that are looked at."""
        return self.example is None or self.example <= self.top or not self.beyond

    @cached_property
    def sizes(self) -> _Array:
        return np.arange(self.lower, self.top + 1, dtype=np.int64)

    def truth(self, expression: Expression, sizes: _Array) -> tuple[_Array, _Array]:
        """Where a guard on this group alone is known to hold, and where it is known not to."""
        return truth(expression, dict.fromkeys(self.names, sizes))

    @cached_property
    def mask(self) -> _Array:
        """Which of ``sizes`` satisfy the group's own guards."""
        return self.satisfies(self.sizes) if self.top >= self.lower else np.zeros(0, bool)

    def satisfies(self, sizes: _Array) -> _Array:
        inside: _Array = (sizes >= self.lower) & (sizes <= (_FAR if self.upper is None else self.upper))
        for expression in self.own:
            inside = inside & self.truth(expression, sizes)[0]
        return inside

    def reach(self, size: int) -> bool:
        """Look at all sizes up to twice this one, before any is looked at; whether those are not too many."""
        bound = self.lower + MOST_SIZES if self.upper is None else min(self.upper, self.lower + MOST_SIZES)
        if size > self.lower + MOST_SIZES // 2:
            return False
        self.top = max(self.top, min(2 * size, bound))
        return True

    def end(self, last: int) -> None:
        """None of the sizes after this one, which is beyond ``top``, are admitted; before any is looked at."""
        self.upper = last if self.upper is None else min(self.upper, last)

    def admits(self, sizes: _Array) -> _Array:
        """As ``satisfies``, but looked up where the mask has the answer already."""
        last = len(self.mask) - 1
        inside: _Array = self.mask[np.clip(sizes - self.lower, 0, last)]
        inside = inside & (sizes >= self.lower) & (sizes <= self.top)
        far = sizes > self.top
        if self.beyond and far.any():
            inside[far] = self.satisfies(sizes[far])
        return inside

    def sample_with(self, constants: Iterable[int]) -> _Array:
        """The sample, and admitted sizes at and about multiples of these constants."""
        few = sorted(number for number in constants if 1 < number <= self.top)[:8]
        more = np.outer(few, np.arange(1, 9)).astype(np.int64).ravel()[:, None] + np.arange(-1, 2)
        every = np.union1d(self.sample, more.ravel())
        return every[self.admits(every) & (every <= self.top)]

    @cached_property
    def sample(self) -> _Array:
        """Sizes that the own guards admit: the first ones, those about the example, and far ones."""
        sizes = self.sizes[self.mask]
        if sizes.size <= 200:
            return sizes
        wanted = [sizes[:128], np.geomspace(1, sizes[-1], 33).astype(np.int64), sizes[-1:]]
        if self.example is not None:
            near = self.example * np.arange(1, 5)[:, None] + np.arange(-1, 2)
            wanted.append(near.ravel())
        every = np.unique(np.concatenate(wanted))
        return every[self.satisfies(every) & (every <= self.top)]


def truth(expression: Expression, sizes: Mapping[str, Any]) -> tuple[_Array, _Array]:
    """Where the guard is known to hold, and where it is known not to."""
    result, valid = expression.evaluate(sizes)
    holding = result if result.dtype == np.bool_ else result != 0
    return holding & valid, ~holding & valid


def group_of(names: Sequence[str], ranges: Sequence[SizeRange], examples: Iterable[int | None],
             horizon: int) -> Group:  # fmt: skip
    """The group of these names: sizes that all of their declared ranges contain, up to the horizon."""
    lower = max(span.lower for span in ranges)
    uppers = [span.upper for span in ranges if span.upper is not None]
    known = [size for size in examples if size is not None]
    upper = min(uppers) if uppers else None
    top = min(max(horizon, 4 * lower, *(4 * size for size in known)), lower + MOST_SIZES)
    top = top if upper is None else min(top, upper)
    return Group(tuple(names), lower, upper, known[0] if known else None, top)


def grid(groups: Sequence[Group], rows: _Array, constants: Iterable[int], budget: int) -> list[_Array]:
    """Sizes for every group, of shapes that broadcast to about ``budget`` combinations.

    The first group takes ``rows`` along the first axis.  Every other group has an axis of its own, with
    candidates that fit the row (equal, in proportion, a constant of the guards away) before common ones.
    """
    first, others = groups[0], groups[1:]
    each = max(2, int((budget / max(len(rows), 1)) ** (1 / max(len(others), 1))))
    spread = sorted({number for number in constants if 0 < number < 2**31})[:4]
    result = [rows.reshape(-1, *[1] * len(others))]
    for axis, other in enumerate(others):
        fitting = _fitting(first, other, rows, spread)[: max(2, each // 2)]
        common = _common(other, spread)[: max(each - len(fitting), 1)]
        columns = np.concatenate([np.stack(fitting, 1), np.broadcast_to(common, (len(rows), len(common)))], axis=1)
        columns = np.clip(columns, other.lower, _FAR if other.upper is None else other.upper)
        result.append(columns.reshape(len(rows), *[1] * axis, -1, *[1] * (len(others) - axis - 1)))
    return result


def _fitting(first: Group, other: Group, rows: _Array, constants: Sequence[int]) -> list[_Array]:
    found = [rows, rows + 1, rows - 1, 2 * rows]
    if first.example and other.example is not None:
        found.insert(0, np.full_like(rows, other.example))
        found += [rows * other.example // first.example, rows + other.example - first.example]
    for number in constants:
        found += [rows * number, rows // number, -(-rows // number), rows + number, rows - number]
    for number in constants:
        for shift in constants:
            found += [number * rows + shift, number * rows - shift]
            found += [(rows + shift) // number, (rows - shift) // number]
    return found


def _common(group: Group, constants: Sequence[int]) -> _Array:
    """Sizes of a group for every row: a few of each kind first, then all small ones."""
    admitted = group.sizes[group.mask]
    if not admitted.size:
        return np.asarray([group.lower])
    chosen = group.sample
    near = np.asarray([number + shift for number in constants for shift in (0, -1, 1)], np.int64)
    wanted = np.concatenate([chosen[:6], chosen[:: max(1, len(chosen) // 16)], near, chosen, admitted[:4096]])
    wanted = wanted[group.satisfies(wanted) & (wanted <= group.top)]
    _, order = np.unique(wanted, return_index=True)
    return wanted[np.sort(order)]
