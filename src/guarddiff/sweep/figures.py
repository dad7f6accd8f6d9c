"""The figures of a sweep as plain records; each says what it counts. Made by ``summary.summarize``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from guarddiff.sweep.case import Shapes

MODES: tuple[str, ...] = ("default", "full")
SPECIALIZING: tuple[str, ...] = ("capture", "decompose", "translate", "optimize")
"""The stages at which an export goes wrong at other sizes than the example's."""
PLACES: tuple[str, ...] = (*SPECIALIZING, "example", "unknown")
"""Where a silently wrong case may stand: its stage, or ``unknown`` for none."""
APART: tuple[str, ...] = ("refused input", "static input", "export error")
"""Measured states that are neither right nor silently wrong: the user is told by the export or by the first run."""


class _Plain:
    """A record with figures that follow from its fields."""

    DERIVED: ClassVar[tuple[str, ...]] = ()

    def to_data(self) -> dict[str, Any]:
        """Plain data, with the figures that follow from the fields."""
        return _record(self)


def share(part: int, whole: int) -> float | None:
    """``part`` of ``whole`` from 0 to 1, to six digits; None of nothing."""
    return round(part / whole, 6) if whole else None


@dataclass(frozen=True)
class Counts(_Plain):
    """Cases of a group (``all``: of every group).

    Attributes:
        cases: All that were run.
        measured: Without those of UNMEASURED states.
        exported: Measured, and the export did not raise: what the share of silently wrong ones is of.
        silent: Silently wrong, those that are wrong at the example's sizes and those of unknown stage included.
        states: State → number, of all cases; states without a case are left out.
        classes: Stage (of PLACES) → state → number, of the silently wrong ones.
    """

    DERIVED = ("silent_share",)

    group: str
    cases: int
    measured: int
    exported: int
    silent: int
    states: Mapping[str, int]
    classes: Mapping[str, Mapping[str, int]]

    @property
    def silent_share(self) -> float | None:
        """Share of the exported cases that is silently wrong; None where none was exported."""
        return share(self.silent, self.exported)


@dataclass(frozen=True)
class Recall(_Plain):
    """How many of the silently wrong cases of some stages the user hears of.

    A warning counts whatever it is about: that it names the cause of this very fault is not asked. A case counts as
    not warned where guarddiff was not asked in this mode.

    Attributes:
        mode: ``default`` or ``full`` (``replay="full"``).
        of: A stage; ``all``: capture, decompose, translate and optimize. What is wrong at the example's own sizes
            (``example``) is not specialized and in no other figure; no more is ``unknown``, which has no stage.
            ``beyond``: wrong only at sizes that guarddiff itself found, whatever the stage; in no other figure either,
            as nobody else has looked there.
        cases: Silently wrong cases at these stages.
        warned: Of these, where the user is warned.
        confirmed: Of these, where the strongest verdict is ``confirmed``.
    """

    DERIVED = ("warned_share", "confirmed_share")

    mode: str
    of: str
    cases: int
    warned: int
    confirmed: int

    @property
    def warned_share(self) -> float | None:
        """None where there is no case."""
        return share(self.warned, self.cases)

    @property
    def confirmed_share(self) -> float | None:
        """None where there is no case."""
        return share(self.confirmed, self.cases)


@dataclass(frozen=True)
class Right(_Plain):
    """What guarddiff says of right cases (state ``ok``) in one mode.

    Attributes:
        cases: Right cases without the unsure ones.
        warned: False alarms: of these, where the user is warned, confirmed or not.
        confirmed: False ``confirmed``: of these, where the strongest verdict is ``confirmed``.
        unsure: Right at the case's own sizes, but guarddiff confirmed a fault at others that could not be run again.
            They count neither way.
    """

    DERIVED = ("warned_share",)

    mode: str
    cases: int
    warned: int
    confirmed: int
    unsure: int

    @property
    def warned_share(self) -> float | None:
        """None where there is no case."""
        return share(self.warned, self.cases)


@dataclass(frozen=True)
class Apart(_Plain):
    """Measured cases of a state that is neither right nor silently wrong, and where guarddiff warns: that counts
    neither as found nor as a false alarm."""

    state: str
    cases: int
    warned_default: int
    warned_full: int


@dataclass(frozen=True)
class Judged(_Plain):
    """A miss (silently wrong, no warning) or a false alarm (right, a warning) in one mode.

    Attributes:
        stage: Of PLACES; None for a false alarm.
        verdict: The strongest; None where guarddiff was not asked.
        reason: What the report says: the findings with verdict and reason, or that there is none.
    """

    mode: str
    key: str
    state: str
    stage: str | None
    verdict: str | None
    reason: str


