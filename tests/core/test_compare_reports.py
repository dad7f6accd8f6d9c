from __future__ import annotations

import dataclasses

import pytest

from guarddiff.core.compare_reports import compare
from guarddiff.core.dims import Declared, Dimension, InputSpec
from guarddiff.core.domain import Admitted, SizeRange, admitted
from guarddiff.core.finding import Finding
from guarddiff.core.origin import Origin, SourceLine
from guarddiff.core.report import Missing, ReportData, overall

ANY = SizeRange(0, None)


def solved(*guards: str) -> Admitted:
    return admitted(guards, {"h": ANY}, {"h": 6})["h"]


def dim(axis: int = 2, held: Admitted | None = None, name: str = "h") -> Dimension:
    return Dimension("x", axis, name, name, 6, Declared(ANY, name), held or solved("h == 6"))


def finding(**changes: object) -> Finding:
    line = SourceLine("net.py", 10, "forward", "return pool(x)")
    base = Finding(
        dims=(dim(),),
        stage="decompose",
        op="aten._adaptive_avg_pool2d.default",
        origin=Origin(op="aten._adaptive_avg_pool2d.default", module_path="pool", source=line),
        guards=("h == 6",),
        verdict="confirmed",
    )
    return dataclasses.replace(base, **changes)  # type: ignore[arg-type]


def moved_to(line: int) -> Finding:
    source = SourceLine("net.py", line, "forward", "return pool(x)")
    return finding(origin=Origin(module_path="pool", source=source))


def report(*findings: Finding, missing: tuple[Missing, ...] = (), **fields: object) -> ReportData:
    inputs = (InputSpec("x", "float32", (1, 2, "h", 6), (dim(),)),)
    filled = {"model": "Net", "inputs": inputs, "environment": {"torch": "2.13.0", "python": "3.11"}, **fields}
    return ReportData(status=overall(findings, missing), findings=findings, missing=missing, **filled)  # type: ignore[arg-type]


def test_the_same() -> None:
    found = compare(report(finding()), report(finding()))
    assert (found.same, found.worse, found.better, found.differs) == (1, False, False, False)
    assert compare(report(), report()).differs is False


def test_a_repair_is_better_and_a_lost_one_is_worse() -> None:
    mended = finding(repaired=True)
    found = compare(report(finding()), report(mended))
    assert (len(found.changed), found.better, found.worse) == (1, True, False)
    back = compare(report(mended), report(finding()))
    assert (len(back.changed), back.better, back.worse) == (1, False, True)


def test_other_models_are_told_apart() -> None:
    assert compare(report(), report()).same_model
    assert not compare(report(), report(model="Other")).same_model


def test_fixed() -> None:
    found = compare(report(finding()), report())
    assert [f.op for f in found.fixed] == [finding().op]
    assert (found.worse, found.better, found.status) == (False, True, ("specialized", "clean"))


def test_new() -> None:
    found = compare(report(), report(finding()))
    assert len(found.new) == 1
    assert found.worse


def test_what_never_warned_is_neither_fixed_nor_new() -> None:
    quiet = finding(verdict="harmless")
    assert not compare(report(quiet), report()).fixed
    found = compare(report(), report(quiet))
    assert not found.new
    assert not found.worse


def test_not_seen_in_an_incomplete_report_is_not_fixed() -> None:
    missing = (Missing("the evidence", "a private name is gone"),)
    found = compare(report(finding()), report(missing=missing))
    assert not found.fixed
    assert [f.op for f in found.unseen] == [finding().op]
    assert found.lacking == (("the evidence", "a private name is gone"),)
    assert found.worse
    assert not found.better


def test_an_export_that_raises_now_is_worse() -> None:
    found = compare(report(), report(error="RuntimeError: no\nmore"))
    assert found.worse
    assert found.lacking == (("the exported model", "the export raised RuntimeError: no"),)
    assert not compare(report(error="x"), report(error="x")).worse
    torch = "TorchExportError: Failed. Next steps:\n- Modify\ncaused by UserError: no"
    assert compare(report(), report(error=torch)).lacking[0][1] == (
        "the export raised TorchExportError: Failed. caused by UserError: no"
    )


def test_what_was_missing_before_is_not_worse() -> None:
    missing = (Missing("the evidence", "why"),)
    assert not compare(report(missing=missing), report(missing=missing)).worse


