"""Which sizes to try: points that break a finding's guards, and points that find what no guard shows."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from guarddiff.core import domain
from guarddiff.core.dims import Dimension
from guarddiff.core.domain import SizeRange
from guarddiff.core.finding import Finding
from guarddiff.core.points import truth
from guarddiff.replay.ties import apart, mended, ties_of

Point = dict[str, int]
"""Dimension variable to size."""

_RANDOM_TRIES = 400
_ONES = 3
_DOUBLINGS = 26
_PARTS = 1024  # of the example's size, in which a far one is told
_FAR_TIMES, _FEW_TIMES, _FAR_SIZE = 16, 4, 256
_MOST_FAR = 3  # dimensions


def breaking(
    finding: Finding,
    declared: Mapping[str, SizeRange],
    example: Mapping[str, int],
    others: Sequence[Finding] = (),
    limit: int = 8,
) -> list[Point]:
    """Points inside the declared ranges that break a guard of ``finding``, the most telling first.

    Doubled sizes come first, then the nearest sizes that are not admitted, then sizes that are not proportional
    to the example, last 1. Points that keep the guards of ``others`` go before points that break theirs too: where
    moving a dimension breaks such a guard that ties it to another one, the other one is moved along.
    """
    variables = sorted(v for v in _variables(finding) if v in example)
    if not variables:
        return []
    others = [other for other in others if other is not finding]
    own = set(finding.guards)
    ties = ties_of((g for other in others for g in other.guards if g not in own), example)
    breaks: list[tuple[int, int, Point]] = []
    for order, raw in enumerate(_points(variables, finding, declared, example)):
        moved = [v for v in variables if raw[v] != example[v]]
        for point in unique([mended(raw, ties, moved, declared), raw]):
            if _inside(point, declared) and _broken(finding.guards, point):
                also = sum(_broken(other.guards, point) for other in others)
                breaks.append((also, order, point))
                break
        if sum(1 for row in breaks if row[0] == 0) >= 2 * limit + len(variables):
            break
    if not any(also == 0 for also, *_ in breaks):
        breaks += [(0, -1, point) for point in _apart(finding, others, variables, declared, example)]
    if not breaks:
        far = _smallest_far(finding, variables, declared, example)
        breaks = [(sum(_broken(other.guards, point) for other in others), 0, point) for point in far]
    chosen = [point for *_, point in sorted(breaks, key=lambda row: row[:2])]
    return _spread(chosen, variables, example, limit)


def _apart(
    finding: Finding,
    others: Sequence[Finding],
    variables: Sequence[str],
    declared: Mapping[str, SizeRange],
    example: Mapping[str, int],
) -> list[Point]:
    """Points that break the finding's guards and no other's, found by solving for one dimension at a time."""
    kept = [guard for other in others for guard in other.guards]
    found = []
    for v in variables:
        size = apart(example, v, finding.guards, kept, declared.get(v, SizeRange()))
        found += [{**example, v: size}] if size is not None else []
    return found


def _smallest_far(
    finding: Finding, variables: Sequence[str], declared: Mapping[str, SizeRange], example: Mapping[str, int]
) -> list[Point]:
    """The smallest points far away that break the finding's guards: along each dimension and along all at once."""
    found = []
    for moved in [[v] for v in variables] + ([list(variables)] if len(variables) > 1 else []):

        def at(part: int, moved: Sequence[str] = moved) -> Point:
            return {**example, **{v: max(example[v], 1) * part // _PARTS for v in moved}}

        reached = [_PARTS << doubled for doubled in range(_DOUBLINGS)]
        uppers = [(declared.get(v, SizeRange()).upper, max(example[v], 1)) for v in moved]
        reached += [upper * _PARTS // size for upper, size in uppers if upper is not None]
        inside = sorted(part for part in reached if _inside(at(part), declared))
        breaking = next((index for index, part in enumerate(inside) if _broken(finding.guards, at(part))), 0)
        if not breaking:
            continue
        low, high = inside[breaking - 1], inside[breaking]
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if _broken(finding.guards, at(middle)) else (middle, high)
        found.append(at(high))
    return found


def keeps_others(point: Point, finding: Finding, findings: Sequence[Finding]) -> bool:
    """Whether the point breaks no guard of another finding."""
    return not any(_broken(other.guards, point) for other in findings if other is not finding)


def holding(finding: Finding, example: Mapping[str, int]) -> Finding:
    """The finding without guards that the example itself breaks (a size of 1 that is broadcast): no point near the
    example keeps them, so that they tell no two findings apart."""
    return replace(finding, guards=tuple(g for g in finding.guards if domain.holds(g, example) is not False))


def untouched(
    finding: Finding,
    tried: Sequence[Point],
    declared: Mapping[str, SizeRange],
    example: Mapping[str, int],
    others: Sequence[Finding] = (),
) -> list[Point]:
    """Points that break those guards of the finding which no point of ``tried`` breaks, two for each guard."""
    left = [g for g in finding.guards if not any(domain.holds(g, point) is False for point in tried)]
    found = [p for g in left for p in breaking(replace(finding, guards=(g,)), declared, example, others, limit=2)]
    return unique(found)


def far_off(
    finding: Finding,
    fits: Callable[[Point], bool],
    declared: Mapping[str, SizeRange],
    example: Mapping[str, int],
) -> list[Point]:
    """For each dimension of the finding a point that breaks its guards much above the example, where there may be what
    no small size shows, among those that ``fits`` takes."""
    found = []
    for v in sorted(_variables(finding) & set(example))[:_MOST_FAR]:
        upper = declared.get(v, SizeRange()).upper
        for size in (max(_FAR_TIMES * example[v], _FAR_SIZE), _FEW_TIMES * example[v]):
            first = size + 1 if upper is None else min(size + 1, upper)
            last = first + _FAR_SIZE - 1 if upper is None else min(first + _FAR_SIZE - 1, upper)
            broken = _first_broken(finding.guards, example, v, np.arange(first, last + 1))
            point = {**example, v: broken or 0}
            if broken is not None and _inside(point, declared) and fits(point):
                found.append(point)
                break
    return found


def _first_broken(guards: Sequence[str], example: Mapping[str, int], variable: str, candidates: Any) -> int | None:
    """The first of these sizes of a dimension at which a guard is false."""
    false = np.zeros(len(candidates), bool)
    for text in guards:
        try:
            false |= truth(domain.parse(text), {**example, variable: candidates})[1]
        except (domain.GuardTextError, KeyError, OverflowError):
            continue
    places = np.flatnonzero(false)
    return int(candidates[places[0]]) if places.size else None


def broadcast_the_other_way(
    finding: Finding,
    dims: Sequence[Dimension],
    ranks: Mapping[str, int],
    declared: Mapping[str, SizeRange],
    example: Mapping[str, int],
) -> list[Point]:
    """Points at which a dimension of the finding that has size 1 takes the size of another input's dimension in the
    same place from the right, and that one has size 1: what is stretched in the example stretches the other."""
    own = _variables(finding)
    placed = [(dim, dim.axis - ranks.get(dim.input, 0)) for dim in dims if dim.size == dim.name and dim.name in example]
    points = [
        {**example, one.name: example[many.name], many.name: 1}
        for one, place in placed
        for many, there in placed
        if one.name in own and place == there and one.input != many.input
        if example[one.name] == 1 and example[many.name] > 1
    ]
    return unique(p for p in points if _inside(p, declared) and _broken(finding.guards, p))


def breaks(point: Point, finding: Finding) -> bool:
    """Whether the point breaks a guard of the finding; True where none can be evaluated there."""
    return _broken(finding.guards, point)


def _spread(points: list[Point], variables: list[str], example: Mapping[str, int], limit: int) -> list[Point]:
    """At most ``limit`` points; the last places go to points with a size of 1, which many models treat apart."""

    def with_one(point: Point) -> bool:
        return any(point[v] == 1 and example[v] != 1 for v in variables)

    ones = [point for point in points if with_one(point)][:_ONES]
    return [point for point in points if not with_one(point)][: limit - len(ones)] + ones


def further(
    dims: Sequence[Dimension],
    declared: Mapping[str, SizeRange],
    example: Mapping[str, int],
    guards: Iterable[str] = (),
) -> list[Point]:
    """Points for ``replay="full"``: each dynamic dimension larger, smaller, 1 and not proportional; all at once; long
    and short sides swapped. Where a point breaks a tie among ``guards``, one that keeps it goes before it."""
    ties = ties_of(guards, example)
    free = sorted({v for dim in dims if dim.declared for v in variables_of(dim) if v in example})
    points: list[Point] = [dict(example)]
    moves = {v: _further_sizes(example[v], declared.get(v, SizeRange())) for v in free}
    for index in range(max((len(m) for m in moves.values()), default=0)):
        moved = {v: m[min(index, len(m) - 1)] for v, m in moves.items()}
        points.append({**example, **moved})
        points += [{**example, v: moved[v]} for v in free] if len(free) > 1 else []
    for a, b in itertools.combinations(free, 2):
        points.append({**example, a: example[b], b: example[a]})
        points.append({**example, a: 2 * example[a], b: example[b] + 1})
    both = [p for raw in points for p in (mended(raw, ties, _moved(raw, example), declared), raw)]
    return unique(point for point in both if _inside(point, declared))


def _moved(point: Point, example: Mapping[str, int]) -> list[str]:
    return [v for v, size in point.items() if size != example[v]]


def _further_sizes(size: int, sizes: SizeRange) -> list[int]:
    """Larger, not proportional, smaller, 1 and one less, for squares other squares; where the declared range has no
    room for three of these, its ends and the neighbours of the example. The example's own size where the range allows
    nothing else."""
    usual = [2 * size, 2 * size + 1, max(2, size // 2), 1, size - 1] if size > 2 else [2 * size + 1, 2 * size + 2, 1, 2]
    near = [size + 1, sizes.lower, size + 2, size - 1, size - 2]
    near += [sizes.upper, sizes.upper - 1] if sizes.upper is not None else []
    usual += _squares(size)
    found = [s for s in _unique_sizes(usual) if s >= 1 and s in sizes and s != size]
    for other in near:
        if len(found) < 3 and other >= 1 and other in sizes and other not in (size, *found):
            found.append(other)
    return found or [size]


def shapes_at(point: Point, dims: Sequence[Dimension], base: Mapping[str, Sequence[int]]) -> dict[str, tuple[int, ...]]:
    """The inputs' shapes at a point; axes that no dimension names keep their size. Raises ValueError when a
    dimension's size can't be worked out."""
    shapes = {name: list(shape) for name, shape in base.items()}
    for dim in dims:
        size = point.get(dim.size)
        if size is None:
            size = domain.value(dim.size, point)
        if size is None:
            raise ValueError(f"the size of {dim.place} ({dim.size}) is not known at {point}")
        shapes[dim.input][dim.axis] = size
    return {name: tuple(shape) for name, shape in shapes.items()}


def _variables(finding: Finding) -> set[str]:
    found: set[str] = set()
    for text in finding.guards:
        try:
            found |= domain.parse(text).variables
        except domain.GuardTextError:
            continue
    return found or {v for dim in finding.dims for v in variables_of(dim)}


def variables_of(dim: Dimension) -> set[str]:
    """The dimension variables that a dimension's size depends on."""
    if dim.size == dim.name:
        return {dim.name}
    try:
        return set(domain.parse(dim.size).variables)
    except domain.GuardTextError:
        return set()


def _broken(guards: Sequence[str], point: Point) -> bool:
    """Whether a guard is false at the point, or none can be evaluated there (then every point is worth a try)."""
    answers = [domain.holds(guard, point) for guard in guards]
    return False in answers or (bool(answers) and all(answer is None for answer in answers))


def _inside(point: Point, declared: Mapping[str, SizeRange]) -> bool:
    return all(size >= 1 and size in declared.get(v, SizeRange()) for v, size in point.items())


def _points(
    variables: list[str], finding: Finding, declared: Mapping[str, SizeRange], example: Mapping[str, int]
) -> Iterator[Point]:
    base = dict(example)
    moves = {v: _moves(v, finding, declared.get(v, SizeRange()), example[v]) for v in variables}
    seen: set[tuple[int, ...]] = set()
    for point in _combinations(variables, moves, base):
        key = tuple(point[v] for v in variables)
        if key not in seen:
            seen.add(key)
            yield point


def _combinations(variables: list[str], moves: dict[str, list[int]], base: Point) -> Iterator[Point]:
    yield {**base, **{v: 2 * base[v] for v in variables}}
    yield from ({**base, v: 1} for v in variables)
    longest = max(len(m) for m in moves.values())
    for index in range(longest):
        yield {**base, **{v: m[min(index, len(m) - 1)] for v, m in moves.items()}}
        if len(variables) > 1:
            for v in variables:
                yield {**base, v: moves[v][min(index, len(moves[v]) - 1)]}
    for a, b in itertools.permutations(variables, 2):
        for x, y in itertools.islice(itertools.product(moves[a][:4], reversed(moves[b])), 12):
            yield {**base, a: x, b: y}
    for a, b in itertools.permutations(variables, 2):
        yield {**base, a: base[b]}
    drawn = random.Random(0)
    for _ in range(_RANDOM_TRIES):
        yield {**base, **{v: drawn.randint(1, max(4 * base[v], 16)) for v in variables}}


def _moves(variable: str, finding: Finding, sizes: SizeRange, size: int) -> list[int]:
    """Sizes to move one dimension to, the most telling first."""
    near = _nearest(variable, finding, size)
    moves = [2 * size, *near, *_squares(size), size + 1, 2 * size + 1, size - 1, 3 * size, size // 2, size + 2]
    moves += [size + size // 2, 3, 2, 4 * size, 1]
    if sizes.upper is not None:
        moves.append(sizes.upper)
    moves.append(sizes.lower)
    return _unique_sizes(m for m in moves if m >= 1 and m in sizes) or [size]


def _squares(size: int) -> list[int]:
    """The next square for a square, and for one more than a square: rows of patches, with a token before them or
    without, of which a model takes the root. Empty for other sizes and for small ones."""
    for before in (0, 1):
        root = math.isqrt(max(0, size - before))
        if root > 1 + before and root * root == size - before:
            return [(root + 1) ** 2 + before, (2 * root) ** 2 + before]
    return []


def _nearest(variable: str, finding: Finding, size: int) -> list[int]:
    """The nearest sizes above and below the example that are not admitted."""
    found = []
    for dim in finding.dims:
        if variable in variables_of(dim) and dim.admitted is not None and dim.admitted.intervals is not None:
            intervals = dim.admitted.intervals
            around = next((i for i in intervals if i[0] <= size and (i[1] is None or size <= i[1])), None)
            if around is not None:
                found += [around[1] + 1] if around[1] is not None else []
                found += [around[0] - 1] if around[0] > 1 else []
    return found


def unique(points: Iterable[Point]) -> list[Point]:
    """The points without repetitions, in order."""
    seen: dict[tuple[tuple[str, int], ...], Point] = {}
    for point in points:
        seen.setdefault(tuple(sorted(point.items())), point)
    return list(seen.values())


def _unique_sizes(sizes: Iterable[int]) -> list[int]:
    return list(dict.fromkeys(sizes))
