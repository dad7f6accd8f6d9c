"""Sets of sizes of one dimension, put into words: "exactly 6", "224–255", "multiples of 7"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Interval = tuple[int, int | None]
_Array = NDArray[Any]

_OWN = re.compile(r"at (least|most) |\d+(–\d+)?($| (or|and) )|…")
"""How a part of the admitted sizes begins that is about the dimension by itself."""


@dataclass(frozen=True)
class SizeRange:
    """Inclusive range of sizes; upper None means no upper bound. 0 is the natural lower bound."""

    lower: int = 0
    upper: int | None = None

    def __contains__(self, size: int) -> bool:
        return self.lower <= size and (self.upper is None or size <= self.upper)

    def __str__(self) -> str:
        if self.upper is None:
            return "any size" if self.lower <= 1 else f"at least {self.lower}"
        if self.lower > self.upper:
            return "no size"
        if self.lower == self.upper:
            return f"exactly {self.lower}"
        return f"at most {self.upper}" if self.lower <= 1 else f"{self.lower}–{self.upper}"


class Described(NamedTuple):
    """A set of sizes in words and as sorted disjoint intervals.

    ``whole``: no size of the declared range is missing, not even 0 (``any_size``: apart from 0).
    ``period``: beyond the looked-at sizes the set repeats with this period; None: it does not.
    """

    text: str
    intervals: tuple[Interval, ...]
    whole: bool
    any_size: bool
    period: int | None


class _Shown(NamedTuple):
    mask: _Array
    start: int
    beyond: bool  # sizes after the mask are declared too
    goes_on: bool  # the last stretch of the mask has no end


class _Pattern(NamedTuple):
    period: int
    residues: tuple[int, int] | None  # first residue and length of its only run; None: several runs
    first: int | None  # the smallest member, where the pattern alone would allow a smaller one
    last: int | None  # the largest member, where the set stops repeating


def describe(mask: _Array, lower: int, beyond: bool, declared: SizeRange) -> Described:
    """Words for the sizes ``lower + i`` with ``mask[i]``; ``beyond``: the declared range goes on after them.

    Size 0 stays in the intervals but is not mentioned where the declared range begins at 0.
    """
    whole = bool(mask.all()) and mask.size > 0
    skip = 1 if declared.lower == 0 and lower == 0 and declared.upper != 0 else 0
    shown, start = mask[skip:], lower + skip
    if not mask.any():
        return Described("no size", (), False, False, None)
    if not shown.any():
        return Described("exactly 0", ((0, 0),), whole, False, None)
    if shown.all():
        return Described(str(declared), _intervals(mask, lower, beyond), whole, True, None)
    pattern = _pattern(shown, start)
    repeats = pattern is not None and pattern.last is None and beyond
    goes_on = beyond and not repeats and _goes_on(shown)
    text = _words(_Shown(shown, start, beyond, goes_on), declared, pattern)
    period = pattern.period if pattern is not None and repeats else None
    return Described(text, _intervals(mask, lower, goes_on), whole, False, period)


def _runs(mask: _Array) -> tuple[_Array, _Array]:
    """First and last index of every run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False])).astype(np.int8)))
    return edges[::2], edges[1::2] - 1


def _intervals(mask: _Array, lower: int, goes_on: bool) -> tuple[Interval, ...]:
    firsts, lasts = _runs(mask)
    found: list[Interval] = list(zip((firsts + lower).tolist(), (lasts + lower).tolist(), strict=True))
    if goes_on and found and found[-1][1] == lower + mask.size - 1:
        found[-1] = (found[-1][0], None)
    return tuple(found)


def _goes_on(mask: _Array) -> bool:
    """The set reaches the last size looked at, in its only stretch, or in one longer than every gap and every stretch
    before it, or than a third of all: what repeats has others as long as the last."""
    if not mask[-1]:
        return False
    firsts, lasts = _runs(mask)
    if len(firsts) == 1:
        return bool(lasts[0] > firsts[0])
    gaps = np.diff(np.concatenate(([-1], np.stack((firsts, lasts), 1).ravel())))[::2] - 1
    *earlier, length = (lasts - firsts + 1).tolist()
    return bool(length > gaps.max() and (length > max(earlier) or 3 * length >= mask.size))


