from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.torch_bridge.exports import AUTO, Cache, Nested, Two, WithCache, WithNone, exported, register_cache
from torch import nn
from torch.export import Dim

from guarddiff.torch_bridge import intent

Read = dict[str, dict[int, tuple[str | None, str, str]]]

_h, _w = Dim("h", min=4, max=512), Dim("w")


def ones(*sizes: int) -> torch.Tensor:
    return torch.ones(sizes)


def read(
    model: Any,
    args: tuple,
    dynamic_shapes: Any = None,
    dynamic_axes: Any = None,
    input_names: Any = None,
    *,
    kwargs: dict[str, Any] | None = None,
    literal: bool = False,
    unread: list[str] | None = None,
) -> Read:
    """Leaf path → axis → (name, the user's wording, sizes)."""
    arguments = intent.bind(model, args, kwargs)
    leaves = intent.leaves_of(arguments)
    found = intent.declare(leaves, arguments, dynamic_shapes, dynamic_axes, input_names, literal=literal)
    assert found == (unread or [])
    return {
        leaf.path: {axis: (a.name, a.declared.text, str(a.declared.sizes)) for axis, a in leaf.declared.items()}
        for leaf in leaves
        if leaf.declared
    }


class One(nn.Module):
    def forward(self, x):
        return x.relu()


# --- one axis -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        (Dim("h"), ("h", "Dim('h')", "any size")),
        (Dim("h", min=4), ("h", "Dim('h', min=4)", "at least 4")),
        (Dim("h", max=512), ("h", "Dim('h', max=512)", "at most 512")),
        (Dim("h", min=4, max=512), ("h", "Dim('h', min=4, max=512)", "4–512")),
        ("height", ("height", "'height'", "any size")),
        ("", (None, "dynamic", "any size")),
        (Dim.AUTO, (None, "Dim.AUTO", "any size")),
        (Dim.DYNAMIC, (None, "Dim.DYNAMIC", "any size")),
        (Dim.AUTO(min=3, max=9), (None, "Dim.AUTO", "3–9")),
        (Dim.DYNAMIC(max=9), (None, "Dim.DYNAMIC", "at most 9")),
        (2 * Dim("h"), ("2*h", "2*h", "any size")),
        (2 * Dim("h", min=3, max=9), ("2*h", "2*h", "6–18")),
        (Dim("h", min=3, max=9) + 1, ("h + 1", "h + 1", "4–10")),
        (2 * Dim("h", min=3, max=9) - 1, ("2*h - 1", "2*h - 1", "5–17")),
        (Dim.STATIC, None),
        (None, None),
        (7, None),
        (1.5, None),
    ],
    ids=str,
)
def test_one_axis(what: Any, expected: tuple[str | None, str, str] | None) -> None:
    found = intent.read_axis(what)
    assert (found and (found.name, found.declared.text, str(found.declared.sizes))) == expected


@pytest.mark.parametrize("what", [2 * Dim("h", min=3, max=9), Dim("h", min=3, max=9) + 1], ids=str)
def test_a_derived_dimension_keeps_its_root(what: Any) -> None:
    found = intent.read_axis(what)
    assert found is not None
    assert found.root == "h"
    assert str(found.root_sizes) == "3–9"


def test_others_have_no_root() -> None:
    assert [intent.read_axis(what).root for what in (Dim("h"), "h", AUTO)] == [None, None, None]


# --- forms of dynamic_shapes ----------------------------------------------------------------------------

TWO = (ones(2, 3), ones(4, 5))
H = ("h", "Dim('h', min=4, max=512)", "4–512")
W = ("w", "Dim('w')", "any size")
ANY = (None, "Dim.AUTO", "any size")


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        (({0: _h}, {1: _w}), {"x": {0: H}, "y": {1: W}}),
        ([{0: _h}, {1: _w}], {"x": {0: H}, "y": {1: W}}),
        ({"x": {0: _h}, "y": {1: _w}}, {"x": {0: H}, "y": {1: W}}),
        ({"y": {1: _w}, "x": {0: _h}}, {"x": {0: H}, "y": {1: W}}),
        ({"y": {1: _w}}, {"y": {1: W}}),
        (({0: _h}, None), {"x": {0: H}}),
        ((None, {1: _w}), {"y": {1: W}}),
        (((_h, None), (None, _w)), {"x": {0: H}, "y": {1: W}}),
        (([_h, None], [None, _w]), {"x": {0: H}, "y": {1: W}}),
        (((AUTO, Dim.STATIC), (4, AUTO)), {"x": {0: ANY}, "y": {1: ANY}}),
        (({0: _h, 1: _h}, {}), {"x": {0: H, 1: H}}),
        (({0: 2, 1: AUTO}, {0: Dim.STATIC, 1: None}), {"x": {1: ANY}}),
        (({0: "h"}, {1: "w"}), {"x": {0: ("h", "'h'", "any size")}, "y": {1: ("w", "'w'", "any size")}}),
        (({5: _h}, {1: _w}), {"y": {1: W}}),
        ((), {}),
        (None, {}),
    ],
    ids=str,
)
def test_forms_of_dynamic_shapes(shapes: Any, expected: Read) -> None:
    assert read(Two(), TWO, shapes) == expected


