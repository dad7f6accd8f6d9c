"""A report as workflow commands, which GitHub Actions shows at the user's source lines."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePath

from guarddiff.core.finding import Finding
from guarddiff.core.origin import SourceLine
from guarddiff.core.report import ReportData
from guarddiff.render import proofs, text, words

MOST = 10
"""GitHub shows as many of one kind for one step."""


@dataclass(frozen=True)
class _Note:
    level: str
    kind: str
    title: str
    message: str
    source: SourceLine | None = None


def render(report: ReportData, folder: Path | None = None) -> str:
    """At most ten commands, one a line; a last notice counts the rest. Empty where nothing warns.

    Files are named relative to ``folder`` (None: the working folder), as GitHub wants them where the step runs in the
    root of the repository. A finding is told at the user's source line, or without a place where none is known.
    """
    notes = _notes(report)
    shown = [_command(note, folder or Path.cwd()) for note in notes[:MOST]]
    left = Counter(note.kind for note in notes[MOST:])
    if left:
        kinds = ", ".join(f"{number} {kind}" for kind, number in left.items())
        shown.append(f"::notice title=guarddiff::{_data(f'{sum(left.values())} more in the report: {kinds}')}")
    return "".join(f"{line}\n" for line in shown)


def _notes(report: ReportData) -> list[_Note]:
    """What stands for the whole export first, then findings: confirmed before unconfirmed."""
    notes = []
    if report.error:
        notes.append(_Note("error", "error", "guarddiff: the export raised", words.raised(report.error)))
    if report.missing:
        parts = words.some([f"{words.clean(m.part, 80)}: {words.clean(m.why, 200)}" for m in report.missing], 5)
        said = f"A part of the evidence is missing: what is not listed is unknown, not fine. {parts}"
        notes.append(_Note("warning", "incomplete", "guarddiff: incomplete", said))
    loud = sorted((f for f in report.findings if f.warns), key=lambda f: f.verdict != "confirmed")
    return notes + [_note(finding) for finding in loud]


def _note(finding: Finding) -> _Note:
    level = "error" if finding.verdict == "confirmed" else "warning"
    title = f"guarddiff: {words.operator(finding)}"
    return _Note(level, finding.verdict, title, text.warning_text(finding), _source(finding))


def _source(finding: Finding) -> SourceLine | None:
    node = proofs.differing(finding)
    return finding.origin.source or (node.source if node else None)


def _command(note: _Note, folder: Path) -> str:
    properties = {"title": note.title}
    if note.source and note.source.line > 0:
        place = {"file": _relative(note.source.file, folder), "line": str(note.source.line)}
        properties = {**place, **properties}
    listed = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{note.level} {listed}::{_data(note.message)}"


def _relative(file: str, folder: Path) -> str:
    """``file`` below ``folder`` as GitHub names it; as it is where it stands elsewhere."""
    path = PurePath(file)
    if path.is_absolute() and path.is_relative_to(folder):
        path = path.relative_to(folder)
    shown = str(path) if path.is_absolute() or "\0" in file else os.path.normpath(path)
    return words.clean_end(shown.replace(os.sep, "/"), 1000)


def _escaped(shown: str, escapes: Iterable[tuple[str, str]]) -> str:
    for char, escape in escapes:
        shown = shown.replace(char, escape)
    return shown


def _data(shown: str) -> str:
    lines = "\n".join(words.clean(line) for line in shown.split("\n"))
    return _escaped(lines, (("%", "%25"), ("\r", "%0D"), ("\n", "%0A")))


def _property(shown: str) -> str:
    escapes = (("%", "%25"), ("\r", "%0D"), ("\n", "%0A"), (":", "%3A"), (",", "%2C"))
    return _escaped(words.clean(shown, 1000), escapes)
