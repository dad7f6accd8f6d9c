"""Findings from hand-made evidence. Needs no torch."""

from __future__ import annotations

import dataclasses

import pytest
from tests.analysis.made import ANY, BRANCH, LINEAR, POOL, H, W, admitted, dim, effects, evidence, group, guard

from guarddiff.analysis import attribute
from guarddiff.core.dims import Declared, Dimension
from guarddiff.core.domain import SizeRange
from guarddiff.core.evidence import StaticDimension
from guarddiff.core.origin import Origin, SourceLine

# --- one finding per root cause -------------------------------------------------------------------------


def test_one_finding_per_group_in_order_of_the_stages() -> None:
    kron = Origin("aten.kron.default", "", SourceLine("m.py", 9), node="kron")
    made = evidence(group(POOL, "h == 6"), group(kron, "w == 6", stage="capture"))
    found = attribute.attribute(made)
    assert [(f.stage, f.op, admitted(f)) for f in found.findings] == [
        ("capture", "aten.kron.default", {"w": "exactly 6"}),
        ("decompose", POOL.op, {"h": "exactly 6"}),
    ]
    assert effects(found) == [("capture", "restricts", 0), ("decompose", "restricts", 1)]


def test_only_the_dimensions_that_are_restricted_are_named() -> None:
    (finding,) = attribute.attribute(evidence(group(POOL, "h == 6", "w >= 0"))).findings
    assert admitted(finding) == {"h": "exactly 6"}
    assert finding.guards == ("h == 6",)
    assert finding.inputs == (H, W)


def test_guards_that_exclude_nothing_of_two_or_more_are_left_out() -> None:
    (finding,) = attribute.attribute(evidence(group(POOL, "h != 1", "h % 3 == 0", "w >= 0"))).findings
    assert finding.guards == ("h % 3 == 0",)


def test_repeated_guards_are_told_once() -> None:
    (finding,) = attribute.attribute(evidence(group(POOL, "h == 6", "h == 6"))).findings
    assert finding.guards == ("h == 6",)


def test_an_origin_without_an_operator() -> None:
    (finding,) = attribute.attribute(evidence(group(Origin(), "h == 6"))).findings
    assert finding.op == "unknown"


def test_a_consequence_of_capture_is_entailed() -> None:
    made = evidence(group(POOL, "h % 2 == 0"), group(BRANCH, "h == 6", stage="capture"))
    found = attribute.attribute(made)
    assert effects(found) == [("capture", "restricts", 0), ("decompose", "entailed", None)]
    assert [finding.op for finding in found.findings] == ["if"]


def test_a_later_group_of_capture_that_adds_something_is_a_finding() -> None:
    two = Origin("for", "", SourceLine("m.py", 8), branch=True)
    made = evidence(group(BRANCH, "h % 2 == 0", stage="capture"), group(two, "h == 6", stage="capture"))
    assert effects(attribute.attribute(made)) == [("capture", "restricts", 0), ("capture", "restricts", 1)]


def test_what_lies_downstream_is_folded_and_what_lies_beside_is_kept() -> None:
    beside = dataclasses.replace(POOL, node="pool_1")
    made = evidence(
        group(POOL, "h % 2 == 0", "h // 2 == 3", upstream=("x",)),
        group(LINEAR, "h // 2 == 3", upstream=("x", "pool", "flatten")),
        group(beside, "h // 2 == 3", upstream=("x",)),
    )
    found = attribute.attribute(made)
    assert effects(found) == [("decompose", "restricts", 0), ("decompose", "entailed", None),
                              ("decompose", "restricts", 1)]  # fmt: skip
    assert [finding.origin.node for finding in found.findings] == ["pool", "pool_1"]


def test_what_lies_downstream_and_adds_something_is_a_finding() -> None:
    made = evidence(group(POOL, "h % 2 == 0", upstream=("x",)), group(LINEAR, "h // 2 == 3", upstream=("x", "pool")))
    assert effects(attribute.attribute(made)) == [("decompose", "restricts", 0), ("decompose", "restricts", 1)]


def test_what_lies_upstream_is_not_folded() -> None:
    made = evidence(group(LINEAR, "h == 6", upstream=("x", "pool")), group(POOL, "h == 6", upstream=("x",)))
    assert effects(attribute.attribute(made)) == [("decompose", "restricts", 0), ("decompose", "restricts", 1)]


# --- what no seen guard explains ------------------------------------------------------------------------


def state(*rows: tuple[str, str, str]) -> dict[str, object]:
    return {"state": tuple((stage, guard(text, kind)) for stage, kind, text in rows)}  # type: ignore[arg-type]


