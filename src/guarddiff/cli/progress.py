"""Progress on stderr, on a terminal only, and a stdout that the user's code can't write into."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

from guarddiff.cli.output import on_terminal


@contextlib.contextmanager
def waiting(text: str) -> Iterator[None]:
    """A turning wheel and the time so far, while one long thing is done; nothing off a terminal."""
    with stepping(text, None):
        yield


@contextlib.contextmanager
def stepping(text: str, total: int | None) -> Iterator[Callable[[int, int], None]]:
    """A bar; what is yielded takes (steps done, steps in all). ``total`` None: not known, a wheel turns."""
    if not on_terminal():
        yield lambda done, of: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = [SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()]
    if total is not None:
        columns[2:2] = [BarColumn(), MofNCompleteColumn()]
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(text, total=total)
        yield lambda done, of: bar.update(task, completed=done, total=of)


@contextlib.contextmanager
def stdout_kept() -> Iterator[None]:
    """What is printed inside goes to stderr: stdout is for the report alone."""
    with contextlib.redirect_stdout(sys.stderr):
        yield
