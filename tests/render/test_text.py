from __future__ import annotations

import dataclasses
import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.render.evidence_fixtures import EVIDENCE, OUTPUT, SCRIPT, full_evidence, translate_fault
from tests.render.fixtures import (
    SAMPLES,
    UNKNOWN,
    adaptive_pool,
    dim,
    exactly,
    kron,
    quiet,
    snapshot,
    static_dimension,
    untried,
)

from guarddiff.core.domain import Admitted, SizeRange
from guarddiff.core.finding import Finding
from guarddiff.core.origin import Origin
from guarddiff.core.proof import Reproduction, Try
from guarddiff.core.report import ReportData
from guarddiff.render import moves, words
from guarddiff.render.text import declaration_text, render, wants_color, warning_text

ALL = {**SAMPLES, **EVIDENCE}
FINDINGS = [(name, number) for name, make in ALL.items() for number in range(len(make().findings))]


def finding(name: str, number: int = 0) -> Finding:
    return ALL[name]().findings[number]


@pytest.mark.parametrize("name", ALL)
def test_looks_as_reviewed(name: str) -> None:
    snapshot(f"{name}.txt", render(ALL[name]()))


def test_warnings_look_as_reviewed() -> None:
    texts = [warning_text(finding(name, number)) for name, number in FINDINGS]
    snapshot("warnings.txt", "\n\n".join(texts) + "\n")


@pytest.mark.parametrize(("name", "number"), FINDINGS)
def test_a_warning_is_short_and_harmless_to_a_terminal(name: str, number: int) -> None:
    lines = warning_text(finding(name, number)).split("\n")
    assert len(lines) <= 10
    assert all(len(line) <= 110 and line.isprintable() for line in lines)
    assert any(line.startswith("  next ") for line in lines)


def test_a_warning_names_everything_asked_for() -> None:
    text = warning_text(finding("adaptive_pool"))
    for part in (
        "x[2] (h) and x[3] (w)",
        "declared any size",
        "exactly 6",
        "avgpool",
        "models/pool.py:12",
        "F.adaptive_avg_pool2d(x, (2, 3))",
        "aten._adaptive_avg_pool2d.default",
        "torch/_decomp/decompositions.py:2825 adaptive_avg_pool2d",
        "x=(1, 2, 7, 9)",
        "shape (1, 2, 2, 3)",
        "shape (1, 2, 2, 4)",
    ):
        assert part in text


def test_dimensions_that_admit_the_same_share_a_line() -> None:
    first = warning_text(finding("adaptive_pool")).split("\n")[0]
    assert (
        first
        == "x[2] (h) and x[3] (w): declared any size, but the exported model is sure to be right only for exactly 6"
    )


def test_many_dimensions_lose_names_before_the_claim_loses_words() -> None:
    dims = tuple(dim(f"input_{i}[{i}]", 6, exactly(6), name=f"a_rather_long_name_{i}") for i in range(40))
    text = warning_text(dataclasses.replace(finding("adaptive_pool"), dims=dims))
    head = " ".join(text.split("\n  where")[0].split())
    assert "and 36 more: declared any size" in head or "and 38 more: declared any size" in head
    assert head.endswith("right only for exactly 6")


def test_many_different_dimensions() -> None:
    dims = tuple(dim(f"x[{i}]", i, exactly(i)) for i in range(30))
    head = " ".join(warning_text(dataclasses.replace(finding("kron"), dims=dims)).split("\n  where")[0].split())
    assert head.startswith(
        "Declared any size, but the exported model is sure to be right only for x[0] exactly 0, x[1]"
    )
    assert head.endswith("more dimensions")


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        ("confirmed", "the exported model is sure to be right only for exactly 6"),
        ("unconfirmed", "the exported model is sure to be right only for exactly 6; not tried"),
        ("harmless", "a guard holds only for exactly 6; other sizes were run and agree"),
        ("inherent", "a guard holds only for exactly 6; eager PyTorch rejects other sizes too"),
    ],
)
def test_the_claim_says_no_more_than_the_verdict(verdict: str, said: str) -> None:
    changed = dataclasses.replace(finding("adaptive_pool"), verdict=verdict)  # type: ignore[arg-type]
    assert words.headline(changed).endswith(said)


@pytest.mark.parametrize(
    ("admitted", "said"),
    [
        (None, "some sizes (which ones is unknown)"),
        (UNKNOWN, "some sizes (which ones is unknown)"),
        (Admitted("any size", ((0, None),), True, True), "some sizes (which ones is unknown)"),
        (Admitted("any size", ((1, None),), True, False), "some sizes (which ones is unknown)"),
        (Admitted("equal to y[0]", None, True, False), "sizes equal to y[0]"),
        (Admitted("at most 4", ((0, 4),), True, False), "sizes at most 4"),
        (Admitted("h*w even", None, True, False), "h*w even"),
    ],
)
def test_admitted_sizes_read_as_a_sentence(admitted: Admitted | None, said: str) -> None:
    changed = dataclasses.replace(finding("adaptive_pool"), dims=(dim("x[2]", 6, admitted, name="h"),))
    assert words.headline(changed).endswith(f"right only for {said}")


