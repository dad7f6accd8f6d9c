"""What a CommonMark parser makes of rendered Markdown."""

from __future__ import annotations

import re
from typing import Any

import pytest

markdown_it = pytest.importorskip("markdown_it")
PARSERS = {
    "commonmark": markdown_it.MarkdownIt("commonmark"),
    "tables": markdown_it.MarkdownIt("commonmark").enable(["table", "strikethrough"]),
}
OWN_HTML = {"<code>", "</code>", "<!-- -->"}
OWN_BLOCKS = ("<details>", "<summary>", "</details>")
NEVER = (
    "link_open",
    "image",
    "s_open",
    "em_open",
    "code_block",
    "blockquote_open",
    "hr",
    "ordered_list_open",
    "hardbreak",
)


def tokens(text: str, parser: str = "tables") -> list[Any]:
    """Every block and inline token of ``text``."""
    found = []
    for token in PARSERS[parser].parse(text):
        found += [token, *(token.children or [])]
    return found


def visible(text: str) -> str:
    """What a reader sees of inline Markdown, and nothing but text and code may be in it."""
    seen = []
    for token in tokens(text):
        if token.type in ("text", "code_inline", "text_special"):
            seen.append(token.content)
        elif token.type == "html_inline":
            assert token.content in OWN_HTML
        else:
            assert token.type in ("paragraph_open", "paragraph_close", "inline")
    return "".join(seen)


def rows(text: str) -> list[list[str]]:
    """The cells of the tables in ``text``."""
    table: list[list[str]] = []
    for token in PARSERS["tables"].parse(text):
        if token.type == "tr_open":
            table.append([])
        elif token.type == "inline" and table and token.level >= 4:
            table[-1].append(token.content)
    return table


def headings(text: str) -> list[tuple[int, str]]:
    """Level and text of every heading that the parser sees."""
    found = PARSERS["tables"].parse(text)
    return [(int(t.tag[1]), found[i + 1].content) for i, t in enumerate(found) if t.type == "heading_open"]


def fences(text: str) -> list[tuple[str, str]]:
    """Language and content of every fenced block."""
    return [(t.info, t.content) for t in PARSERS["tables"].parse(text) if t.type == "fence"]


def prose(text: str) -> str:
    """What is text and neither code nor HTML: where GitHub looks for mentions and references. HTML splits it."""
    shown, in_code = [], False
    for token in tokens(text):
        if token.type == "html_inline":
            in_code = token.content == "<code>"
            shown.append("\0")
        elif token.type in ("text", "text_special") and not in_code:
            shown.append(token.content)
        elif token.type != "text_special":
            shown.append("\n")
    return "".join(shown)


def check_markup(text: str) -> None:
    """Nothing but our own markup is in ``text``, and headings and fences are where they are meant."""
    for parser in PARSERS:
        for token in tokens(text, parser):
            assert token.type not in NEVER
            if token.type == "html_inline":
                assert token.content in OWN_HTML
            if token.type == "html_block":
                assert token.content.startswith(OWN_BLOCKS)
    outside = re.sub(r"^(`{3,}).*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)
    assert len(headings(text)) == len(re.findall(r"^#+ ", outside, re.MULTILINE))
    assert "```" not in outside
    assert all(line.isprintable() for line in text.split("\n"))
    assert not re.search(r"@\w|#\d|\bGH-\d", prose(text), re.IGNORECASE)
    text.encode("utf-8")
