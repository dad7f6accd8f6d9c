"""Relations between dimensions that a point should keep: the mask that is as long as past and new tokens together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from guarddiff.core import domain
from guarddiff.core.domain import SizeRange

_ROUNDS = 3
_LARGEST = 65_536


def ties_of(guards: Iterable[str], example: Mapping[str, int]) -> list[str]:
    """Those guards that tie two or more dimensions by an equality and hold at the example."""
    found = []
    for text in dict.fromkeys(guards):
        try:
            variables = domain.parse(text).variables
        except domain.GuardTextError:
            continue
        if len(variables) > 1 and "==" in text and domain.holds(text, example):
            found.append(text)
    return found


def mended(
    point: Mapping[str, int], ties: Sequence[str], moved: Iterable[str], declared: Mapping[str, SizeRange]
) -> dict[str, int]:
    """The point with dimensions other than ``moved`` changed so that the ties hold again.

    One dimension is solved for per broken tie, the size nearest to its present one first; several ties are mended in
    rounds. A tie that can't be mended stays broken.
    """
    result = dict(point)
    kept = set(moved)
    for _ in range(_ROUNDS):
        broken = [tie for tie in ties if domain.holds(tie, result) is False]
        if not broken or not any(_mend(result, tie, kept, declared) for tie in broken):
            break
    return result


def _mend(point: dict[str, int], tie: str, kept: set[str], declared: Mapping[str, SizeRange]) -> bool:
    for variable in sorted(domain.parse(tie).variables - kept):
        size = _solved(point, tie, variable, declared.get(variable, SizeRange()))
        if size is not None:
            point[variable] = size
            kept.add(variable)
            return True
    return False


def _solved(point: Mapping[str, int], tie: str, variable: str, sizes: SizeRange) -> int | None:
    """The size of ``variable`` nearest to its present one at which the tie holds; None where none is found."""
    if variable not in point:
        return None
    top = min(_LARGEST, 8 * max(point.values()) + 8)
    candidates = np.arange(max(1, sizes.lower), (top if sizes.upper is None else min(top, sizes.upper)) + 1)
    if not candidates.size:
        return None
    value, valid = domain.parse(tie).evaluate({**point, variable: candidates})
    good = candidates[np.broadcast_to(np.asarray(value, dtype=bool) & valid, candidates.shape)]
    return int(good[np.argmin(np.abs(good - point[variable]))]) if good.size else None


def apart(
    point: Mapping[str, int], variable: str, own: Sequence[str], others: Sequence[str], sizes: SizeRange
) -> int | None:
    """The size of ``variable`` nearest to twice its present one that breaks one of ``own`` and keeps all ``others``.

    None where there is none up to some times the largest number that the guards name.
    """
    numbers = [n for text in (*own, *others) for n in _constants(text)]
    top = min(_LARGEST, 4 * max([*point.values(), *numbers]) + 8)
    candidates = np.arange(max(1, sizes.lower), (top if sizes.upper is None else min(top, sizes.upper)) + 1)
    if not candidates.size:
        return None
    at = {**point, variable: candidates}
    broken = np.zeros(candidates.shape, dtype=bool)
    for text in own:
        broken |= _where(text, at, False, candidates.shape)
    for text in others:
        broken &= ~_where(text, at, False, candidates.shape)
    good = candidates[broken]
    return int(good[np.argmin(np.abs(good - 2 * point[variable]))]) if good.size else None


def _where(text: str, sizes: Mapping[str, Any], wanted: bool, shape: tuple[int, ...]) -> Any:
    """Where the guard is known to be ``wanted``; nowhere when it can't be evaluated."""
    try:
        value, valid = domain.parse(text).evaluate(sizes)
    except (domain.GuardTextError, KeyError):
        return np.zeros(shape, dtype=bool)
    return np.broadcast_to((np.asarray(value, dtype=bool) == wanted) & valid, shape)


def _constants(text: str) -> list[int]:
    try:
        return [int(n) for n in domain.parse(text).constants if 0 < n < _LARGEST]
    except domain.GuardTextError:
        return []
