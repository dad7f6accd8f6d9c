"""What changes do to the admitted sizes, from hand-made evidence. Needs no torch."""

from __future__ import annotations

import dataclasses

import pytest
from tests.analysis.made import BRANCH, POOL, H, W, admitted, dim, effects, evidence, group, guard

from guarddiff.analysis import attribute
from guarddiff.core.domain import Admitted, SizeRange
from guarddiff.core.evidence import Evidence, Group
from guarddiff.core.finding import Finding
from guarddiff.core.report import Change
from guarddiff.core.snapshot import Guard

# --- effects --------------------------------------------------------------------------------------------


def test_no_evidence_no_finding() -> None:
    assert attribute.attribute(Evidence()) == attribute.Attribution([], [], [])


def test_restricts_becomes_a_finding() -> None:
    made = group(POOL, "h % 2 == 0", "h // 2 == 3", "w // 3 == 2", "w % 3 == 0")
    found = attribute.attribute(evidence(made))
    (finding,) = found.findings
    assert (finding.stage, finding.op, finding.origin) == ("decompose", POOL.op, POOL)
    assert admitted(finding) == {"h": "exactly 6", "w": "exactly 6"}
    assert finding.guards == ("h % 2 == 0", "h // 2 == 3", "w // 3 == 2", "w % 3 == 0")
    assert finding.inputs == (H, W)
    assert (finding.verdict, finding.reason, finding.onnx_nodes) == ("unconfirmed", "", ())
    assert found.changes == [Change("decompose", made.guards, "restricts", 0)]
    assert found.small == []


@pytest.mark.parametrize("text", ["h >= 0", "h + 1 > h", "h * w >= 0", "h % 1 == 0", "h != -1"])
def test_none_is_told_and_no_finding(text: str) -> None:
    made = group(POOL, text)
    found = attribute.attribute(evidence(made))
    assert found == attribute.Attribution([], [Change("decompose", made.guards, "none")], [])


@pytest.mark.parametrize(
    ("text", "words"), [("h != 1", "at least 2"), ("h >= 1", "any size"), ("h >= 2", "at least 2")]
)
def test_small_is_kept_apart(text: str, words: str) -> None:
    made = group(POOL, text)
    found = attribute.attribute(evidence(made))
    assert found.findings == []
    assert found.changes == [Change("decompose", made.guards, "small")]
    (finding,) = found.small
    assert finding.guards == (text,)
    assert admitted(finding) == {"h": words}


@pytest.mark.parametrize("text", ["h <= 16777216", "3 * h < 10**9"])
def test_far_is_kept_apart(text: str) -> None:
    """``torch.quantile`` takes at most 2**24 elements."""
    made = group(POOL, text)
    found = attribute.attribute(evidence(made))
    assert found.findings == []
    assert found.changes == [Change("decompose", made.guards, "far")]
    assert [finding.guards for finding in found.small] == [(text,)]


def test_far_from_a_branch_is_a_finding() -> None:
    found = attribute.attribute(evidence(group(BRANCH, "h <= 16777216", stage="capture")))
    assert effects(found) == [("capture", "far", 0)]
    assert [admitted(finding) for finding in found.findings] == [{"h": "at most 16777216"}]


def test_a_bound_that_is_not_far_is_a_finding_whoever_sets_it() -> None:
    found = attribute.attribute(evidence(group(POOL, "h <= 16777213")))
    assert effects(found) == [("decompose", "restricts", 0)]


def test_small_from_a_branch_is_a_finding() -> None:
    found = attribute.attribute(evidence(group(BRANCH, "h != 1", stage="capture")))
    assert effects(found) == [("capture", "small", 0)]
    assert [admitted(finding) for finding in found.findings] == [{"h": "at least 2"}]
    assert found.small == []


@pytest.mark.parametrize("text", ["h >= 4", "h > 3", "h // 2 >= 2"])
def test_lower_is_kept_apart(text: str) -> None:
    found = attribute.attribute(evidence(group(POOL, text)))
    assert effects(found) == [("decompose", "lower", None)]
    assert found.findings == []
    assert [admitted(finding) for finding in found.small] == [{"h": "at least 4"}]


def test_lower_of_two_dimensions_is_kept_apart() -> None:
    found = attribute.attribute(evidence(group(POOL, "h // 2 >= 1 and w // 3 >= 1")))
    assert effects(found) == [("decompose", "lower", None)]
    assert [admitted(finding) for finding in found.small] == [{"h": "at least 2", "w": "at least 3"}]


