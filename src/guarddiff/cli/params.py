"""Kinds of values that several commands take."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click


class Place(click.Path):
    """The path of a file or a folder; an empty one would be the current folder."""

    def __init__(self, *, file_okay: bool = True, dir_okay: bool = True) -> None:
        super().__init__(file_okay=file_okay, dir_okay=dir_okay, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("it is empty, and names no file or folder", param, ctx)
        return super().convert(value, param, ctx)


class Seconds(click.FloatRange):
    """A time from a second to a day."""

    def __init__(self) -> None:
        super().__init__(min=1, max=86_400)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        seconds = super().convert(value, param, ctx)
        if math.isnan(seconds):  # compares with no end of the range
            self.fail(f"{value} is no number of seconds", param, ctx)
        return seconds