@pytest.mark.parametrize(
    ("before", "after", "worse", "better"),
    [
        ("harmless", "confirmed", True, False),
        ("unconfirmed", "confirmed", True, False),
        ("inherent", "unconfirmed", True, False),
        ("confirmed", "harmless", False, True),
        ("confirmed", "unconfirmed", False, False),
        ("unconfirmed", "inherent", False, True),
        ("harmless", "inherent", False, False),
    ],
)
def test_verdicts(before: str, after: str, worse: bool, better: bool) -> None:
    found = compare(report(finding(verdict=before)), report(finding(verdict=after)))
    assert [(c.old.verdict, c.new.verdict) for c in found.changed] == [(before, after)]
    assert (found.worse, found.better) == (worse, better)
    assert not found.fixed
    assert not found.new


@pytest.mark.parametrize(
    ("before", "after", "direction"),
    [
        ("h == 6", "h // 2 == 3", "more"),
        ("h // 2 == 3", "h == 6", "fewer"),
        ("h == 6", "h == 7", "other"),
        ("h % 2 == 0", "h % 4 == 0", "fewer"),
        ("h % 4 == 0", "h % 2 == 0", "more"),
        ("h <= 50", "h <= 60", "more"),
        ("h >= 5", "h <= 7", "other"),
        ("h % 2 == 0", "h >= 0", "more"),
    ],
)
def test_admitted_sizes(before: str, after: str, direction: str) -> None:
    old, new = finding(dims=(dim(held=solved(before)),)), finding(dims=(dim(held=solved(after)),))
    found = compare(report(old), report(new))
    (change,) = found.changed
    assert [d.direction for d in change.dims] == [direction]
    assert found.worse == (direction != "more")
    assert found.better == (direction == "more")


def test_unknown_sizes_are_worse_than_known_ones() -> None:
    unknown = Admitted("unknown", None, known=False, whole=False)
    found = compare(report(finding()), report(finding(dims=(dim(held=unknown),))))
    assert [d.direction for d in found.changed[0].dims] == ["unknown"]
    assert found.worse


def test_a_further_dimension() -> None:
    wider = finding(dims=(dim(), dim(3, name="w")))
    found = compare(report(finding()), report(wider))
    assert [(d.place, d.old, d.direction) for d in found.changed[0].dims] == [("x[3]", "not restricted", "fewer")]
    assert compare(report(wider), report(finding())).better


@pytest.mark.parametrize(
    "other",
    [
        moved_to(99),
        finding(origin=Origin(module_path="pool")),
        finding(origin=Origin()),
        finding(stage="capture"),
        finding(op="aten.adaptive_avg_pool2d.default"),
    ],
    ids=["another line", "no source", "no origin", "another stage", "another name of the operator"],
)
def test_matched_loosely(other: Finding) -> None:
    found = compare(report(finding()), report(other))
    assert not found.fixed
    assert not found.new
    assert not found.worse


def test_a_moved_line_is_the_same() -> None:
    assert compare(report(finding()), report(moved_to(99))).same == 1


def test_a_moved_stage_is_told() -> None:
    (change,) = compare(report(finding()), report(finding(stage="capture"))).changed
    assert change.moved == (("stage", "decompose", "capture"),)


def test_another_operator_elsewhere_is_another_finding() -> None:
    other = finding(op="aten.bucketize.Tensor", origin=Origin(module_path="head"), dims=(dim(3, name="w"),))
    found = compare(report(finding()), report(other))
    assert (len(found.fixed), len(found.new), found.worse) == (1, 1, True)


def test_twins_are_matched_one_to_one() -> None:
    twins = (moved_to(10), moved_to(20))
    found = compare(report(*twins), report(moved_to(20)))
    assert [f.origin.source.line for f in found.fixed if f.origin.source] == [10]
    assert found.same == 1


def test_environment() -> None:
    found = compare(report(), report(environment={"torch": "2.14.1", "onnx": "1"}))
    assert found.environment == (("onnx", None, "1"), ("python", "3.11", None), ("torch", "2.13.0", "2.14.1"))
    assert not found.differs


def test_caveats() -> None:
    fixed = InputSpec("x", "float32", (1, 2, 6, 6), (dataclasses.replace(dim(), declared=None),))
    found = compare(report(), report(model="Other", inputs=(fixed,)))
    assert found.caveats == (
        "the models have different names: Net and Other",
        "other dimensions or sizes were declared: x[2]",
    )
