"""Declarations read from real models, and the tables of wrong and right ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.torch_bridge import declaring
from tests.torch_bridge.declaring import IMAGE, PAST, RIGHT, TWO, WRONG, Case, Image, Keyword, Past, Two, ones, told
from tests.torch_bridge.exports import Cache, WithCache, register_cache
from torch import nn
from torch.export import Dim

from guarddiff.analysis import declarations as rules
from guarddiff.core.declaration import Given, Row, Size, Table
from guarddiff.torch_bridge import declarations


def test_the_tables_are_as_long_as_they_say() -> None:
    assert len(WRONG) >= 40
    assert len(RIGHT) >= 20


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_declaration_is_told_with_its_fix(name: str) -> None:
    case = WRONG[name]
    (found,) = told(case)
    assert (found.code, found.where) == (case.code, case.where)
    assert case.instead in found.instead
    assert found.problem
    assert not found.problem.endswith(".")


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_declaration_is_not_told(name: str) -> None:
    assert told(RIGHT[name]) == ()


REPAIRED: dict[str, str] = {
    name: case.instead
    for name, case in WRONG.items()
    if case.instead.startswith("dynamic_shapes={") and case.instead.endswith("}")
}


@pytest.mark.parametrize("name", REPAIRED)
def test_what_is_to_be_written_instead_is_right(name: str) -> None:
    case = WRONG[name]
    (found,) = told(case)
    written = found.instead.removeprefix("dynamic_shapes=").removesuffix(", and no dynamic_axes")
    shapes = eval(written, {"Dim": Dim})  # a text of ours
    kept = {key: value for key, value in case.declared.items() if key in ("input_names", "output_names")}
    assert told(Case(case.model, case.args, {**kept, "dynamic_shapes": shapes}, case.kwargs)) == ()


def test_several_mistakes_are_told_in_order() -> None:
    axes = {"imgs": {0: "n"}, "x": {7: "a", "1": "b", -1: "c"}}
    found = told(Case(Two, TWO, {"dynamic_axes": axes}))
    assert [one.code for one in found] == ["unknown-input", "axis-range", "axis-type", "negative-axis"]


def test_many_mistakes_are_cut() -> None:
    axes = {f"wrong_{number}": {0: "n"} for number in range(80)}
    assert len(told(Case(Two, TWO, {"dynamic_axes": axes}))) == 50


def test_a_declaration_of_a_large_model_is_not_written_out() -> None:
    class Many(nn.Module):
        def forward(self, *xs):
            return xs[0]

    class Wide(nn.Module):
        def forward(self, a, b, c, d, e, f, g, h, i, j, k, m, n):
            return a

    args = tuple(ones(2) for _ in range(13))
    (found,) = told(Case(Wide, args, {"dynamic_axes": {"a": {0: "n"}}}))
    assert found.instead == "dynamic_shapes=guarddiff.to_dynamic_shapes(dynamic_axes, model, args, input_names)"
    (found,) = told(Case(Wide, args, {"dynamic_shapes": {"a": {0: "n"}}}))
    assert found.instead == "an entry for each of the 13 parameters in their order, None where all is fixed"
    assert told(Case(Many, args, {"dynamic_shapes": {"xs": ({0: "n"}, *[None] * 12)}})) == ()


# --- a program of the user's own, and what can't be read ---


def test_a_program_keeps_its_own_dimensions() -> None:
    program = torch.export.export(Image(), IMAGE, dynamic_shapes=({0: Dim("n")},))
    asked: list[dict[str, Any]] = [
        {"dynamic_axes": {"images": {0: "n"}}},
        {"dynamic_axes": {}},
        {"dynamic_shapes": {"images": {0: "batch"}}},  # names the axis
    ]
    found = []
    for one in asked:
        request = declarations.request_of(program, (), None, one)
        assert request is not None
        found.append([(wrong.code, wrong.where) for wrong in rules.before(request)])
    assert found == [[("program", "dynamic_axes")], [], []]


@pytest.mark.parametrize(
    ("model", "args", "kwargs"),
    [(Two(), (ones(2),), None), (Two(), (ones(2), ones(2), ones(2)), None), (Two(), (), {"z": 1}), (max, (1, 2), None)],
)
def test_what_does_not_fit_is_left_to_torch(model: Any, args: Any, kwargs: Any) -> None:
    assert declarations.request_of(model, args, kwargs, {"dynamic_shapes": {"x": {0: "n"}}}) is None


def test_nothing_declared_is_nothing_read() -> None:
    assert declarations.request_of(Two(), TWO, None, {"input_names": ["a", "b"]}) is None


def test_a_shapes_collection_is_read() -> None:
    shapes = torch.export.ShapesCollection()
    x, y = TWO
    shapes[x] = {0: Dim("n", min=4)}
    request = declarations.request_of(Two(), (x, y), None, {"dynamic_shapes": shapes})
    assert request is not None
    assert [one.code for one in rules.before(request)] == ["example-outside"]


# --- reading ---


def shown(given: Given) -> Any:
    if given.kind == "tensor":
        return (given.place, given.path, given.onnx, given.shape)
    return (given.place, given.kind, [shown(part) for part in given.parts])


def test_inputs_are_read_with_their_names() -> None:
    found = declarations.given_of(Past(), *declarations.split(PAST, None), ["a", "b"])
    assert [shown(value) for value in found] == [
        ("x", "x", "a", (2, 3)),
        ("past", "sequence", [("past[0]", "past_0", "b", (2, 3)), ("past[1]", "past_1", "past_1", (2, 4))]),
    ]


def test_inputs_given_by_name_come_last_in_their_own_order() -> None:
    class Three(nn.Module):
        def forward(self, x, *, y, z):
            return x

    found = declarations.given_of(Three(), (ones(1),), {"z": ones(2), "y": None})
    assert [(value.key, value.position, value.keyword_only, value.kind) for value in found] == [
        ("x", 0, False, "tensor"),
        ("z", 2, True, "tensor"),
        ("y", 1, True, "other"),
    ]
    args, kwargs = declarations.split((ones(1), {"y": ones(2)}), None)
    assert (len(args), list(kwargs)) == (1, ["y"])
    assert [value.key for value in declarations.given_of(Keyword(), args, kwargs)] == ["x", "y"]


def test_a_registered_class_is_read_by_its_fields() -> None:
    register_cache()
    cache = Cache([ones(2, 3), ones(2, 4)], [ones(2, 3), ones(2, 4)])
    x, past = declarations.given_of(WithCache(), (ones(2, 2), cache), {})
    assert past.kind == "object"
    assert [leaf.path for leaf in past.leaves()] == ["past_keys_0", "past_keys_1", "past_values_0", "past_values_1"]
    assert x.onnx == "x"


def test_other_keywords_have_their_own_names() -> None:
    class More(nn.Module):
        def forward(self, x, **more):
            return x

    found = declarations.given_of(More(), (ones(1),), {"b": ones(2), "a": ones(3)})
    assert [leaf.onnx for value in found for leaf in value.leaves()] == ["x", "b", "a"]


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        (None, Size("nothing", "None")),
        (Dim.STATIC, Size("nothing", "Dim.STATIC")),
        (True, Size("other", "True")),
        (3, Size("number", "3", number=3)),
        ("h", Size("name", "'h'", "h")),
        ("", Size("hint", "''")),
        (Dim.AUTO, Size("hint", "Dim.AUTO")),
        (Dim.DYNAMIC(min=2, max=9), Size("hint", "Dim.DYNAMIC(min=2, max=9)", "", 2, 9)),
        (Dim("h", min=2, max=9), Size("dim", "Dim('h', min=2, max=9)", "h", 2, 9)),
        (3 * Dim("h", max=9) - 1, Size("derived", "3*h - 1", "h", 0, 9, 3, -1)),
        (1.5, Size("other", "1.5")),
    ],
    ids=str,
)
def test_sizes_are_read(what: Any, expected: Size) -> None:
    assert declarations.read_size(what) == expected


def test_containers_are_read() -> None:
    axis = Size("name", "'n'", "n")
    assert declarations.read_spec({"x": ["n"], 0: {1: "n"}}) == Table(
        (("x", Row((axis,), "list")), (0, Table(((1, axis),))))
    )
    assert declarations.read_spec({(1, 2): "n"}) == Table((), ("(1, 2)",))
    assert declarations.read_spec({"n"}) == Row((axis,), "set")


SIZES = st.sampled_from([None, "n", "m", "", 0, 1, 2, -1, True, 1.5, Dim.AUTO, Dim("n", min=3), 2 * Dim("n"), b"x"])
KEYS = st.sampled_from(["x", "y", "past", "past_0", "imges", "0", 0, 1, 2, -1, (1,), None, ""])
ANYTHING = st.recursive(
    SIZES,
    lambda inner: st.one_of(
        st.dictionaries(KEYS, inner, max_size=4),
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
    ),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None)
@given(ANYTHING, ANYTHING, st.sampled_from([None, ["a"], ["x", "past_0"], ["a", "b", "c", "d"]]), st.booleans())
def test_nothing_that_is_written_fails_the_reading(shapes: Any, axes: Any, names: Any, dynamo: bool) -> None:
    asked = {"dynamic_shapes": shapes, "dynamic_axes": axes, "input_names": names, "output_names": ["y"]}
    request = declarations.request(Past(), PAST, None, asked, dynamo)
    for one in rules.before(request):
        assert one.problem
        assert one.instead
        assert one.where.startswith("dynamic_")


def test_the_helper_of_these_tests_tells_what_it_is_given() -> None:
    call: Callable[[Case], Any] = declaring.told
    assert call(Case(Image, IMAGE, {"dynamic_axes": {"images": {9: "n"}}}))[0].code == "axis-range"
