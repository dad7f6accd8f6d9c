"""Where reports go: to the terminal or into files, in the formats that were asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from guarddiff.cli.errors import Wrong
from guarddiff.cli.params import Place

if TYPE_CHECKING:
    from guarddiff.report import Report

FORMATS = ("text", "markdown", "github", "json", "html", "junit", "github-annotations")
"""The formats of ``guarddiff.report.FORMATS``, so that help needs no import of theirs; a test holds them equal."""

_USUAL = ("markdown", "json")
_Made = TypeVar("_Made", bound=Callable[..., Any])


def format_option(help: str) -> Callable[[_Made], _Made]:
    """``--format``, repeatable."""
    return click.option("--format", "formats", multiple=True, type=click.Choice(FORMATS), help=help)


def out_option(help: str) -> Callable[[_Made], _Made]:
    """``--out DIR``."""
    return click.option("--out", type=Place(file_okay=False), metavar="DIR", help=help)


def check_asked(formats: Sequence[str], out: Path | None) -> None:
    """Raises Wrong where several formats would be mixed on one stream."""
    if len(set(formats)) > 1 and out is None:
        raise Wrong("several formats need a folder: add --out DIR")


def emit(report: Report, formats: Sequence[str], out: Path | None) -> None:
    """The report in the one format asked for (text without one) on stdout; with a folder, the files in all formats
    (Markdown and JSON without one) there, and the text on stdout. Raises Wrong where they can't be written."""
    if out is None and formats and formats[0] != "text":
        say(rendered(report, formats[0]))
        return
    _say_text(report)
    if out is None:
        return
    for path in write(report, out, formats):
        tell(f"report:  {path}")


def write(report: Report, out: Path, formats: Sequence[str]) -> tuple[Path, ...]:
    """Write the files and return their paths; names that are taken are left alone. Raises Wrong."""
    from guarddiff.core.errors import ReportWriteError

    try:
        return report.write(out, tuple(dict.fromkeys(formats)) or _USUAL)
    except (ReportWriteError, ImportError) as error:
        raise Wrong(str(error)) from error


def rendered(report: Report, format: str) -> str:
    """The report in ``format``. Raises Wrong where a package that it needs is missing."""
    try:
        return report.render(format)
    except ImportError as error:
        raise Wrong(f"--format {format} can't be made: {error}") from error


def _say_text(report: Report) -> None:
    """The report as text, in colour on a terminal."""
    from guarddiff.render import text

    color = text.wants_color(sys.stdout)
    click.echo(report.to_text(color=color), nl=False, color=color)


def say(text: str) -> None:
    """Print on stdout."""
    click.echo(text, nl=not text.endswith("\n"))


def tell(text: str) -> None:
    """Print one line on stderr."""
    from guarddiff.render import words

    click.echo(words.clean(text, 600), err=True)


def on_terminal() -> bool:
    """Whether stderr is a terminal that can redraw its lines."""
    import os

    return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
