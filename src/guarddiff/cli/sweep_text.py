"""A sweep in words: how far it is, what came out, and one case."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from guarddiff.render import words
from guarddiff.sweep.outcome import STATES, Found, Outcome, Said

if TYPE_CHECKING:
    from guarddiff.sweep.figures import Counts, Recall, Summary
    from guarddiff.sweep.run import Progress

_WIDTH = 110
_OF = {
    "all": "all four stages",
    "unknown": "of unknown stage",
    "example": "wrong at the example",
    "beyond": "wrong only at sizes that guarddiff found",
}
_MODES = {"default": "by default", "full": 'with replay="full"'}


def states(counts: Mapping[str, int]) -> str:
    """``80 ok, 3 wrong shape``."""
    return ", ".join(f"{counts[state]:,} {state}" for state in STATES if counts.get(state)) or "none yet"


def duration(seconds: float) -> str:
    """``40 s``, ``12 min`` or ``2 h 5 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def progress(told: Progress) -> str:
    """``120 of 900 cases: 80 ok, 40 wrong shape; about 12 min left``."""
    text = f"{told.done:,} of {words.count(told.total, 'case')}: {states(told.counts)}"
    if told.done < told.total and told.left is not None:
        text += f"; about {duration(told.left)} left"
    return text


def table(summary: Summary) -> str:
    """What a sweep showed, as terminal text."""
    groups = summary.groups if len(summary.groups) == 1 else (*summary.groups, summary.total)
    sections = [
        *(_group(counts) for counts in groups),
        _aligned("guarddiff warns of", [_recall(one) for one in summary.recall if one.cases]),
        _aligned(
            "Right, and warned of all the same",
            [(_MODES[one.mode], f"{one.warned} of {one.cases}, {one.confirmed} as confirmed") for one in summary.right],
        ),
    ]
    return "\n\n".join("\n".join(section) for section in sections if section) + "\n"


def _group(counts: Counts) -> list[str]:
    share = f" ({100 * counts.silent_share:.1f} %)" if counts.silent_share is not None else ""
    title = f"{words.clean(counts.group, 40)}: {words.count(counts.cases, 'case')}, "
    title += f"{counts.exported:,} exported, {counts.silent:,} of them silently wrong{share}"
    rows = [(state, f"{number:,}{_places(counts, state)}") for state, number in counts.states.items()]
    return _aligned(title, rows)


def _places(counts: Counts, state: str) -> str:
    stages = [f"{stage} {numbers[state]:,}" for stage, numbers in counts.classes.items() if numbers.get(state)]
    return f"  ({', '.join(stages)})" if stages else ""


def _recall(one: Recall) -> tuple[str, str]:
    text = f"{one.warned:,} of {one.cases:,} silently wrong, {one.confirmed:,} as confirmed"
    return f"{_OF.get(one.of, one.of)}, {_MODES[one.mode]}", text


def _aligned(title: str, rows: Sequence[tuple[str, str]]) -> list[str]:
    width = max((len(name) for name, _ in rows), default=0)
    return [title, *(f"  {name:<{width}}  {text}" for name, text in rows)] if rows else []


def told(outcome: Outcome) -> str:
    """One outcome as terminal text."""
    sections = [
        [f"{words.clean(outcome.key, 120)}: {_state(outcome)}", *_wrapped(outcome.text)],
        _wrong(outcome),
        *(_said(name, said) for name, said in (("default", outcome.default), ("full", outcome.full)) if said),
        _repair(outcome),
        [f"Took {duration(outcome.seconds)}." if outcome.seconds >= 1 else f"Took {outcome.seconds:.1f} s."],
    ]
    return "\n\n".join("\n".join(section) for section in sections if section) + "\n"


def _state(outcome: Outcome) -> str:
    if outcome.state == "ok":
        unsure = ", but a fault that guarddiff confirmed could not be run again" if outcome.unsure else ""
        return f"right at the example and at {words.count(outcome.tried, 'further point')}{unsure}"
    if outcome.stage == "example":
        return f"{outcome.state}, at the example's own sizes"
    stage = f", since {outcome.stage}" if outcome.stage else ", at an unknown stage" if outcome.silent else ""
    return f"{outcome.state}{stage}"


def _wrong(outcome: Outcome) -> list[str]:
    if not outcome.wrong_points:
        return []
    title = f"Wrong at {outcome.wrong_points:,} of {words.count(outcome.tried + 1, 'point')}"
    rows = [(_shapes(one.shapes), f"{one.state}: {words.clean(one.text)}") for one in outcome.wrong]
    return _aligned(f"{title}; the example is {_shapes(outcome.example)}", rows)


def _shapes(shapes: Iterable[Sequence[int]]) -> str:
    return words.clean("  ".join(str(tuple(shape)) for shape in shapes), 120)


def _said(mode: str, said: Said) -> list[str]:
    warns = "warns" if said.warned else "does not warn"
    lines = [f"guarddiff {_MODES[mode]}: {said.status}, {warns}, {said.verdict} ({said.seconds:.1f} s)"]
    for found in said.findings:
        lines += _indented(_found(found))
    for missing in said.missing:
        lines += _indented(f"missing: {words.clean(missing)}")
    return lines


def _found(found: Found) -> str:
    parts = [f"{found.verdict}, {found.stage}", found.op, "; ".join(found.dims)]
    parts += [f"guard {guard}" for guard in found.guards]
    parts += [
        f"at {found.source}" if found.source else None,
        f"rule {found.rule}" if found.rule else None,
        found.reason,
    ]
    return " | ".join(words.clean(part, 200) for part in parts if part)


def _repair(outcome: Outcome) -> list[str]:
    done = outcome.repair
    if done is None:
        return []
    if done.returned:
        result = "a repaired model, right at all these points" if done.cured else f"a repaired model: {done.state}"
    else:
        result = "no repaired model"
    return [f"With repair=True: {result}", *_wrapped("; ".join(filter(None, (done.reason, done.text))))]


def _wrapped(text: str) -> list[str]:
    return _indented(words.clean(text, 600)) if text else []


def _indented(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="    ")