@pytest.mark.parametrize("axis", [-1, -2])
def test_a_negative_axis_is_read_as_the_user_means_it(axis: int) -> None:
    assert read(Two(), TWO, ({axis: _h}, None)) == {"x": {axis + 2: H}}


def test_a_negative_axis_means_nothing_to_torch() -> None:
    assert read(Two(), TWO, ({-1: _h, 0: _w}, {-2: _h}), literal=True) == {"x": {0: W}}


def test_a_negative_axis_beyond_the_rank_is_none() -> None:
    assert read(Two(), TWO, ({-3: _h}, {1: _w})) == {"y": {1: W}}


# Example, shapes and what is read: each is exported too, and what torch made symbolic is compared.
AGREED: dict[str, tuple[Any, tuple, dict[str, Any], Any, dict[str, set[int]]]] = {
    "positional": (Two, TWO, {}, ({0: AUTO}, {1: AUTO}), {"x": {0}, "y": {1}}),
    "by name": (Two, TWO, {}, {"y": {1: AUTO}, "x": {0: AUTO}}, {"x": {0}, "y": {1}}),
    "per axis": (Two, TWO, {}, ((AUTO, None), [None, AUTO]), {"x": {0}, "y": {1}}),
    "negative": (Two, TWO, {}, ({-1: AUTO}, {0: AUTO}), {"y": {0}}),
    "keywords in another order": (
        Two,
        (),
        {"y": ones(4, 5), "x": ones(2, 3)},
        {"y": {1: AUTO}, "x": {0: AUTO}},
        {"x": {0}, "y": {1}},
    ),
    "nested": (
        Nested,
        ({"b": ones(2, 2), "a": ones(3, 3)}, (ones(4, 2), [ones(5, 5)]), None),
        {"scale": ones(6, 7)},
        {
            "data": {"b": {1: AUTO}, "a": {0: AUTO}},
            "pair": ({1: AUTO}, [[None, AUTO]]),
            "mask": None,
            "scale": {0: AUTO},
        },
        {"data_b": {1}, "data_a": {0}, "pair_0": {1}, "pair_1_0": {1}, "scale": {0}},
    ),
    "nested dict in another order": (
        Nested,
        ({"b": ones(2, 2), "a": ones(3, 3)}, (ones(4, 2), [ones(5, 5)]), None),
        {"scale": ones(6, 7)},
        {"data": {"a": {0: AUTO}, "b": None}, "pair": (None, [None]), "mask": None, "scale": None},
        {"data_a": {0}},
    ),
    "with None": (WithNone, (ones(2, 3), None, ones(4, 5)), {}, (None, None, {1: AUTO}), {"y": {1}}),
}


class Several(nn.Module):
    def forward(self, x, *rest):
        return x.relu(), rest[0].relu(), rest[1].relu()


AGREED["*args"] = (
    Several,
    (ones(2, 3), ones(4, 5), ones(6, 7)),
    {},
    ({0: AUTO}, ({1: AUTO}, {0: AUTO})),
    {"x": {0}, "rest_0": {1}, "rest_1": {0}},
)
AGREED["*args by name"] = (
    Several,
    (ones(2, 3), ones(4, 5), ones(6, 7)),
    {},
    {"x": None, "rest": (None, {0: AUTO})},
    {"rest_1": {0}},
)


@pytest.mark.parametrize("name", AGREED)
def test_read_literally_is_what_torch_makes_symbolic(name: str) -> None:
    model, args, kwargs, shapes, expected = AGREED[name]
    captured = torch.export.export(model().eval(), args, kwargs, dynamic_shapes=shapes)
    symbolic = {
        node.name: {axis for axis, size in enumerate(node.meta["val"].shape) if not isinstance(size, int)}
        for node in captured.graph.nodes
        if node.op == "placeholder" and isinstance(node.meta.get("val"), torch.Tensor)
    }
    found = read(model(), args, shapes, kwargs=kwargs, literal=True)
    assert {path: set(axes) for path, axes in found.items()} == expected
    assert {path: axes for path, axes in symbolic.items() if axes} == expected


