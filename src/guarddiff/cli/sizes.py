"""``--sizes h=224,256 w=224``: sizes of the user's own."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from guarddiff.cli.errors import Wrong

MOST_POINTS = 64
_LARGEST = 2**31 - 1
_FURTHER = re.compile(r"[^=:/\\]+=[^:/\\]*\Z")
_OPTION = "--sizes"

_Made = TypeVar("_Made", bound=Callable[..., Any])


class SizesCommand(click.Command):
    """A command whose ``--sizes`` takes every following NAME=SIZES, up to the next option or other argument."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, spread(args))


def spread(args: Sequence[str]) -> list[str]:
    """``--sizes h=1 w=2`` as ``--sizes h=1 --sizes w=2``."""
    found: list[str] = []
    inside = False
    for index, arg in enumerate(args):
        if arg == "--":
            return [*found, *args[index:]]
        if inside and _FURTHER.match(arg) and not arg.startswith("-"):
            if found[-1] != _OPTION:
                found.append(_OPTION)
        else:
            inside = arg == _OPTION or arg.startswith(f"{_OPTION}=")
        found.append(arg)
    return found


def sizes_option(help: str) -> Callable[[_Made], _Made]:
    """The option, which gives a dict of name to list of sizes; empty where none were given."""
    return click.option(_OPTION, "sizes", multiple=True, metavar="NAME=SIZE,SIZE…", callback=_read, help=help)


def _read(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> dict[str, list[int]]:
    return parse(given)


def parse(given: Sequence[str]) -> dict[str, list[int]]:
    """Name to sizes, without duplicates, in the order given. Raises Wrong for what can't be read or is too much."""
    found: dict[str, list[int]] = {}
    for text in given:
        name, equals, listed = text.partition("=")
        name = name.strip()
        if not equals or not name:
            raise Wrong(f"--sizes takes NAME=SIZE,SIZE… such as h=224,256 or x[2]=7, not {text!r}")
        sizes = [_size(part, text) for part in listed.split(",")]
        found[name] = list(dict.fromkeys([*found.get(name, ()), *sizes]))
    points = math.prod(len(sizes) for sizes in found.values())
    if points > MOST_POINTS:
        raise Wrong(f"--sizes gives {points} combinations, and at most {MOST_POINTS} are run: give fewer sizes")
    return found


def _size(part: str, text: str) -> int:
    digits = part.strip()
    if not re.fullmatch(r"[0-9]{1,10}", digits) or not 1 <= int(digits) <= _LARGEST:
        raise Wrong(f"--sizes {text}: {part.strip()!r} is no size: give whole numbers from 1 on")
    return int(digits)


def combinations(sizes: Mapping[str, Sequence[int]]) -> list[dict[str, int]]:
    """Every combination of the sizes; none for no sizes."""
    points: list[dict[str, int]] = [{}]
    for name, each in sizes.items():
        points = [{**point, name: size} for point in points for size in each]
    return points if sizes else []
