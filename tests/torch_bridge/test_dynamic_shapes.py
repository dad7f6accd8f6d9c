from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.torch_bridge.declaring import (
    EQUAL,
    IMAGE,
    PARTS,
    PAST,
    TWO,
    Flag,
    Image,
    Keyword,
    Optional,
    Parts,
    Past,
    Two,
    ones,
)
from tests.torch_bridge.exports import Cache, WithCache, register_cache
from torch import nn
from torch.export import Dim

from guarddiff import to_dynamic_shapes

D = Dim.DYNAMIC


class Keywords(nn.Module):
    def forward(self, x, *, y, z):
        return x + 1, y * 2, z * 3


def plain(shapes: Any) -> Any:
    """``Dim('n')`` as a text that can be compared."""
    if isinstance(shapes, dict):
        return {key: plain(value) for key, value in shapes.items()}
    if isinstance(shapes, (list, tuple)):
        return type(shapes)(plain(value) for value in shapes)
    return f"Dim {shapes.__name__}" if hasattr(shapes, "__name__") else shapes


def a_cache() -> Cache:
    register_cache()
    return Cache([ones(2, 3), ones(2, 4)], [ones(2, 3), ones(2, 4)])


@pytest.mark.parametrize(
    ("axes", "model", "args", "more", "expected"),
    [
        ({"images": {0: "n", -1: "w"}}, Image, IMAGE, {}, {"images": {0: "n", 3: "w"}}),
        ({"images": [0, -2]}, Image, IMAGE, {}, {"images": {0: D, 2: D}}),
        ({"images": (1,)}, Image, IMAGE, {}, {"images": {1: D}}),
        ({"images": {0: "n"}}, Image, IMAGE[0], {}, {"images": {0: "n"}}),
        ({"images": {0: "", 1: None, 2: 6}}, Image, IMAGE, {}, {"images": {0: D}}),
        ({}, Image, IMAGE, {}, {"images": None}),
        ({"y": {1: "m"}, "x": {0: "n"}}, Two, TWO, {}, {"x": {0: "n"}, "y": {1: "m"}}),
        ({"y": {1: "m"}, "x": None}, Two, TWO, {}, {"x": None, "y": {1: "m"}}),
        ({"b": {1: "m"}}, Two, TWO, {"input_names": ["a", "b"]}, {"x": None, "y": {1: "m"}}),
        ({"y": {1: "m"}}, Two, TWO, {"input_names": ["a", "b"]}, {"x": None, "y": {1: "m"}}),
        ({"x": {0: "n"}, "o": {0: "n"}}, Two, TWO, {"output_names": ["o"]}, {"x": {0: "n"}, "y": None}),
        ({"x": {0: "n"}, "y": {0: "n"}}, Two, EQUAL, {}, {"x": {0: "Dim n"}, "y": {0: "Dim n"}}),
        ({"x": {0: "a b"}, "y": {0: "a b", 1: "a_b"}}, Two, EQUAL, {},
         {"x": {0: "Dim a_b"}, "y": {0: "Dim a_b", 1: "a_b"}}),
        ({"x": {0: "n"}, "y": {0: Dim("n", max=9)}}, Two, EQUAL, {}, {"x": {0: "Dim n"}, "y": {0: "Dim n"}}),
        ({"past_1": {0: "m"}}, Past, PAST, {}, {"x": None, "past": (None, {0: "m"})}),
        ({"c": {0: "m"}}, Past, PAST, {"input_names": ["a", "b", "c"]}, {"x": None, "past": (None, {0: "m"})}),
        ({"past_0": {0: "m"}}, Past, (ones(2, 3), [ones(2, 3), ones(2, 4)]), {}, {"x": None, "past": [{0: "m"}, None]}),
        ({"data_mask": {0: "m"}}, Parts, PARTS, {}, {"data": {"image": None, "mask": {0: "m"}}, "scale": None}),
        ({"z": {0: "b"}, "y": {0: "a"}}, Keywords, (ones(2, 3),), {"kwargs": {"z": ones(3, 4), "y": ones(4, 5)}},
         {"x": None, "z": {0: "b"}, "y": {0: "a"}}),
        ({"y": {0: "a"}}, Keyword, (ones(2, 3), {"y": ones(4, 5)}), {}, {"x": None, "y": {0: "a"}}),
        ({"x": {0: "n"}}, Flag, (ones(2, 3), True), {}, {"x": {0: "n"}, "flag": None}),
        ({"y": {0: "n"}}, Optional, (ones(2, 3), None, ones(4, 5)), {}, {"x": None, "mask": None, "y": {0: "n"}}),
        ({"past_keys_1": {1: "t"}}, WithCache, lambda: (ones(2, 2), a_cache()), {},
         {"x": None, "past": [[None, {1: "t"}], None]}),
    ],
)  # fmt: skip
def test_what_is_given(axes: Any, model: Any, args: Any, more: dict[str, Any], expected: Any) -> None:
    args = args() if callable(args) and not isinstance(args, torch.Tensor) else args
    found = to_dynamic_shapes(axes, model(), args, **more)
    assert plain(found) == expected
    assert list(found) == list(expected)


