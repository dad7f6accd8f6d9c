from __future__ import annotations

import dataclasses
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.render.evidence_fixtures import EVIDENCE, OUTPUT, SCRIPT, full_evidence, translate_fault
from tests.render.fixtures import CONTROL, HOSTILE, SAMPLES, adaptive_pool, clean_with_notes, dim, snapshot
from tests.render.parsed import PARSERS, check_markup, fences, headings, rows, visible

from guarddiff.core.domain import Admitted
from guarddiff.core.proof import Decomposition, GraphLine, Ladder, Reproduction, Rung, Try
from guarddiff.core.report import Missing, ReportData
from guarddiff.core.snapshot import Guard
from guarddiff.render import words
from guarddiff.render.markdown import code, plain, render

ALL = {**SAMPLES, **EVIDENCE}


@pytest.mark.parametrize("name", ALL)
def test_looks_as_reviewed(name: str) -> None:
    snapshot(f"{name}.md", render(ALL[name]()))


@pytest.mark.parametrize("name", ALL)
def test_nothing_from_the_model_becomes_markup(name: str) -> None:
    text = render(ALL[name]())
    check_markup(text)
    known = (
        r"guarddiff report: \w+|Inputs|Findings|Finding \d+: \w+|What was run|What each stage added|Notes"
        "|Missing parts|Environment|Repair|Declarations"
    )
    assert [title for _, title in headings(text) if not re.fullmatch(known, title)] == []


@pytest.mark.parametrize("name", ALL)
def test_tables_keep_their_columns(name: str) -> None:
    report = ALL[name]()
    widths = {len(cells) for cells in rows(render(report))}
    assert widths <= {2, 3, 4, 6}
    opened = [t for t in PARSERS["tables"].parse(render(report)) if t.type == "table_open"]
    expected = bool(report.inputs) + bool(report.changes)
    expected += sum(bool(f.onnx_nodes) + bool(f.counterexample) + bool(f.ladder) for f in report.findings)
    expected += bool(report.tries)
    assert len(opened) == expected


@pytest.mark.parametrize("name", ALL)
def test_no_control_characters_and_valid_utf8(name: str) -> None:
    text = render(ALL[name]())
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
    shown = plain("see https://a.example, www.b.example, @torch, #12, gh-7 and pytorch/pytorch#3")
    assert "://" not in shown
    assert "www." not in shown
    assert not re.search(r"@\w|#\d|gh-\d", shown)
    assert visible(shown) == "see https://a.example, www.b.example, @torch, #12, gh-7 and pytorch/pytorch#3"


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


def test_the_ladder_marks_the_first_program_that_is_wrong() -> None:
    text = render(translate_fault())
    ladder = [cells for cells in rows(text) if "ONNX before" in cells[0] or "program" in cells[0]]
    assert [(cells[0], cells[1]) for cells in ladder] == [
        ("captured program", "agrees"),
        ("decomposed program", "agrees"),
        ("ONNX before the optimizer", "**raises**"),
    ]
    assert "The first that does not agree with eager PyTorch: ONNX before the optimizer (stage translate)." in text
    node = "- First differing node: `ONNX node node_squeeze (Squeeze), from FX node squeeze (aten.squeeze.dims)`"
    assert node in text.split("\n")


@pytest.mark.parametrize(
    ("states", "said"),
    [
        (("agrees", "agrees"), "Every program agrees"),
        (("agrees", "skipped"), "What could be run agrees"),
        (("agrees", "refuses"), "The first that does not agree with eager PyTorch: captured program."),
    ],
)
def test_a_ladder_claims_no_more_than_was_run(states: tuple[str, str], said: str) -> None:
    rungs = tuple(Rung(name, state) for name, state in zip(("eager", "captured"), states, strict=True))  # type: ignore[arg-type]
    finding = dataclasses.replace(adaptive_pool().findings[0], ladder=Ladder({"x": (1,)}, rungs))
    assert said in render(dataclasses.replace(adaptive_pool(), findings=(finding,)))


def test_the_script_can_be_copied_whole() -> None:
    blocks = fences(render(full_evidence()))
    assert ("python", SCRIPT) in blocks
    assert ("text", OUTPUT) in blocks


def test_no_script_says_why() -> None:
    text = render(translate_fault())
    assert (
        "No small script was found that shows the difference: the shrunk sizes no longer show the difference." in text
    )


def test_both_sides_of_the_operator_with_the_node_marked() -> None:
    text = render(full_evidence())
    before, after = (
        content for language, content in fences(text) if "aten.flatten" in content or "aten.view" in content
    )
    assert [line.startswith("adaptive_avg_pool2d") for line in before.splitlines() if "<--" in line] == [True]
    assert after.count("<--") == 2
    assert text.index("Before decomposition:") < text.index("After decomposition:")
    assert "ONNX nodes that it became:" in render(translate_fault())


def test_one_side_alone() -> None:
    finding = dataclasses.replace(
        adaptive_pool().findings[0], decomposition=Decomposition((GraphLine("a = b"),), ()), reproduction=Reproduction()
    )
    text = render(dataclasses.replace(adaptive_pool(), findings=(finding,)))
    assert "Before decomposition:" in text
    assert "After decomposition:" not in text
    assert "no reason is known" in text


def test_tries_that_do_not_agree_come_first_and_the_rest_is_counted() -> None:
    tries = (*(Try({"x": (n,)}, "agrees") for n in range(40)), Try({"x": (99,)}, "differs", "model", "41 differ"))
    text = render(ReportData(tries=tries))
    table = [cells for cells in rows(text) if cells[0].startswith("`x=")]
    assert table[0] == ["`x=(99,)`", "whole model", "differs", "`41 differ`"]
    assert len(table) == 30
    assert "41 runs: 1 differs, 40 agree" in text
    assert "11 rows left out" in text
