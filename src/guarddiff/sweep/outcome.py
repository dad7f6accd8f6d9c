"""What was measured of one case, as plain data that a line of JSON holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

State = Literal[
    "ok",
    "wrong shape",
    "wrong values",
    "runtime error",
    "refused input",
    "static input",
    "export error",
    "not comparable",
    "crashed",
    "timed out",
    "failed",
]
STATES: tuple[State, ...] = get_args(State)
SILENT: frozenset[State] = frozenset(("wrong shape", "wrong values", "runtime error"))
"""Exported without an error, with inputs that look dynamic, and wrong at another size."""
UNMEASURED: frozenset[State] = frozenset(("not comparable", "crashed", "timed out", "failed"))
"""What says nothing of the exporter: the case could not be made, is random, has no other sizes, or ended its
process."""


@dataclass(frozen=True)
class Found:
    """One finding of guarddiff's report.

    Attributes:
        stage: ``declare``, ``capture``, ``decompose``, ``translate`` or ``optimize``.
        op: ``aten.squeeze.dims``; None when unknown.
        verdict: ``confirmed``, ``unconfirmed``, ``harmless`` or ``inherent``.
        dims: ``x[2]: exactly 6``, one for each dimension.
        guards: At most three, over dimension names.
        source: ``file:line`` of the model; None when unknown.
        rule: ``file:line function`` of the decomposition rule; None when there is none.
        reason: Why the verdict is what it is; empty where it needs none.
        repairable: Whether guarddiff knows a repair for its kind.
    """

    stage: str
    op: str | None
    verdict: str
    dims: tuple[str, ...] = ()
    guards: tuple[str, ...] = ()
    source: str | None = None
    rule: str | None = None
    reason: str = ""
    repairable: bool = False


@dataclass(frozen=True)
class Said:
    """What guarddiff said of the export in one of its modes.

    Attributes:
        status: The report's: ``clean``, ``specialized`` or ``incomplete``.
        verdict: The strongest among the findings: ``confirmed``, ``unconfirmed``, ``harmless``, ``inherent``, and
            ``none`` where there is no finding.
        warned: Whether the user is warned.
        findings: All of them.
        missing: What the report says is missing.
        seconds: Time of the whole export.
    """

    status: str
    verdict: str
    warned: bool
    findings: tuple[Found, ...] = ()
    missing: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True)
class Repaired:
    """What ``repair=True`` gave.

    Attributes:
        returned: Whether a repaired model was returned; else it is torch's own.
        reason: Why, in the report's words.
        state: What the returned model is at the sizes of the case, as an outcome's state.
        text: What is wrong with it; empty for nothing.
        seconds: Time of the whole export.
        remaining: Whether the user is still warned: a model that was repaired in part.
    """

    returned: bool
    reason: str
    state: str
    text: str = ""
    seconds: float = 0.0
    remaining: bool = False

    @property
    def cured(self) -> bool:
        """Whether the returned model is right at all sizes that were tried."""
        return self.state == "ok"


@dataclass(frozen=True)
class Wrong:
    """One point at which the model is not what eager PyTorch is: the inputs' shapes, the state and what was seen."""

    shapes: tuple[tuple[int, ...], ...]
    state: str
    text: str


@dataclass(frozen=True)
class Outcome:
    """What was measured of one case.

    Attributes:
        key: The case's.
        state: What plain ``torch.onnx.export`` gives, by running it.
        stage: The first stage whose program is wrong at the first wrong point: ``capture``, ``decompose``,
            ``translate`` or ``optimize``; ``example`` where the model is wrong at the example's own sizes; None where
            nothing is wrong or where it could not be told.
        example: Shapes of the example's inputs.
        tried: Number of further points that eager PyTorch accepts.
        wrong: At most three of the points at which the model is wrong; the first decides state and stage.
        wrong_points: Number of all of them.
        default: What guarddiff says by default; None where the export raises.
        full: What it says with ``replay="full"``.
        repair: What ``repair=True`` gives; None where it was not asked.
        text: The error, for what is no ``ok`` and no wrong point.
        unsure: What counts neither way: guarddiff confirmed a fault that the case's own sizes do not show, and its
            counterexample could not be run again.
        beyond: Wrong at no size of the case's own: the wrong point is a counterexample of guarddiff's, which was run
            again with inputs of the case's own.
        seconds: Time of the whole measurement.
        memory: Peak resident memory of the process by then, in bytes; None when unknown.
    """

    key: str
    state: State
    stage: str | None = None
    example: tuple[tuple[int, ...], ...] = ()
    tried: int = 0
    wrong: tuple[Wrong, ...] = ()
    wrong_points: int = 0
    default: Said | None = None
    full: Said | None = None
    repair: Repaired | None = None
    text: str = ""
    unsure: bool = False
    beyond: bool = False
    seconds: float = 0.0
    memory: int | None = None

    @property
    def group(self) -> str:
        """``ops``, ``catalogue`` or ``models``."""
        return self.key.split("/", 1)[0]

    @property
    def family(self) -> str:
        """What figures are gathered under."""
        return self.key.split("/", 2)[1]

    @property
    def silent(self) -> bool:
        """Whether the exporter is silently wrong here."""
        return self.state in SILENT

    def to_data(self) -> dict[str, Any]:
        """Plain data without what has its default value."""
        return _lean(self)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Outcome:
        """The outcome that ``to_data`` gave; raises ValueError for anything else."""
        try:
            given = dict(data)
            given["example"] = _shapes(given.get("example", ()))
            given["wrong"] = tuple(
                Wrong(_shapes(w["shapes"]), str(w["state"]), str(w["text"])) for w in given.get("wrong", ())
            )
            for mode in ("default", "full"):
                given[mode] = _said(given[mode]) if given.get(mode) is not None else None
            given["repair"] = Repaired(**given["repair"]) if given.get("repair") is not None else None
            outcome = cls(**given)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not an outcome: {error}") from None
        if outcome.state not in STATES or outcome.key.count("/") < 2:
            raise ValueError(f"not an outcome: {outcome.key!r}, {outcome.state!r}")
        return outcome


def _lean(record: Any) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        if field.default is dataclasses.MISSING or value != field.default:
            kept[field.name] = _plain(value)
    return kept


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return _lean(value)
    if isinstance(value, (tuple, list)):
        return [_plain(one) for one in value]
    return value


def _shapes(given: Any) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(int(size) for size in shape) for shape in given)


def _said(given: Mapping[str, Any]) -> Said:
    found = tuple(
        Found(**{**one, "dims": tuple(one.get("dims", ())), "guards": tuple(one.get("guards", ()))})
        for one in given.get("findings", ())
    )
    return Said(**{**given, "findings": found, "missing": tuple(given.get("missing", ()))})
