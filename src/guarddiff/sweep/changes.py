"""The comparison of two sweeps as terminal text, Markdown and JSON."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from guarddiff.render import words
from guarddiff.render.commonmark import code, plain, table
from guarddiff.sweep import evidence
from guarddiff.sweep.compare import Changes, Heard, Moved, RecallChange
from guarddiff.sweep.figures import Recall
from guarddiff.sweep.outcome import Outcome
from guarddiff.sweep.page import percent
from guarddiff.sweep.page_tables import folded
from guarddiff.sweep.summary import place

FORMAT = "guarddiff-sweep-diff"
VERSION = 1
FORMATS = ("text", "markdown", "json")
_WIDTH = 110
_KEY, _TEXT = 140, 200
_FOLDED_FROM = 20

_Section = tuple[str, Sequence[tuple[str, str]]]
"""A title, and (key, what is said of it), neither of them escaped."""


def to_text(changes: Changes) -> str:
    """The comparison for a terminal."""
    blocks = [[_title(changes), *textwrap.wrap(_counts(changes), _WIDTH)]]
    blocks.append(_listed("Caution", [words.clean(one) for one in changes.caveats]))
    blocks.append(_listed("Environment", [_version(*one, words.clean) for one in changes.environment]))
    for title, items in _sections(changes):
        lines = [f"{words.clean(key, _KEY)}: {words.clean(said, _TEXT)}" for key, said in items]
        blocks.append(_listed(f"{title} ({len(items)})", lines))
    blocks.append(_listed("Recall", [f"{': '.join(_recalled(one)[:2])}: {_both(one)}" for one in changes.recall]))
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def to_markdown(changes: Changes) -> str:
    """The comparison as CommonMark with tables as on GitHub."""
    blocks = [f"# {_title(changes)}", _counts(changes)]
    blocks += _bullets("Caution", [plain(one) for one in changes.caveats])
    blocks += _bullets("Environment", [_version(*one, code) for one in changes.environment])
    for title, items in _sections(changes):
        if items:
            lines = [[code(key, _KEY) or "–", plain(said, _TEXT)] for key, said in items]
            shown = table(("case", "old → new"), lines)
            long = len(items) > _FOLDED_FROM
            blocks += [f"## {title} ({len(items)})", folded(words.count(len(items), "case"), shown) if long else shown]
    if changes.recall:
        head = ("mode", "silently wrong at", "old: warned", "new: warned", "old: confirmed", "new: confirmed")
        blocks += ["## Recall", table(head, [_recalled(one) for one in changes.recall])]
    return "\n\n".join(blocks) + "\n"


def to_json(changes: Changes) -> str:
    """The comparison as versioned JSON in ASCII, ending in a newline."""
    moved = ("became_wrong", "became_right", "changed", "unmeasured_now", "unmeasured_before")
    heard = ("lost", "gained", "alarms", "alarms_gone")
    cures = ("cures_lost", "cures_gained")
    data: dict[str, Any] = {"format": FORMAT, "version": VERSION, "worse": changes.worse}
    data |= {name: [_moved_record(one) for one in getattr(changes, name)] for name in (*moved, *cures)}
    data |= {name: [_heard_record(one) for one in getattr(changes, name)] for name in heard}
    data |= {name: [_record(one) for one in getattr(changes, name)] for name in ("appeared", "vanished")}
    data["same"] = changes.same
    data["recall"] = [{"old": one.old.to_data(), "new": one.new.to_data()} for one in changes.recall]
    data["environment"] = [{"name": name, "old": old, "new": new} for name, old, new in changes.environment]
    data["caveats"] = list(changes.caveats)
    return json.dumps(data, indent=1, ensure_ascii=True, allow_nan=False) + "\n"


def _title(changes: Changes) -> str:
    lost = len(changes.vanished) + len(changes.unmeasured_now)
    rest = f"; cases with results in the old sweep only: {lost:,}" if lost else ""
    return f"guarddiff sweep compare: {'something' if changes.worse else 'nothing'} got worse{rest}"


def _counts(changes: Changes) -> str:
    counts = [
        (len(changes.became_wrong), "became silently wrong"),
        (len(changes.became_right), "became right"),
        (len(changes.changed), "changed state or stage"),
        (len(changes.appeared), "appeared"),
        (len(changes.vanished), "vanished"),
        (len(changes.unmeasured_now) + len(changes.unmeasured_before), "measured in one of the two only"),
        (changes.same, "the same"),
    ]
    cases = ", ".join(f"{number:,} {what}" for number, what in counts if number) or "none in either"
    lost, gained = len(changes.lost), len(changes.gained)
    return f"Cases: {cases}. Detections of guarddiff: {lost:,} lost, {gained:,} gained."


def _sections(changes: Changes) -> list[_Section]:
    return [
        ("Became silently wrong", [_moved(one) for one in changes.became_wrong]),
        ("Detections that guarddiff lost", [_heard(one) for one in changes.lost]),
        ("Became right", [_moved(one) for one in changes.became_right]),
        ("Changed state or stage", [_moved(one) for one in changes.changed]),
        ("Detections that guarddiff gained", [_heard(one) for one in changes.gained]),
        ("New false alarms", [_heard(one) for one in changes.alarms]),
        ("False alarms that are gone", [_heard(one) for one in changes.alarms_gone]),
        ("Cured before and not now", [_cure(one) for one in changes.cures_lost]),
        ("Cured now and not before", [_cure(one) for one in changes.cures_gained]),
        ("Not measured now: changed or not is unknown", [_moved(one) for one in changes.unmeasured_now]),
        ("Not measured before", [_moved(one) for one in changes.unmeasured_before]),
        ("Appeared", [(one.key, _state(one)) for one in changes.appeared]),
        ("Vanished", [(one.key, _state(one)) for one in changes.vanished]),
    ]


def _state(outcome: Outcome) -> str:
    return f"{outcome.state} at {place(outcome)}" if outcome.silent else str(outcome.state)


def _moved(one: Moved) -> tuple[str, str]:
    seen = evidence.seen(one.new)
    sizes = f" ({evidence.wrong(one.new)})" if one.new.silent and one.new.wrong else ""
    return one.key, f"{_state(one.old)} → {_state(one.new)}{sizes}{f': {seen}' if seen else ''}"


def _heard(one: Heard) -> tuple[str, str]:
    before, after = (evidence.verdict(evidence.said(which, one.mode)) for which in (one.old, one.new))
    return one.key, f"{one.mode}: {before} → {after}: {one.reason}"


def _cure(one: Moved) -> tuple[str, str]:
    return one.key, f"{evidence.repair(one.old.repair)} → {evidence.repair(one.new.repair)}"


def _recalled(one: RecallChange) -> list[str]:
    figures = [(one.old.warned, one.old), (one.new.warned, one.new), (one.old.confirmed, one.old)]
    figures.append((one.new.confirmed, one.new))
    return [one.new.mode, one.new.of, *(_share(number, recall) for number, recall in figures)]


def _share(number: int, recall: Recall) -> str:
    return f"{number:,} of {recall.cases:,} ({percent(number, recall.cases)})"


def _both(one: RecallChange) -> str:
    return f"warned {_share(one.old.warned, one.old)} → {_share(one.new.warned, one.new)}"


def _version(name: str, old: str | None, new: str | None, escape: Callable[[str, int], str]) -> str:
    before, after = ("none" if version is None else escape(version, 80) for version in (old, new))
    return f"{name} {before} → {after}"


def _listed(title: str, items: Sequence[str]) -> list[str]:
    lines = [line for item in items for line in textwrap.wrap(f"- {item}", _WIDTH, subsequent_indent="  ")]
    return [f"{title}:", *lines] if lines else []


def _bullets(title: str, items: Sequence[str]) -> list[str]:
    return [f"## {title}", "\n".join(f"- {item}" for item in items)] if items else []


def _record(outcome: Outcome) -> dict[str, Any]:
    return {"key": outcome.key, "state": outcome.state, "stage": place(outcome) if outcome.silent else None}


def _moved_record(one: Moved) -> dict[str, Any]:
    return {"key": one.key, "old": _record(one.old), "new": _record(one.new)}


def _heard_record(one: Heard) -> dict[str, Any]:
    told = [evidence.said(which, one.mode) for which in (one.old, one.new)]
    old, new = (None if said is None else said.verdict for said in told)
    return {"key": one.key, "mode": one.mode, "old": old, "new": new, "reason": one.reason}
