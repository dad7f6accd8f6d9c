"""Carriers of baked sizes, from hand-made nodes. Needs no torch."""

from __future__ import annotations

import pytest

from guarddiff.analysis.constants import carriers
from guarddiff.core.dims import Dimension
from guarddiff.core.evidence import OnnxNodeInfo
from guarddiff.core.finding import Finding, OnnxNode
from guarddiff.core.origin import Origin, SourceLine

POOL = Origin("aten._adaptive_avg_pool2d.default", node="pool", source=SourceLine("m.py", 3))


def finding(*guards: str, examples: tuple[int, ...] = (), origin: Origin = POOL) -> Finding:
    dims = tuple(Dimension("x", axis, f"x[{axis}]", f"x[{axis}]", size) for axis, size in enumerate(examples))
    return Finding(dims, "decompose", "op", origin, guards)


def node(*numbers: int, name: str = "n", roots: tuple[str, ...] = ("pool",), source: str | None = None) -> OnnxNodeInfo:
    return OnnxNodeInfo(name, "AveragePool", roots, source, (("kernel_shape", numbers),))


def carried(found: Finding, *numbers: int) -> bool:
    return bool(carriers(found, [node(*numbers)]))


def test_where_the_number_is() -> None:
    made = OnnxNodeInfo(
        "node_1",
        "Reshape",
        ("other", "pool"),
        attributes=(("allowzero", (1,)), ("strides", (6, 2))),
        constants=(("shape", (8, 3)), ("steps", (6,)), ("axes", (-1,))),
    )
    assert carriers(finding("x[0] == 6"), [made]) == (
        OnnxNode("node_1", "Reshape", "attribute strides = [6, 2]; initializer steps = [6]"),
    )


@pytest.mark.parametrize(
    ("number", "expected"), [(4, True), (6, True), (16, True), (24, True), (36, True), (10, False)]
)
def test_examples_and_their_products_count(number: int, expected: bool) -> None:
    assert carried(finding(examples=(4, 6)), number) is expected


@pytest.mark.parametrize(
    ("guard", "numbers"),
    [
        ("h // 32 % 7 == 0", {32, 7}),
        ("x[2] - 2 * (x[2] // 3) == 5", {2, 3, 5}),
        ("math.trunc(0.5 * float(h)) == 3", {3}),
        ("conv5 == 9", {9}),
        ("x[12] >= 4 and y[11] < 8", {4, 8}),
        ("pair_7_2[3] == 5", {5}),
        ("h == 12345678901", set()),
        ("h != 1 and h != 0", set()),
    ],
)
def test_numbers_of_guards_count(guard: str, numbers: set[int]) -> None:
    assert {n for n in range(40) if carried(finding(guard), n)} == numbers


def test_a_number_that_is_too_long_is_none() -> None:
    assert not carried(finding("h == 12345678901"), 12345678901)
    assert carried(finding("h == 123456789"), 123456789)


@pytest.mark.parametrize("number", [0, 1])
def test_zero_and_one_tell_nothing(number: int) -> None:
    assert not carried(finding(f"h == {number}", examples=(number, number)), number)


def test_nodes_of_another_fx_node_are_none() -> None:
    nodes = [node(6, roots=("other",)), node(6, roots=()), node(6, source="m.py:3", roots=("other",))]
    assert carriers(finding("h == 6"), nodes) == ()


def test_without_an_fx_node_the_source_line_counts() -> None:
    made = finding("h == 6", origin=Origin("int()", source=SourceLine("m.py", 3), branch=True))
    nodes = [
        node(6, name="same", source="m.py:3"),
        node(6, name="other", source="m.py:4"),
        node(6, name="none", source=None),
    ]
    assert [found.name for found in carriers(made, nodes)] == ["same"]


def test_without_an_origin_no_node_is_named() -> None:
    assert carriers(finding("h == 6", origin=Origin()), [node(6, source=None), node(6, source="m.py:3")]) == ()


def test_nodes_are_named_in_order_and_at_most_twelve() -> None:
    nodes = [node(6, name=f"n{i}") for i in range(20)]
    assert [found.name for found in carriers(finding("h == 6"), nodes)] == [f"n{i}" for i in range(12)]


def test_nothing_to_carry() -> None:
    assert carriers(finding(), [node(6)]) == ()
    assert carriers(finding("h == 6"), []) == ()
