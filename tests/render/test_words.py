"""Sentences that every format has to say, and how often."""

from __future__ import annotations

import dataclasses
import html
import re

import pytest
from tests.render.evidence_fixtures import repaired, translate_fault
from tests.render.fixtures import adaptive_pool, dim, kron, quiet, static_dimension

from guarddiff.core.dims import Dimension
from guarddiff.core.domain import Admitted
from guarddiff.core.finding import Finding
from guarddiff.core.origin import SourceLine
from guarddiff.core.proof import Ladder, Reproduction, Rung, Try
from guarddiff.core.report import ReportData
from guarddiff.render import junit, rows, strip, text, words
from guarddiff.report import Report

WHOLE = ("text", "markdown", "github", "html", "junit")
"""The formats that tell a finding in full; JSON holds the data itself."""


def told(report: ReportData, format: str) -> str:
    """What a reader sees, without markup, line breaks and escapes."""
    shown = html.unescape(Report.from_data(report).render(format))
    return " ".join(re.sub(r"\\(?=\W)", "", shown.replace("`", "")).split())


def with_first(report: ReportData, **changes: object) -> ReportData:
    first = dataclasses.replace(report.findings[0], **changes)  # type: ignore[arg-type]
    return dataclasses.replace(report, findings=(first, *report.findings[1:]))


@pytest.mark.parametrize("format", WHOLE)
@pytest.mark.parametrize("prefix", ["", "No small script was found that shows the difference: "])
def test_why_there_is_no_script_is_said_once(format: str, prefix: str) -> None:
    report = with_first(translate_fault(), reproduction=Reproduction(reason=f"{prefix}the time was used up."))
    shown = told(report, format)
    said = "No small script was found that shows the difference: the time was used up."
    assert shown.count("No small script was found") == shown.count(said) == 1
    assert "used up.." not in shown


@pytest.mark.parametrize("format", [*WHOLE, "github-annotations"])
def test_what_was_left_to_torch_is_not_called_declared_dynamic(format: str) -> None:
    shown = told(kron(), format)
    assert "Left to torch (Dim.AUTO), but the exported model is sure to be right only for a[0] exactly 2" in shown
    assert "and the file still says that they are dynamic" in shown
    assert "declared dynamic" not in shown
    if format != "github-annotations":
        assert "With Dim.AUTO torch may fix sizes by design; what is wrong is that nothing warned." in shown
    assert "Dim.AUTO" not in told(adaptive_pool(), format)


def test_a_file_that_says_fixed_is_not_said_to_say_dynamic() -> None:
    first = static_dimension().findings[0]
    declared = dataclasses.replace(first.dims[0].declared, text="Dim.AUTO")  # type: ignore[type-var]
    shown = dataclasses.replace(first, dims=(dataclasses.replace(first.dims[0], declared=declared),), stage="capture")
    assert words.headline(shown).startswith("mask[1] (length): left to torch (Dim.AUTO), but")
    assert "still says" not in words.headline(shown)
    assert words.by_design(shown)


def test_dimensions_of_which_one_was_declared() -> None:
    dims = (
        dim("x[0]", 2, Admitted("exactly 2", ((2, 2),), True, False), text="Dim.AUTO"),
        adaptive_pool().findings[0].dims[0],
    )
    said = words.headline(dataclasses.replace(adaptive_pool().findings[0], dims=dims))
    assert "x[0] exactly 2 (left to torch (Dim.AUTO)) and x[2] (h) exactly 6 (declared any size)" in said
    assert "still says" not in said


def lost(finding: Finding, stage: str, *agreeing: str) -> Finding:
    rungs = [Rung(name, "agrees") for name in ("eager", *agreeing)] + [Rung("optimized", "raises")]  # type: ignore[arg-type]
    return dataclasses.replace(finding, ladder=Ladder({"a": (3, 4)}, tuple(rungs), stage))  # type: ignore[arg-type]


@pytest.mark.parametrize("format", WHOLE)
def test_where_the_numbers_show_later_than_they_are_lost(format: str) -> None:
    said = (
        "Lost at capture; the captured graph still holds kron as one operator, so the numbers show only when it is "
        "decomposed."
    )
    first = kron().findings[0]
    assert told(with_first(kron(), ladder=lost(first, "decompose", "captured").ladder), format).count(said) == 1
    assert "Lost at" not in told(with_first(kron(), ladder=lost(first, "capture").ladder), format)