def _pattern(mask: _Array, start: int) -> _Pattern | None:
    """The period of a set that repeats at least three times, up to its last member or to the end."""
    firsts, lasts = _runs(mask)
    if len(firsts) < 4:
        return None
    low, high = int(firsts[0]), int(lasts[-1])
    for back in range(2, min(len(firsts), 66) + 1):
        period = int(firsts[-1] - firsts[-back])
        if high + 1 - low < 3 * period:
            break
        if np.array_equal(mask[low : high + 1 - period], mask[low + period : high + 1]):
            return _shape(mask, start, period, low, high)
    return None


def _shape(mask: _Array, start: int, period: int, low: int, high: int) -> _Pattern:
    middle = mask[high + 1 - 2 * period : high + 1 - period]
    offset = start + high + 1 - 2 * period
    residues = np.zeros(period, bool)
    residues[(offset + np.arange(period)) % period] = middle
    expected = residues[(start + np.arange(mask.size)) % period]
    first = start + low if expected[:low].any() else None
    last = start + high if expected[high + 1 :].any() else None
    begins = np.flatnonzero(residues & ~np.roll(residues, 1))
    only = (int(begins[0]), int(residues.sum())) if len(begins) == 1 else None
    return _Pattern(period, only, first, last)


def _words(shown: _Shown, declared: SizeRange, pattern: _Pattern | None) -> str:
    """Words for a set that is neither empty nor everything; each wording is tried in turn."""
    mask, start, beyond, goes_on = shown
    intervals = _intervals(mask, start, goes_on)
    if len(intervals) == 1:
        return _interval_words(intervals[0], start)
    count = int(mask.sum())
    if count <= 5 and (pattern is None or pattern.last is not None or not beyond):
        return _join((np.flatnonzero(mask) + start).tolist(), "or")
    missing = np.flatnonzero(~mask) + start
    if len(missing) <= 3 and (goes_on or mask[-1] or declared.upper is not None):
        everything = "any size" if declared.lower <= 1 else str(declared)
        return f"{everything} but {_join(missing.tolist(), 'and')}"
    if pattern is not None and pattern.residues is not None:
        return _pattern_words(pattern, *pattern.residues)
    if len(intervals) <= 3:
        return _join([_interval_words(interval, start) for interval in intervals], "or")
    listed = ", ".join(_interval_words(interval, start) for interval in intervals[:3])
    return f"{listed.replace('exactly ', '')}, … ({count:,} of the first {mask.size:,} sizes)"


def _interval_words(interval: Interval, start: int) -> str:
    first, last = interval
    if last is None:
        return f"at least {first}"
    if first == last:
        return f"exactly {first}"
    return f"at most {last}" if first == start and start <= 1 else f"{first}–{last}"


def _pattern_words(pattern: _Pattern, residue: int, length: int) -> str:
    period = pattern.period
    more = f"{residue}" if length == 1 else f"{residue}–{residue + length - 1}"
    if length > 1 or (residue and period > 2):
        text = f"{more} more than a multiple of {period}"
    elif period == 2:
        text = "odd sizes" if residue else "even sizes"
    else:
        text = f"multiples of {period}"
    if pattern.first is not None:
        text += f", at least {pattern.first}"
    if pattern.last is not None:
        text += f", at most {pattern.last}"
    return text


def _join(items: Sequence[object], word: str) -> str:
    """ "1", "1 or 3", "2, 4 or 6"; single sizes lose their "exactly" inside a list."""
    texts = [str(item).removeprefix("exactly ") for item in items]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} {word} {texts[-1]}"


def parted(text: str) -> tuple[str, str]:
    """The sizes of a dimension by itself, and how it depends on others."""
    first, *rest = _split(text)
    own = next((index for index, part in enumerate(rest) if not _OWN.match(part)), len(rest))
    return ", ".join((first, *rest[:own])), ", ".join(rest[own:])


def _split(text: str) -> list[str]:
    """The parts between commas, but for those within parentheses: ``at least 4, where min(h, w) > 2``."""
    parts = [""]
    for part in text.split(", "):
        open_ones = parts[-1].count("(") - parts[-1].count(")")
        parts[-1:] = [f"{parts[-1]}, {part}"] if open_ones > 0 else [parts[-1], part]
    return parts[1:]
