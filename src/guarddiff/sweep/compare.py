"""What changed between two sweeps: in the exporter, and in what guarddiff says of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from guarddiff.render import words
from guarddiff.sweep import evidence
from guarddiff.sweep.figures import MODES, Recall
from guarddiff.sweep.outcome import UNMEASURED, Outcome
from guarddiff.sweep.results import VERSIONS, Results
from guarddiff.sweep.summary import place, summarize


@dataclass(frozen=True)
class Moved:
    """One case that is in both sweeps."""

    old: Outcome
    new: Outcome

    @property
    def key(self) -> str:
        """The case's."""
        return self.new.key


@dataclass(frozen=True)
class Heard:
    """A case of which guarddiff says something else in one mode; the case itself is silently wrong (a detection), or
    right (a false alarm), both times."""

    mode: str
    old: Outcome
    new: Outcome

    @property
    def key(self) -> str:
        """The case's."""
        return self.new.key

    @property
    def reason(self) -> str:
        """What the new report says."""
        return evidence.reason(evidence.said(self.new, self.mode))


@dataclass(frozen=True)
class RecallChange:
    """Recall of one mode and stage before and after, over all cases of each sweep."""

    old: Recall
    new: Recall


@dataclass(frozen=True)
class Changes:
    """What changed from one sweep to another. The order is that of the new one; of vanished cases that of the old.

    Attributes:
        became_wrong: Silently wrong now, and measured and not silently wrong before: right, refused, or raising.
        became_right: Silently wrong before, and right (``ok``) now.
        changed: Measured both times with another state or another stage, and in neither of the lists above.
        appeared: Only in the new sweep.
        vanished: Only in the old one.
        unmeasured_now: Measured before, not now: whether it changed is unknown.
        unmeasured_before: Measured now, not before.
        lost: Detections that guarddiff lost: silently wrong both times, the user was warned and no longer is.
        gained: The reverse.
        alarms: False alarms that are new: right both times, unsure neither time, no warning before and one now.
        alarms_gone: The reverse.
        cures_lost: Silently wrong both times; ``repair=True`` gave a right model before, and does not now.
        cures_gained: The reverse.
        same: Number of cases with the same state and stage, or measured neither time.
        recall: Of each mode and stage that has cases in one of the two.
        environment: Versions that differ: name, old, new; None where one does not say.
        caveats: Why less may follow from the comparison than it seems.
    """

    became_wrong: tuple[Moved, ...]
    became_right: tuple[Moved, ...]
    changed: tuple[Moved, ...]
    appeared: tuple[Outcome, ...]
    vanished: tuple[Outcome, ...]
    unmeasured_now: tuple[Moved, ...]
    unmeasured_before: tuple[Moved, ...]
    lost: tuple[Heard, ...]
    gained: tuple[Heard, ...]
    alarms: tuple[Heard, ...]
    alarms_gone: tuple[Heard, ...]
    cures_lost: tuple[Moved, ...]
    cures_gained: tuple[Moved, ...]
    same: int
    recall: tuple[RecallChange, ...]
    environment: tuple[tuple[str, str | None, str | None], ...]
    caveats: tuple[str, ...]

    @property
    def worse(self) -> bool:
        """Whether a case became silently wrong, or guarddiff lost a detection."""
        return bool(self.became_wrong or self.lost)