@pytest.mark.parametrize(
    ("stage", "agreeing", "said"),
    [
        ("decompose", (), "Lost at capture; the numbers show only when it is decomposed."),
        (
            "translate",
            ("captured", "decomposed"),
            "Lost at capture; the decomposed program still agrees, as the lost sizes do not matter to it; the numbers "
            "show only when it is translated to ONNX.",
        ),
    ],
)
def test_no_more_is_said_of_what_is_lost_than_was_run(stage: str, agreeing: tuple[str, ...], said: str) -> None:
    shown = lost(kron().findings[0], stage, *agreeing)
    assert said in told(dataclasses.replace(kron(), findings=(shown,)), "text")


def test_a_clean_report_tells_of_sizes_that_eager_refuses() -> None:
    inherent = quiet().findings[2]
    report = dataclasses.replace(quiet(), findings=(inherent,), status="clean")
    said = "Nothing was lost silently; 1 dimension is {}, and eager PyTorch rejects other sizes too."
    assert words.summary(report) == said.format("restricted")
    exact = dataclasses.replace(inherent.dims[0], admitted=Admitted("exactly 8", ((8, 8),), True, False))
    assert words.summary(with_first(report, dims=(exact,))) == said.format("fixed")
    harmless = dataclasses.replace(report, findings=(quiet().findings[0],))
    assert words.summary(harmless) == "No specialized dimension was found."


ERROR = (
    "TorchExportError: Failed to export the model with torch.export. \x1b[96mThis is step 1/3\x1b[0m of exporting the "
    "model to ONNX. Next steps:\n- Modify the model code\ncaused by UserError: Constraints violated (h)!"
)


@pytest.mark.parametrize("format", [*WHOLE, "github-annotations"])
def test_the_error_of_an_export_names_its_cause_without_colours(format: str) -> None:
    shown = told(ReportData(status="incomplete", error=ERROR), format)
    if format != "github":
        assert "Failed to export the model with torch.export: UserError: Constraints violated (h)!" in shown
    assert "x1b" not in shown
    assert "\x1b" not in shown
    assert "[96m" not in shown


def test_a_change_that_was_shown_harmless_restricts_nothing() -> None:
    report = with_first(adaptive_pool(), verdict="harmless")
    effects = [row.effect for row in rows.change_rows(report, 9)[0]]
    assert "was restricting; shown harmless (finding 1)" in effects
    assert "was restricting; shown harmless (finding 1)" in told(report, "html")
    report = with_first(adaptive_pool(), repaired=True)
    assert "was restricting; repaired (finding 1)" in [row.effect for row in rows.change_rows(report, 9)[0]]


def relation(place: str, text: str, name: str = "") -> Dimension:
    return dim(place, 4, Admitted(text, None, True, False), name=name)


@pytest.mark.parametrize(
    ("dims", "said"),
    [
        (
            (relation("x[0]", "equal to y[0]"), relation("y[0]", "equal to x[0]")),
            "x[0] and y[0]: declared any size, but the exported model is sure to be right only for sizes equal to each "
            "other",
        ),
        (
            (relation("x[0]", "at least 4, h*w even", "h"), relation("x[1]", "at least 6, h*w even", "w")),
            "Declared any size, but the exported model is sure to be right only for x[0] (h) sizes at least 4, "
            "h*w even; and x[1] (w) sizes at least 6",
        ),
        (
            (
                relation("x[0]", "multiples of 4, where h // 4 != 1", "h"),
                relation("x[1]", "multiples of 4, at least 8, where h // 4 != 1", "w"),
            ),
            "Declared any size, but the exported model is sure to be right only for x[0] (h) multiples of 4, "
            "where h // 4 != 1; and x[1] (w) multiples of 4, at least 8",
        ),
        (
            (
                relation("x[0]", "multiples of 4, at least 8", "h"),
                relation("x[1]", "multiples of 6, at least 8, h*w even", "w"),
                relation("x[2]", "2, 4 or 6, h*w even", "d"),
            ),
            "Declared any size, but the exported model is sure to be right only for x[0] (h) multiples of 4, at least "
            "8; x[1] (w) multiples of 6, at least 8, h*w even; and x[2] (d) 2, 4 or 6",
        ),
        (
            (relation("x[0]", "equal to y[0]"),),
            "x[0]: declared any size, but the exported model is sure to be right only for sizes equal to y[0]",
        ),
    ],
)
def test_a_relation_of_several_dimensions_is_told_once(dims: tuple[Dimension, ...], said: str) -> None:
    assert words.headline(dataclasses.replace(kron().findings[0], dims=dims)) == said