def test_a_leftover_range_goes_to_the_last_group_on_its_dimension() -> None:
    other = dataclasses.replace(POOL, node="other")
    last = dataclasses.replace(POOL, node="last")
    made = evidence(
        group(POOL, "h >= 0"), group(other, "h >= 0"), group(last, "w >= 0"),
        **state(("decompose", "range", "h == 6")),
    )  # fmt: skip
    found = attribute.attribute(made)
    assert effects(found) == [("decompose", "none", None), ("decompose", "restricts", 0), ("decompose", "none", None)]
    (finding,) = found.findings
    assert finding.origin == other
    assert (finding.guards, admitted(finding)) == (("h == 6",), {"h": "exactly 6"})
    assert [guard.text for guard in found.changes[1].guards] == ["h >= 0", "h == 6"]


def test_a_leftover_range_without_a_group_is_alone() -> None:
    made = evidence(group(POOL, "w >= 0"), **state(("decompose", "range", "h == 6")))
    found = attribute.attribute(made)
    assert effects(found) == [("decompose", "none", None), ("decompose", "restricts", 0)]
    (finding,) = found.findings
    assert (finding.stage, finding.op, finding.origin) == ("decompose", "unknown", Origin())
    assert admitted(finding) == {"h": "exactly 6"}


def test_leftovers_are_one_finding_per_dimension_and_stage() -> None:
    rows = (
        ("capture", "range", "h <= 9"),
        ("capture", "constraint", "h <= 9"),
        ("capture", "range", "w == 6"),
        ("decompose", "range", "h == 6"),
    )
    found = attribute.attribute(evidence(**state(*rows)))
    assert [(f.stage, admitted(f)) for f in found.findings] == [
        ("capture", {"h": "at most 9"}),
        ("capture", {"w": "exactly 6"}),
        ("decompose", {"h": "exactly 6"}),
    ]
    assert found.findings[0].guards == ("h <= 9",)


@pytest.mark.parametrize(
    "row",
    [
        ("decompose", "range", "h <= 6"),
        ("decompose", "range", "h == 6"),
        ("decompose", "constraint", "h >= 2"),
        ("decompose", "range", "w >= 0"),
        ("decompose", "replacement", "w == 6"),
        ("decompose", "assert", "w == 6"),
        ("decompose", "guard", "w == 6"),
        ("translate", "range", "w == 6"),
    ],
    ids=" ".join,
)
def test_what_is_explained_or_says_nothing_is_no_leftover(row: tuple[str, str, str]) -> None:
    found = attribute.attribute(evidence(group(POOL, "h == 6"), **state(row)))
    assert effects(found) == [("decompose", "restricts", 0)]
    assert [admitted(finding) for finding in found.findings] == [{"h": "exactly 6"}]


def test_an_unbacked_range_is_no_leftover() -> None:
    rows = (("decompose", guard("u0 <= 9", "range", unbacked=True)),)
    assert attribute.attribute(evidence(state=rows)) == attribute.Attribution([], [], [])


@pytest.mark.parametrize("kind", ["assert", "guard", "range", "constraint"])
def test_where_no_guard_was_seen_the_state_speaks(kind: str) -> None:
    found = attribute.attribute(evidence(**state(("decompose", kind, "h // 2 == 3"))))
    assert [(f.op, admitted(f)) for f in found.findings] == [("unknown", {"h": "6–7"})]


def test_a_leftover_of_what_was_declared_is_none() -> None:
    made = evidence(dims=(dim(0, "h", 6, SizeRange(4, 64)),), **state(("capture", "range", "h <= 64"),
                                                                     ("capture", "range", "h >= 4")))  # fmt: skip
    assert attribute.attribute(made) == attribute.Attribution([], [], [])


# --- static dimensions ----------------------------------------------------------------------------------


def test_static_dimensions_of_one_place_are_one_finding() -> None:
    statics = (
        StaticDimension(H, 6, "declare", Origin(), ("x[2]", "y[0]")),
        StaticDimension(W, 6, "declare", Origin(), ("x[2]", "y[0]")),
    )
    (finding,) = attribute.attribute(evidence(static=statics)).findings
    assert (finding.stage, finding.op, finding.guards) == ("declare", "torch.onnx.export", ("h == 6", "w == 6"))
    assert admitted(finding) == {"h": "exactly 6", "w": "exactly 6"}
    assert finding.reason == (
        "torch did not take the dimension as dynamic from what was declared; it made x[2], y[0] dynamic instead"
    )
    assert finding.inputs == (H, W)


