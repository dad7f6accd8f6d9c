"""Which sizes a set of guards admits, dimension by dimension, and what new guards exclude.

One dimension alone is solved exactly, size by size up to a horizon; beyond it, where its guards are seen to turn
(``far.turns``).  Dimensions that a guard ties together are solved on a grid of well-chosen combinations.  What
can't be evaluated is "unknown", never a guess.
"""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from guarddiff.core.guard_text import Expression, GuardTextError, holds, parse, value
from guarddiff.core.points import Group, truth
from guarddiff.core.system import SMALL, System, connected, constants_of, read_guards, system_of
from guarddiff.core.words import SizeRange, describe

__all__ = [
    "SMALL",
    "Admitted",
    "Expression",
    "GuardTextError",
    "SizeRange",
    "admitted",
    "effect",
    "holds",
    "parse",
    "value",
]

_QUICK, _THOROUGH = 100_000, 2_000_000  # combinations of sizes tried at once
_WINDOW, _WIDEST = 512, 4096  # sizes of a tied dimension that are all tried
_MOST_INTERVALS = 10_000  # of one dimension, beyond which its sizes are told in words alone

_Array = NDArray[Any]


@dataclass(frozen=True)
class Admitted:
    """The sizes that one dimension may still take.

    ``intervals``: sorted and disjoint, a last upper of None goes on without end; None: unknown, a relation
    with other dimensions rather than a set, or too many of them.  ``whole``: nothing that was declared is
    excluded, not even 0 or 1.  ``period``: after ``horizon`` the set repeats with this period, up to ``last``;
    None: it does not.
    """

    text: str
    intervals: tuple[tuple[int, int | None], ...] | None
    known: bool
    whole: bool
    period: int | None = None
    horizon: int | None = None
    last: int | None = None

    def __str__(self) -> str:
        return self.text

    def __contains__(self, size: int) -> bool:
        """By the intervals. Raises ValueError where there are none."""
        if self.intervals is None:
            raise ValueError(f"the admitted sizes are no set of this dimension alone: {self.text}")
        if self.last is not None and size > self.last:
            return False
        if self.period is not None and self.horizon is not None and size > self.horizon:
            size -= -(-(size - self.horizon) // self.period) * self.period
        index = bisect_right(self.intervals, size, key=lambda interval: interval[0]) - 1
        if index < 0:
            return False
        upper = self.intervals[index][1]
        return upper is None or size <= upper


_UNKNOWN = Admitted("unknown", None, known=False, whole=False)


# --- admitted sizes -------------------------------------------------------------------------------------


def admitted(guards: Sequence[str], declared: Mapping[str, SizeRange], example: Mapping[str, int], *,
             horizon: int = 16384) -> dict[str, Admitted]:  # fmt: skip
    """For every declared dimension the sizes that it may still take under all guards.

    All sizes are looked at up to ``horizon`` or four times the example, and larger ones where a guard turns.  A
    dimension is unknown where a guard that names it, or names one tied to it, can't be read or evaluated.  Bad
    guard text raises nothing.
    """
    read = read_guards(guards, declared)
    verdicts = [truth(expression, {}) for expression in read.constant]
    if read.opaque or not all(bool(true | false) for true, false in verdicts):
        return dict.fromkeys(declared, _UNKNOWN)
    if any(bool(false) for _, false in verdicts):
        return dict.fromkeys(declared, Admitted("no size", (), known=True, whole=False))
    system = system_of(read.good, declared, example, horizon)
    bad = [{system.owner[name] for name in names} for names in read.touched]
    ties = [set(system.indices(expression)) for expression in system.cross]
    found: dict[str, Admitted] = {}
    for members in connected([{index} for index in range(len(system.groups))] + ties + bad):
        unknown = any(members & touched for touched in bad)
        found.update(_solve(system, sorted(members), declared, unknown))
    return {name: found[name] for name in declared}


def _solve(system: System, members: list[int], declared: Mapping[str, SizeRange],
           unknown: bool) -> dict[str, Admitted]:  # fmt: skip
    """The admitted sizes of all dimensions in one connected part of the system."""
    groups = [system.groups[index] for index in members]
    names = [name for group in groups for name in group.names]
    if unknown or not all(group.solvable and group.clear and _evaluable(group) for group in groups):
        return dict.fromkeys(names, _UNKNOWN)
    if not all(group.mask.any() for group in groups):
        return dict.fromkeys(names, Admitted("no size", (), known=True, whole=False))
    cross = list({guard.text: guard for index in members for guard in system.ties.get(index, ())}.values())
    strengths = {guard.text: _strength(system, guard) for guard in cross}
    if any(strength == "unknown" for strength in strengths.values()):
        return dict.fromkeys(names, _UNKNOWN)
    cross = [guard for guard in cross if strengths[guard.text] != "none"]
    tying = [guard for guard in cross if strengths[guard.text] == "ties"]
    found = {}
    for index in members:
        group = system.groups[index]
        mask, beyond = _project(system, index, members, cross)
        here = [guard for guard in tying if index in system.indices(guard)]
        small = any(index in system.indices(guard) for guard in cross)
        for name in group.names:
            found[name] = _finish(name, declared[name], group, (mask, beyond), here, small)
    return found


def _evaluable(group: Group) -> bool:
    """No guard of the group is without a value at every size."""
    for guard in group.own:
        true, false = group.truth(guard, group.sizes)
        if group.sizes.size and not (true | false).any():
            return False
    return True


def _strength(system: System, guard: Expression) -> str:
    """What a guard on several groups excludes: "none", "small" (a size 0, or no value), "ties", "unknown"."""
    indices = system.indices(guard)
    sizes, inside = system.combinations(indices, system.groups[indices[0]].sample, [guard], _QUICK)
    true, false = system.truth(guard, sizes)
    if not ((true | false) & inside).any():
        return "unknown"
    excluded = false & inside
    for size in sizes.values():
        excluded = excluded & (size >= 1)
    if excluded.any() or system.fails_far_away(guard, (), indices):
        return "ties"
    return "small" if (inside & ~true).any() else "none"


def _witnessed(system: System, indices: Sequence[int], rows: _Array, guards: Sequence[Expression]) -> _Array:
    """For every size in rows: whether some combination with it satisfies all guards."""
    found = np.zeros(len(rows), bool)
    for budget in (_QUICK, _THOROUGH):
        left = np.flatnonzero(~found)
        if left.size:
            sizes, good = system.combinations(indices, rows[left], guards, budget)
            for guard in guards:
                good = np.asarray(good & system.truth(guard, sizes)[0])
            found[left] = good.reshape(len(left), -1).any(1)
    return found


def _project(system: System, index: int, members: list[int],
             guards: Sequence[Expression]) -> tuple[_Array, bool]:  # fmt: skip
    """The sizes of one group that belong to some admitted combination, and whether they go on after that.

    Only what was tried thoroughly narrows the group: with four groups or more its own guards alone do.
    """
    group = system.groups[index]
    others = [other for other in members if other != index]
    if not guards or not others or len(others) > 6:
        return group.mask, group.beyond
    order = [index, *others]
    rows = group.sample_with(constants_of(guards))
    seen = _witnessed(system, order, rows, guards)
    if seen.all() or len(others) > 2:
        return group.mask, group.beyond
    ends = rows[np.flatnonzero(seen)[-1] + 1 :][:1] if seen.any() else rows[:1]  # the set may stop here
    reach = int(ends[0]) - group.lower + 1 if ends.size else 0
    length = min(max(_WINDOW, min(2 * reach + 2, _WIDEST)), group.mask.size)
    mask = group.mask.copy()
    tried = np.flatnonzero(mask[:length])
    mask[tried] = _witnessed(system, order, group.sizes[tried], guards)
    after = seen[rows >= group.lower + length]
    if after.all() and after.size:
        return mask, group.beyond
    inside = np.flatnonzero(mask[:length])
    ended = not after.any() and inside.size and 2 * (int(inside[-1]) + 1) <= length  # far beyond it nothing was found
    if ended or not inside.size or (length == mask.size and (mask[-1] or not group.beyond)):
        mask[length:] = False
        return mask, group.beyond
    if describe(mask[:length], group.lower, True, SizeRange(group.lower)).period is not None:
        return mask[:length], True
    return group.mask, group.beyond


def _finish(name: str, declared: SizeRange, group: Group, solved: tuple[_Array, bool],
            tying: Sequence[Expression], small: bool) -> Admitted:  # fmt: skip
    """Words and intervals for one dimension of a solved group."""
    mask, beyond = solved
    before = np.zeros(group.lower - declared.lower, bool)
    narrower = group.upper is not None and (declared.upper is None or declared.upper > group.upper)
    after = np.zeros(1 if narrower and not beyond else 0, bool)
    whole = np.concatenate([before, mask, after])
    ends = group.upper if beyond else None  # after all the sizes that were looked at
    cut = narrower and beyond
    words = describe(whole, declared.lower, beyond, declared)
    relations = _relations(name, group, tying)
    if words.any_size and relations and not cut:
        return Admitted(", ".join(relations), None, known=True, whole=False)
    definite = words.text == "no size" or words.text.startswith("exactly ")
    said = _ending(words.text, SizeRange(declared.lower, ends), words.any_size) if cut else words.text
    text = said if definite else ", ".join([said, *relations])
    untouched = words.whole and not small and not cut
    horizon = declared.lower + whole.size - 1
    if cut and words.period is None and words.intervals and words.intervals[-1][1] is not None:
        return _UNKNOWN  # between what was looked at and the end something is admitted that was not seen
    intervals = tuple((first, ends if last is None else last) for first, last in words.intervals)
    if len(intervals) > _MOST_INTERVALS and words.period is None:
        return Admitted(text, None, True, untouched)
    return Admitted(text, intervals, True, untouched, words.period, horizon, ends if words.period is not None else None)


def _ending(text: str, span: SizeRange, any_size: bool) -> str:
    """``text`` for sizes that end with the span."""
    if any_size or text.startswith(("exactly ", "no size")):
        return str(span) if any_size else text
    lower = text.removeprefix("at least ")
    return f"{lower}–{span.upper}" if lower.isdigit() else f"{text} up to {span.upper}"


def _relations(name: str, group: Group, tying: Sequence[Expression]) -> list[str]:
    """How a dimension depends on others: ``equal to y[0]``, ``h*w even``, ``where h < w``."""
    found = [f"equal to {other}" for other in group.names if other != name][:1]
    if not tying:
        return found
    texts = sorted((guard.text for guard in tying), key=lambda text: (len(text), text))
    divided = [_multiple(text) for text in texts]
    several = list(dict.fromkeys(phrase for phrase in divided if phrase is not None))
    plain = None in divided
    phrases = texts if plain else several
    found.append(("where " if plain else "") + " and ".join(phrases[:2]) + ("…" if len(phrases) > 2 else ""))
    return found


def _multiple(text: str) -> str | None:
    """``h*w even`` for ``h*w % 2 == 0`` and the like; None for any other guard."""
    tree = ast.parse(text, mode="eval").body
    if not isinstance(tree, ast.Compare) or len(tree.ops) != 1 or not isinstance(tree.ops[0], ast.Eq):
        return None
    left, right = tree.left, tree.comparators[0]
    if not isinstance(left, ast.BinOp) or not isinstance(left.op, ast.Mod):
        return None
    if not isinstance(right, ast.Constant) or not isinstance(left.right, ast.Constant):
        return None
    product, number, rest = ast.unparse(left.left).replace(" * ", "*"), left.right.value, right.value
    if not isinstance(number, int) or not isinstance(rest, int):
        return None
    if number == 2 and rest in (0, 1):
        return f"{product} {'odd' if rest else 'even'}"
    return f"{product} a multiple of {number}" if rest == 0 else None


# --- what new guards exclude ----------------------------------------------------------------------------


def effect(guards: Sequence[str], declared: Mapping[str, SizeRange], example: Mapping[str, int], *,
           given: Sequence[str] = (), horizon: int = 16384) -> str:  # fmt: skip
    """What ``guards`` exclude beyond what ``declared`` and the ``given`` guards exclude already.

    "restricts": some point whose sizes are all 2 or more; "unknown": no such point, but a guard can't be
    evaluated or names a dimension that is not declared; "small": only points with a size 0 or 1; "none".
    A dimension declared with at most 1 counts as any other size.  An unreadable given guard about the same
    dimensions turns "restricts" and "small" into "unknown".
    """
    read, before = read_guards(guards, declared), read_guards(given, declared)
    system = system_of(before.good, declared, example, horizon, read.good)
    found = {"unknown"} if read.touched else set()
    for guard in read.constant:
        true, false = truth(guard, {})
        found.add("none" if bool(true) else "restricts" if bool(false) else "unknown")
    bad = [{system.owner[name] for name in names} for names in before.touched]
    for guard in read.good:
        if "restricts" not in found:
            found.add(_effect_of(system, guard, bad, before.opaque))
    for verdict in ("restricts", "unknown", "small"):
        if verdict in found:
            return verdict
    return "none"


def _effect_of(system: System, guard: Expression, bad: Sequence[set[int]], opaque: bool) -> str:
    indices, given, left_out = _neighbourhood(system, system.indices(guard))
    groups = [system.groups[index] for index in indices]
    if not all(group.solvable for group in groups):
        return "unknown"
    if not all(group.mask.any() for group in groups):
        return "none"
    group = groups[0]
    rows = group.sizes[group.mask] if len(groups) == 1 else group.sample
    sizes, inside = system.combinations(indices, rows, [guard, *given], _QUICK)
    for tie in given:
        inside = inside & system.truth(tie, sizes)[0]
    for index in indices:
        inside = inside & (sizes[index] <= system.groups[index].top)
    if not inside.any():
        return "none"
    true, false = system.truth(guard, sizes)
    if not ((true | false) & inside).any():
        return "unknown"
    excluded = false & inside
    restricts = bool(system.large(excluded, sizes).any()) or system.fails_far_away(guard, given, indices)
    if not restricts and not excluded.any():
        return "none"
    if opaque or left_out or any(touched & set(indices) for touched in bad):
        return "unknown"
    return "restricts" if restricts else "small"


def _neighbourhood(system: System, indices: list[int]) -> tuple[list[int], list[Expression], bool]:
    """A guard's groups and those that given guards tie to them, at most four; whether any is left out."""
    near, waiting = set(indices), list(indices)
    given: dict[str, Expression] = {}
    left_out = False
    while waiting:
        for guard in system.ties.get(waiting.pop(), ()):
            wider = near | set(system.indices(guard))
            if wider == near or len(wider) <= 4:
                waiting.extend(wider - near)
                near = wider
                given[guard.text] = guard
            else:
                left_out = True
    return sorted(near), list(given.values()), left_out
