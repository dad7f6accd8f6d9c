"""What changed between two reports: what a new version of torch fixed or broke."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Literal

from guarddiff.core.dims import Dimension
from guarddiff.core.domain import Admitted
from guarddiff.core.finding import Finding
from guarddiff.core.report import ReportData, Status

Direction = Literal["more", "fewer", "other", "unknown"]

_FAR = 20_000
_WORSE = {"clean": 0, "incomplete": 1, "specialized": 2}
_VERDICTS = {"inherent": 0, "harmless": 0, "unconfirmed": 1, "confirmed": 2}


def _level(finding: Finding) -> int:
    """How bad a finding is; a repaired one is no fault of the returned model."""
    return 0 if finding.repaired else _VERDICTS[finding.verdict]


@dataclass(frozen=True)
class DimensionChange:
    """The admitted sizes of one dimension in the old and the new finding, as text.

    ``direction``: ``more`` or ``fewer`` sizes are admitted, ``other`` ones, or ``unknown`` where that can't be told.
    """

    place: str
    name: str
    old: str
    new: str
    direction: Direction


@dataclass(frozen=True)
class FindingChange:
    """One finding in both reports that is not the same in both.

    ``moved`` names what of stage, operator and place is another, as (what, old, new).
    """

    old: Finding
    new: Finding
    dims: tuple[DimensionChange, ...] = ()
    moved: tuple[tuple[str, str, str], ...] = ()

    @property
    def worse(self) -> bool:
        """The verdict is worse, or a finding that warns admits fewer sizes, or others, or it is unknown whether."""
        before, after = _level(self.old), _level(self.new)
        less = any(dim.direction in ("fewer", "other", "unknown") for dim in self.dims)
        return after > before or (self.new.warns and less)

    @property
    def better(self) -> bool:
        """It warns no more, or more sizes are admitted, and nothing is worse. A fault that can't be shown any more
        (``unconfirmed``) is not better."""
        cleared = self.old.warns and not self.new.warns
        return not self.worse and (cleared or any(dim.direction == "more" for dim in self.dims))


@dataclass(frozen=True)
class ReportDiff:
    """What changed between two reports.

    Attributes:
        models: Class names of the old and the new model.
        status: The old and the new status.
        fixed: Findings that warned and are gone, in a new report that lacks nothing.
        unseen: Findings that warned and are not in the new report, which is not whole: fixed or not, nobody knows.
        new: Findings that warn and were not there.
        changed: Findings in both reports that differ.
        same: How many findings are the same in both.
        environment: (name, old, new) of each version that differs; None where a report has none.
        lacking: Parts that are missing in the new report and were there in the old one, with reasons.
        caveats: What makes the comparison doubtful: other models, other inputs.
    """

    models: tuple[str, str]
    status: tuple[Status, Status]
    fixed: tuple[Finding, ...] = ()
    unseen: tuple[Finding, ...] = ()
    new: tuple[Finding, ...] = ()
    changed: tuple[FindingChange, ...] = ()
    same: int = 0
    environment: tuple[tuple[str, str | None, str | None], ...] = ()
    lacking: tuple[tuple[str, str], ...] = ()
    caveats: tuple[str, ...] = ()

    @property
    def worse(self) -> bool:
        """Whether something got worse. Evidence that is missing now is worse: unknown is not fine."""
        return bool(self.new or self.lacking or any(change.worse for change in self.changed)) or (
            self.status[0] == "clean" and self.status[1] != "clean"
        )

    @property
    def better(self) -> bool:
        """Whether something got better."""
        return bool(self.fixed or any(change.better for change in self.changed))

    @property
    def same_model(self) -> bool:
        """Whether both reports name one model. Else nothing was fixed and nothing is new: the findings of each are
        only in the one report."""
        return self.models[0] == self.models[1]

    @property
    def differs(self) -> bool:
        """Whether anything but the environment is another."""
        return bool(self.fixed or self.unseen or self.new or self.changed or self.lacking or self.caveats) or (
            self.status[0] != self.status[1]
        )


def compare(old: ReportData, new: ReportData) -> ReportDiff:
    """What changed from ``old`` to ``new``."""
    pairs, gone, added = _matched(list(old.findings), list(new.findings))
    changes = [change for pair in pairs if (change := _change(*pair)) is not None]
    lost = tuple(finding for finding in gone if finding.warns)
    whole = not new.missing and new.error is None
    return ReportDiff(
        models=(old.model, new.model),
        status=(old.status, new.status),
        fixed=lost if whole else (),
        unseen=() if whole else lost,
        new=tuple(finding for finding in added if finding.warns),
        changed=tuple(changes),
        same=len(pairs) - len(changes),
        environment=_environment(old.environment, new.environment),
        lacking=_lacking(old, new),
        caveats=_caveats(old, new),
    )


# --- which finding is which ---


def _places(finding: Finding) -> tuple[str, ...]:
    return tuple(sorted({dim.place for dim in finding.dims}))


def _source(finding: Finding) -> Hashable:
    source = finding.origin.source
    return (source.file, source.function, source.text) if source else None


_KEYS: tuple[Callable[[Finding], Hashable], ...] = (
    lambda f: (f.stage, f.op, f.origin.module_path, _source(f), f.origin.source and f.origin.source.line, _places(f)),
    lambda f: (f.stage, f.op, f.origin.module_path, _source(f), _places(f)),
    lambda f: (f.stage, f.op, f.origin.module_path, _places(f)),
    lambda f: (f.stage, f.op, _places(f)),
    lambda f: (f.op, f.origin.module_path, _places(f)),
    lambda f: (f.stage, f.op, f.origin.module_path, _source(f)),
    lambda f: (f.origin.module_path, _source(f), _places(f)) if f.origin.source else None,
)
"""From strict to loose: what two findings have in common to be one. Lines move and versions of torch name operators and
stages otherwise; None matches nothing."""


def _matched(
    old: list[Finding], new: list[Finding]
) -> tuple[list[tuple[Finding, Finding]], list[Finding], list[Finding]]:
    """Pairs in the order of the new findings, and what is left on either side."""
    pairs: dict[int, Finding] = {}
    left_old, left_new = list(range(len(old))), list(range(len(new)))
    for key in _KEYS:
        waiting: dict[Hashable, list[int]] = {}
        for index in left_old:
            waiting.setdefault(key(old[index]), []).append(index)
        for index in list(left_new):
            found = key(new[index])
            if found is not None and waiting.get(found):
                partner = waiting[found].pop(0)
                pairs[index] = old[partner]
                left_old.remove(partner)
                left_new.remove(index)
    return [(pairs[i], new[i]) for i in sorted(pairs)], [old[i] for i in left_old], [new[i] for i in left_new]


# --- what is another ---


def _change(old: Finding, new: Finding) -> FindingChange | None:
    moved = [
        (what, before, after)
        for what, before, after in (
            ("stage", old.stage, new.stage),
            ("operator", old.op, new.op),
            ("module", old.origin.module_path or "", new.origin.module_path or ""),
        )
        if before != after
    ]
    dims = _dimensions(old, new)
    if (old.verdict, old.repaired) == (new.verdict, new.repaired) and not moved and not dims:
        return None
    return FindingChange(old, new, tuple(dims), tuple(moved))


def _dimensions(old: Finding, new: Finding) -> list[DimensionChange]:
    before = {dim.place: dim for dim in old.dims}
    after = {dim.place: dim for dim in new.dims}
    found = []
    for place in dict.fromkeys((*before, *after)):
        was, now = before.get(place), after.get(place)
        if _text(was) == _text(now):
            continue
        shown = now or was
        name = shown.name if shown is not None else place
        found.append(DimensionChange(place, name, _text(was), _text(now), _direction(was, now)))
    return found


def _text(dim: Dimension | None) -> str:
    """The admitted sizes in words; a dimension that the finding does not name is not restricted by it."""
    if dim is None:
        return "not restricted"
    return dim.admitted.text if dim.admitted is not None and dim.admitted.known else "unknown"


def _direction(old: Dimension | None, new: Dimension | None) -> Direction:
    if old is None or new is None:
        return "fewer" if old is None else "more"
    if old.admitted is None or new.admitted is None or not (old.admitted.known and new.admitted.known):
        return "unknown"
    return _between(old.admitted, new.admitted)


def _between(old: Admitted, new: Admitted) -> Direction:
    if old.whole != new.whole:
        return "more" if new.whole else "fewer"
    if old.intervals is None or new.intervals is None:
        return "other"
    ends = [end for first, last in (*old.intervals, *new.intervals) for end in (first, last or first)]
    sizes = {*range(min(max(ends, default=0) + 2, _FAR)), *(end + step for end in ends for step in (-1, 0, 1))}
    sizes |= {2 * max(ends, default=0) + step for step in range(2, 70)}
    sizes = {size for size in sizes if size >= 0}
    gained = any(size in new and size not in old for size in sizes)
    lost = any(size in old and size not in new for size in sizes)
    if gained and not lost:
        return "more"
    return "fewer" if lost and not gained else "other"


def _environment(old: dict[str, str], new: dict[str, str]) -> tuple[tuple[str, str | None, str | None], ...]:
    names = sorted({*old, *new})
    return tuple((name, old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name))


def _lacking(old: ReportData, new: ReportData) -> tuple[tuple[str, str], ...]:
    before = {missing.part for missing in old.missing}
    found = [(missing.part, missing.why) for missing in new.missing if missing.part not in before]
    if new.error is not None and old.error is None:
        found.append(("the exported model", f"the export raised {_cause(new.error)}"))
    return tuple(dict.fromkeys(found))


def _cause(error: str) -> str:
    """The first line of an exception's text without the heading of a list, and the line that names the cause."""
    lines = error.splitlines() or [""]
    cause = next((line for line in lines[1:] if line.startswith("caused by ")), "")
    return " ".join(filter(None, (lines[0].strip().removesuffix("Next steps:").strip(), cause)))


def _caveats(old: ReportData, new: ReportData) -> tuple[str, ...]:
    found = []
    if old.model != new.model:
        found.append(f"the models have different names: {old.model or 'none'} and {new.model or 'none'}")
    before, after = _declared(old), _declared(new)
    if before != after:
        places = sorted({place for place, _ in before ^ after})
        found.append(f"other dimensions or sizes were declared: {', '.join(places[:6])}")
    return tuple(found)


def _declared(report: ReportData) -> set[tuple[str, str]]:
    """What was declared, by place; a report of an export that raised early has none."""
    return {
        (dim.place, str(dim.declared) if dim.declared else f"fixed at {dim.example}")
        for spec in report.inputs
        for dim in spec.dims
    }
