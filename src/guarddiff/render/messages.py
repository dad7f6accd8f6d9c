"""Messages of exceptions without what tells nothing: colours, C++ signatures, lists of next steps."""

from __future__ import annotations

import re

LONGEST = 4000
"""As much of a message is looked at, in characters."""

_COLOURS = re.compile(r"\x1b\[[0-9;:]*m")
_NODE = re.compile(
    r"(?:\b\w+: )?(?:\[ONNXRuntimeError\] : \d+ : )?(?:\b[A-Z_]+ : )?"
    r"Non-zero status code returned while running (\S+) node\.(?: Name:'([^']*)')?\s*(?:Status Message: )?"
)
_CODE = re.compile(r"\[ONNXRuntimeError\] : \d+ : |Non-zero status code returned while | Status Message:")
_PLACE = re.compile(r"(?:\S*/)?[\w.+-]+\.(?:h|hpp|cc|cpp|cu|cuh|inc):\d+:? ?")
_SIGNATURE = re.compile(
    r"(?:[\w:<>&*,~]+ ){0,6}[\w<>~]*::[\w:<>~]+\((?:[^()]|\([^()]*\)){0,600}\)"
    r"(?: const)?(?: \[with [^\]]*\])?(?:::<lambda\([^)]*\)>)?(?: const)? ?"
    r"|onnxruntime::[\w:<>~]+ "
)
_FALSE = re.compile(r"(.{0,400}?) was false\.?\s*")
_STACK = re.compile(r"\s*\bStack ?trace:.*", re.DOTALL | re.IGNORECASE)
_LEAD = re.compile(r"\S+ [^\s:]+: ")
_CLASS = re.compile(r"<class '(?:[\w.]*\.)?(\w+)'>")
_NOISE = ("next steps:", "- ", "#", "(refer to", "traceback (", "file ")


def uncoloured(text: str) -> str:
    """``text`` without the escape sequences that set colours; other control characters stay."""
    return _COLOURS.sub("", text) if "\x1b" in text else text


def runtime(text: str) -> str:
    """A message of ONNX Runtime: operator, node and what it says, without places, signatures and assertions of its
    source. An assertion stays where nothing else is said. Any other text is left as it is."""
    shown = _STACK.sub("", uncoloured(text[:LONGEST]))
    shown = _NODE.sub(lambda m: f"{m[1]} {m[2]}: " if m[2] else f"{m[1]}: ", shown)
    shown = _CODE.sub("", shown)
    parts = _PLACE.split(shown)
    return (parts[0] + " ".join(filter(None, map(_said, parts[1:])))).strip() if len(parts) > 1 else shown.strip()


def _said(part: str) -> str:
    """What follows a place in the source, without the function and the assertion that failed there."""
    signature = _SIGNATURE.match(part)
    rest = part[signature.end() :] if signature else part
    failed = _FALSE.match(rest)
    if failed is None:
        return rest.strip()
    return rest[failed.end() :].strip() or f"{failed[1]} was false"


def fitted(text: str, limit: int) -> str:
    """``text`` in at most ``limit`` characters: what is left out is the middle, up to a sentence where there is one.

    The operator and node in front stay, and the end, which holds the sizes.
    """
    if len(text) <= limit:
        return text
    lead = _LEAD.match(text[:limit])
    head = lead[0] if lead else ""
    rest = text[len(head) :]
    for sentence in re.finditer(r"\. ", rest):
        short = f"{head}… {rest[sentence.end() :]}"
        if len(short) <= limit:
            return short
    if not lead or len(head) > limit // 2:
        return text[: limit - 1] + "…"
    return f"{head}… {rest[len(head) + 2 - limit :]}" if limit > len(head) + 2 else text[: limit - 1] + "…"


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
