from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from guarddiff.core import domain
from guarddiff.core.dims import Declared, Dimension
from guarddiff.core.domain import SizeRange
from guarddiff.core.finding import Finding
from guarddiff.core.origin import Origin
from guarddiff.replay import sizes

ADAPTIVE = ("h % 2 == 0", "w % 3 == 0", "h // 2 == 3", "w // 3 == 2")


def dim(name: str, example: int, declared: SizeRange | None, axis: int = 0, size: str = "", of: str = "x") -> Dimension:
    asked = Declared(declared) if declared is not None else None
    return Dimension(of, axis, name, size or name, example, asked)


def ranges(dims: tuple[Dimension, ...]) -> dict[str, SizeRange]:
    return {d.name: d.declared.sizes for d in dims if d.declared and d.size == d.name}


def finding(guards: tuple[str, ...], *dims: Dimension) -> Finding:
    """A finding whose dimensions know what they admit, as the analysis makes it."""
    admitted = domain.admitted(guards, ranges(dims), {d.name: d.example for d in dims})
    filled = tuple(dataclasses.replace(d, admitted=admitted.get(d.name)) for d in dims)
    return Finding(filled, "decompose", "op", Origin(), guards, inputs=filled)


def image(h: SizeRange | None = None, w: SizeRange | None = None) -> tuple[Dimension, Dimension]:
    return dim("h", 6, h or SizeRange(), 2), dim("w", 6, w or SizeRange(), 3)


EXAMPLE = {"h": 6, "w": 6}


# --- breaking -------------------------------------------------------------------------------------------


def test_doubled_comes_first_then_the_nearest_that_are_not_admitted() -> None:
    found = sizes.breaking(finding(ADAPTIVE, *image()), ranges(image()), EXAMPLE)
    assert found[:6] == [
        {"h": 12, "w": 12},
        {"h": 12, "w": 6},
        {"h": 6, "w": 12},
        {"h": 7, "w": 7},
        {"h": 7, "w": 6},
        {"h": 6, "w": 7},
    ]


def test_nearest_not_admitted_is_the_first_size_past_an_interval() -> None:
    one = dim("h", 224, SizeRange())
    found = sizes.breaking(finding(("h // 32 == 7",), one), {"h": SizeRange()}, {"h": 224})
    assert [point["h"] for point in found[:3]] == [448, 256, 223]


def test_every_point_breaks_a_guard() -> None:
    found = sizes.breaking(finding(ADAPTIVE, *image()), ranges(image()), EXAMPLE)
    assert len(found) == 8
    assert all(False in [domain.holds(guard, point) for guard in ADAPTIVE] for point in found)


@pytest.mark.parametrize(
    ("h", "w"),
    [
        (SizeRange(2, 9), SizeRange(6, 7)),
        (SizeRange(6, 6), SizeRange(4, 8)),
        (SizeRange(6), SizeRange(0, 6)),
    ],
)
def test_points_stay_inside_the_declared_ranges(h: SizeRange, w: SizeRange) -> None:
    dims = image(h, w)
    found = sizes.breaking(finding(ADAPTIVE, *dims), ranges(dims), EXAMPLE)
    assert found
    assert all(point["h"] in h and point["w"] in w for point in found)
    assert all(point["h"] >= 1 and point["w"] >= 1 for point in found)


def test_nothing_to_try_where_the_range_admits_no_breaking_size() -> None:
    one = dim("h", 6, SizeRange(6, 7))
    assert sizes.breaking(finding(("h // 2 == 3",), one), {"h": SizeRange(6, 7)}, {"h": 6}) == []


def test_nothing_to_try_without_a_dimension() -> None:
    assert sizes.breaking(finding(("u0 == 3",)), {}, {"h": 6}) == []


def test_other_dimensions_keep_the_example_size() -> None:
    one = dim("h", 6, SizeRange())
    found = sizes.breaking(finding(("h == 6",), one), {"h": SizeRange()}, {"h": 6, "n": 3})
    assert found
    assert {point["n"] for point in found} == {3}


