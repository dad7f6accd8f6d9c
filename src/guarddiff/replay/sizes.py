"""Which sizes to try: points that break a finding's guards, and points that find what no guard shows."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence

from guarddiff.core import domain
from guarddiff.core.dims import Dimension
from guarddiff.core.domain import SizeRange
from guarddiff.core.finding import Finding

Point = dict[str, int]
"""Dimension variable to size."""

_RANDOM_TRIES = 400


def breaking(
    finding: Finding,
    declared: Mapping[str, SizeRange],
    example: Mapping[str, int],
    others: Sequence[Finding] = (),
    limit: int = 8,
) -> list[Point]:
    """Points inside the declared ranges that break a guard of ``finding``, the most telling first.

    Doubled sizes come first, then the nearest sizes that are not admitted, then sizes that are not proportional
    to the example, last 1. Points that keep the guards of ``others`` go before points that break theirs too.
    """
    variables = sorted(v for v in _variables(finding) if v in example)
    if not variables:
        return []
    breaks: list[tuple[int, int, Point]] = []
    for order, point in enumerate(_points(variables, finding, declared, example)):
        if not _inside(point, declared) or not _broken(finding.guards, point):
            continue
        also = sum(_broken(other.guards, point) for other in others if other is not finding)
        breaks.append((also, order, point))
        if sum(1 for row in breaks if row[0] == 0) >= 2 * limit:
            break
    chosen = [point for *_, point in sorted(breaks, key=lambda row: row[:2])]
    return _spread(chosen, variables, example, limit)


def _spread(points: list[Point], variables: list[str], example: Mapping[str, int], limit: int) -> list[Point]:
    """At most ``limit`` points; the last places go to points with a size of 1, which many models treat apart."""
    ones = [p for p in points[limit - 2 :] if any(p[v] == 1 and example[v] != 1 for v in variables)]
    return points[: limit - len(ones[:2])] + ones[:2]


def further(dims: Sequence[Dimension], declared: Mapping[str, SizeRange], example: Mapping[str, int]) -> list[Point]:
    """Points for ``replay="full"``: each dynamic dimension larger, smaller, 1 and not proportional; all at once; long
    and short sides swapped."""
    free = sorted({v for dim in dims if dim.declared for v in variables_of(dim) if v in example})
    points: list[Point] = [dict(example)]
    for move in ("larger", "odd", "smaller", "one", "less"):
        moved = {v: _move(move, example[v], declared.get(v, SizeRange())) for v in free}
        points.append({**example, **moved})
        points += [{**example, v: moved[v]} for v in free] if len(free) > 1 else []
    for a, b in itertools.combinations(free, 2):
        points.append({**example, a: example[b], b: example[a]})
        points.append({**example, a: 2 * example[a], b: example[b] + 1})
    return _unique(point for point in points if _inside(point, declared))


def _move(move: str, size: int, sizes: SizeRange) -> int:
    moved = {
        "larger": 2 * size if size > 1 else 3,
        "odd": 2 * size + 1 if size > 1 else 4,
        "smaller": max(2, size // 2) if size > 2 else size + 1,
        "one": 1,
        "less": size - 1 if size > 2 else size + 2,
    }[move]
    return max(sizes.lower, moved if sizes.upper is None else min(moved, sizes.upper))


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
    moves = [2 * size, *near, size + 1, 2 * size + 1, size - 1, 3 * size, size // 2, size + 2, size + size // 2]
    moves += [3, 2, 4 * size, 1]
    if sizes.upper is not None:
        moves.append(sizes.upper)
    moves.append(sizes.lower)
    return _unique_sizes(m for m in moves if m >= 1 and m in sizes) or [size]


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


def _unique(points: Iterable[Point]) -> list[Point]:
    seen: dict[tuple[tuple[str, int], ...], Point] = {}
    for point in points:
        seen.setdefault(tuple(sorted(point.items())), point)
    return list(seen.values())


def _unique_sizes(sizes: Iterable[int]) -> list[int]:
    return list(dict.fromkeys(sizes))