def test_every_guard_has_its_own_line_and_no_source_line_is_cut() -> None:
    long = "x = self.pool(" + ", ".join(f"argument_{n}={n}" for n in range(14)) + ")"
    origin = dataclasses.replace(adaptive_pool().findings[0].origin, source=SourceLine("net.py", 3, "forward", long))
    guards = tuple(f"h % {n} == 0" for n in range(20))
    report = with_first(adaptive_pool(), origin=origin, guards=guards)
    lines = text.finding_lines(1, report.findings[0])
    assert "  guards        h % 0 == 0" in lines
    assert " " * 16 + "h % 11 == 0" in lines
    assert " " * 16 + "… and 8 guards more" in lines
    assert all(len(line) <= 110 for line in lines)
    for format in ("text", "markdown", "html"):
        assert long in told(report, format)


@pytest.mark.parametrize("format", WHOLE)
def test_a_repaired_finding_is_shown_as_repaired(format: str) -> None:
    shown = told(repaired(), format)
    assert not any(finding.warns for finding in repaired().findings)
    if format not in ("github", "junit"):
        said = "1 finding, repaired: the returned model agrees with eager PyTorch at 3 sets of sizes."
        assert said in shown
        assert "Findings before: 1; after: none open, repaired 1." in shown
        assert "4 runs: 3 agree, 1 refused by eager PyTorch" in shown
    assert "averages over windows whose bounds are computed" in shown
    assert "efore the repair the exported model was sure to be right only for" in shown
    assert Report.from_data(repaired()).render("github-annotations") == ""


def test_a_repair_that_was_not_taken() -> None:
    mended = repaired().repair
    assert mended is not None
    report = dataclasses.replace(
        with_first(repaired(), repaired=False),
        repair=dataclasses.replace(mended, returned=False, tries=(), reason="the repaired export raised"),
    )
    shown = told(report, "text")
    assert "the returned model is torch's own: the repaired export raised." in shown
    assert "Findings before: 1; after: open 1." in shown
    assert "1 finding (1 confirmed): " in shown


def test_one_repaired_and_one_open() -> None:
    report = dataclasses.replace(repaired(), findings=(repaired().findings[0], kron().findings[0]))
    assert "1 finding (1 confirmed)" in words.summary(report)
    assert "1 more finding, repaired: the returned model agrees" in words.summary(report)
    assert "<failure" not in junit.render(repaired())


def test_strips_show_what_the_returned_model_does() -> None:
    assert strip.limits(repaired()) == {}
    mixed = dataclasses.replace(repaired(), tries=(Try({"x": (1, 3, 256, 224)}, "differs"),))
    states = {state for seen in strip.tried_sizes(mixed).values() for _, state in seen}
    assert states == {"agrees", "rejected"}


def test_the_facts_of_the_export_call_are_always_there() -> None:
    shown = told(adaptive_pool(), "github")
    assert "### The export call torch.onnx.export with dynamo=True, of Pool, with these inputs:" in shown
    assert "| x | float32 | (1, 2, 6, 6) | {0: n, 2: h, 3: w} |" in shown
    assert "has written a script by hand that shows the difference, run it, read every line" in shown
    assert "Write one by hand: the facts of the export call stand below." in shown
    assert "run the script" not in shown
    whole = told(repaired(), "github")
    assert "has run the script by hand" in whole
    assert "Write one by hand" not in whole
    assert "{0: Dim.AUTO, 2: Dim('h', min=32, max=1024), 3: w}" in whole
    assert "Its inputs are not known." in told(dataclasses.replace(adaptive_pool(), inputs=()), "github")