def test_a_finding_without_dimensions_or_origin() -> None:
    text = warning_text(Finding((), "run", "", Origin(), verdict="unconfirmed"))
    assert "some sizes (which ones is unknown)" in " ".join(text.split())
    assert "no reason was recorded" in text
    assert "where" not in text


def test_an_input_that_became_fixed_says_why() -> None:
    reason = "the exporter tried again with a fixed size"
    shown = dataclasses.replace(static_dimension().findings[0], stage="capture", reason=reason)
    assert f"  why           {reason}" in warning_text(shown)


def test_a_range_and_the_model_itself() -> None:
    ranged = dim("x[2]", 6, exactly(6), sizes=SizeRange(4, 512))
    changed = dataclasses.replace(finding("kron"), dims=(ranged,))
    text = warning_text(changed)
    assert text.startswith("x[2]: declared 4–512, but")
    assert "root module (forward), models/kron.py:7" in text


NEXT = [
    (adaptive_pool().findings[0], "fixed kernel"),
    (kron().findings[0], "broadcast"),
    (static_dimension().findings[0], 'dynamic_shapes={"mask": {1: "length"}}'),
    (untried().findings[0], "Install onnxruntime"),
    (dataclasses.replace(untried().findings[0], reason='replay is "off"'), 'replay="findings"'),
    (dataclasses.replace(untried().findings[0], reason="the model differs from itself"), "same result twice"),
    (dataclasses.replace(untried().findings[0], reason="the operator can't run by itself"), 'replay="full"'),
    (dataclasses.replace(untried().findings[0], reason="the export raised, so"), "Mend the error"),
    (dataclasses.replace(untried().findings[0], reason="differ at the example's own sizes"), "agree there"),
    (dataclasses.replace(untried().findings[0], reason="the time was used up"), "at such a size yourself"),
    (
        dataclasses.replace(untried().findings[0], reason="a value inside the model would have 1,073,741,824 elements"),
        "Compare eager PyTorch and ONNX Runtime",
    ),
    (
        dataclasses.replace(untried().findings[0], reason="the program was specialized before it came here, and …"),
        "Export the module that the program was made from",
    ),
    (quiet().findings[0], "Nothing to do"),
    (quiet().findings[1], "another way"),
    (quiet().findings[2], "Nothing to do"),
    (dataclasses.replace(quiet().findings[1], stage="optimize"), "optimize=False"),
    (dataclasses.replace(quiet().findings[1], stage="run"), "export with dynamo=True"),
    (dataclasses.replace(untried().findings[0], verdict="confirmed"), "needs no concrete size"),
    (
        dataclasses.replace(static_dimension().findings[0], stage="capture", op="aten.view.default", origin=Origin()),
        "declare the dimension static",
    ),
    (dataclasses.replace(adaptive_pool().findings[0], op="aten.unfold.default"), "writing this operator"),
    (
        dataclasses.replace(static_dimension().findings[0], dims=(dim("x[1]", 6, exactly(6)),)),
        'dynamic_shapes={"x": {1: Dim.DYNAMIC}}',
    ),
    (
        dataclasses.replace(static_dimension().findings[0], dims=(dim("x[1]", 6, sizes=None),)),
        "Name every input of forward",
    ),
]


@pytest.mark.parametrize(("shown", "said"), NEXT)
def test_the_next_move_fits_the_finding(shown: Finding, said: str) -> None:
    assert said in moves.next_move(shown)


@pytest.mark.parametrize("shown", [shown for shown, _ in NEXT])
def test_the_next_move_is_whole_and_offers_only_what_exists(shown: Finding) -> None:
    text = " ".join(warning_text(shown).split())
    assert " ".join(moves.next_move(shown).split()) in text
    assert not re.search("repair|contract|html|command", moves.next_move(shown), re.IGNORECASE)


def test_runtime_messages_lose_their_noise() -> None:
    proof = kron().findings[0].counterexample
    assert proof is not None
    short = words.shorter(proof.got)
    assert short.startswith("Reshape node_view: The input tensor")
    assert "/onnxruntime_src" not in short
    assert "requested shape:{8,15}" in short


@given(st.text(max_size=400), st.integers(1, 320))
def test_cleaned_text_is_one_short_printable_line(text: str, limit: int) -> None:
    for shown in (words.clean(text, limit), words.clean_end(text, limit)):
        assert shown.isprintable()
        assert len(shown) <= limit
        shown.encode("utf-8")
    if text.isprintable() and len(text) <= limit:
        assert words.clean(text, limit) == words.clean_end(text, limit) == text


def test_long_tables_are_cut_and_say_so() -> None:
    spec = dataclasses.replace(adaptive_pool().inputs[0], dims=tuple(dim(f"x[{i}]", 2) for i in range(100)))
    text = render(ReportData(inputs=(spec,)))
    assert "x[39]" in text
    assert "x[40]" not in text
    assert "… and 60 rows more" in text


def test_an_empty_report() -> None:
    assert render(ReportData()) == "guarddiff report: clean\nNo dimension was declared dynamic.\n"


