"""Pooling with a kernel of the input's size, repaired."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.repair.exporting import (
    AUTO,
    DYNAMIC,
    as_if_open,
    check_repaired,
    exported,
    plain_is_wrong,
    rand,
    same_tensors,
)
from torch import nn

from guarddiff.repair import pool_by_shape

IMAGE = (rand(2, 3, 6, 8),)
OTHERS = [(rand(2, 3, 12, 16),), (rand(1, 3, 7, 5),), (rand(3, 3, 3, 9),)]
OPEN = ({0: AUTO, 2: AUTO, 3: AUTO},)


def average(x: torch.Tensor) -> torch.Tensor:
    return F.avg_pool2d(torch.relu(x), x.shape[2:])


def greatest(x: torch.Tensor) -> torch.Tensor:
    return F.max_pool2d(torch.relu(x), x.shape[2:])


def pyramid(x: torch.Tensor) -> torch.Tensor:
    h, w = x.shape[2:]
    levels = [(h - (n - 1) * (h // n), w - (n - 1) * (w // n), h // n, w // n) for n in (1, 2, 3)]
    return torch.cat([F.avg_pool2d(x, (kh, kw), (sh, sw)).flatten(1) for kh, kw, sh, sw in levels], 1)


@pytest.mark.parametrize("function", [average, greatest])
def test_fault_and_cure(function: Callable[..., Any]) -> None:
    assert "in place of" in plain_is_wrong(function, IMAGE, OTHERS[0], OPEN)
    check_repaired(function, IMAGE, OTHERS, pool_by_shape.REPAIRS, OPEN)


@pytest.mark.parametrize(("sizes", "strict"), [(DYNAMIC, False), (AUTO, True), ("names", False)], ids=str)
def test_declared_and_captured_in_any_way(sizes: Any, strict: bool) -> None:
    shapes = ({2: "h", 3: "w"},) if sizes == "names" else (dict.fromkeys((2, 3), sizes),)
    others = [(rand(2, 3, 12, 16),), (rand(2, 3, 7, 5),)]
    check_repaired(lambda x: average(x) + greatest(x), IMAGE, others, pool_by_shape.REPAIRS, shapes, strict)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.avg_pool2d(x, (x.shape[2], 1)) + F.max_pool2d(x, (1, x.shape[3])),
        lambda x: F.max_pool2d(x, x.shape[2:], return_indices=True),
        lambda x: F.avg_pool2d(x, x.shape[2] // 2),
        lambda x: F.max_pool2d(x, (x.shape[2] // 3, 3), stride=(x.shape[2] // 3, 2), padding=(0, 1)),
        pyramid,
    ],
    ids=["strips", "indices", "half", "third-of-one", "pyramid"],
)
def test_kernels_made_of_sizes(function: Callable[..., Any]) -> None:
    plain_is_wrong(function, IMAGE, OTHERS[0], OPEN)
    check_repaired(function, IMAGE, OTHERS, pool_by_shape.REPAIRS, OPEN)


def up(size: Any, parts: int) -> Any:
    return (size + parts - 1) // parts


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.max_pool2d(x, (up(x.shape[2], 3), up(x.shape[3], 2)), ceil_mode=True),
        lambda x: F.avg_pool2d(x, (up(x.shape[2], 4), up(x.shape[3], 3)), ceil_mode=True),
        lambda x: F.max_pool2d(x, (up(x.shape[2], 3), 3), stride=(2, 2), padding=(0, 1), ceil_mode=True),
        lambda x: F.avg_pool2d(x, up(x.shape[3], 4), stride=up(x.shape[3], 4), ceil_mode=True, divisor_override=3),
        lambda x: F.max_pool1d(x[0], up(x.shape[3], 5), stride=up(x.shape[3], 3), ceil_mode=True),
    ],
    ids=["maximum", "average", "overlapping", "divisor", "gaps"],
)
def test_windows_that_reach_beyond_the_input(function: Callable[..., Any]) -> None:
    plain_is_wrong(function, IMAGE, OTHERS[0], OPEN)
    check_repaired(function, IMAGE, OTHERS, pool_by_shape.REPAIRS, OPEN)


def test_what_is_not_finite_stays_in_its_window() -> None:
    image = rand(2, 3, 7, 9)
    image[0, 0, 6, 8], image[1, 1, 0, 0] = float("inf"), float("nan")
    check_repaired(
        lambda x: F.avg_pool2d(x, (up(x.shape[2], 4), up(x.shape[3], 4)), ceil_mode=True),
        IMAGE,
        [(image,)],
        pool_by_shape.REPAIRS,
        OPEN,
    )


def test_a_mean_of_halves_does_not_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    as_if_open(monkeypatch, pool_by_shape, "any_symbolic")
    x = torch.full((1, 1, 200), 1000.0, dtype=torch.float16)
    same_tensors(pool_by_shape._average(1)(x, 150, 60, 0, True), F.avg_pool1d(x, 150, 60, 0, True))


def test_one_and_three_axes() -> None:
    signal, others = (rand(2, 3, 8),), [(rand(2, 3, 13),), (rand(4, 3, 2),)]
    open_signal = ({0: AUTO, 2: AUTO},)
    check_repaired(lambda x: F.max_pool1d(x, x.size(2)), signal, others, pool_by_shape.REPAIRS, open_signal)
    check_repaired(lambda x: F.avg_pool1d(x, x.size(2)), signal, others, pool_by_shape.REPAIRS, open_signal)
    volume, others = (rand(1, 2, 3, 4, 5),), [(rand(1, 2, 6, 3, 2),)]
    open_volume = (dict.fromkeys((2, 3, 4), AUTO),)
    check_repaired(
        lambda x: F.avg_pool3d(x, x.shape[2:]) + F.max_pool3d(x, x.shape[2:]),
        volume, others, pool_by_shape.REPAIRS, open_volume,
    )  # fmt: skip


class Text(nn.Module):
    """Convolutions over words, each pooled over its own length by a module made in ``forward``."""

    def __init__(self) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv1d(3, 4, width, padding=width // 2) for width in (2, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features = [torch.relu(convolution(x)) for convolution in self.convolutions]
        return torch.cat([nn.MaxPool1d(feature.size(2))(feature).squeeze(2) for feature in features], 1)


def test_pooling_modules_over_computed_lengths() -> None:
    with torch.no_grad():
        model, others = Text().eval().requires_grad_(False), [(rand(2, 3, 17),), (rand(5, 3, 4),)]
        plain_is_wrong(model, (rand(2, 3, 9),), others[0], ({0: AUTO, 2: AUTO},))
        check_repaired(model, (rand(2, 3, 9),), others, pool_by_shape.REPAIRS, ({0: AUTO, 2: AUTO},))


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_equal_to_eager_at_many_sizes(rank: int, monkeypatch: pytest.MonkeyPatch) -> None:
    as_if_open(monkeypatch, pool_by_shape, "any_symbolic")
    average, greatest = pool_by_shape._average(rank), pool_by_shape._maximum(rank)
    eager_average = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[rank - 1]
    eager_greatest = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[rank - 1]
    for size in (1, 2, 3, 5, 7):
        for x in (rand(2, 3, *(size + place for place in range(rank))), rand(3, *(size,) * rank)):
            whole = tuple(x.shape[-rank:])
            for kernel in {size, max(size // 2, 1), whole, (1,) * rank}:
                for stride in (None, 1, 2):
                    same_tensors(average(x, kernel, stride), eager_average(x, kernel, stride))
                    same_tensors(greatest(x, kernel, stride), eager_greatest(x, kernel, stride))
            found = greatest(x, whole, ceil_mode=True, return_indices=True)
            same_tensors(found, eager_greatest(x, whole, ceil_mode=True, return_indices=True))
            same_tensors(greatest(x, 1, 1, dilation=2), eager_greatest(x, 1, 1, dilation=2))
    if rank > 1:
        x = rand(2, 3, *(4,) * rank)
        same_tensors(average(x, 4, divisor_override=5), eager_average(x, 4, divisor_override=5))
        same_tensors(average(x, 2, 1, 0, False, False, 3), eager_average(x, 2, 1, 0, False, False, 3))


def test_ties_and_nan(monkeypatch: pytest.MonkeyPatch) -> None:
    as_if_open(monkeypatch, pool_by_shape, "any_symbolic")
    for x in (torch.tensor([[[2.0, 3, 3, 1]]]), torch.tensor([[[2.0, float("nan"), 3, 1]]])):
        mine = pool_by_shape._maximum(1)(x, 4, return_indices=True)
        same_tensors(mine, F.max_pool1d(x, 4, return_indices=True))


def test_what_it_declines(monkeypatch: pytest.MonkeyPatch) -> None:
    x, average, greatest = rand(1, 2, 6, 6), pool_by_shape._average(2), pool_by_shape._maximum(2)
    assert average(x, 6) is NotImplemented
    assert exported(lambda x: F.avg_pool2d(x, 2), IMAGE, OPEN, pool_by_shape.REPAIRS) == exported(
        lambda x: F.avg_pool2d(x, 2), IMAGE, OPEN
    )
    as_if_open(monkeypatch, pool_by_shape, "any_symbolic")
    assert average(x, 4, 4, 1) is NotImplemented  # padding
    same_tensors(average(x, 4, ceil_mode=True), F.avg_pool2d(x, 4, ceil_mode=True))
    assert greatest(x, 4, ceil_mode=True, return_indices=True) is NotImplemented
    assert average(x.long(), 6) is NotImplemented
    assert greatest(x, 3, return_indices=True) is NotImplemented
    assert greatest(x, (2, 2, 2)) is NotImplemented
    assert greatest(x[0, 0], 6) is NotImplemented
