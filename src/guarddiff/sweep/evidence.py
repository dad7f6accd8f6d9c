"""What an outcome tells in words: the finding that tells most, reasons, sizes. Not escaped for any format."""

from __future__ import annotations

from collections.abc import Sequence

from guarddiff.sweep.case import Shapes
from guarddiff.sweep.outcome import Found, Outcome, Repaired, Said

_RANK = {"confirmed": 0, "unconfirmed": 1}
_MOST_REASONS = 3


def said(outcome: Outcome, mode: str) -> Said | None:
    """What guarddiff said in ``default`` or ``full``; None where it was not asked or the export raised."""
    return outcome.full if mode == "full" else outcome.default


def warned(outcome: Outcome, mode: str) -> bool:
    """Whether the user is warned in this mode. Where guarddiff was not asked nobody is."""
    told = said(outcome, mode)
    return told is not None and told.warned


def confirmed(outcome: Outcome, mode: str) -> bool:
    """Whether the strongest verdict in this mode is ``confirmed``."""
    told = said(outcome, mode)
    return told is not None and told.verdict == "confirmed"


def main(outcome: Outcome) -> Found | None:
    """The finding that tells most of the case: the strongest verdict, at the stage that is wrong, of the full mode
    rather than the default one. None where none warns: a harmless or inherent one is not the origin of a fault."""
    found = [one for mode in ("full", "default") for one in _findings(said(outcome, mode)) if one.verdict in _RANK]
    return min(found, key=lambda one: (_RANK[one.verdict], one.stage != outcome.stage), default=None)


def _findings(told: Said | None) -> Sequence[Found]:
    return () if told is None else told.findings


def reason(told: Said | None) -> str:
    """Why there is a warning, or none: verdict, operator, stage and reason of the findings, and what is missing."""
    if told is None:
        return "guarddiff was not asked"
    parts = [finding(one) for one in told.findings[:_MOST_REASONS]] or ["no finding"]
    if len(told.findings) > _MOST_REASONS:
        parts.append(f"{len(told.findings) - _MOST_REASONS} more findings")
    parts += [f"missing: {one}" for one in told.missing]
    return "; ".join(parts)


def finding(found: Found) -> str:
    """``harmless aten.add.Tensor at capture: 3 sizes agree``."""
    what = f"{found.verdict} {found.op or 'unknown operator'} at {found.stage}"
    return f"{what}: {found.reason}" if found.reason else what


def verdict(told: Said | None) -> str:
    """``confirmed``; with ``no warning`` where the user is not warned."""
    if told is None:
        return "not asked"
    return told.verdict if told.warned else f"{told.verdict}, no warning"


def repair(repaired: Repaired | None) -> str:
    """``cured``, ``none: reason``, or what is wrong with the model that was returned."""
    if repaired is None:
        return "not asked"
    if not repaired.returned:
        return f"none: {repaired.reason}" if repaired.reason else "none"
    return "cured" if repaired.cured else f"returned, {repaired.state or 'not run'}"


def shapes(given: Shapes) -> str:
    """``2×3×6×6, 5``; ``scalar`` for a tensor without axes."""
    return ", ".join("×".join(map(str, shape)) or "scalar" for shape in given) or "no tensors"


def right(outcome: Outcome) -> str:
    """The shapes of the example, at which the model is right; empty where it is wrong already there or unknown."""
    return "" if outcome.stage == "example" or not outcome.example else shapes(outcome.example)


def wrong(outcome: Outcome) -> str:
    """The shapes of the first point at which the model is wrong; empty where there is none."""
    return shapes(outcome.wrong[0].shapes) if outcome.wrong else ""


def seen(outcome: Outcome) -> str:
    """What was seen: of the first wrong point, or the error."""
    return outcome.wrong[0].text if outcome.wrong else outcome.text
