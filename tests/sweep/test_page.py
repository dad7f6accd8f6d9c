"""The page: stored as a whole, parsed as Markdown, with hostile names."""

from __future__ import annotations

import dataclasses
import re

import pytest
from tests.render.fixtures import CONTROL, HOSTILE, snapshot
from tests.render.parsed import check_markup, headings, rows, tokens, visible
from tests.sweep.made_up import ENVIRONMENT, POOL, outcomes, said, silent, wrong

from guarddiff.sweep.outcome import Outcome, Repaired
from guarddiff.sweep.page import percent, render
from guarddiff.sweep.summary import summarize


def page(cases: list[Outcome], **environment: object) -> str:
    return render(summarize(cases), cases, {**ENVIRONMENT, **environment})


def row(text: str, key: str) -> list[list[str]]:
    return [cells for cells in rows(text) if cells[0].startswith("`") and visible(cells[0]) == key]


def test_snapshot() -> None:
    pictures = [("silently wrong exports", "badge.svg"), ("by stage", "classes.svg")]
    snapshot("sweep_page.md", render(summarize(outcomes()), outcomes(), ENVIRONMENT, pictures))


def test_markup() -> None:
    check_markup(page(outcomes()).replace("<!-- Made by `guarddiff sweep page` from the results beside it. -->\n", ""))


def test_the_first_paragraph_has_the_figures() -> None:
    text = page(outcomes())
    assert "**8 of 17 exports are silently wrong** (ops 7 of 12, catalogue 0 of 3, models 1 of 2)." in text
    full = 'with `replay="full"`'
    assert f"guarddiff warns: 4 of 6 (66.7 %) by default, 5 of 6 (83.3 %) {full}." in text
    assert f"Of right ones it warns: 2 of 6 (33.3 %) by default, 1 of 6 (16.7 %) {full};" in text
    assert f"says `confirmed`: 0 by default, 1 {full}." in text
    assert "`repair=True` cures 2 of 8 (25.0 %)" in text


def test_every_case_that_is_not_right_is_on_the_page() -> None:
    text = page(outcomes())
    assert [one.key for one in outcomes() if one.state != "ok" and not row(text, one.key)] == []
    assert all(row(text, key) for key in ("ops/mul/0", "ops/conv/0", "ops/topk/0", "ops/pool/2"))
    assert not row(text, "ops/add/0")


def test_a_case_has_its_origin_and_verdicts() -> None:
    (cells,) = row(page(outcomes()), "models/timm/vgg11")[:1]
    assert [visible(cell) for cell in cells] == [
        "models/timm/vgg11",
        "capture",
        "1×2×6×6 → 1×2×7×7",
        "wrong shape: 3×3 instead of 3×4",
        "int()",
        "–",
        "vgg.py:66",
        "h // 32 == 7",
        "confirmed",
        "confirmed",
        "cured",
    ]


def test_what_is_wrong_at_the_example_has_no_right_size() -> None:
    (cells,) = [cells for cells in row(page(outcomes()), "ops/div/0") if len(cells) == 11]
    assert cells[1:3] == ["example", "wrong at 1×2×6×6"]


def test_both_modes_in_one_row_where_a_case_is_missed_in_both() -> None:
    (cells,) = [cells for cells in row(page(outcomes()), "ops/fold/0") if len(cells) == 4]
    assert cells[2] == "default and full"
    assert visible(cells[3]).startswith("harmless aten.mul.Tensor at capture: 3 sizes")


def test_the_same_text_every_time() -> None:
    assert page(outcomes()) == page(outcomes())


@pytest.mark.parametrize(
    "hostile", [HOSTILE, CONTROL, "|", "`", "a\nb", "</details>", "<script>", " ", "*" * 3000, "x" * 999]
)
def test_hostile_names_break_nothing(hostile: str) -> None:
    found = dataclasses.replace(
        POOL, op=hostile, guards=(hostile,), source=hostile, rule=hostile, reason=hostile, dims=(hostile,)
    )
    told = dataclasses.replace(said(found, missing=(hostile,)), warned=False)
    loud = dataclasses.replace(told, warned=True)
    repaired = Repaired(True, hostile, "wrong shape", hostile)
    cases = [
        silent(
            f"ops/{hostile.replace('/', '')}/{hostile}",
            "wrong shape",
            "decompose",
            default=told,
            full=told,
            repair=repaired,
            wrong=wrong((1, 2), text=hostile),
        ),
        silent(f"ops/b/{hostile}", "wrong shape", None, default=told, repair=Repaired(False, hostile, "ok")),
        Outcome(f"models/a/{hostile}", "ok", default=loud, full=told),
        Outcome(f"models/b/{hostile}", "ok", default=loud, full=loud, unsure=True),
        Outcome(f"models/c/{hostile}", "export error", text=hostile),
        Outcome(f"models/d/{hostile}", "crashed", text=hostile),
    ]
    runs = [{"file": hostile, "cases": hostile, "started": hostile, "seconds": hostile, "jobs": hostile}]
    text = page(cases, torch=hostile, python=hostile, runs=runs)
    plain = page([dataclasses.replace(one, key=f"{one.group}/f/{n}") for n, one in enumerate(outcomes()[:1])])
    check_markup(re.sub(r"<!-- Made .*? -->\n", "", text))
    html = [token.content.strip() for token in tokens(text) if token.type == "html_block"]
    assert [one for one in html if one.startswith("<details>")] == [
        "<details>\n<summary>Every silently wrong case (2)</summary>",
        "<details>\n<summary>Export error (1)</summary>",
        "<details>\n<summary>The slowest 6</summary>",
    ]
    assert html.count("</details>") == 3
    assert headings(text)[0][0] == 1 and len(headings(plain)) <= len(headings(text)) <= 11
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        lines = rows(table)
        assert len(lines) == table.count("\n") - 1
        assert len({len(cells) for cells in lines}) == 1


def test_of_nothing() -> None:
    text = render(summarize([]), [], {})
    check_markup(re.sub(r"<!-- Made .*? -->\n", "", text))
    assert "**0 of 0 exports are silently wrong** (nothing was run)" in text
    assert "torch unknown" in text


def test_how_to_reproduce_names_the_groups_that_were_run() -> None:
    (block,) = [token.content for token in tokens(page(outcomes()[:3])) if token.type == "fence"]
    assert block == "guarddiff sweep ops --out DIR\nguarddiff sweep page DIR\n"


def test_long_tables_are_folded() -> None:
    many = [Outcome(f"ops/a/{number}", "crashed", text="signal 9") for number in range(40)]
    assert "<summary>40 cases</summary>" in page(many)
    assert "cases</summary>" not in page(many[:5])


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [(0, 0, "–"), (0, 9, "0 %"), (9, 9, "100 %"), (9999, 10000, "99.9 %"), (1, 10000, "0.1 %"), (2, 3, "66.7 %")],
)
def test_percent_never_rounds_to_all_or_none(part: int, whole: int, text: str) -> None:
    assert percent(part, whole) == text
