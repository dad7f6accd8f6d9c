"""bucketize and searchsorted, repaired: any number of boundaries."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.repair.exporting import rand
from tests.repair.translating import check_translated, plain_fault

from guarddiff.repair import bucketize

REPAIRS = bucketize.REPAIRS


def boundaries(n: int, *more: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """With ties."""
    return (rand(*more, n) * 3).round().to(dtype).sort(-1).values


def values(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Half of them equal to some boundary."""
    return (rand(*shape) * 6).round().div(2 if dtype.is_floating_point else 1).to(dtype)


def inputs(m: int, n: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    return values(m, dtype=dtype), boundaries(n, dtype=dtype)


SIZES = ((5, 1), (7, 2), (4, 6), (9, 13), (1, 40))


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("out_int32", [False, True])
def test_fault_and_cure(right: bool, out_int32: bool) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.bucketize(x, y, right=right, out_int32=out_int32)

    example, others = inputs(5, 3), [inputs(*size) for size in SIZES]
    many = (torch.linspace(-9, 9, 50), torch.arange(-8.0, 8.0))
    assert "values differ" in plain_fault(function, example, many)
    check_translated(function, example, [*others, many], REPAIRS)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64, torch.int64, torch.int32, torch.uint8])
def test_dtypes(dtype: torch.dtype) -> None:
    check_translated(torch.bucketize, inputs(5, 3, dtype), [inputs(*size, dtype) for size in SIZES], REPAIRS)


def test_one_boundary_in_the_example() -> None:
    check_translated(torch.bucketize, inputs(5, 1), [inputs(*size) for size in SIZES], REPAIRS)


def test_nan_comes_last_and_infinities_in_place() -> None:
    def odd(n: int) -> tuple[torch.Tensor, torch.Tensor]:
        inf = float("inf")
        return torch.tensor([float("nan"), inf, -inf, 0.0][-n:]), torch.tensor([-inf, 0.0, 1.0, inf][-n:])

    for right in (False, True):
        check_translated(lambda x, y, r=right: torch.bucketize(x, y, right=r), odd(3), [odd(4), odd(2)], REPAIRS)


def test_several_dimensions() -> None:
    example = (values(2, 3, 4), boundaries(3))
    check_translated(torch.bucketize, example, [(values(3, 2, 5), boundaries(7))], REPAIRS)


@pytest.mark.parametrize("more", [{}, {"side": "right"}, {"right": True}, {"out_int32": True}])
def test_searchsorted(more: Any) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.searchsorted(x, y, **more)

    example = (boundaries(3, 2), values(2, 5))
    others = [(boundaries(n, m), values(m, k)) for n, m, k in ((1, 2, 5), (6, 3, 2), (11, 1, 4))]
    assert plain_fault(function, example, others[0]).startswith("refused")
    check_translated(function, example, others, REPAIRS)


def test_searchsorted_of_one_row() -> None:
    check_translated(torch.searchsorted, (boundaries(3), values(2, 5)), [(boundaries(8), values(4, 3))], REPAIRS)


def test_sorter() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.searchsorted(x, y, sorter=torch.argsort(x))

    def shuffled(n: int) -> torch.Tensor:
        return torch.randperm(n).float()

    check_translated(function, (shuffled(4), values(5)), [(shuffled(9), values(3))], REPAIRS)


@pytest.mark.parametrize("number", [1.5, 2])
def test_numbers(number: float) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        return torch.bucketize(number, x), torch.searchsorted(y, number, right=True)

    def two(n: int) -> tuple[torch.Tensor, torch.Tensor]:
        return boundaries(n), boundaries(n, dtype=torch.int64)

    check_translated(function, two(3), [two(1), two(9)], REPAIRS)
