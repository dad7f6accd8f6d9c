"""How far an export of several variants is, on a terminal."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator

Told = Callable[[str], None]
"""Takes the name of a variant that is finished."""


@contextlib.contextmanager
def bar(shown: bool | None, total: int, done: int) -> Iterator[Told]:
    """A bar on stderr. ``shown`` None: only where that is a terminal. ``done`` of ``total`` are there already."""
    if not (_on_terminal() if shown is None else shown):
        yield lambda name: None
        return
    from rich import progress as rich
    from rich.console import Console

    columns = [
        rich.SpinnerColumn(),
        rich.TextColumn("{task.description}", markup=False),
        rich.BarColumn(bar_width=24),
        rich.MofNCompleteColumn(),
        rich.TimeElapsedColumn(),
        rich.TextColumn("{task.fields[last]}", markup=False, style="dim"),
    ]
    with rich.Progress(
        *columns, console=Console(stderr=True), redirect_stdout=False, redirect_stderr=False
    ) as shown_bar:
        task = shown_bar.add_task("variants", total=total, completed=done, last="")
        yield lambda name: shown_bar.update(task, advance=1, last=name)


def _on_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
