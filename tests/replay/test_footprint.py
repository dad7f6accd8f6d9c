"""How large the values inside a model get at other sizes."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from tests.replay.test_isolate import captured, size_text

from guarddiff.replay.footprint import MOST_ELEMENTS, Footprint


def footprint(function: Any, *args: torch.Tensor) -> tuple[Footprint, list[str]]:
    """The footprint of a function, and the variables of its first input's shape."""
    program = captured(lambda m, *values: function(*values), *args)
    shape = next(node for node in program.graph.nodes if node.name.startswith("args")).meta["val"].shape
    names = [str(size_text(size)) for size in shape]
    return Footprint(program, size_text, dict(zip(names, args[0].shape, strict=True))), names


def test_the_largest_value_counts() -> None:
    found, (n, c) = footprint(lambda x: torch.relu(x @ x.T).sum(), torch.randn(6, 5))
    assert found.elements({n: 6, c: 5}) == 36
    assert found.elements({n: 100, c: 5}) == 10_000
    assert found.elements({n: 4, c: 50}) == 200
    assert found.too_large({n: 100, c: 5}) is None
    assert found.too_large({n: 2**15, c: 5}) == 2**30 > MOST_ELEMENTS


def test_scores_of_attention_count() -> None:
    x = torch.randn(1, 2, 6, 4)
    found, (b, h, t, d) = footprint(lambda x: F.scaled_dot_product_attention(x, x, x), x)
    assert found.elements({b: 1, h: 2, t: 1000, d: 4}) == 2 * 1000 * 1000


def test_what_the_example_needs_is_never_too_much() -> None:
    program = captured(lambda m, x: x.expand(2**10, 2**10, x.shape[0], 2**9).sum(), torch.randn(6, 1))
    shape = next(node for node in program.graph.nodes if node.name == "args_0").meta["val"].shape
    size = str(size_text(shape[0]))
    found = Footprint(program, size_text, {size: 6})
    assert found.elements({size: 6}) == 6 * 2**29
    assert found.too_large({size: 24}) is None
    assert found.too_large({size: 25}) == 25 * 2**29


def test_sizes_that_depend_on_data_do_not_count() -> None:
    found, (n, c) = footprint(lambda x: x[x > 0].sum() + x.sum(), torch.randn(6, 5))
    assert found.elements({n: 10, c: 5}) == 50


def test_without_a_program_nothing_is_known() -> None:
    assert Footprint(None, size_text, {"h": 6}).too_large({"h": 2**40}) is None
