"""Declarations of dynamic sizes as text."""

from __future__ import annotations

from typing import Any

import pytest
from torch.export import Dim

from guarddiff.replay import declaring


@pytest.mark.parametrize(
    "shapes",
    [
        {"x": {0: "batch", -1: "time"}},
        ({2: "h"}, None, [None, {0: Dim.AUTO}]),
        ({0: Dim("n", min=2, max=512)},),
        ({0: Dim.DYNAMIC, 1: Dim.STATIC, 2: 4},),
    ],
    ids=str,
)
def test_the_text_makes_the_same_declaration(shapes: Any) -> None:
    text = declaring.verbatim(shapes, None, None)
    assert text is not None
    space: dict[str, Any] = {}
    exec(f"import torch\nmade = dict({text})", space)
    assert repr(space["made"]["dynamic_shapes"]) == repr(shapes)


def test_derived_dimensions_keep_their_root() -> None:
    half = Dim("half", min=1, max=64)
    text = declaring.verbatim(({0: 2 * half + 1, 1: half},), None, None)
    assert text is not None
    space: dict[str, Any] = {}
    exec(f"import torch\nmade = dict({text})", space)
    derived, root = space["made"]["dynamic_shapes"][0].values()
    assert derived.__name__ == "2*half + 1"
    assert (derived.root.min, derived.root.max, root.max) == (1, 64, 64)


def test_axes_with_names_of_outputs_left_out() -> None:
    axes = {"b": {0: "n"}, "a": [1], "score": {0: "n"}}
    text = declaring.verbatim(None, axes, ("a", "b"))
    assert text == "dynamic_axes={'b': {0: 'n'}, 'a': [1]}, input_names=['a', 'b']"
    assert declaring.verbatim(None, None, None) is None
    assert declaring.verbatim({"x": {0: object()}}, None, None) is None


@pytest.mark.parametrize(
    ("text", "name"), [("h", "h"), ("x[2]", "x_2"), ("h // 2", "h_2"), ("2*h", "n_2_h"), ("", "n")]
)
def test_any_text_gives_a_name(text: str, name: str) -> None:
    assert declaring.identifier(text) == name


def test_sizes_of_an_operator_are_named_by_their_dimensions() -> None:
    name_of = declaring.short_names()
    texts = ("1 + (-1 + h) // 2", "w", "math.ceil(h / 2)", "h", "x[2] * x[3]", "?", "1 + (-1 + h) // 2")
    assert [name_of(text) for text in texts] == ["h", "w", "h2", "h3", "x_2_x_3", "n", "h"]