def test_static_dimensions_of_several_places_are_several_findings() -> None:
    kron = Origin("aten.kron.default", "", node="kron")
    statics = (
        StaticDimension(H, 6, "capture", kron),
        StaticDimension(W, 6, "declare", Origin()),
        StaticDimension(dim(2, "d", 4), 4, "capture", kron),
        StaticDimension(dim(3, "e", 3), 3, "capture", Origin()),
    )
    found = attribute.attribute(evidence(static=statics))
    assert [(f.stage, f.op, f.guards) for f in found.findings] == [
        ("capture", "aten.kron.default", ("h == 6", "d == 4")),
        ("declare", "torch.onnx.export", ("w == 6",)),
        ("capture", "torch.export", ("e == 3",)),
    ]
    assert found.findings[0].reason == (
        "torch.export refused the declared dimension, and the exporter tried again with a fixed size"
    )
    assert found.findings[1].reason == "torch did not take the dimension as dynamic from what was declared"
    assert found.changes == []


def test_one_size_of_two_inputs_is_one_finding_whoever_asked() -> None:
    """A ``Dim`` that two inputs share: torch fixed it at two lines, and what fixed it first is the cause."""
    first, second = Origin(op="int()"), Origin(op="aten.max_pool1d.default")
    mask = dataclasses.replace(H, input="y")
    statics = (
        StaticDimension(H, 6, "capture", first),
        StaticDimension(W, 6, "capture", second),
        StaticDimension(mask, 6, "capture", second),
    )
    found = attribute.attribute(evidence(static=statics)).findings
    assert [[d.place for d in finding.dims] for finding in found] == [["x[0]", "y[0]"], ["x[1]"]]
    assert [finding.op for finding in found] == ["int()", "aten.max_pool1d.default"]


def test_a_name_that_two_static_dimensions_share_gives_one_guard() -> None:
    other = Dimension("y", 1, "h", "h", 6, Declared(ANY))
    statics = (StaticDimension(H, 6, "declare", Origin()), StaticDimension(other, 6, "declare", Origin()))
    (finding,) = attribute.attribute(evidence(dims=(H,), static=statics)).findings
    assert finding.guards == ("h == 6",)
    assert [d.place for d in finding.dims] == ["x[0]", "y[1]"]


def test_changes_count_findings_of_static_dimensions_too() -> None:
    made = evidence(group(POOL, "w == 6"), static=(StaticDimension(H, 6, "declare", Origin()),))
    found = attribute.attribute(made)
    assert effects(found) == [("decompose", "restricts", 1)]
    assert [finding.stage for finding in found.findings] == ["declare", "decompose"]


# --- derived dimensions ---------------------------------------------------------------------------------


def test_a_derived_dimension_is_told_in_its_own_sizes() -> None:
    root = dim(0, "h", 6, SizeRange(0, 64))
    twice = Dimension("y", 0, "y[0]", "2*h", 12, Declared(SizeRange(0, 128), "2*h"))
    made = evidence(group(POOL, "h % 3 == 0"), dims=(root, twice), declared={"h": SizeRange(0, 64)}, example={"h": 6})
    (finding,) = attribute.attribute(made).findings
    words = {d.place: d.admitted for d in finding.dims}
    assert list(words) == ["x[0]", "y[0]"]
    assert words["x[0]"] is not None
    assert words["y[0]"] is not None
    assert [n for n in range(65) if n in words["x[0]"]] == list(range(0, 65, 3))
    assert [n for n in range(129) if n in words["y[0]"]] == list(range(0, 129, 6))


def test_a_fixed_derived_dimension() -> None:
    twice = Dimension("y", 0, "y[0]", "2*h + 1", 13, Declared(ANY, "2*h + 1"))
    made = evidence(group(POOL, "h == 6"), dims=(twice,), declared={"h": ANY}, example={"h": 6})
    (finding,) = attribute.attribute(made).findings
    assert admitted(finding) == {"y[0]": "exactly 13"}
    assert finding.admits({"y": (13,)}) is True
    assert finding.admits({"y": (15,)}) is False


# --- pieces ---------------------------------------------------------------------------------------------


def test_usable() -> None:
    given = (guard("h == 6"), guard("u0 < 3", unbacked=True), guard("w == 6"), guard("h == 6", "range"))
    assert attribute.usable(given) == ["h == 6", "w == 6"]


def test_make_leaves_verdict_and_proof_open() -> None:
    finding = attribute.make(evidence(), "translate", POOL, ["h <= 9"])
    assert (finding.stage, finding.verdict, finding.counterexample) == ("translate", "unconfirmed", None)
    assert admitted(finding) == {"h": "at most 9"}


def test_make_with_guards_that_name_nothing_declared() -> None:
    finding = attribute.make(evidence(), "decompose", POOL, ["s7 == 3"])
    assert (finding.dims, finding.guards) == ((), ("s7 == 3",))