def test_never_says_clean_of_an_export_that_raised() -> None:
    text = render(ReportData(error="boom", inputs=adaptive_pool().inputs))
    assert "No specialized dimension" not in text
    assert "as declared" not in text


def test_a_warning_names_the_first_differing_node_where_there_is_no_rule() -> None:
    line = "  first node    ONNX node node_squeeze (Squeeze), from FX node squeeze (aten.squeeze.dims)"
    assert line in warning_text(translate_fault().findings[0]).split("\n")
    ruled = warning_text(full_evidence().findings[0])
    assert "  rule " in ruled
    assert "first node" not in ruled


def test_the_node_gives_the_place_where_the_origin_has_none() -> None:
    bare = dataclasses.replace(translate_fault().findings[0], origin=Origin())
    place = "  where         root module (forward), models/squeeze.py:9: return x.squeeze(1) * 2"
    assert place in warning_text(bare).split("\n")
    assert place in render(ReportData(findings=(bare,))).split("\n")


def test_the_report_shows_ladder_script_and_output() -> None:
    text = render(full_evidence())
    assert "  ladder        eager PyTorch              reference: shape (1, 1000)\n" in text
    assert "                decomposed program         raises  <-- first: RuntimeError: mat1" in text
    assert text.count("<-- first") == 1
    assert "  first node    FX node avg_pool2d (aten.avg_pool2d.default), from FX node adaptive_avg_pool2d\n" in text
    for block in (SCRIPT, OUTPUT):
        assert "\n".join(f"    {line}".rstrip() for line in block.splitlines()) in text
    assert "whole model): agrees" in text


def test_why_there_is_no_script() -> None:
    text = " ".join(render(translate_fault()).split())
    assert "No small script was found that shows the difference: the shrunk sizes no longer show" in text


def test_long_scripts_and_many_tries_are_cut_and_say_so() -> None:
    long = dataclasses.replace(adaptive_pool().findings[0], reproduction=Reproduction("x\n" * 70, "y\n" * 30, "model"))
    tries = tuple(Try({"x": (n,)}, "agrees") for n in range(20))
    text = render(ReportData(findings=(long,), tries=tries))
    assert "… and 10 lines more" in text
    assert text.count("    x\n") == 60
    assert "… and 8 runs more" in text


@pytest.mark.parametrize("name", ALL)
def test_colour_changes_no_word(name: str) -> None:
    coloured = render(ALL[name](), color=True)
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == render(ALL[name]())
    assert "\x1b" not in render(ALL[name]())
    assert set(re.findall("\x1b.", coloured)) == {"\x1b["}
    for line in coloured.split("\n"):
        assert len(re.findall(r"\x1b\[0m", line)) == len(re.findall(r"\x1b\[1?;?[1-9]\d?m", line))


def test_what_is_coloured() -> None:
    coloured = render(adaptive_pool(), color=True)
    assert "\x1b[1;31mspecialized\x1b[0m" in coloured
    assert "\x1b[1;31mFinding 1, confirmed\x1b[0m" in coloured
    assert "\x1b[36m  operator      \x1b[0maten." in coloured
    assert "\x1b[1;32mclean\x1b[0m" in render(ReportData(), color=True)
    assert "\x1b[1;33mincomplete\x1b[0m" in render(ReportData(status="incomplete"), color=True)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("terminal", "environment", "expected"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": ""}, True),
        (True, {"NO_COLOR": "0"}, False),
        (False, {"FORCE_COLOR": "1"}, True),
        (True, {"FORCE_COLOR": "0"}, False),
        (True, {"FORCE_COLOR": ""}, True),
        (False, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        (True, {"TERM": "dumb"}, False),
        (False, {"TERM": "xterm"}, False),
    ],
)
def test_colour_on_a_terminal_only(
    terminal: bool, environment: dict[str, str], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert wants_color(Terminal() if terminal else io.StringIO()) is expected


def test_build_details_are_left_to_the_filing() -> None:
    text = render(ReportData(environment={"torch": "2.14.1", "cuda_build": "12.8", "os": "Debian"}))
    assert text.endswith("Environment: torch 2.14.1\n")


def test_a_known_repair_is_the_next_move() -> None:
    shown = dataclasses.replace(finding("adaptive_pool"), repair="pooling: windows at run time", repairable=True)
    assert "repair=True, which knows another way (pooling)" in moves.next_move(shown)
    assert "repair=True" in warning_text(shown)
    assert "repair=True" not in moves.next_move(dataclasses.replace(shown, repairable=False))


def test_the_warning_of_a_declaration() -> None:
    (wrong,) = full_evidence().declarations
    assert declaration_text(wrong).split("\n") == [
        "dynamic_shapes['x'][3]: one name says that sizes are equal, and the example's differ: x[2]=224 and x[3]=256",
        "  instead       {3: 'x_h'}, or an example of equal sizes",
    ]


def test_the_warning_of_a_hostile_declaration_is_short_and_printable() -> None:
    (wrong,) = SAMPLES["hostile"]().declarations
    lines = declaration_text(wrong).split("\n")
    assert len(lines) <= 8
    assert all(len(line) <= 120 and line.isprintable() for line in lines)
