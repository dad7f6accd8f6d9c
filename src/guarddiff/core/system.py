"""Guards read and sorted: which dimensions are equal, which are tied, which can't be known."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from guarddiff.core import far
from guarddiff.core.guard_text import Expression, GuardTextError, conjuncts, parse
from guarddiff.core.points import MOST_SIZES, Group, grid, group_of, truth
from guarddiff.core.words import SizeRange

SMALL = 1
"""Sizes up to this one, 0 and 1, count as small: see ``domain.effect``."""

_PAIRS = 100_000  # combinations tried to see whether two dimensions are equal
_FAR_SIZES, _FAR_ROWS = 32, 8  # of one far stretch: of a dimension alone, and of one that others are tied to
_FAR_NUMBERS = 48  # far sizes for the numbers in guards
_FAR_POINTS = 20_000
_FAR_GUARDS = 64  # guards that are asked where they turn, for one other
_FAR_STRETCH = 4096  # consecutive sizes, for guards that repeat

_Array = NDArray[Any]


@dataclass
class Read:
    """Guards sorted by what can be done with them."""

    good: list[Expression] = field(default_factory=list)
    constant: list[Expression] = field(default_factory=list)  # guards without variables
    touched: list[set[str]] = field(default_factory=list)  # what each unreadable guard is about
    opaque: bool = False  # an unreadable guard that could be about anything


_NAME = re.compile(r"([^\W\d]\w*)(?:\s*\[\s*(-?\d+)\s*\])?")


def read_guards(guards: Sequence[str], declared: Mapping[str, SizeRange]) -> Read:
    """Parse the guards once each; what names an undeclared dimension counts as unreadable."""
    read = Read()
    good: dict[str, Expression] = {}
    for text in dict.fromkeys(guards):
        try:
            parts = [parse(part) for part in conjuncts(text)]
        except GuardTextError:
            words = {name if axis == "" else f"{name}[{axis}]" for name, axis in _NAME.findall(text)}
            read.opaque = read.opaque or not words
            read.touched.append({name for name in declared if name in words or name.split("[")[0] in words})
            continue
        for expression in parts:
            if not expression.variables:
                read.constant.append(expression)
            elif expression.variables <= declared.keys():
                good[expression.text] = expression
            else:
                read.touched.append(set(expression.variables & declared.keys()))
    read.good = list(good.values())
    return read


@dataclass
class System:
    """Groups of equal dimensions, and the guards that tie several groups."""

    groups: list[Group]
    owner: dict[str, int]
    cross: list[Expression]
    ties: dict[int, list[Expression]]  # the same guards by each group they name
    example: Mapping[str, int]
    _turns: dict[tuple[str, tuple[int, ...], int, int], list[int]] = field(default_factory=dict)
    _numbers: dict[tuple[str, int, int], _Array] = field(default_factory=dict)

    def indices(self, expression: Expression) -> list[int]:
        return sorted({self.owner[name] for name in expression.variables})

    def truth(self, expression: Expression, sizes: Mapping[int, _Array]) -> tuple[_Array, _Array]:
        """Where the guard is known to hold, and where it is known not to; sizes by index of their group."""
        return truth(expression, {name: sizes[self.owner[name]] for name in expression.variables})

    def combinations(self, indices: Sequence[int], rows: _Array, guards: Iterable[Expression],
                     budget: int) -> tuple[dict[int, _Array], _Array]:  # fmt: skip
        """A grid for these groups, and where on it the groups' own guards hold.

        The first group takes ``rows``, which its own guards must admit.
        """
        groups = [self.groups[index] for index in indices]
        sizes = dict(zip(indices, grid(groups, rows, constants_of(guards), budget), strict=True))
        inside = np.ones_like(sizes[indices[0]], dtype=bool)
        for index in indices[1:]:
            inside = inside & self.groups[index].admits(sizes[index])
        return sizes, inside

    def large(self, inside: _Array, sizes: Mapping[int, _Array]) -> _Array:
        """Where ``inside`` none of the sizes is 0 or 1, but for groups that have no others."""
        for index, size in sizes.items():
            upper = self.groups[index].upper
            if upper is None or upper > SMALL:
                inside = inside & (size > SMALL)
        return inside

    def size_at_example(self, index: int) -> int:
        """The size of a group in the example, or one that it may have where none is known."""
        group = self.groups[index]
        return next((self.example[name] for name in group.names if name in self.example), max(group.lower, 2))

    def moving(self, moved: Sequence[int]) -> Callable[[_Array], dict[str, Any]]:
        """Sizes for all dimensions while the ``moved`` groups take some, and the others keep the example's."""
        held = {name: np.asarray(self.size_at_example(index)) for name, index in self.owner.items()}
        return lambda sizes: {name: sizes if self.owner[name] in moved else size for name, size in held.items()}

    def turns(self, guard: Expression, moved: Sequence[int], start: int | None = None) -> list[int]:
        """Where the guard turns beyond ``start``, or the sizes that are looked at, while the ``moved`` groups take one
        size."""
        groups = [self.groups[index] for index in moved]
        if not all(group.beyond for group in groups):
            return []
        uppers = [group.upper for group in groups if group.upper is not None]
        start = max(group.top for group in groups) if start is None else start
        key = (guard.text, tuple(moved), start, min([far.LIMIT, *uppers]))
        if key not in self._turns:
            self._turns[key] = far.turns(guard, self.moving(moved), start, key[-1])
        return self._turns[key]

    def fails_far_away(self, guard: Expression, given: Sequence[Expression], near: Sequence[int]) -> bool:
        """Whether the guard is seen to be false at a point beyond the sizes that are looked at, at which the ``given``
        ones and those of every group alone hold; the ``near`` groups are those that these tie to it.

        A point counts where none of its sizes is 0 or 1, but for dimensions that are declared so.
        """
        if far.counts(guard):
            return False
        if len(near) == 1 and self._fails_within_a_period(guard, self.groups[near[0]]):
            return True
        for first in self.indices(guard):
            indices = [first, *(index for index in near if index != first)]
            rows = self._far_sizes(first, [guard, *given], _FAR_ROWS if len(indices) > 1 else _FAR_SIZES)
            if not rows.size:
                continue
            sizes, inside = self.combinations(indices, rows, [guard, *given], _FAR_POINTS)
            excluded = self.large(self.truth(guard, sizes)[1] & inside, sizes)
            for tie in given:
                if not excluded.any():
                    break
                excluded = excluded & self.truth(tie, sizes)[0]
            if excluded.any():
                return True
        return False

    def _fails_within_a_period(self, guard: Expression, group: Group) -> bool:
        """Whether a guard on one group alone is false within the sizes after which it and the group's own guards repeat
        together, where these are more than those that are looked at."""
        alone, at = far.period_of(guard.text), self.moving(self.indices(guard))
        if not group.beyond or alone is None or not far.varies(guard, at, group.top, alone):
            return False
        period = far.common_period([guard, *group.own], MOST_SIZES)
        if period <= group.top:
            return False
        sizes = np.arange(group.top + 1, group.top + 1 + period)
        false = group.truth(guard, sizes)[1]
        return bool(false.any() and (false & group.satisfies(sizes)).any())

    def _far_sizes(self, index: int, guards: Sequence[Expression], most: int) -> _Array:
        """Sizes of a group beyond those that are looked at, which its own guards admit: ``most`` after each of the
        doublings, of the numbers in ``guards``, and of the places where these turn; and the last ones."""
        group = self.groups[index]
        if not group.beyond:
            return np.zeros(0, np.int64)
        stop = far.LIMIT if group.upper is None else min(group.upper, far.LIMIT)
        if group.top >= stop:
            return np.zeros(0, np.int64)
        guards = guards[:_FAR_GUARDS]
        repeats = far.common_period([*group.own, *guards], MOST_SIZES)
        length = max(min(repeats, _FAR_STRETCH), 2 * most)
        doublings = [size for power in range(32) if (size := group.top + 1 << power) <= stop]
        turned = [turn for guard in guards for turn in self._turns_along(guard, index)]
        written = np.unique(np.concatenate([self._written(guard, group.top, stop) for guard in guards]))
        nearest = np.concatenate([doublings, turned, written[:: max(1, len(written) // _FAR_NUMBERS)]]).astype(np.int64)
        begins = np.unique(np.concatenate([nearest - 2, [stop - length + 1]]))
        sizes = begins[:, None] + np.arange(length)
        admitted = group.satisfies(sizes) & (sizes > group.top) & (sizes <= stop)
        chosen = admitted & (np.cumsum(admitted, axis=1) <= most)
        return np.unique(sizes[chosen])

    def _written(self, guard: Expression, start: int, stop: int) -> _Array:
        key = (guard.text, start, stop)
        if key not in self._numbers:
            self._numbers[key] = far.numbers(guard, start, stop)
        return self._numbers[key]

    def _turns_along(self, guard: Expression, index: int) -> list[int]:
        """Where a guard turns beyond the sizes that are looked at, while a group alone takes a size, or all of the
        guard's groups the same one."""
        indices = self.indices(guard)
        if index not in indices:
            return []
        every = self.turns(guard, indices) if len(indices) > 1 else []
        return self.turns(guard, [index]) + every


def system_of(guards: Sequence[Expression], declared: Mapping[str, SizeRange], example: Mapping[str, int],
            horizon: int, asked: Sequence[Expression] = ()) -> System:  # fmt: skip
    """The declared dimensions under these guards. Sizes are looked at as far as these turn, and as far as the ``asked``
    ones have to be seen to repeat."""
    single = {name: group_of([name], [span], [example.get(name)], horizon) for name, span in declared.items()}
    sets = [{first, second} for first, second in _equalities(guards, single)]
    groups = []
    for names in connected([{name} for name in declared] + sets):
        ordered = [name for name in declared if name in names]
        spans = [declared[name] for name in ordered]
        groups.append(group_of(ordered, spans, [example.get(name) for name in ordered], horizon))
    owner = {name: index for index, group in enumerate(groups) for name in group.names}
    system = System(groups, owner, [], {}, example)
    for expression in guards:
        indices = system.indices(expression)
        if len(indices) == 1:
            groups[indices[0]].own.append(expression)
            continue
        system.cross.append(expression)
        for index in indices:
            system.ties.setdefault(index, []).append(expression)
    _look_further(system, guards, asked)
    return system


def _look_further(system: System, guards: Sequence[Expression], asked: Sequence[Expression]) -> None:
    """Every group ends where one of its own guards does, and else reaches as far as these turn, and as far as its own
    and the asked ones have to be seen to repeat together."""
    for index, group in enumerate(system.groups):
        if group.beyond:
            alone = [guard for guard in asked if system.indices(guard) == [index]]
            _reach_repetition(system, index, [*group.own, *alone])
            _reach_turns(system, index)


def _has_ended(system: System, index: int) -> bool:
    """Whether an own guard of the group admits none of the largest sizes that are looked at, as many as it repeats
    after, and turns nowhere after them."""
    group = system.groups[index]
    for guard in group.own:
        period = far.period_of(guard.text)
        if period is None or 2 * period > group.top - group.lower:
            continue
        last = np.arange(group.top - 2 * period, group.top + 1)
        if group.truth(guard, last)[1].all() and not system.turns(guard, [index]):
            return True
    return False


def _reach_repetition(system: System, index: int, guards: Sequence[Expression]) -> None:
    group, at = system.groups[index], system.moving([index])
    periods = []
    for guard in guards:
        period = far.period_of(guard.text)
        if period is not None and period > 1 and far.varies(guard, at, group.top, period):
            periods.append(period)
    if not periods:
        return
    common = math.lcm(*periods)
    if common > far.LONGEST_PERIOD:
        group.reach(2 * max(periods))
        group.clear = _has_ended(system, index)  # what they admit together is not seen to repeat
    elif group.top < 4 * common:
        group.reach(2 * common)


def _reach_turns(system: System, index: int) -> None:
    """All sizes are looked at where a guard turns before the group ends; an end alone needs no look."""
    group, at = system.groups[index], system.moving([index])
    if not group.beyond:
        return
    turned: list[int] = []
    ends: list[int] = []
    for guard in group.own:
        turns = system.turns(guard, [index], group.top // 2)
        last = far.end(guard, at, turns) if turns else None
        ends += [last] if last is not None else []
        turned += [turn for turn in turns if last is None or turn <= last]
    last, top = min(ends, default=far.LIMIT), group.top
    turned = [turn for turn in turned if turn <= last]
    if turned:
        group.reach(min(top, max(turned)))
    if any(turn > top for turn in turned):
        group.clear = group.reach(last if ends else max(turned)) and group.clear
    if ends and last > group.top and (group.clear or not group.reach(last)):
        group.end(last)
    elif ends:  # all that can be admitted is looked at
        group.reach(last)
        group.clear = True


def connected(sets: Iterable[set[Any]]) -> list[set[Any]]:
    """Union of the sets that share members, in order of first appearance."""
    home: dict[Any, set[Any]] = {}
    for members in sets:
        merged = max((home[member] for member in members if member in home), key=len, default=set())
        for member in members:
            smaller = home.get(member, {member})
            if smaller is not merged:
                merged |= smaller
                home.update(dict.fromkeys(smaller, merged))
    return list({id(found): found for found in home.values()}.values())


def _equalities(guards: Sequence[Expression], single: Mapping[str, Group]) -> list[tuple[str, str]]:
    """Pairs of dimensions that their guards force to be equal, found by trying sizes, not by the text."""
    pairs: dict[tuple[str, str], list[Expression]] = {}
    for expression in guards:
        if len(expression.variables) == 2:
            first, second = sorted(expression.variables)
            pairs.setdefault((first, second), []).append(expression)
    found = []
    for (first, second), tying in pairs.items():
        alone: list[list[Expression]] = [[expression] for expression in tying]
        candidates = alone + [tying] if len(tying) > 1 else alone
        if any(_diagonal(single[first], single[second], some) for some in candidates):
            found.append((first, second))
    return found


def _diagonal(first: Group, second: Group, guards: Sequence[Expression]) -> bool:
    """Whether the guards admit a pair of sizes just when the two are equal; both being 0 may be excluded."""
    for rows, budget in ((first.sample[:8], 100), (first.sample, _PAIRS)):  # a few points refute most guards
        left, right = grid([first, second], rows, constants_of(guards), budget)
        off = left != right
        same, apart = off, np.zeros_like(off)
        for expression in guards:
            true, false = truth(expression, {first.names[0]: left, second.names[0]: right})
            same, apart = same & true, apart | (false & off)
        if same.any():
            return False
    on = first.sample[second.satisfies(first.sample) & (first.sample >= 1)]
    if not on.size or not apart.any():
        return False
    return all(truth(expression, {first.names[0]: on, second.names[0]: on})[0].all() for expression in guards)


def constants_of(guards: Iterable[Expression]) -> set[int]:
    """The integers written in the guards."""
    return {number for expression in guards for number in expression.constants}
