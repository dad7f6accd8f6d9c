"""Floor division of sizes, repaired: every sign, exact for large numbers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.repair.exporting import rand
from tests.repair.translating import check_translated, plain_fault

from guarddiff.repair import floor_division

REPAIRS = floor_division.REPAIRS


def ceiling(x: torch.Tensor) -> torch.Tensor:
    return x[:, : -(-x.shape[1] // 4)] + 0


def half_of_difference(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.sum() + (x.shape[0] - y.shape[0]) // 2


def by_a_negative(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.full((1,), x.shape[0] // (y.shape[0] - 9))


def large(x: torch.Tensor) -> torch.Tensor:
    return torch.full((1,), (x.shape[0] - 9) * 1_000_000_007_000_000_001 // 1_000_000_007 % 1000)


def and_modulo(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    n = x.shape[0] - y.shape[0]
    return torch.full((1,), n // 3 * 100 + n % 3)


def test_fault_and_cure() -> None:
    others = [(rand(2, n),) for n in (1, 2, 3, 4, 7, 9, 16, 17)]
    assert "in place of" in plain_fault(ceiling, (rand(2, 8),), others[0])
    check_translated(ceiling, (rand(2, 8),), others, REPAIRS)


@pytest.mark.parametrize("function", [half_of_difference, by_a_negative, and_modulo])
def test_signs(function: Any) -> None:
    args = (rand(4), rand(6))
    others = [(rand(n), rand(m)) for n, m in ((1, 6), (3, 6), (6, 3), (7, 2), (5, 5), (2, 11), (4, 8))]
    assert "values differ" in plain_fault(function, args, others[0])
    check_translated(function, args, others, REPAIRS)


def test_no_digit_is_lost() -> None:
    others = [(rand(n),) for n in (3, 8, 10, 17)]
    assert "values differ" in plain_fault(large, (rand(5),), others[0])
    check_translated(large, (rand(5),), others, REPAIRS)


def test_newer_opset() -> None:
    check_translated(half_of_difference, (rand(4), rand(6)), [(rand(1), rand(6))], REPAIRS, opset=21)
