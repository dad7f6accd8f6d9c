"""Adaptive max pooling: real exports at sizes that the export never saw; values and indices as in eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.repair.pooling import Runner, export
from torch import nn

from guarddiff.repair import adaptive_max_pool, capture

pytestmark = pytest.mark.usefixtures("shared_registry")

SIZES = {
    1: [(12,), (5,), (1,), (50,), (223,)],
    2: [(12, 12), (5, 7), (1, 1), (2, 50), (61, 83)],
    3: [(12, 12, 12), (5, 7, 9), (1, 2, 3), (14, 15, 17)],
}
EXAMPLE = {1: (6,), 2: (6, 6), 3: (6, 6, 6)}
CASES: dict[str, tuple[int, Callable[..., Any]]] = {
    "1d": (1, lambda x: F.adaptive_max_pool1d(x, 3, return_indices=True)),
    "1d_values": (1, nn.AdaptiveMaxPool1d(4)),
    "1d_to_one": (1, nn.AdaptiveMaxPool1d(1, return_indices=True)),
    "2d": (2, lambda x: F.adaptive_max_pool2d(x, (2, 3), return_indices=True)),
    "2d_values": (2, nn.AdaptiveMaxPool2d(7)),
    "2d_to_one": (2, nn.AdaptiveMaxPool2d(1, return_indices=True)),
    "2d_large": (2, nn.AdaptiveMaxPool2d((70, 60), return_indices=True)),
    "3d": (3, lambda x: F.adaptive_max_pool3d(x, (2, 3, 2), return_indices=True)),
    "3d_values": (3, nn.AdaptiveMaxPool3d((5, 1, 3))),
}


def runner(name: str, *, batched: bool = True, dtype: torch.dtype = torch.float32, decomposed: bool = False) -> Runner:
    spatial, function = CASES[name]
    x = torch.randn(*((2, 3) if batched else (3,)), *EXAMPLE[spatial]).to(dtype)
    return Runner(export(function, x, spatial, decomposed=decomposed))


def check(run: Runner, name: str, x: torch.Tensor) -> None:
    expected = CASES[name][1](x)
    expected = expected if isinstance(expected, tuple) else (expected,)
    found = run(x)
    assert len(found) == len(expected)
    for one, other in zip(found, expected):
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("batched", [True, False], ids=["batched", "unbatched"])
@pytest.mark.parametrize("name", CASES)
def test_sizes_not_seen_at_export(name: str, batched: bool) -> None:
    run = runner(name, batched=batched)
    torch.manual_seed(1)
    lead = (5, 3) if batched else (3,)
    for size in SIZES[CASES[name][0]]:
        check(run, name, torch.randn(*lead, *size))
    if batched:
        check(run, name, torch.randn(0, 3, *SIZES[CASES[name][0]][0]))


@pytest.mark.parametrize("name", ["1d", "1d_values", "2d", "3d"])
def test_program_that_the_user_decomposed(name: str) -> None:
    run = runner(name, decomposed=True)
    torch.manual_seed(2)
    for size in SIZES[CASES[name][0]]:
        check(run, name, torch.randn(4, 3, *size))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("name", ["1d", "2d", "3d"])
def test_other_types(name: str, dtype: torch.dtype) -> None:
    run = runner(name, dtype=dtype)
    torch.manual_seed(3)
    for size in SIZES[CASES[name][0]]:
        check(run, name, torch.randn(4, 3, *size).to(dtype))


@pytest.mark.parametrize(
    ("name", "cases"), [("1d", 300), ("2d", 300), ("2d_large", 100), ("2d_to_one", 100), ("3d", 200)]
)
def test_indices_of_ties(name: str, cases: int) -> None:
    """Few different values, so that most windows hold their largest more than once: 1,000 cases in all."""
    run = runner(name)
    torch.manual_seed(4)
    for case in range(cases):
        size = torch.randint(1, 15 if name == "3d" else 40, (CASES[name][0],)).tolist()
        check(run, name, torch.randint(0, 1 + case % 4, (1, 3, *size)).float())


@pytest.mark.parametrize("name", ["1d", "2d", "2d_large", "3d"])
def test_nan_and_infinity(name: str) -> None:
    """The last NaN of a window wins; of infinities the first."""
    run = runner(name)
    generator = torch.Generator().manual_seed(5)
    for case in range(40):
        size = torch.randint(2, 15, (CASES[name][0],), generator=generator).tolist()
        x = torch.randn(2, 3, *size, generator=generator)
        for special in (float("nan"), float("inf"), -float("inf")):
            x[torch.rand(x.shape, generator=generator) < (0.03, 0.3, 0.9)[case % 3]] = special
        check(run, name, x)


def test_values_alone_need_no_indices() -> None:
    program = export(CASES["2d_values"][1], torch.randn(2, 3, 6, 6), 2)
    assert "ArgMax" not in [node.op_type for node in program.model.graph]


# --- sizes that an axis has anyway ---------------------------------------------------------------------


@pytest.mark.parametrize("indices", [False, True])
@pytest.mark.parametrize("size", [(None, 2), (3, None)])
@pytest.mark.parametrize("batched", [True, False])
def test_none_leaves_the_axis_alone(size: tuple[int | None, int | None], indices: bool, batched: bool) -> None:
    function = nn.AdaptiveMaxPool2d(size, return_indices=indices)
    lead = (2, 3) if batched else (3,)
    with capture.repairs(adaptive_max_pool.REPAIRS):
        run = Runner(export(function, torch.randn(*lead, 6, 8), 2))
    for height, width in ((12, 16), (5, 3), (1, 1), (7, 50)):
        x = torch.randint(0, 4, (*lead, height, width)).float()
        expected = function(x) if indices else (function(x),)
        for one, other in zip(run(x), expected, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=0)


@pytest.mark.parametrize("size", [(None, 2, None), (2, None, 3), (None, 3, 2)])
def test_none_in_volumes(size: tuple[int | None, ...]) -> None:
    function = nn.AdaptiveMaxPool3d(size, return_indices=True)
    with capture.repairs(adaptive_max_pool.REPAIRS):
        run = Runner(export(function, torch.randn(2, 3, 4, 5, 6), 3))
    for shape in ((6, 5, 8), (3, 2, 9)):
        x = torch.randint(0, 4, (2, 3, *shape)).float()
        for one, other in zip(run(x), function(x), strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_eager_and_fixed_sizes_are_torchs_own() -> None:
    x = torch.randn(2, 3, 6, 8)
    assert adaptive_max_pool.adaptive_max_pool2d_kept(x, (None, 2)) is NotImplemented
    with capture.repairs(adaptive_max_pool.REPAIRS):
        assert torch.equal(F.adaptive_max_pool2d(x, (None, 2)), nn.AdaptiveMaxPool2d((None, 2))(x))