@pytest.mark.parametrize("sizes", [SizeRange(0, 64), SizeRange(2, 64)])
def test_lower_of_a_dimension_declared_with_a_maximum_is_kept_apart(sizes: SizeRange) -> None:
    found = attribute.attribute(evidence(group(POOL, "h >= 4"), dims=(dim(0, "h", 6, sizes),)))
    assert effects(found) == [("decompose", "lower", None)]
    assert found.findings == []
    assert [admitted(finding) for finding in found.small] == [{"h": "4–64"}]


@pytest.mark.parametrize(
    "text", ["2 * h * (w // 4) != 0", "(h // 3) * (w // 4) >= 1", "h * w > 5 and h >= 3 and w >= 3"]
)
def test_a_product_that_must_not_be_empty_is_a_lower_bound(text: str) -> None:
    """Layers ask whether there is anything to work on: no size above the bounds is excluded."""
    found = attribute.attribute(evidence(group(POOL, text)))
    assert effects(found) == [("decompose", "lower", None)] and found.findings == []


def test_a_product_with_a_dimension_of_unknown_bound_is_no_lower_bound() -> None:
    """The guard speaks of ``n``, of which the finding knows only that another dimension is twice of it."""
    text = "n * (w // 4) != 0"
    bounded = dataclasses.replace(
        W, admitted=Admitted(f"at least 4, where {text}", ((4, None),), known=True, whole=False)
    )
    finding = Finding((bounded,), "decompose", "op", POOL, (text,))
    assert not attribute._only_below(finding)
    assert attribute._only_below(dataclasses.replace(finding, guards=("w * (w // 4) != 0",)))


def test_a_relation_above_the_bounds_is_a_finding() -> None:
    found = attribute.attribute(evidence(group(POOL, "(h // 3) * (w // 4) >= 1 and h != w + 7")))
    assert effects(found) == [("decompose", "restricts", 0)]


def test_lower_from_a_branch_is_a_finding() -> None:
    found = attribute.attribute(evidence(group(BRANCH, "h > 3", stage="capture")))
    assert effects(found) == [("capture", "lower", 0)]
    assert [admitted(finding) for finding in found.findings] == [{"h": "at least 4"}]
    assert found.small == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("h <= 6", {"h": "at most 6"}),
        ("h % 3 == 0", {"h": "multiples of 3"}),
        ("h != 5", {"h": "any size but 5"}),
        ("4 <= h <= 9", {"h": "4–9"}),
        ("h == w", {"h": "equal to w", "w": "equal to h"}),
        ("h <= w", {"h": "where h <= w", "w": "where h <= w"}),
    ],
)
def test_anything_more_than_a_lower_bound_is_a_finding(text: str, words: dict[str, str]) -> None:
    found = attribute.attribute(evidence(group(POOL, text)))
    assert effects(found) == [("decompose", "restricts", 0)]
    assert [admitted(finding) for finding in found.findings] == [words]


@pytest.mark.parametrize("text", ["strange(h) == 2", "Eq(h, 2)", "h == s7 + 1"])
def test_what_cannot_be_evaluated_is_a_finding(text: str) -> None:
    made = Group("decompose", POOL, (Guard(text, "guard", ("h",)),))
    found = attribute.attribute(evidence(made))
    assert effects(found) == [("decompose", "unknown", 0)]
    assert [finding.guards for finding in found.findings] == [(text,)]


def test_unbacked_is_told_and_no_finding() -> None:
    made = Group("capture", POOL, (guard("u0 < 100", unbacked=True), guard("u0 == h", unbacked=True)))
    found = attribute.attribute(evidence(made))
    assert found == attribute.Attribution([], [Change("capture", made.guards, "unbacked")], [])


def test_unbacked_guards_beside_others_are_left_out() -> None:
    made = Group("capture", POOL, (guard("u0 == h", unbacked=True), guard("h == 6")))
    (finding,) = attribute.attribute(evidence(made)).findings
    assert finding.guards == ("h == 6",)


@pytest.mark.parametrize(
    ("sizes", "text", "effect"),
    [
        (SizeRange(0, 64), "h <= 64", "none"),
        (SizeRange(4), "h >= 4", "none"),
        (SizeRange(4, 64), "4 <= h <= 64", "none"),
        (SizeRange(4, 64), "h <= 63", "restricts"),
        (SizeRange(6, 6), "h == 6", "none"),
        (SizeRange(0, 1), "h == 1", "restricts"),
    ],
)
def test_what_was_declared_is_no_change(sizes: SizeRange, text: str, effect: str) -> None:
    found = attribute.attribute(evidence(group(POOL, text), dims=(dim(0, "h", min(6, sizes.upper or 6), sizes),)))
    assert [change.effect for change in found.changes] == [effect]