# --- leaves ---------------------------------------------------------------------------------------------


class Odd(nn.Module):
    def forward(self, Big, a__b, _x, data):
        return Big.relu(), a__b.relu(), _x.relu(), data["k.1"].relu(), data["k--2"].relu()


class Keywords(nn.Module):
    def forward(self, x, **more):
        return x.relu(), more["z"].relu(), more["w"].relu()


def a_cache() -> Cache:
    register_cache()
    return Cache([ones(2, 3), ones(2, 4)], [ones(2, 3), ones(2, 4)])


PATHS: dict[str, tuple[Any, Any, dict[str, Any], list[str]]] = {
    "plain": (Two, lambda: TWO, {}, ["x", "y"]),
    "keywords": (Keywords, lambda: (ones(2, 3),), {"z": ones(1, 2), "w": ones(2, 1)}, ["x", "z", "w"]),
    "several": (Several, lambda: (ones(2, 3),) * 3, {}, ["x", "rest_0", "rest_1"]),
    "cache": (
        WithCache,
        lambda: (ones(2, 2), a_cache()),
        {},
        ["x", "past_keys_0", "past_keys_1", "past_values_0", "past_values_1"],
    ),
    "none": (WithNone, lambda: (ones(2, 3), None, ones(4, 5)), {}, ["x", "mask", "y"]),
    "odd": (
        Odd,
        lambda: (ones(1, 2), ones(2, 2), ones(3, 2), {"k.1": ones(4, 2), "k--2": ones(5, 2)}),
        {},
        ["big", "a__b", "_x", "data_k_1", "data_k__2"],
    ),
}


