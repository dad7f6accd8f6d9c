"""What the command line says when it can't go on, and the exit codes."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import click

CLEAN, SPECIALIZED, WRONG, INCOMPLETE = 0, 1, 2, 3
INTERRUPTED, BROKEN_PIPE = 130, 141

BY_STATUS = {"clean": CLEAN, "specialized": SPECIALIZED, "incomplete": INCOMPLETE}
"""Exit code for a report's status."""

_LONGEST = 600


class Wrong(click.ClickException):
    """Wrong usage, or a file that is missing, broken or foreign: told in one line, exit code 2."""

    exit_code = WRONG

    def __init__(self, message: str) -> None:
        super().__init__(line(message))

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"guarddiff: {self.format_message()}", file=file, err=file is None)


class Failed(Wrong):
    """What was asked for could not be done, though it was asked for rightly: one line, exit code 3."""

    exit_code = INCOMPLETE


class _Debug:
    on = False


def debugging() -> bool:
    """Whether ``--debug`` was given."""
    return _Debug.on


def set_debug(on: bool) -> None:
    """Whether tracebacks are shown from here on."""
    _Debug.on = on


def show_traceback(error: BaseException) -> None:
    """The traceback of ``error`` with those of its causes, on stderr, where ``--debug`` was given."""
    if debugging():
        click.echo("".join(traceback.format_exception(error)), err=True, nl=False)


def line(text: str, limit: int = _LONGEST) -> str:
    """``text`` on one line, with escapes for what can't be printed."""
    from guarddiff.render import words

    return words.clean(" ".join(text.split()), limit)


def told(error: BaseException, limit: int = 300) -> str:
    """An exception by its type and the line of its words that names the cause."""
    from guarddiff.core.errors import in_words

    return line(in_words(error, limit), limit)


@contextmanager
def unread(path: Path) -> Iterator[None]:
    """Where a file can't be read: which one, and why, in the words that all commands have for it."""
    try:
        yield
    except OSError as error:
        name = os.fsdecode(error.filename) if isinstance(error.filename, (str, bytes)) else str(path)
        missing = isinstance(error, FileNotFoundError)
        why = "there is no such file" if missing else f"can't be read: {error.strerror or error}"
        raise Wrong(f"{name!r}: {why}") from error


@contextmanager
def wrong_when(*kinds: type[Exception]) -> Iterator[None]:
    """These exceptions are the user's own doing: their words in one line."""
    try:
        yield
    except kinds as error:
        raise Wrong(str(error)) from error
