"""What an exception's text names as the cause, without what tells nothing: colours, lists of next steps."""

from __future__ import annotations

import re

LONGEST = 4000
"""As much of a message is looked at, in characters."""

_COLOURS = re.compile(r"\x1b\[[0-9;:]*m")
_CLASS = re.compile(r"<class '(?:[\w.]*\.)?(\w+)'>")
_NOISE = ("next steps:", "- ", "#", "(refer to", "traceback (", "file ")


def uncoloured(text: str) -> str:
    """``text`` without the escape sequences that set colours; other control characters stay."""
    return _COLOURS.sub("", text) if "\x1b" in text else text


def cause(text: str) -> str:
    """The line of an exception's text that names what went wrong, in one line.

    torch puts it below a list of next steps; where there is no such line, the first one is given. Empty for an empty
    text.
    """
    lines = [line.strip() for line in uncoloured(text[: 4 * LONGEST]).splitlines()]
    lines = [line for line in lines if line]
    if not lines:
        return ""
    first = re.sub(r"\s*This is step \d+/\d+ of exporting the model to ONNX\.", "", lines[0])
    first = re.sub(r"\s*Next steps:\s*$", "", first).strip()
    named = _named(lines[1:])
    if not named or named in first:
        return first or lines[0]
    return f"{first.rstrip(':.')}: {named}" if first else named


def _named(lines: list[str]) -> str:
    """The line that names the cause; empty where none does."""
    for number, line in enumerate(lines):
        if line.startswith("caused by "):
            return _better(line.removeprefix("caused by "), lines[number + 1 :])
        if "Exception summary" in line:
            return _better("", lines[number + 1 :])
    return ""


def _better(line: str, following: list[str]) -> str:
    """``line``, or the first one after it that says something where it says nothing itself; what a line that ends in
    a colon announces comes with it."""
    lines = (line, *following[:20])
    for number, one in enumerate(lines):
        if one and not one.lower().startswith(_NOISE):
            said = _CLASS.sub(r"\1", one)
            told = next(iter(lines[number + 1 :]), "") if said.endswith(":") else ""
            return f"{said} {told.removeprefix('- ')}" if told and not told.startswith("#") else said
    return ""