@pytest.mark.parametrize("name", PATHS)
def test_paths_of_leaves_are_torchs_names(name: str) -> None:
    model, args, kwargs, expected = PATHS[name]
    captured = torch.export.export(model().eval(), args(), kwargs)
    names = [spec.arg.name for spec in captured.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
    leaves = intent.leaves_of(intent.bind(model(), args(), kwargs))
    assert [leaf.path for leaf in leaves] == names
    assert names == expected
    assert [leaf.index for leaf in leaves] == list(range(len(names)))


def test_leaves_know_their_parameter_and_what_is_a_tensor() -> None:
    leaves = intent.leaves_of({"data": {"b": ones(1), "a": 3}, "mask": None})
    assert [(leaf.parameter, leaf.path, leaf.is_tensor) for leaf in leaves] == [
        ("data", "data_b", True),
        ("data", "data_a", False),
        ("mask", "mask", False),
    ]


def test_arguments_that_do_not_fit_get_positional_names() -> None:
    x = ones(1)
    assert intent.bind(One(), (x, x), {"k": 1}) == {"arg0": x, "arg1": x, "k": 1}
    assert list(intent.bind(One(), (), {"x": x})) == ["x"]


def test_arguments_are_in_the_order_of_the_signature() -> None:
    assert list(intent.bind(Two(), (), {"y": 1, "x": 2})) == ["x", "y"]
    assert list(intent.bind(Keywords(), (1,), {"w": 2, "z": 3})) == ["x", "w", "z"]


def test_what_is_no_tensor_is_not_declared() -> None:
    assert read(WithNone(), (ones(2, 3), None, ones(4, 5)), (None, {0: _h}, {1: _w})) == {"y": {1: W}}
    assert read(WithNone(), (ones(2, 3), 7, ones(4, 5)), (None, AUTO, {1: _w})) == {"y": {1: W}}


@pytest.mark.parametrize(
    "shapes",
    [
        {"x": {0: _h}, "more": {"w": {1: _w}, "z": {0: AUTO}}},
        {"x": {0: _h}, "z": {0: AUTO}, "w": {1: _w}},
    ],
    ids=["nested", "flat"],
)
def test_var_keywords(shapes: Any) -> None:
    found = read(Keywords(), (ones(2, 3),), shapes, kwargs={"z": ones(1, 2), "w": ones(2, 1)})
    assert found == {"x": {0: H}, "z": {0: ANY}, "w": {1: W}}


def test_a_registered_cache() -> None:
    b, t = ("b", "'b'", "any size"), ("t", "'t'", "any size")
    shapes = ({0: "b"}, [[{0: "b"}, {0: "b", 1: "t"}], [{0: "b"}, None]])
    expected = {"x": {0: b}, "past_keys_0": {0: b}, "past_keys_1": {0: b, 1: t}, "past_values_0": {0: b}}
    assert read(WithCache(), (ones(2, 2), a_cache()), shapes) == expected
    by_name = {"x": shapes[0], "past": shapes[1]}
    assert read(WithCache(), (ones(2, 2), a_cache()), by_name) == expected
    by_field = {"x": shapes[0], "past": {"keys": shapes[1][0], "values": shapes[1][1]}}
    assert read(WithCache(), (ones(2, 2), a_cache()), by_field) == expected


def test_shapes_that_cannot_be_read_are_told() -> None:
    shapes = torch.export.ShapesCollection()
    shapes[TWO[0]] = {0: _h}
    assert read(Two(), TWO, shapes, unread=["dynamic_shapes of type ShapesCollection"]) == {}


@pytest.mark.parametrize("spec", [AUTO, _h], ids=str)
def test_one_word_for_a_whole_tensor_is_told(spec: Any) -> None:
    arguments = intent.bind(Two(), TWO, None)
    leaves = intent.leaves_of(arguments)
    (unread,) = intent.declare(leaves, arguments, ({0: _h}, spec))
    assert unread.startswith("dynamic_shapes of y: ")
    assert [leaf.path for leaf in leaves if leaf.declared] == ["x"]


# --- dynamic_axes ---------------------------------------------------------------------------------------

N, M = ("n", "'n'", "any size"), ("m", "'m'", "any size")
NAMELESS = (None, "dynamic", "any size")


@pytest.mark.parametrize(
    ("axes", "names", "expected"),
    [
        ({"x": {0: "n"}, "y": {1: "m"}}, None, {"x": {0: N}, "y": {1: M}}),
        ({"y": {1: "m"}, "x": {0: "n"}}, None, {"x": {0: N}, "y": {1: M}}),
        ({"x": [0, 1], "y": (1,)}, None, {"x": {0: NAMELESS, 1: NAMELESS}, "y": {1: NAMELESS}}),
        ({"p": {0: "n"}, "q": {1: "m"}}, ["p", "q"], {"x": {0: N}, "y": {1: M}}),
        ({"q": {1: "m"}, "p": {0: "n"}}, ["p", "q"], {"x": {0: N}, "y": {1: M}}),
        ({"x": {0: "n"}, "y": {1: "m"}}, ["y", "x"], {"x": {1: M}, "y": {0: N}}),
        ({"q": {1: "m"}}, ["p", "q"], {"y": {1: M}}),
        ({"p": {0: "n"}, "y": {1: "m"}}, ["p"], {"x": {0: N}, "y": {1: M}}),
        ({"x": {0: "n"}, "out": {0: "n"}}, None, {"x": {0: N}}),
        ({"p": {0: "n"}, "out": [0], "nonsense": {1: "m"}}, ["p", "q"], {"x": {0: N}}),
        ({"x": {-1: "n"}, "y": [-2]}, None, {"x": {1: N}, "y": {0: NAMELESS}}),
        ({"x": {}, "y": []}, None, {}),
        ({"x": {7: "n"}}, None, {}),
        ({}, None, {}),
        (None, ["p", "q"], {}),
    ],
    ids=str,
)
def test_dynamic_axes(axes: Any, names: list[str] | None, expected: Read) -> None:
    assert read(Two(), TWO, None, axes, names) == expected


def test_dynamic_axes_count_tensors_only() -> None:
    args = (ones(2, 3), None, ones(4, 5))
    assert read(WithNone(), args, None, {"q": {1: "m"}}, ["p", "q"]) == {"y": {1: M}}


def test_dynamic_axes_of_a_nested_input_go_to_its_first_tensor() -> None:
    args = ({"b": ones(2, 2), "a": ones(2, 3)}, (ones(4, 2), [ones(5, 5)]), None)
    kwargs = {"scale": ones(6, 7)}
    found = read(Nested(), args, None, {"pair_1_0": {0: "n"}, "data": {1: "m"}}, kwargs=kwargs)
    assert found == {"pair_1_0": {0: N}, "data_b": {1: M}}


def test_dynamic_shapes_win_over_dynamic_axes() -> None:
    assert read(Two(), TWO, ({0: _h}, None), {"y": {1: "m"}}) == {"x": {0: H}}


def test_a_recording_reads_what_its_export_was_asked() -> None:
    leaves = exported("other_order").inputs.leaves
    found = {leaf.path: {axis: asked.name for axis, asked in leaf.declared.items()} for leaf in leaves}
    assert found == {"x": {0: "m"}, "y": {1: "n"}}
    assert exported("other_order").recording.missing == []
