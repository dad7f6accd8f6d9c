"""The sizes that the user asked for, as points."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from guarddiff.core import domain
from guarddiff.core.dims import Dimension
from guarddiff.replay.sizes import Point, unique, variables_of

_LARGEST = 2**48


def named(
    asked: Iterable[Mapping[str, int]], dims: Sequence[Dimension], example: Mapping[str, int]
) -> tuple[list[Point], str]:
    """Points of the user's own, and what is wrong with those that can't be made (empty when all can).

    A dimension is named by the user's name for it or as ``x[2]``; those that are not named keep the example's size.
    """
    known = {name: dim for dim in dims for name in (dim.place, dim.name)}
    points, wrong = [], []
    for sizes in asked:
        point = dict(example)
        for name, size in sizes.items():
            dim = known.get(name)
            if name in point and name not in known:
                point[name] = size
            elif dim is None:
                wrong.append(f"there is no dimension {name!r} (known: {', '.join(sorted(known)) or 'none'})")
            elif dim.size == dim.name:
                point[dim.name] = size
            elif not _derive(point, dim, size):
                wrong.append(f"{name} is {dim.size}, which can't be {size}")
        points.append(point)
    return ([] if wrong else unique(points)), "; ".join(dict.fromkeys(wrong))


def _derive(point: Point, dim: Dimension, size: int) -> bool:
    """Give the one variable of a derived dimension (``2*h``) the value that makes it ``size``."""
    variables = variables_of(dim)
    if len(variables) != 1:
        return False
    (variable,) = variables
    low, high = 0, size + 1  # a derived dimension grows with its root
    while high < _LARGEST and (domain.value(dim.size, {**point, variable: high}) or 0) <= size:
        high *= 2
    while high - low > 1:
        middle = (low + high) // 2
        made = domain.value(dim.size, {**point, variable: middle})
        if made == size:
            point[variable] = middle
            return True
        low, high = (middle, high) if made is not None and made < size else (low, middle)
    return False