def compare(old: Results, new: Results) -> Changes:
    """What changed from ``old`` to ``new``; cases are matched by key."""
    pairs = [Moved(old.outcomes[key], one) for key, one in new.outcomes.items() if key in old.outcomes]
    measured = [pair for pair in pairs if not _unmeasured(pair.old) and not _unmeasured(pair.new)]
    wrong = [pair for pair in measured if pair.old.silent and pair.new.silent]
    right = [pair for pair in measured if _surely_right(pair.old) and _surely_right(pair.new)]
    became_wrong = tuple(pair for pair in measured if pair.new.silent and not pair.old.silent)
    became_right = tuple(pair for pair in measured if pair.old.silent and pair.new.state == "ok")
    told = {pair.key for pair in (*became_wrong, *became_right)}
    changed = tuple(pair for pair in measured if pair.key not in told and _place(pair.old) != _place(pair.new))
    unmeasured_now = tuple(pair for pair in pairs if _unmeasured(pair.new) and not _unmeasured(pair.old))
    unmeasured_before = tuple(pair for pair in pairs if _unmeasured(pair.old) and not _unmeasured(pair.new))
    other = sum(map(len, (became_wrong, became_right, changed, unmeasured_now, unmeasured_before)))
    environment = _versions(old.environment, new.environment)
    return Changes(
        became_wrong=became_wrong,
        became_right=became_right,
        changed=changed,
        appeared=tuple(one for key, one in new.outcomes.items() if key not in old.outcomes),
        vanished=tuple(one for key, one in old.outcomes.items() if key not in new.outcomes),
        unmeasured_now=unmeasured_now,
        unmeasured_before=unmeasured_before,
        lost=_heard(wrong, lambda before, after: before and not after),
        gained=_heard(wrong, lambda before, after: after and not before),
        alarms=_heard(right, lambda before, after: after and not before),
        alarms_gone=_heard(right, lambda before, after: before and not after),
        cures_lost=tuple(pair for pair in wrong if _cured(pair.old) and not _cured(pair.new)),
        cures_gained=tuple(pair for pair in wrong if _cured(pair.new) and not _cured(pair.old)),
        same=len(pairs) - other,
        recall=_recall(old, new),
        environment=environment,
        caveats=_caveats(old, new, environment, bool(pairs)),
    )


def _unmeasured(outcome: Outcome) -> bool:
    return outcome.state in UNMEASURED


def _surely_right(outcome: Outcome) -> bool:
    return outcome.state == "ok" and not outcome.unsure


def _place(outcome: Outcome) -> tuple[str, str]:
    return outcome.state, place(outcome) if outcome.silent else ""


def _cured(outcome: Outcome) -> bool:
    return outcome.repair is not None and outcome.repair.returned and outcome.repair.cured


def _heard(pairs: list[Moved], wanted: Callable[[bool, bool], bool]) -> tuple[Heard, ...]:
    return tuple(
        Heard(mode, pair.old, pair.new)
        for mode in MODES
        for pair in pairs
        if wanted(evidence.warned(pair.old, mode), evidence.warned(pair.new, mode))
    )


def _recall(old: Results, new: Results) -> tuple[RecallChange, ...]:
    before, after = summarize(old.outcomes.values()), summarize(new.outcomes.values())
    pairs = [RecallChange(before.recalled(one.mode, one.of), one) for one in after.recall]
    return tuple(pair for pair in pairs if pair.old.cases or pair.new.cases)


def _versions(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[tuple[str, str | None, str | None], ...]:
    pairs = [(name, _version(old, name), _version(new, name)) for name in VERSIONS]
    return tuple((name, before, after) for name, before, after in pairs if before != after)


def _version(environment: Mapping[str, Any], name: str) -> str | None:
    given = environment.get(name)
    return None if given is None else str(given)


def _caveats(
    old: Results, new: Results, environment: tuple[tuple[str, str | None, str | None], ...], matched: bool
) -> tuple[str, ...]:
    found = []
    names = {name for name, _, _ in environment}
    if not environment:
        versions = [f"{name} {new.environment[name]}" for name in ("torch", "guarddiff") if name in new.environment]
        which = f" ({', '.join(versions)})" if versions else ""
        found.append(f"both were measured with the same versions{which}: what changed is chance or the machine's doing")
    elif {"torch", "guarddiff"} <= names:
        found.append("torch and guarddiff both changed: what guarddiff says may differ for either reason")
    if not matched:
        found.append("no case is in both: nothing was compared")
    for name, what in (("old", old), ("new", new)):
        lacking = sum(map(_unmeasured, what.outcomes.values()))
        if lacking:
            found.append(f"{words.count(lacking, 'case')} of the {name} sweep {_was(lacking)} not measured")
    return tuple(found)


def _was(number: int) -> str:
    return "was" if number == 1 else "were"
