"""The tables of a sweep's page. All text from cases is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from guarddiff.render import words
from guarddiff.render.commonmark import code, plain, table
from guarddiff.sweep import evidence
from guarddiff.sweep.figures import APART, MODES, Family, Judged, Repairs, Summary
from guarddiff.sweep.outcome import Outcome

_NAME, _LINE, _TEXT, _SIZES = 100, 90, 140, 80
_FOLDED_FROM = 12
"""Tables with more rows are folded."""


def folded(title: str, shown: str) -> str:
    """A block that opens on a click; ``title`` is our own."""
    return f"<details>\n<summary>{title}</summary>\n\n{shown}\n\n</details>"


def families(found: Sequence[Family], repairs: Mapping[tuple[str, str], Repairs]) -> str:
    """One row for each operator, pattern or package."""
    head = ("what", "wrong", "stage", "right → wrong", "operator", "rule", "model's line", "guard", "missed", "cured")
    return table(head, [_family(one, repairs.get((one.group, one.family))) for one in found])


def _family(one: Family, repaired: Repairs | None) -> list[str]:
    stages = ", ".join(f"{plain(stage)} {number}" for stage, number in one.stages.items())
    return [
        code(one.family, _NAME),
        f"{one.silent} of {one.cases}",
        stages,
        _wrong_at(evidence.shapes(one.right) if one.right else "", evidence.shapes(one.wrong) if one.wrong else ""),
        _code(one.op, _NAME),
        _place(one.rule),
        _place(one.source),
        _code(one.guard, _NAME),
        _both(one.missed_default, one.missed_full),
        f"{repaired.cured} of {one.silent}" if repaired is not None and repaired.asked else "not asked",
    ]


def _both(default: int, full: int) -> str:
    """How many are missed in each mode; a dash for none."""
    return f"{default} by default, {full} in full" if default or full else "–"


def cases(silent: Sequence[Outcome]) -> str:
    """One row for each silently wrong case."""
    head = ("case", "stage", "right → wrong", "what", "operator", "rule", "model's line", "guard")
    return table((*head, "default", "full", "repair"), [_case(one) for one in silent])


def _case(one: Outcome) -> list[str]:
    found = evidence.main(one)
    seen = evidence.seen(one)
    return [
        _key(one.key),
        plain(one.stage or "unknown", 20),
        _wrong_at(evidence.right(one), evidence.wrong(one)),
        f"{plain(one.state)}: {plain(seen, _TEXT)}" if seen.strip() else plain(one.state),
        _code(found.op if found else None, _NAME),
        _place(found.rule if found else None),
        _place(found.source if found else None),
        _code(found.guards[0] if found and found.guards else None, _NAME),
        plain(evidence.verdict(one.default), 40),
        plain(evidence.verdict(one.full), 40),
        plain(evidence.repair(one.repair), _TEXT),
    ]


def _key(key: str) -> str:
    return code(key, _NAME + 40) or "–"


def _code(text: str | None, limit: int) -> str:
    return code(text, limit) if text and text.strip() else "–"


def _place(text: str | None) -> str:
    """A file, line and function, the end kept."""
    return code(words.clean_end(text, _LINE), 2 * _LINE) if text and text.strip() else "–"


def _sizes(right: str, wrong: str) -> str:
    before, after = words.clean(right, _SIZES), words.clean(wrong, _SIZES)
    if before and after:
        return f"{before} → {after}"
    return before or after or "–"


def _wrong_at(right: str, wrong: str) -> str:
    """As ``_sizes``, where no right size means that the example is wrong already."""
    if not right:
        return f"wrong at {words.clean(wrong, _SIZES)}" if wrong else "wrong at the example"
    return _sizes(right, wrong or "unknown")


def _judged(title: str, found: Iterable[Judged], shown_stage: bool) -> list[str]:
    """One row for each case; what both modes say alike is said once."""
    by_key: dict[str, dict[str, Judged]] = {}
    for one in found:
        by_key.setdefault(one.key, {})[one.mode] = one
    lines = []
    for key, modes in by_key.items():
        first = next(iter(modes.values()))
        reasons = {mode: one.reason for mode, one in modes.items()}
        if len(set(reasons.values())) == 1:
            why = plain(first.reason, 2 * _TEXT)
        else:
            why = "; ".join(f"{mode}: {plain(reason, 2 * _TEXT)}" for mode, reason in reasons.items())
        stage = [plain(first.stage or "unknown", 20)] if shown_stage else []
        lines.append([_key(key), *stage, " and ".join(mode for mode in MODES if mode in modes), why])
    head = ("case", "stage", "mode", "what the report says") if shown_stage else ("case", "mode", "why")
    return [f"## {title} ({len(lines)})", _long(table(head, lines), len(lines)) if lines else "None."]


def _long(shown: str, rows: int) -> str:
    return folded(words.count(rows, "case"), shown) if rows > _FOLDED_FROM else shown


def missed(summary: Summary) -> list[str]:
    """Silently wrong cases of which the user hears nothing."""
    return _judged("Silently wrong, no warning", summary.missed, True)


def alarms(summary: Summary, cases: Sequence[Outcome]) -> list[str]:
    """Right cases that warn, and those that count neither way."""
    blocks = _judged("Right, but a warning", summary.alarms, False)
    unsure = set(summary.unsure)
    if unsure:
        lines = [
            [_key(one.key), plain(evidence.reason(one.full or one.default), 2 * _TEXT)]
            for one in cases
            if one.key in unsure
        ]
        blocks += [
            f"Unsure, counted neither way ({len(lines)}):",
            _long(table(("case", "what the report says"), lines), len(lines)),
        ]
    return blocks


def bad_repairs(summary: Summary) -> list[str]:
    """Repaired models that are not right."""
    found = summary.bad_repairs
    lines = [[_key(one.key), plain(one.state), plain(one.text, _TEXT) or "–"] for one in found]
    title = f"## Repaired models that are wrong ({len(found)})"
    return [title, table(("case", "state", "what"), lines) if lines else "None."]


def loud(cases: Sequence[Outcome]) -> list[str]:
    """What is not right but tells the user so; nothing where there is none."""
    found = []
    for state in APART:
        members = [one for one in cases if one.state == state]
        if not members:
            continue
        lines = [
            [
                _key(one.key),
                _sizes(evidence.right(one), evidence.wrong(one)),
                plain(evidence.seen(one), _TEXT) or "–",
                plain(evidence.verdict(one.default), 40),
                plain(evidence.verdict(one.full), 40),
            ]
            for one in members
        ]
        shown = table(("case", "sizes", "what", "default", "full"), lines)
        found.append(folded(f"{state[0].upper()}{state[1:]} ({len(members)})", shown))
    return ["## Not right, and not silent", *found] if found else []


def unmeasured(summary: Summary) -> list[str]:
    """What says nothing of the exporter, and why."""
    found = summary.unmeasured
    title = f"## Not measured ({len(found)})"
    if not found:
        return [title, "None."]
    lines = [[_key(one.key), plain(one.state), plain(one.text, _TEXT) or "–"] for one in found]
    return [title, _long(table(("case", "state", "why"), lines), len(lines))]


def times(summary: Summary, environment: Mapping[str, Any]) -> list[str]:
    """Where the time went: by run, and the slowest cases."""
    spent = summary.times
    rate = f", {spent.per_minute:,.1f} cases in a minute of one worker" if spent.per_minute is not None else ""
    memory = f" The highest peak of memory is {spent.memory / 2**20:,.0f} MiB." if spent.memory is not None else ""
    said = (
        f"{words.count(spent.cases, 'case')} took {_seconds(spent.seconds)} of workers' time{rate}; in exports by "
        f'default {_seconds(spent.default)}, with `replay="full"` {_seconds(spent.full)}, with `repair=True` '
        f"{_seconds(spent.repair)}.{memory}"
    )
    blocks = ["## Time", said]
    runs = environment.get("runs")
    lines = [_run(one) for one in runs if isinstance(one, Mapping)] if isinstance(runs, (list, tuple)) else []
    if lines:
        blocks.append(table(("run", "on", "started", "jobs", "cases", "took", "cases in a minute"), lines))
    slowest = [[_key(one.key), _seconds(one.seconds)] for one in spent.slowest]
    if slowest:
        blocks.append(folded(f"The slowest {len(slowest)}", table(("case", "took"), slowest)))
    return blocks


def _run(run: Mapping[str, Any]) -> list[str]:
    seconds, cases = run.get("seconds"), run.get("cases")
    known = isinstance(seconds, (int, float)) and seconds > 0
    return [
        code(str(run.get("file", "")), 80) or "–",
        *(plain(str(run[name]), 40) if run.get(name) is not None else "–" for name in ("platform", "started", "jobs")),
        f"{cases:,}" if isinstance(cases, int) else "–",
        _seconds(seconds) if known and isinstance(seconds, (int, float)) else "–",
        f"{60 * cases / seconds:,.1f}"
        if known and isinstance(cases, int) and isinstance(seconds, (int, float))
        else "–",
    ]


def _seconds(seconds: float) -> str:
    """``8.4 s``, ``12 min 30 s``, ``1 h 05 min``."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
