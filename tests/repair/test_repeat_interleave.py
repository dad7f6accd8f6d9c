"""repeat_interleave by a count that is a size, repaired."""

from __future__ import annotations

import pytest
import torch
from tests.repair.exporting import rand
from tests.repair.translating import check_translated, plain_fault

from guarddiff.repair.repeat_interleave import REPAIRS


def test_fault_and_cure() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.repeat_interleave(y.shape[1], dim=0)

    example, others = (rand(1, 3), rand(1, 4)), [(rand(2, 3), rand(1, 4)), (rand(5, 2), rand(2, 7))]
    assert "invalid expand shape" in plain_fault(function, example, others[0])
    check_translated(function, (rand(2, 3), rand(2, 4)), [*others, example], REPAIRS)


@pytest.mark.parametrize("dim", [None, 0, 1, -1])
def test_dimensions_and_empty_inputs(dim: int | None) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.repeat_interleave(y.shape[0], dim=dim)

    others = [(rand(4, 1, 3), rand(1, 1)), (rand(2, 5, 6), rand(2, 3)), (rand(0, 2, 4), rand(3, 2))]
    check_translated(function, (rand(2, 3, 4), rand(3, 2)), others, REPAIRS)


def test_count_that_is_a_number_and_numbers() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.sum().repeat_interleave(y.shape[0]) + x.repeat_interleave(3, dim=1).sum()

    check_translated(function, (rand(2, 3), rand(3, 2)), [(rand(4, 1), rand(6, 2))], REPAIRS)
