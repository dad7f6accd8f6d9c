"""Geometry of the size strips: per declared dimension what was declared, what is admitted and what was tried.

Positions are percentages of the strip's width, rounded, so that the same report gives the same text.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from guarddiff.core.dims import Dimension
from guarddiff.core.domain import Admitted
from guarddiff.core.proof import Try, TryState
from guarddiff.core.report import ReportData
from guarddiff.render import words

Place = tuple[str, int]
Limits = Mapping[str, tuple[Admitted | None, tuple[int, ...]]]
"""Words for admitted sizes, the sizes themselves, and the numbers of the findings that say so."""

_EDGE = 2.0  # percent left free on both sides, for the shapes of marks
_LOG_FROM = 32  # the scale is logarithmic from this ratio of the axis' end to the smallest size of interest on
_LARGEST = 2**63 - 1
_MOST_MARKS = 60
_MOST_BANDS = 48
_MOST_TRACKS = 3
_LEVELS = 4
_NARROWEST = 0.6
_HALF_MARK, _HALF_DIGIT = 2.5, 1.2  # in percent of a strip as wide as a phone
STATES: dict[TryState, str] = {
    "differs": "wrong",
    "rejected": "refused by eager PyTorch",
    "unknown": "could not be told",
    "agrees": "right",
}
"""How a run went, in the words of the strips, the louder first."""


@dataclass(frozen=True)
class Scale:
    """The sizes ``low`` to ``high`` on one axis; every size is as wide as the way to its neighbours' middles."""

    low: int
    high: int
    log: bool

    def at(self, size: float) -> float:
        """Percent of the width; sizes outside are moved to the end."""
        start, end = self._step(self.low - 0.5), self._step(self.high + 0.5)
        part = (self._step(min(max(size, self.low - 0.5), self.high + 0.5)) - start) / (end - start)
        return round(_EDGE + part * (100 - 2 * _EDGE), 2)

    def _step(self, size: float) -> float:
        return math.log(size + 1) if self.log else float(size)


@dataclass(frozen=True)
class Band:
    """A stretch of the axis."""

    start: float
    width: float


@dataclass(frozen=True)
class Track:
    """One bar over the axis: ``exact`` bands are admitted as they stand; otherwise it is known in words alone, or
    more bands than can be drawn are shown as one."""

    text: str
    bands: tuple[Band, ...]
    exact: bool


@dataclass(frozen=True)
class Mark:
    """A tried size. ``level`` is 0 next to the bar and grows where marks would cover each other; ``label``: the side
    of the mark on which its size is written, empty where it is not."""

    at: float
    level: int
    label: Literal["", "start", "end"]
    size: int
    state: TryState
    tries: int


@dataclass(frozen=True)
class Tick:
    """A size written under the axis."""

    at: float
    label: str
    anchor: Literal["start", "middle", "end"]


@dataclass(frozen=True)
class Strip:
    """What is drawn for one dimension, and ``text``, which says the same in words."""

    dim: Dimension
    declared: Band
    open_end: bool
    log: bool
    tracks: tuple[Track, ...]
    marks: tuple[Mark, ...]
    levels: int
    ticks: tuple[Tick, ...]
    example: float
    text: str


def strips(report: ReportData) -> Iterator[Strip]:
    """One strip per declared dimension, in the order of the inputs."""
    held = limits(report)
    tried = tried_sizes(report)
    unsure = bool(report.missing or report.error)
    for dim in (d for spec in report.inputs for d in spec.dims if d.declared):
        place = (dim.input, dim.axis)
        yield strip(dim, held.get(place, {}), tried.get(place, {}), unsure)


def limits(report: ReportData) -> dict[Place, dict[str, tuple[Admitted | None, tuple[int, ...]]]]:
    """For each dimension what the findings admit; harmless and repaired findings restrict nothing."""
    held: dict[Place, dict[str, tuple[Admitted | None, tuple[int, ...]]]] = {}
    for number, finding in enumerate(report.findings, 1):
        for dim in finding.dims if finding.verdict != "harmless" and not finding.repaired else ():
            own = held.setdefault((dim.input, dim.axis), {})
            text = words.admitted(dim)
            own[text] = (dim.admitted, (*own.get(text, (None, ()))[1], number))
    return held


