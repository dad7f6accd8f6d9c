"""The sweep in one line: as data for shields.io's "endpoint" badge, and as a small picture of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from guarddiff.render import words
from guarddiff.sweep.figures import Counts

LABEL = "silently wrong exports"
_COLORS = {"brightgreen": "#2f7d32", "orange": "#b35900", "red": "#b3261e", "lightgrey": "#5f6368"}
_MANY = 0.05
_HEIGHT, _PAD = 20, 6
_NARROW, _WIDE, _USUAL = 4.0, 9.0, 6.6
"""Widths of characters at 11 pixels; the text is fitted to the sum by its ``textLength``."""


def message(counts: Counts, environment: Mapping[str, Any]) -> str:
    """``237 of 1,915 (torch 2.13.0)``: silently wrong ones, of the cases that were exported without an error."""
    torch = words.clean(str(environment.get("torch", "unknown")), 40)
    return f"{counts.silent:,} of {counts.exported:,} (torch {torch})"


def endpoint(counts: Counts, environment: Mapping[str, Any]) -> str:
    """JSON for shields.io's endpoint badge, ending in a newline."""
    data = {
        "schemaVersion": 1,
        "label": LABEL,
        "message": message(counts, environment),
        "color": _color(counts),
    }
    return json.dumps(data, indent=1) + "\n"


def svg(counts: Counts, environment: Mapping[str, Any]) -> str:
    """The badge as an SVG that needs nothing else, ending in a newline."""
    said = message(counts, environment)
    left, right = _width(LABEL), _width(said)
    color = _COLORS[_color(counts)]
    whole = left + right
    title = f"{LABEL}: {said}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" height="{_HEIGHT}" role="img"'
        f" aria-label={quoteattr(title)}>\n"
        f"<title>{escape(title)}</title>\n"
        f'<clipPath id="edge"><rect width="{whole}" height="{_HEIGHT}" rx="3"/></clipPath>\n'
        f'<g clip-path="url(#edge)"><rect width="{left}" height="{_HEIGHT}" fill="#444c56"/>'
        f'<rect x="{left}" width="{right}" height="{_HEIGHT}" fill="{color}"/></g>\n'
        f'<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">\n'
        f"{_text(LABEL, 0, left)}{_text(said, left, right)}</g>\n</svg>\n"
    )


def _text(text: str, start: int, width: int) -> str:
    return f'<text x="{start + _PAD}" y="14" textLength="{width - 2 * _PAD}">{escape(text)}</text>\n'


def _color(counts: Counts) -> str:
    if counts.silent_share is None:
        return "lightgrey"
    if counts.silent == 0:
        return "brightgreen"
    return "orange" if counts.silent_share < _MANY else "red"


def _width(text: str) -> int:
    return 2 * _PAD + round(sum(map(_advance, text)))


def _advance(char: str) -> float:
    if char in "ijlft.,:;()|! ":
        return _NARROW
    return _WIDE if char in "mwMW@%" or ord(char) > 0x2FF else _USUAL