def test_points_that_keep_other_findings_guards_come_first() -> None:
    one = dim("h", 6, SizeRange())
    own, other = finding(("h % 2 == 0",), one), finding(("h % 3 == 0",), one)
    declared = {"h": SizeRange()}
    alone = [point["h"] for point in sizes.breaking(own, declared, {"h": 6}, [own])]
    assert alone[:2] == [7, 5]
    beside = [point["h"] for point in sizes.breaking(own, declared, {"h": 6}, [own, other])]
    assert beside[:2] == [3, 9]
    kept = [size % 3 == 0 for size in beside if size != 1]
    assert kept == sorted(kept, reverse=True)


def test_a_size_of_one_is_among_the_points_for_one_dimension() -> None:
    one = dim("t", 5, SizeRange())
    found = sizes.breaking(finding(("t == 5",), one), {"t": SizeRange()}, {"t": 5})
    assert [point["t"] for point in found] == [10, 6, 4, 11, 15, 2, 7, 1]


def test_a_size_of_one_is_among_the_points_for_two_dimensions() -> None:
    found = sizes.breaking(finding(ADAPTIVE, *image()), ranges(image()), EXAMPLE)
    assert [1 in point.values() for point in found].count(True) >= 1


def test_no_size_of_one_outside_the_declared_range() -> None:
    one = dim("t", 5, SizeRange(2))
    found = sizes.breaking(finding(("t == 5",), one), {"t": SizeRange(2)}, {"t": 5})
    assert len(found) == 8
    assert min(point["t"] for point in found) >= 2


def test_points_are_unlike_each_other_and_at_most_the_limit() -> None:
    found = sizes.breaking(finding(ADAPTIVE, *image()), ranges(image()), EXAMPLE, limit=5)
    assert len(found) == 5
    assert len({tuple(sorted(point.items())) for point in found}) == 5


def test_a_relation_of_two_dimensions_is_broken_by_moving_one() -> None:
    dims = dim("x[0]", 4, SizeRange()), dim("y[0]", 4, SizeRange(), of="y")
    found = sizes.breaking(finding(("x[0] == y[0]",), *dims), ranges(dims), {"x[0]": 4, "y[0]": 4})
    assert found[0] == {"x[0]": 8, "y[0]": 4}
    assert all(point["x[0]"] != point["y[0]"] for point in found)


def test_where_no_guard_can_be_evaluated_every_point_is_worth_a_try() -> None:
    one = dim("h", 6, SizeRange())
    found = sizes.breaking(finding(("h ?? 2",), one), {"h": SizeRange()}, {"h": 6})
    assert found[0] == {"h": 12}
    assert len(found) == 8


def test_same_points_every_time() -> None:
    own = finding(ADAPTIVE, *image())
    assert sizes.breaking(own, ranges(image()), EXAMPLE) == sizes.breaking(own, ranges(image()), EXAMPLE)


# --- shapes ---------------------------------------------------------------------------------------------

DERIVED = (dim("h", 3, SizeRange(), 0), dim("y[1]", 6, SizeRange(), 1, "2*h", "y"))


def test_shapes_follow_derived_dimensions() -> None:
    base = {"x": (3, 8), "y": (2, 6)}
    assert sizes.shapes_at({"h": 5}, DERIVED, base) == {"x": (5, 8), "y": (2, 10)}
    assert base == {"x": (3, 8), "y": (2, 6)}


def test_a_shared_dimension_has_one_size_everywhere() -> None:
    dims = (dim("t", 3, SizeRange(), 0), dim("t", 3, SizeRange(), 1, of="y"))
    assert sizes.shapes_at({"t": 7}, dims, {"x": (3,), "y": (2, 3)}) == {"x": (7,), "y": (2, 7)}


def test_a_size_that_is_not_known_is_an_error_that_names_the_place() -> None:
    with pytest.raises(ValueError, match=r"the size of y\[1\] \(2\*h\) is not known"):
        sizes.shapes_at({"w": 5}, DERIVED[1:], {"y": (2, 6)})


def test_points_of_a_derived_dimension_move_its_root() -> None:
    guards = ("2*h == 6",)
    own = Finding(DERIVED[1:], "decompose", "op", Origin(), guards, inputs=DERIVED)
    found = sizes.breaking(own, {"h": SizeRange()}, {"h": 3})
    assert found[0] == {"h": 6}
    assert sizes.shapes_at(found[0], DERIVED, {"x": (3, 8), "y": (2, 6)}) == {"x": (6, 8), "y": (2, 12)}