@dataclass(frozen=True)
class Repairs(_Plain):
    """Repairs of the silently wrong cases of one family.

    Attributes:
        silent: Silently wrong cases.
        asked: Of these, exported with ``repair=True``.
        returned: Of these, where a repaired model was returned.
        cured: Of these, where it is right at all sizes of the case.
    """

    DERIVED = ("cured_share",)

    group: str
    family: str
    silent: int
    asked: int
    returned: int
    cured: int

    @classmethod
    def of(cls, group: str, families: Iterable[Repairs]) -> Repairs:
        """The sum over the families of a group; ``all``: over all of them."""
        members = [one for one in families if group in ("all", one.group)]
        names = ("silent", "asked", "returned", "cured")
        return cls(group, "all", *(sum(getattr(one, name) for one in members) for name in names))

    @property
    def cured_share(self) -> float | None:
        """Share of the silently wrong cases that is cured; None where there is none."""
        return share(self.cured, self.silent)


@dataclass(frozen=True)
class BadRepair(_Plain):
    """A repaired model that was returned, was run and is not right: there should be none. Cases of every state are
    looked at, right ones too."""

    key: str
    state: str
    text: str


@dataclass(frozen=True)
class Family(_Plain):
    """An operator, a kind of pattern or a package with silently wrong cases.

    Attributes:
        cases: Measured ones.
        silent: Silently wrong ones.
        stages: Stage (of PLACES) → number.
        typical: Key of the case from which origin and shapes are: the first one with the origin that most have.
        op: Operator of the finding that tells most; None when unknown, as the three that follow.
        rule: Decomposition rule.
        source: Line of the model.
        guard: The first guard.
        right: Shapes of the example; empty where the model is wrong there already.
        wrong: Shapes at which the model is wrong.
        missed_default: Silently wrong cases without a warning by default.
        missed_full: Those without one with ``replay="full"``.
    """

    group: str
    family: str
    cases: int
    silent: int
    stages: Mapping[str, int]
    typical: str
    op: str | None
    rule: str | None
    source: str | None
    guard: str | None
    right: Shapes
    wrong: Shapes
    missed_default: int
    missed_full: int


@dataclass(frozen=True)
class Unmeasured(_Plain):
    """A case that says nothing of the exporter, and why."""

    key: str
    state: str
    text: str


@dataclass(frozen=True)
class Slow(_Plain):
    """A case and the seconds that measuring it took."""

    key: str
    seconds: float


@dataclass(frozen=True)
class Times(_Plain):
    """Time of all cases, unmeasured ones included, in seconds of one worker.

    Attributes:
        seconds: Sum over the cases; what passed on the clock is less with several workers.
        default: Of these, in exports by default.
        full: In exports with ``replay="full"``.
        repair: In exports with ``repair=True``.
        slowest: The ten slowest.
        memory: The highest peak of a worker in bytes; None when unknown.
    """

    DERIVED = ("per_minute",)

    cases: int
    seconds: float
    default: float
    full: float
    repair: float
    slowest: tuple[Slow, ...]
    memory: int | None

    @property
    def per_minute(self) -> float | None:
        """Cases in a minute of one worker; None where no time was measured."""
        return round(60 * self.cases / self.seconds, 3) if self.seconds else None


@dataclass(frozen=True)
class Summary(_Plain):
    """All figures of a sweep.

    Attributes:
        total: Counts of all groups.
        groups: Counts of each group that has cases, in their fixed order.
        recall: Of each mode and stage.
        right: Of each mode: false alarms and false ``confirmed``.
        apart: States that are neither right nor silently wrong.
        missed: Every silently wrong case without a warning, for each mode; those of ``example`` and ``unknown`` too.
        alarms: Every right case with a warning, for each mode, without the unsure ones.
        unsure: Keys of right cases that count neither way.
        repairs: Of each family with silently wrong cases.
        bad_repairs: Returned repaired models that are not right.
        families: Operators, patterns and packages with silently wrong cases; most cases first within a group.
        unmeasured: Cases that count nowhere.
        times: Where the time went.
    """

    total: Counts
    groups: tuple[Counts, ...]
    recall: tuple[Recall, ...]
    right: tuple[Right, ...]
    apart: tuple[Apart, ...]
    missed: tuple[Judged, ...]
    alarms: tuple[Judged, ...]
    unsure: tuple[str, ...]
    repairs: tuple[Repairs, ...]
    bad_repairs: tuple[BadRepair, ...]
    families: tuple[Family, ...]
    unmeasured: tuple[Unmeasured, ...]
    times: Times

    def recalled(self, mode: str, of: str) -> Recall:
        """The recall of a mode at a stage, or of ``all``. Raises KeyError for others."""
        for one in self.recall:
            if (one.mode, one.of) == (mode, of):
                return one
        raise KeyError((mode, of))

    def rightly(self, mode: str) -> Right:
        """False alarms of a mode. Raises KeyError for another."""
        for one in self.right:
            if one.mode == mode:
                return one
        raise KeyError(mode)

    @property
    def repaired(self) -> Repairs:
        """The sum of ``repairs`` over all families."""
        return Repairs.of("all", self.repairs)


def _record(record: Any) -> dict[str, Any]:
    names = [field.name for field in dataclasses.fields(record)]
    return {name: _data(getattr(record, name)) for name in (*names, *record.DERIVED)}


def _data(value: Any) -> Any:
    if isinstance(value, _Plain):
        return value.to_data()
    if isinstance(value, Mapping):
        return {key: _data(one) for key, one in value.items()}
    if isinstance(value, tuple):
        return [_data(one) for one in value]
    return value
