"""Figures over a sweep: what is silently wrong, and what guarddiff says of it.

A case counts as *measured* unless its state is one of UNMEASURED: such cases are listed and count nowhere else. Of the
measured ones those that did not raise are *exported*. *Silently wrong* are those whose state is one of SILENT.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from guarddiff.sweep import evidence
from guarddiff.sweep.case import GROUPS
from guarddiff.sweep.figures import (
    APART,
    MODES,
    PLACES,
    SPECIALIZING,
    Apart,
    BadRepair,
    Counts,
    Family,
    Judged,
    Recall,
    Repairs,
    Right,
    Slow,
    Summary,
    Times,
    Unmeasured,
)
from guarddiff.sweep.outcome import STATES, UNMEASURED, Outcome

_SLOWEST = 10
_BEYOND = "beyond"
_FOUND_ALONE = "wrong only at a size that guarddiff found; "
_RECALLED: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("decompose", ("decompose",)),
    ("capture", ("capture",)),
    ("translate", ("translate",)),
    ("optimize", ("optimize",)),
    ("all", SPECIALIZING),
    ("example", ("example",)),
    ("unknown", ("unknown",)),
    (_BEYOND, PLACES),
)


def place(outcome: Outcome) -> str:
    """The stage of what is silently wrong; ``unknown`` where it could not be told."""
    return outcome.stage if outcome.stage in PLACES else "unknown"


def summarize(outcomes: Iterable[Outcome]) -> Summary:
    """The figures over ``outcomes``, each of which is one case; the order of cases is kept in lists."""
    cases = list(outcomes)
    measured = [one for one in cases if one.state not in UNMEASURED]
    silent = [one for one in measured if one.silent]
    right = [one for one in measured if one.state == "ok"]
    names = (*GROUPS, *sorted({one.group for one in cases} - set(GROUPS)))
    by_group = {name: [one for one in cases if one.group == name] for name in names}
    return Summary(
        total=_counts("all", cases),
        groups=tuple(_counts(name, members) for name, members in by_group.items() if members),
        recall=tuple(_recall(silent, mode, *asked) for mode in MODES for asked in _RECALLED),
        right=tuple(_right(right, mode) for mode in MODES),
        apart=_apart(measured),
        missed=tuple(_judged(one, mode) for mode in MODES for one in silent if not evidence.warned(one, mode)),
        alarms=tuple(
            _judged(one, mode) for mode in MODES for one in right if not one.unsure and evidence.warned(one, mode)
        ),
        unsure=tuple(one.key for one in right if one.unsure),
        repairs=_repairs(silent),
        bad_repairs=_bad_repairs(measured),
        families=_families(cases),
        unmeasured=tuple(Unmeasured(one.key, one.state, one.text) for one in cases if one.state in UNMEASURED),
        times=_times(cases),
    )


def _counts(group: str, cases: Sequence[Outcome]) -> Counts:
    states = Counter(one.state for one in cases)
    classes = Counter((place(one), one.state) for one in cases if one.silent)
    measured = len(cases) - sum(states[state] for state in UNMEASURED)
    return Counts(
        group=group,
        cases=len(cases),
        measured=measured,
        exported=measured - states["export error"],
        silent=sum(classes.values()),
        states={state: states[state] for state in STATES if states[state]},
        classes={
            stage: {state: classes[stage, state] for state in STATES if classes[stage, state]}
            for stage in PLACES
            if any(classes[stage, state] for state in STATES)
        },
    )


def _recall(silent: Sequence[Outcome], mode: str, of: str, stages: tuple[str, ...]) -> Recall:
    cases = [one for one in silent if place(one) in stages and one.beyond == (of == _BEYOND)]
    return Recall(
        mode=mode,
        of=of,
        cases=len(cases),
        warned=sum(evidence.warned(one, mode) for one in cases),
        confirmed=sum(evidence.confirmed(one, mode) for one in cases),
    )


def _right(right: Sequence[Outcome], mode: str) -> Right:
    sure = [one for one in right if not one.unsure]
    return Right(
        mode=mode,
        cases=len(sure),
        warned=sum(evidence.warned(one, mode) for one in sure),
        confirmed=sum(evidence.confirmed(one, mode) for one in sure),
        unsure=len(right) - len(sure),
    )


def _apart(measured: Sequence[Outcome]) -> tuple[Apart, ...]:
    found = []
    for state in APART:
        cases = [one for one in measured if one.state == state]
        warned = [sum(evidence.warned(one, mode) for one in cases) for mode in MODES]
        if cases:
            found.append(Apart(state, len(cases), *warned))
    return tuple(found)


def _judged(outcome: Outcome, mode: str) -> Judged:
    told = evidence.said(outcome, mode)
    return Judged(
        mode=mode,
        key=outcome.key,
        state=outcome.state,
        stage=place(outcome) if outcome.silent else None,
        verdict=told.verdict if told is not None else None,
        reason=f"{_FOUND_ALONE if outcome.beyond else ''}{evidence.reason(told)}",
    )


def _repairs(silent: Sequence[Outcome]) -> tuple[Repairs, ...]:
    by_family: dict[tuple[str, str], list[Outcome]] = {}
    for one in silent:
        by_family.setdefault((one.group, one.family), []).append(one)
    found = []
    for (group, family), cases in by_family.items():
        given = [one.repair for one in cases if one.repair is not None]
        returned = [one for one in given if one.returned]
        found.append(Repairs(group, family, len(cases), len(given), len(returned), sum(one.cured for one in returned)))
    return tuple(found)


def _bad_repairs(measured: Sequence[Outcome]) -> tuple[BadRepair, ...]:
    returned = [(one.key, one.repair) for one in measured if one.repair is not None and one.repair.returned]
    return tuple(
        BadRepair(key, repair.state, repair.text)
        for key, repair in returned
        if repair.state in STATES and repair.state not in UNMEASURED and not repair.cured and not repair.remaining
    )


@dataclass(frozen=True)
class _Origin:
    op: str | None = None
    rule: str | None = None
    source: str | None = None
    guard: str | None = None


def _origin(outcome: Outcome) -> _Origin:
    found = evidence.main(outcome)
    if found is None:
        return _Origin()
    return _Origin(found.op, found.rule, found.source, found.guards[0] if found.guards else None)


def _families(cases: Sequence[Outcome]) -> tuple[Family, ...]:
    by_family: dict[tuple[str, str], list[Outcome]] = {}
    for one in cases:
        by_family.setdefault((one.group, one.family), []).append(one)
    found = [
        _family(group, name, members)
        for (group, name), members in by_family.items()
        if any(one.silent for one in members)
    ]
    places: dict[str, int] = {group: number for number, group in enumerate(GROUPS)}
    return tuple(sorted(found, key=lambda one: (places.get(one.group, len(places)), -one.silent, one.family)))


def _family(group: str, name: str, members: Sequence[Outcome]) -> Family:
    silent = [one for one in members if one.silent]
    stages = Counter(place(one) for one in silent)
    # The origin of most cases; one that is known before none, and the first of equals.
    origins = Counter(map(_origin, silent))
    known = {origin: number for origin, number in origins.items() if origin != _Origin()}
    origin = max(known, key=known.__getitem__) if known else _Origin()
    typical = next(one for one in silent if _origin(one) == origin) if known else silent[0]
    return Family(
        group=group,
        family=name,
        cases=sum(one.state not in UNMEASURED for one in members),
        silent=len(silent),
        stages={stage: stages[stage] for stage in PLACES if stages[stage]},
        typical=typical.key,
        op=origin.op,
        rule=origin.rule,
        source=origin.source,
        guard=origin.guard,
        right=typical.example if typical.stage != "example" else (),
        wrong=typical.wrong[0].shapes if typical.wrong else (),
        missed_default=sum(not evidence.warned(one, "default") for one in silent),
        missed_full=sum(not evidence.warned(one, "full") for one in silent),
    )


def _times(cases: Sequence[Outcome]) -> Times:
    slowest = sorted(cases, key=lambda one: (-one.seconds, one.key))[:_SLOWEST]
    peak = max((one.memory for one in cases if one.memory is not None), default=None)
    return Times(
        cases=len(cases),
        seconds=round(sum(one.seconds for one in cases), 3),
        default=round(sum(one.default.seconds for one in cases if one.default is not None), 3),
        full=round(sum(one.full.seconds for one in cases if one.full is not None), 3),
        repair=round(sum(one.repair.seconds for one in cases if one.repair is not None), 3),
        slowest=tuple(Slow(one.key, one.seconds) for one in slowest),
        memory=peak,
    )