def test_variables_of_a_dimension() -> None:
    assert sizes.variables_of(DERIVED[0]) == {"h"}
    assert sizes.variables_of(DERIVED[1]) == {"h"}
    assert sizes.variables_of(dim("y[0]", 1, None, size="2 ?? h")) == set()


# --- further --------------------------------------------------------------------------------------------


def moved(found: list[sizes.Point], name: str, example: int) -> set[int]:
    return {point[name] for point in found} - {example}


def test_further_sizes_are_larger_smaller_one_not_proportional_and_swapped() -> None:
    dims = (dim("h", 6, SizeRange(), 2), dim("w", 8, SizeRange(), 3))
    example = {"h": 6, "w": 8}
    found = sizes.further(dims, ranges(dims), example)
    assert found[0] == example
    assert {"h": 12, "w": 16} in found  # larger, proportional
    assert {"h": 3, "w": 4} in found  # smaller
    assert {"h": 1, "w": 1} in found
    assert {"h": 13, "w": 17} in found  # not proportional
    assert {"h": 8, "w": 6} in found  # swapped
    assert {"h": 12, "w": 8} in found
    assert {"h": 6, "w": 1} in found
    assert moved(found, "h", 6) == {1, 3, 5, 8, 12, 13}
    assert moved(found, "w", 8) == {1, 4, 6, 7, 9, 16, 17}
    assert len({tuple(sorted(point.items())) for point in found}) == len(found)


@pytest.mark.parametrize("example", [1, 2, 3, 4, 7, 224])
def test_three_further_sizes_of_every_kind_from_any_example(example: int) -> None:
    dims = (dim("t", example, SizeRange()),)
    found = sizes.further(dims, ranges(dims), {"t": example})
    further = moved(found, "t", example)
    assert len(further) >= 3
    assert max(further) > example
    assert min(further) == 1 if example > 1 else min(further) > 1


@pytest.mark.parametrize(
    ("declared", "example"),
    [(SizeRange(4, 7), 6), (SizeRange(8), 8), (SizeRange(6, 9), 6), (SizeRange(2, 64), 64), (SizeRange(4, 9), 9)],
)
def test_three_further_sizes_inside_a_declared_range(declared: SizeRange, example: int) -> None:
    dims = (dim("t", example, declared),)
    further = moved(sizes.further(dims, ranges(dims), {"t": example}), "t", example)
    assert all(size in declared for size in further)
    assert len(further) >= 3


def test_static_dimensions_are_left_alone() -> None:
    dims = (dim("t", 5, SizeRange()), dim("c", 3, None, 1))
    found = sizes.further(dims, ranges(dims), {"t": 5, "c": 3})
    assert {point["c"] for point in found} == {3}
    assert moved(found, "t", 5) == {10, 11, 2, 1, 4}


def test_a_shared_dimension_moves_once() -> None:
    dims = (dim("t", 5, SizeRange()), dim("t", 5, SizeRange(), 1, of="y"))
    assert [point["t"] for point in sizes.further(dims, ranges(dims), {"t": 5})] == [5, 10, 11, 2, 1, 4]


def test_a_derived_dimension_moves_its_root() -> None:
    found = sizes.further(DERIVED[1:], {"h": SizeRange()}, {"h": 3})
    assert [point["h"] for point in found] == [3, 6, 7, 2, 1]


def test_nothing_but_the_example_without_dynamic_dimensions() -> None:
    assert sizes.further((dim("c", 3, None),), {}, {"c": 3}) == [{"c": 3}]


# --- the user's own sizes -----------------------------------------------------------------------------------


# --- before a finding is called harmless ---------------------------------------------------------------


def test_guards_that_no_point_has_broken_are_tried_too() -> None:
    dims = tuple(dim(name, 1, SizeRange(), axis) for axis, name in enumerate("abc"))
    one = finding(("a == 1", "b == 1", "c == 1"), *dims)
    tried = [{"a": 2, "b": 1, "c": 1}, {"a": 3, "b": 2, "c": 1}]
    found = sizes.untouched(one, tried, ranges(dims), {"a": 1, "b": 1, "c": 1})
    assert found and all(point["c"] != 1 and (point["a"], point["b"]) == (1, 1) for point in found)
    assert sizes.untouched(one, [*tried, {"a": 1, "b": 1, "c": 5}], ranges(dims), {"a": 1, "b": 1, "c": 1}) == []


