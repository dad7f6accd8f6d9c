"""How far a sweep is: a bar on a terminal, else a line on stderr now and then."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from guarddiff.cli import output, sweep_text

if TYPE_CHECKING:
    from guarddiff.sweep.run import Progress

LINE_SECONDS = 30.0
"""Time between two lines where there is no terminal."""


@contextlib.contextmanager
def sweeping(what: str) -> Iterator[Callable[[Progress], None]]:
    """What is yielded takes the progress, as often as it comes."""
    with _bar(what) if output.on_terminal() else _lines() as told:
        yield told


@contextlib.contextmanager
def _lines() -> Iterator[Callable[[Progress], None]]:
    last = time.monotonic()

    def told(progress: Progress) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= LINE_SECONDS:
            last = now
            output.tell(sweep_text.progress(progress))

    yield told


@contextlib.contextmanager
def _bar(what: str) -> Iterator[Callable[[Progress], None]]:
    from rich import progress as rich
    from rich.console import Console

    columns = [
        rich.SpinnerColumn(),
        rich.TextColumn("{task.description}", markup=False),
        rich.BarColumn(bar_width=24),
        rich.MofNCompleteColumn(),
        rich.TimeElapsedColumn(),
        rich.TextColumn("{task.fields[left]}", markup=False),
        rich.TextColumn("{task.fields[counts]}", markup=False, style="dim"),
    ]
    with rich.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None, left="", counts="")

        def told(progress: Progress) -> None:
            left = f"{sweep_text.duration(progress.left)} left" if progress.left is not None else ""
            counts = sweep_text.states(progress.counts)
            bar.update(task, completed=progress.done, total=progress.total, left=left, counts=counts)

        yield told