@pytest.mark.parametrize(
    ("axes", "model", "args", "error", "said"),
    [
        (
            {"imges": {0: "n"}},
            Image,
            IMAGE,
            ValueError,
            r"'imges'\] names no input: there are 'images'; did you mean 'im",
        ),
        ({"out": {0: "n"}}, Image, IMAGE, ValueError, "name it in output_names if it is an output"),
        ({3: {0: "n"}}, Image, IMAGE, ValueError, r"dynamic_axes\[3\] names no input"),
        ({"images": {4: "n"}}, Image, IMAGE, ValueError, "axis 4 is out of range, images has 4 axes"),
        ({"images": {-5: "n"}}, Image, IMAGE, ValueError, "axis -5 is out of range"),
        ({"images": {3: "w", -1: "v"}}, Image, IMAGE, ValueError, "axis 3 is declared twice, as 'w' and 'v'"),
        ({"images": {0: 5}}, Image, IMAGE, ValueError, "fixed size 5, and the example has 2 there"),
        ({"flag": {0: "n"}}, Flag, (ones(2, 3), True), ValueError, "flag is no tensor"),
        ({"x": {0: "n"}, "y": {0: "n"}}, Two, TWO, ValueError, r"the example's differ: x\[0\]=2, y\[0\]=4"),
        ({"images": "n"}, Image, IMAGE, TypeError, "must be a dict of axes to names or a list"),
        ({"images": {"0": "n"}}, Image, IMAGE, TypeError, "an axis must be a whole number, not '0'"),
        ({"images": [True]}, Image, IMAGE, TypeError, "an axis must be a whole number, not True"),
        ({"images": {0: 1.5}}, Image, IMAGE, TypeError, "must be a name, a Dim or None, not 1.5"),
        (["images"], Image, IMAGE, TypeError, "must map names of inputs to axes"),
        ({"x": {0: "n"}}, Two, (ones(2),), TypeError, "missing a required argument"),
    ],
)
def test_what_it_refuses(axes: Any, model: Any, args: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        to_dynamic_shapes(axes, model(), args)


def inputs_of(model: Any, args: Any, shapes: Any, **more: Any) -> dict[str, list[Any]]:
    program = torch.onnx.export(model, args, dynamo=True, verbose=False, dynamic_shapes=shapes, **more)
    found = {value.name: value.shape for value in program.model.graph.inputs}
    return {name: [size if isinstance(size, int) else size.value for size in shape] for name, shape in found.items()}


@pytest.mark.parametrize(
    ("axes", "model", "args", "more", "expected"),
    [
        ({"y": {0: "n", -1: "m"}, "x": {0: "n"}}, Two, EQUAL, {}, {"x": ["n", 3], "y": ["n", "m"]}),
        ({"c": {0: "m"}}, Past, PAST, {"input_names": ["a", "b", "c"]}, {"a": [2, 3], "b": [2, 3], "c": ["m", 4]}),
        ({"y": {0: "a"}, "z": {0: "b"}}, Keywords, (ones(2, 3),), {"kwargs": {"z": ones(3, 4), "y": ones(4, 5)}},
         {"x": [2, 3], "z": ["b", 4], "y": ["a", 5]}),
        ({"past_values_0": {0: "b"}, "past_keys_1": {0: "b"}}, WithCache, None, {},
         {"x": [2, 2], "past_keys_0": [2, 3], "past_keys_1": ["b", 4], "past_values_0": ["b", 3],
          "past_values_1": [2, 4]}),
    ],
)  # fmt: skip
def test_torch_does_with_it_what_dynamic_axes_said(
    axes: Any, model: Any, args: Any, more: dict[str, Any], expected: dict[str, Any]
) -> None:
    args = args or (ones(2, 2), a_cache())
    shapes = to_dynamic_shapes(axes, model(), args, **more)
    assert inputs_of(model(), args, shapes, **more) == expected


def test_equal_names_are_equal_sizes_in_the_program() -> None:
    shapes = to_dynamic_shapes({"x": {0: "n"}, "y": {0: "n"}}, Two(), EQUAL)
    program = torch.export.export(Two(), EQUAL, dynamic_shapes=shapes)
    x, y = [node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"]
    assert x.shape[0].node.expr == y.shape[0].node.expr