def test_what_is_stretched_in_the_example_stretches_the_other() -> None:
    dims = (
        dim("a", 4, SizeRange(), 0, of="x"),
        dim("b", 1, SizeRange(), 1, of="x"),
        dim("c", 3, SizeRange(), 0, of="y"),
    )
    one = finding(("b == 1",), dims[1])
    example = {"a": 4, "b": 1, "c": 3}
    found = sizes.broadcast_the_other_way(one, dims, {"x": 2, "y": 1}, ranges(dims), example)
    assert found == [{"a": 4, "b": 3, "c": 1}]  # y[0] stands under x[1], not under x[0]
    fixed = {"a": SizeRange(), "b": SizeRange(1, 2), "c": SizeRange()}
    assert sizes.broadcast_the_other_way(one, dims, {"x": 2, "y": 1}, fixed, example) == []


def test_a_guard_that_the_example_breaks_tells_no_findings_apart() -> None:
    dims = (dim("a", 1, SizeRange(), 0), dim("b", 3, SizeRange(), 1))
    held = sizes.holding(finding(("a == b", "b <= 8"), *dims), {"a": 1, "b": 3})
    assert held.guards == ("b <= 8",)


@pytest.mark.parametrize(
    ("size", "squares"), [(16, [25, 64]), (17, [26, 65]), (197, [226, 785]), (4, [9, 16]), (5, []), (6, []), (1, [])]
)
def test_squares_are_tried_where_the_example_is_one(size: int, squares: list[int]) -> None:
    """A model that takes the root of a number of tokens takes no other sizes."""
    one = dim("n", size, SizeRange())
    tried = [point["n"] for point in sizes.breaking(finding((f"n == {size}",), one), {"n": SizeRange()}, {"n": size})]
    assert sizes._squares(size) == squares
    assert set(squares) <= set(tried)
    assert set(squares) <= {point["n"] for point in sizes.further((one,), {"n": SizeRange()}, {"n": size})}


def test_far_off_points_are_as_far_as_fits() -> None:
    def at_most(size: int) -> Callable[[sizes.Point], bool]:
        return lambda point: point["h"] <= size

    above = finding(("h <= 6",), dim("h", 6, SizeRange(), 1))
    assert sizes.far_off(above, at_most(10**6), {}, {"h": 6}) == [{"h": 257}]
    wide = finding(("h <= 600",), dim("h", 600, SizeRange(), 1))
    assert sizes.far_off(wide, at_most(10**4), {}, {"h": 600}) == [{"h": 9601}]
    assert sizes.far_off(wide, at_most(9600), {}, {"h": 600}) == [{"h": 2401}]
    assert sizes.far_off(wide, at_most(2400), {}, {"h": 600}) == []
    assert sizes.far_off(above, at_most(10**6), {"h": SizeRange(2, 40)}, {"h": 6}) == [{"h": 40}]
    below = finding(("h > 3",), dim("h", 6, SizeRange(), 1))
    assert sizes.far_off(below, at_most(10**6), {}, {"h": 6}) == []


@pytest.mark.parametrize(("guard", "far"), [("h % 2 == 1", 258), ("h % 2 == 0", 257), ("h % 100 != 0", 300)])
def test_far_off_points_break_guards_that_repeat(guard: str, far: int) -> None:
    one = finding((guard,), dim("h", 7, SizeRange(), 1))
    assert sizes.far_off(one, lambda point: True, {}, {"h": 7}) == [{"h": far}]


def test_the_smallest_far_point_where_nothing_near_breaks_a_guard() -> None:
    one = finding(("h < 20000",), dim("h", 6, SizeRange()))
    assert sizes.breaking(one, ranges(one.dims), {"h": 6})[0] == {"h": 20_000}
    both = finding(("h*w < 1000000",), dim("h", 6, SizeRange()), dim("w", 8, SizeRange(), 1))
    found = sizes.breaking(both, ranges(both.dims), {"h": 6, "w": 8})
    assert found
    assert all(10**6 <= point["h"] * point["w"] < 1_100_000 for point in found)
    assert sizes.breaking(both, {"h": SizeRange(0, 900), "w": SizeRange(0, 1000)}, {"h": 6, "w": 8}) == []