def _runs(report: ReportData) -> Sequence[Try]:
    """What was run with the model that was returned."""
    mended = report.repair
    return mended.tries if mended and mended.returned and mended.tries else report.tries


def tried_sizes(report: ReportData) -> dict[Place, dict[tuple[int, TryState], int]]:
    """For each declared dimension the sizes that were run, how that went, and how often.

    A run that went wrong or was refused tells of the dimensions that left the example's size and, among those, of
    the ones whose size is not admitted where there are such: the others were merely there. An operator by itself can
    show that the model is wrong, and nothing else of the model.
    """
    dims = [d for spec in report.inputs for d in spec.dims if d.declared]
    runs: list[tuple[Mapping[str, Sequence[int]], TryState]] = [
        (run.sizes, run.state) for run in _runs(report) if run.scope == "model" or run.state == "differs"
    ]
    seen = [sizes for sizes, state in runs if state == "differs"]
    proofs = [f.counterexample.sizes for f in report.findings if f.counterexample and not f.repaired]
    runs += [(sizes, "differs") for sizes in proofs if sizes not in seen]
    held = limits(report)
    found: dict[Place, dict[tuple[int, TryState], int]] = {}
    for sizes, state in runs:
        at = {(d.input, d.axis): sizes[d.input][d.axis] for d in dims if d.axis < len(sizes.get(d.input, ()))}
        for place in _meant(at, dims, held) if state != "agrees" else at:
            own = found.setdefault(place, {})
            own[at[place], state] = own.get((at[place], state), 0) + 1
    return found


def _meant(at: Mapping[Place, int], dims: Sequence[Dimension], held: Mapping[Place, Limits]) -> list[Place]:
    examples = {(d.input, d.axis): d.example for d in dims}
    moved = [place for place, size in at.items() if size != examples[place]]
    outside = [place for place in moved if any(_excludes(a, at[place]) for a, _ in held.get(place, {}).values())]
    return outside or moved or list(at)


def _excludes(admitted: Admitted | None, size: int) -> bool:
    return admitted is not None and bool(admitted.known and admitted.intervals) and size not in admitted


def strip(dim: Dimension, held: Limits, tried: Mapping[tuple[int, TryState], int], unsure: bool) -> Strip:
    """The strip of a declared dimension; ``unsure``: what no finding names is unknown, not as declared."""
    lower = _clamp(dim.declared.sizes.lower) if dim.declared else 0
    upper = dim.declared.sizes.upper if dim.declared else None
    ends = [end for admitted, _ in held.values() for end in _ends(admitted)]
    sizes = [_clamp(size) for size in (dim.example, *ends, *(size for size, _ in tried))]
    top = max(*sizes, 1)
    open_end = upper is None or upper > 100 * max(top, lower)
    high = max(2 * max(top, lower) if open_end or upper is None else _clamp(upper), top)
    low = min(lower or 1, *sizes)  # 0 is declared with "any size", and nobody means it
    first = min((size for size in (*sizes, lower) if size > 1), default=1)
    scale = Scale(low, high, high >= _LOG_FROM * first)
    marks = _marks(tried, scale)
    return Strip(
        dim=dim,
        declared=_band(scale, lower or low, None if open_end else upper),
        open_end=open_end,
        log=scale.log,
        tracks=_tracks(held, scale, (lower or low, None if open_end else upper), unsure),
        marks=marks,
        levels=max((mark.level + 1 for mark in marks), default=0),
        ticks=_ticks(scale, (low, None if open_end else high), ends, dim.example, marks),
        example=scale.at(_clamp(dim.example)),
        text=in_words(tried),
    )


def in_words(tried: Mapping[tuple[int, TryState], int]) -> str:
    """``Tried: wrong at 256 and 448; right at 224.``, or ``Not tried.``"""
    parts = []
    for state, word in STATES.items():
        sizes = sorted(size for size, found in tried if found == state)
        if sizes:
            parts.append(f"{word} at {words.some([str(size) for size in sizes], 8)}")
    return f"Tried: {'; '.join(parts)}." if parts else "Not tried."


def _clamp(size: int) -> int:
    return min(max(size, 0), _LARGEST)


def _ends(admitted: Admitted | None) -> list[int]:
    """Ends of the first and the last admitted stretch that show where the set begins and stops."""
    if admitted is None or not admitted.known or not admitted.intervals or admitted.period is not None:
        return []
    spans = admitted.intervals[:1] + admitted.intervals[-1:]
    return [end for span in spans for end in span if end is not None and end > 0]


