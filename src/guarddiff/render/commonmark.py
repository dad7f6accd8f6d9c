"""CommonMark that shows text as it is: inline text, code, fenced blocks and tables as on GitHub."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from guarddiff.render import words

_SPECIAL = re.compile(r"[\\`*_\[\]<>~$]|(?<=:)//|(?<=www)\.")
_LEADING = re.compile(r"^(?:[#+\-=]|\d{1,9}(?=[.)]))")
_REFERENCE = re.compile(r"@(?=\w)|#(?=\d)|\bGH-(?=\d)", re.IGNORECASE)
_PUNCTUATION = re.compile(r"[!-/:-@\[-`{-~]")


def plain(text: str, limit: int = words.LIMIT) -> str:
    """``text`` as one line that Markdown shows as it is: no markup, HTML, links or mentions come of it."""
    shown = words.clean(text, limit).strip()
    shown = shown.replace("&", "&amp;")
    shown = _SPECIAL.sub(r"\\\g<0>", shown)
    shown = _LEADING.sub(lambda m: m[0] + "\\" if m[0].isdigit() else "\\" + m[0], shown)
    return _REFERENCE.sub(r"\g<0><!-- -->", shown).replace("|", "&#124;")


def code(text: str, limit: int = words.LIMIT) -> str:
    """``text`` as inline code, also inside a table; empty for an empty text."""
    shown = words.clean(text, limit)
    if not shown.strip():
        return ""
    if "`" in shown or "|" in shown:
        return f"<code>{_PUNCTUATION.sub(lambda m: f'&#{ord(m[0])};', shown.strip())}</code>"
    return f"` {shown} `" if shown[0] == shown[-1] == " " else f"`{shown}`"


def fenced(lines: Sequence[str], language: str, most: int | None = None, more: str = "in the JSON report") -> str:
    """A code block; ``lines`` are printable. At most ``most`` of them, then how many are ``more``; None: all."""
    shown = list(lines if most is None else lines[:most])
    if len(shown) < len(lines):
        shown.append(f"# {len(lines) - len(shown)} more {more}")
    longest = max((len(run) for line in shown for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([f"{fence}{language}", *shown, fence])


def table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table of cells that are escaped already."""
    shown = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in shown)
