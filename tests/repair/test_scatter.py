"""scatter and its kin, repaired: an index smaller than the source, in every dimension."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.repair.exporting import rand
from tests.repair.translating import check_translated, plain_fault

from guarddiff.repair import scatter

REPAIRS = scatter.REPAIRS
SELF = (6, 5)


def inputs(index: tuple[int, int], src: tuple[int, int], base: torch.dtype = torch.float32) -> tuple[torch.Tensor, ...]:
    """Every index once along each line: the result of a plain scatter is determined."""
    places = torch.stack([torch.randperm(5)[: index[1]] for _ in range(index[0])])
    return (rand(*SELF).mul(9).to(base), places, rand(*src).mul(9).to(base))


EXAMPLE = inputs((3, 4), (3, 4))
OTHERS = [inputs((2, 4), (3, 4)), inputs((3, 2), (3, 4)), inputs((1, 1), (6, 5)), inputs((3, 4), (3, 4))]
REDUCTIONS = ["sum", "prod", "mean", "amin", "amax"]


def reduced(reduce: str, include_self: bool, dim: int = 0) -> Any:
    def function(x: torch.Tensor, index: torch.Tensor, src: torch.Tensor) -> torch.Tensor:
        return x.scatter_reduce(dim, index, src, reduce, include_self=include_self) * 1

    return function


def shapes(*dims: int) -> Any:
    return ({}, dict.fromkeys(dims, torch.export.Dim.AUTO), dict.fromkeys(dims, torch.export.Dim.AUTO))


def one_line(x: torch.Tensor, index: torch.Tensor, src: torch.Tensor) -> torch.Tensor:
    return x.scatter(1, index, src)


def added(x: torch.Tensor, index: torch.Tensor, src: torch.Tensor) -> torch.Tensor:
    return x.scatter_add(0, index, src)


def added_in_place(x: torch.Tensor, index: torch.Tensor, src: torch.Tensor) -> torch.Tensor:
    return (x * 1).scatter_add_(-1, index, src)


@pytest.mark.parametrize(
    "function", [one_line, added, added_in_place, reduced("amax", True)], ids=["scatter", "add", "add_", "reduce"]
)
def test_fault_and_cure(function: Any) -> None:
    assert "Indices vs updates dimensions differs" in plain_fault(function, EXAMPLE, OTHERS[0], shapes(0, 1))
    check_translated(function, EXAMPLE, OTHERS, REPAIRS, shapes(0, 1))


@pytest.mark.parametrize("dim", [0, 1])
def test_one_dynamic_dimension(dim: int) -> None:
    others = [inputs((2, 4), (3, 4)), inputs((1, 4), (5, 4))] if dim == 0 else [inputs((3, 2), (3, 3))]
    check_translated(one_line, EXAMPLE, others, REPAIRS, shapes(dim))


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_reductions(reduce: str, include_self: bool) -> None:
    check_translated(reduced(reduce, include_self), EXAMPLE, OTHERS, REPAIRS, shapes(0, 1))


def test_mean_of_whole_numbers_floors() -> None:
    example, other = (inputs((3, 4), (3, 4), torch.int64), inputs((2, 3), (4, 4), torch.int64))
    assert plain_fault(reduced("mean", True), example, example, shapes(0, 1))
    check_translated(reduced("mean", True), example, [other], REPAIRS, shapes(0, 1))


def test_reduce_of_older_calls() -> None:
    def function(x: torch.Tensor, index: torch.Tensor, src: torch.Tensor) -> Any:
        return x.scatter(0, index, src, reduce="multiply"), x.scatter(0, index, 2.0, reduce="add")

    check_translated(function, EXAMPLE, OTHERS, REPAIRS, shapes(0, 1))


def test_values() -> None:
    def function(x: torch.Tensor, index: torch.Tensor) -> Any:
        return x.scatter(0, index, 1.5)

    check_translated(function, EXAMPLE[:2], [other[:2] for other in OTHERS], REPAIRS)


def test_infinities_are_not_lost() -> None:
    args = (torch.zeros(4, 5), torch.zeros(3, 4, dtype=torch.int64), torch.full((3, 4), float("-inf")))
    check_translated(reduced("amax", False), args, [], REPAIRS, shapes(0, 1))


def test_without_dimensions() -> None:
    args = (torch.tensor(3.0), torch.tensor(0), torch.tensor(5.0))
    check_translated(lambda x, index, src: x.scatter_add(0, index, src), args, [], REPAIRS, ({}, {}, {}))