def _band(scale: Scale, first: int, last: int | None) -> Band:
    start = scale.at(first - 0.5)
    end = scale.at(_clamp(last) + 0.5) if last is not None else 100.0
    return Band(*_wide_enough(start, end))


def _wide_enough(start: float, end: float) -> tuple[float, float]:
    lack = max(0.0, _NARROWEST - (end - start))
    start = round(max(0.0, start - lack / 2), 2)
    return start, round(max(end - start, _NARROWEST), 2)


def _tracks(held: Limits, scale: Scale, declared: tuple[int, int | None], unsure: bool) -> tuple[Track, ...]:
    whole = (_band(scale, *declared),)
    if not held:
        return (Track("unknown", whole, False) if unsure else Track("as declared", whole, True),)
    tracks = []
    for text, (admitted, numbers) in list(held.items())[:_MOST_TRACKS]:
        said = f"{text} (finding {words.join([str(number) for number in numbers[:20]])})"
        bands = _bands(admitted, scale)
        if bands is None:
            tracks.append(Track(said, whole, False))
        else:
            exact = len(bands) <= _MOST_BANDS
            tracks.append(Track(said, bands if exact else _hull(bands), exact))
    return tuple(tracks)


def _hull(bands: Sequence[Band]) -> tuple[Band, ...]:
    end = bands[-1].start + bands[-1].width
    return (Band(bands[0].start, round(end - bands[0].start, 2)),)


def _bands(admitted: Admitted | None, scale: Scale) -> tuple[Band, ...] | None:
    """The stretches within the axis; None where the sizes are no set of this dimension alone or are unknown."""
    if admitted is None or not admitted.known or admitted.intervals is None:
        return None
    if not admitted.intervals:
        return () if admitted.text == "no size" else None
    inside = [(first, last) for first, last in admitted.intervals if first <= scale.high]
    return tuple(_band(scale, _clamp(first), last) for first, last in inside)


def _marks(tried: Mapping[tuple[int, TryState], int], scale: Scale) -> tuple[Mark, ...]:
    """The marks from left to right; the wrong ones are kept first where there are too many."""
    order = list(STATES)
    kept = sorted(tried, key=lambda key: (order.index(key[1]), key[0]))[:_MOST_MARKS]
    taken = [-100.0] * _LEVELS
    marks = []
    for size, state in sorted(kept, key=lambda key: (key[0], order.index(key[1]))):
        at = scale.at(_clamp(size))
        room = 1 + 2 * _HALF_DIGIT * len(str(size)) if state == "differs" else 0.0
        label: Literal["", "start", "end"] = "" if not room else "start" if at + room < 95 else "end"
        start = at - _HALF_MARK - (room if label == "end" else 0)
        level = next((n for n, last in enumerate(taken) if start >= last), _LEVELS - 1)
        taken[level] = at + _HALF_MARK + (room if label == "start" else 0)
        marks.append(Mark(at, level, label, size, state, tried[size, state]))
    return tuple(marks)


def _ticks(scale: Scale, bounds: tuple[int, int | None], ends: Sequence[int], example: int,
           marks: Sequence[Mark]) -> tuple[Tick, ...]:  # fmt: skip
    """Sizes worth writing, the more telling first, as long as they don't run into each other on a phone."""
    wanted = [example, *ends, *(end for end in bounds if end is not None), *(mark.size for mark in marks)]
    ticks: list[Tick] = []
    for size in wanted:
        tick = _tick(scale.at(_clamp(size)), str(_clamp(size)))
        if all(abs(_middle(tick) - _middle(other)) >= 2 + _room(tick) + _room(other) for other in ticks):
            ticks.append(tick)
    return tuple(sorted(ticks, key=lambda tick: tick.at))


def _tick(at: float, label: str) -> Tick:
    return Tick(at, label, "start" if at < 4 else "end" if at > 96 else "middle")


def _room(tick: Tick) -> float:
    """Half of the label's width in percent of a strip on a phone."""
    return _HALF_DIGIT * len(tick.label)


def _middle(tick: Tick) -> float:
    return tick.at + {"start": 1, "middle": 0, "end": -1}[tick.anchor] * _room(tick)
