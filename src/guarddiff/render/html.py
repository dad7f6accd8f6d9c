"""A report as one HTML file that needs nothing else: no network, no other file, and no script to be read."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import islice
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from guarddiff.core.finding import Finding
from guarddiff.core.origin import Origin
from guarddiff.core.report import Change, ReportData
from guarddiff.core.snapshot import Guard, Snapshot
from guarddiff.core.stage import STAGES
from guarddiff.render import moves, proofs, rows, strip, words

_LONGEST = 4000  # of any text, whatever it is
_MOST = {
    "dimensions": 200,
    "findings": 200,
    "changes": 500,
    "guards": 100,
    "nodes": 100,
    "lines": 300,
    "tries": 300,
    "stages": 50,
    "listed": 200,
}
_MATTER = ("restricts", "unknown")

_VERDICTS = ("confirmed", "unconfirmed", "repaired", "harmless", "inherent")


@dataclass(frozen=True)
class GuardRow:
    """One guard; ``symbolic`` and ``kind`` are empty and ``origin`` is None where they are not known."""

    text: str
    symbolic: str
    kind: str
    origin: Origin | None


@dataclass(frozen=True)
class ChangeGroup:
    """A change with its verdict (empty where it belongs to no finding)."""

    change: Change
    verdict: str
    guards: tuple[GuardRow, ...]


def render(report: ReportData) -> str:
    """The whole report as one HTML document; the JSON report holds what is cut from very long lists.

    Styles and script stand inside and are allowed by their hashes alone; everything can be read without the script.
    """
    style, script = _asset("report.css"), _asset("report.js")
    strips = list(islice(_strips(report), _MOST["dimensions"]))
    return _environment().get_template("report.html.j2").render(
        report=report,
        style=Markup(style),
        script=Markup(script),
        policy=f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'",
        loud=[(n, f) for n, f in enumerate(report.findings, 1) if f.warns],
        quiet=[(n, f) for n, f in enumerate(report.findings, 1) if not f.warns],
        strips=strips,
        tries=sorted(report.tries, key=lambda run: run.state == "agrees"),
        used={mark.state for drawn, _ in strips for mark in drawn.marks},
        vague=any(not track.exact for drawn, _ in strips for track in drawn.tracks),
        dynamic=sum(d.declared is not None for spec in report.inputs for d in spec.dims),
        changes=_changes(report),
        guards_of=_guards_by_finding(report),
        counts=_counts(report),
    )  # fmt: skip


def _strips(report: ReportData) -> Iterator[tuple[strip.Strip, rows.InputRow]]:
    """The declared dimensions with what the table of inputs says of them."""
    said = (row for row in rows.input_rows(report) if row.axis)
    declared = [d.declared is not None for spec in report.inputs for d in spec.dims]
    return zip(strip.strips(report), (row for row, shown in zip(said, declared, strict=True) if shown), strict=True)


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
    return f"'sha256-{digest}'"


@cache
def _asset(name: str) -> str:
    return resources.files("guarddiff.render").joinpath("templates", name).read_text("utf-8")


@cache
def _environment() -> Environment:
    """Every text is escaped and cleaned of what can't be printed, also where a template forgets to."""
    env = Environment(
        loader=FunctionLoader(_asset),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    env.filters.update(short=words.clean, lines=_lines, counted=words.count)
    env.globals.update(
        words=words,
        moves=moves,
        MOST=_MOST,
        OUTCOMES=strip.STATES,
        proofs=proofs,
        STAGES=STAGES,
        VERDICTS=_VERDICTS,
        kinds=_kinds,
        by_origin=_by_origin,
    )
    return env


def _shown(value: Any) -> Any:
    """What a template writes: markup of ours as it is, any other text on one line of printable characters."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return words.clean(value, _LONGEST)


def _lines(text: str) -> list[str]:
    """The lines of a script or an output, with what can't be printed as escapes; tabs become spaces."""
    lines = text.expandtabs(4).splitlines()
    shown = [words.clean(line, 1000) for line in lines[: _MOST["lines"]]]
    left = len(lines) - len(shown)
    return [*shown, f"# {left} more in the JSON report"] if left else shown


def _kinds(snapshot: Snapshot) -> str:
    """``4 asserts, 1 range``."""
    found: dict[str, int] = {}
    for guard in snapshot.guards:
        found[guard.kind] = found.get(guard.kind, 0) + 1
    return ", ".join(words.count(number, kind) for kind, number in found.items()) or "none"


def _by_origin(guards: Sequence[GuardRow]) -> list[tuple[Origin | None, list[GuardRow]]]:
    """Guards of one origin together, in the order in which the origins first appear."""
    found: dict[Origin | None, list[GuardRow]] = {}
    for guard in guards:
        found.setdefault(guard.origin, []).append(guard)
    return list(found.items())


def _row(guard: Guard) -> GuardRow:
    return GuardRow(guard.text, guard.symbolic, guard.kind, guard.origin)


def _changes(report: ReportData) -> list[ChangeGroup]:
    """The changes in the order of the stages; where there are too many, those that matter are kept."""
    kept = report.changes
    if len(kept) > _MOST["changes"]:
        kept = tuple(sorted(kept, key=lambda change: change.effect not in _MATTER))[: _MOST["changes"]]
    return [ChangeGroup(c, _verdict(c, report.findings), tuple(map(_row, c.guards))) for c in kept]


def _verdict(change: Change, findings: Sequence[Finding]) -> str:
    known = change.finding is not None and 0 <= change.finding < len(findings)
    return words.state(findings[change.finding]) if known and change.finding is not None else ""


def _guards_by_finding(report: ReportData) -> Mapping[int, list[GuardRow]]:
    """For each finding, by its number, its guards with what the changes know of them."""
    seen: dict[tuple[int | None, str], GuardRow] = {}
    for change in report.changes:
        for guard in change.guards:
            seen.setdefault((change.finding, guard.text), _row(guard))
            seen.setdefault((None, guard.text), _row(guard))
    return {
        number: [
            seen.get((number - 1, text)) or seen.get((None, text)) or GuardRow(text, "", "", None)
            for text in finding.guards
        ]
        for number, finding in enumerate(report.findings, 1)
    }


def _counts(report: ReportData) -> list[tuple[str, str]]:
    """What the head counts: nouns with their numbers."""
    dynamic = sum(d.declared is not None for spec in report.inputs for d in spec.dims)
    found = [(verdict, sum(words.state(f) == verdict for f in report.findings)) for verdict in _VERDICTS]
    guards = sum(len(change.guards) for change in report.changes)
    numbers = [("dynamic dimensions", dynamic), *found, ("guards added", guards), ("runs compared", len(report.tries))]
    always = {"dynamic dimensions", "confirmed"}
    return [(noun, str(number)) for noun, number in numbers if number or noun in always]
