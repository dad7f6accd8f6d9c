from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.render.fixtures import CONTROL, HOSTILE, SAMPLES, adaptive_pool, clean_with_notes, dim, snapshot

from guarddiff.core.domain import Admitted
from guarddiff.core.report import Missing, ReportData
from guarddiff.core.snapshot import Guard
from guarddiff.render import words
from guarddiff.render.markdown import code, plain, render

markdown_it = pytest.importorskip("markdown_it")
PARSERS = {
    "commonmark": markdown_it.MarkdownIt("commonmark"),
    "tables": markdown_it.MarkdownIt("commonmark").enable(["table", "strikethrough"]),
}
OWN_HTML = {"<code>", "</code>", "<!-- -->"}
OWN_BLOCKS = ("<details>", "<summary>", "</details>")


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
            assert token.type in ("inline", "paragraph_open", "paragraph_close")
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


@pytest.mark.parametrize("name", SAMPLES)
def test_looks_as_reviewed(name: str) -> None:
    snapshot(f"{name}.md", render(SAMPLES[name]()))


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("name", SAMPLES)
def test_nothing_from_the_model_becomes_markup(name: str, parser: str) -> None:
    text = render(SAMPLES[name]())
    for token in tokens(text, parser):
        assert token.type not in (
            "link_open",
            "image",
            "s_open",
            "em_open",
            "code_block",
            "blockquote_open",
            "hr",
        )
        assert token.type not in ("ordered_list_open", "hardbreak")
        if token.type == "html_inline":
            assert token.content in OWN_HTML
        if token.type == "html_block":
            assert token.content.startswith(OWN_BLOCKS)
    headings = re.findall(r"^#+ .*$", text, re.MULTILINE)
    parsed = PARSERS[parser].parse(text)
    assert [t.type for t in parsed].count("heading_open") == len(headings)
    titles = "guarddiff report: specialized|Inputs|Findings|What each stage added|Notes|Missing parts|Environment"
    known = titles.replace("specialized", r"\w+") + r"|Finding \d+: \w+"
    assert all(re.fullmatch(f"#+ (?:{known})", heading) for heading in headings)


@pytest.mark.parametrize("name", SAMPLES)
def test_tables_keep_their_columns(name: str) -> None:
    report = SAMPLES[name]()
    widths = {len(cells) for cells in rows(render(report))}
    assert widths <= {2, 3, 4, 6}
    opened = [t for t in PARSERS["tables"].parse(render(report)) if t.type == "table_open"]
    expected = bool(report.inputs) + bool(report.changes)
    expected += sum(bool(f.onnx_nodes) + bool(f.counterexample) for f in report.findings)
    assert len(opened) == expected


@pytest.mark.parametrize("name", SAMPLES)
def test_no_control_characters_and_valid_utf8(name: str) -> None:
    text = render(SAMPLES[name]())
    assert all(line.isprintable() for line in text.split("\n"))
    text.encode("utf-8")
    assert len(text) < 100_000


WORDS = st.text(st.sampled_from("ab1 \\`*_[]()<>&|~$#@:/!.-+=\n\t\"'{}^w"), max_size=30) | st.text(max_size=30)


@given(WORDS)
@example(HOSTILE)
@example(CONTROL)
@example("\\|")
@example("`` ` ``")
@example(" ` ")
@example("&amp;&#35;")
@example("<b>")
@example("12) x")
@example("http://a.example www.b.example c@d.example")
def test_text_is_seen_as_it_is(text: str) -> None:
    expected = words.clean(text).strip()
    assert visible(plain(text) or "x") == (expected or "x")
    items = [t.type for t in PARSERS["tables"].parse(f"- {plain(text) or 'x'}")]
    assert items == [
        "bullet_list_open", "list_item_open", "paragraph_open", "inline", "paragraph_close",
        "list_item_close", "bullet_list_close",
    ]  # fmt: skip


@given(WORDS)
@example(HOSTILE)
@example("\\|")
@example("a`b|c\\")
@example("\\")
@example(" a ")
@example("`")
def test_code_is_seen_as_it_is(text: str) -> None:
    expected = words.clean(text)
    shown = code(text)
    if not expected.strip():
        assert shown == ""
        return
    assert visible(f"x{shown}x").strip("x").strip() == expected.strip("x").strip()
    table = rows(f"| a | b |\n| --- | --- |\n| {shown} | {plain(text)} |\n")
    assert [len(cells) for cells in table] == [2, 2]


def test_github_makes_no_links_of_plain_text() -> None:
    shown = plain("see https://a.example, www.b.example, @torch and #12")
    assert "://" not in shown
    assert "www." not in shown
    assert not re.search(r"@\w|#\d", shown)


def test_quiet_findings_are_folded() -> None:
    text = render(SAMPLES["quiet"]())
    before, _, after = text.partition("<details>")
    folded, _, rest = after.partition("</details>")
    assert "Finding 2: confirmed" in before
    assert "Finding 1: harmless" in folded
    assert "Finding 3: inherent" in folded
    assert "## Environment" in rest


def test_long_tables_say_how_many_rows_are_left_out() -> None:
    text = render(clean_with_notes())
    assert text.count("| capture |") == 30
    assert "10 rows left out" in text
    spec = dataclasses.replace(adaptive_pool().inputs[0], dims=tuple(dim(f"x[{i}]", 2) for i in range(101)))
    assert "1 row left out" in render(ReportData(inputs=(spec,)))


def test_changes_that_matter_come_first() -> None:
    changes = adaptive_pool().changes
    many = dataclasses.replace(adaptive_pool(), changes=(changes[0],) * 50 + (changes[1],))
    first = [cells for cells in rows(render(many)) if cells[0] == "decompose"][0]
    assert first[3] == "restricts (finding 1)"


def test_many_guards_and_notes_are_cut() -> None:
    report = adaptive_pool()
    finding = dataclasses.replace(report.findings[0], guards=tuple(f"h != {i}" for i in range(60)))
    notes = tuple(f"note {i}" for i in range(70))
    text = render(dataclasses.replace(report, findings=(finding,), notes=notes))
    assert "# 20 more in the JSON report" in text
    assert "- 20 more in the JSON report" in text


def test_the_admitted_column_joins_all_findings() -> None:
    report = adaptive_pool()
    one = report.findings[0]
    again = dataclasses.replace(one, dims=(one.dims[0],))
    other = dataclasses.replace(one, dims=(dim("x[2]", 6, Admitted("multiples of 3", None, True, False), name="h"),))
    quiet = dataclasses.replace(other, verdict="harmless")
    text = render(dataclasses.replace(report, findings=(one, again, other, quiet)))
    row = next(cells for cells in rows(text) if cells[:2] == ["`x`", "2"])
    assert row[5] == "exactly 6 (finding 1 and 2) and multiples of 3 (finding 3)"


def test_a_dimension_is_not_called_fine_while_something_is_missing() -> None:
    report = ReportData(inputs=adaptive_pool().inputs, missing=(Missing("guards", "gone"),), status="incomplete")
    text = render(report)
    assert "as declared" not in text
    assert "unknown, not fine" in text


def test_a_change_without_origin() -> None:
    change = dataclasses.replace(adaptive_pool().changes[0], guards=(Guard("h > 1", "range"),), effect="small")
    assert "| decompose | `h > 1` |  | excludes only the sizes 0 and 1 |" in render(ReportData(changes=(change,)))
