"""The Kronecker product, repaired: every rank, dtype and way to call it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.repair.exporting import AUTO, DYNAMIC, check_repaired, every, exported, plain_is_wrong, rand
from torch import nn
from torch.export import Dim

from guarddiff.repair import kron

ARGS = (rand(2, 3), rand(4, 5))
OTHERS = [(rand(4, 6), rand(8, 10)), (rand(5, 2), rand(3, 7)), (rand(2, 3), rand(9, 2))]


def test_fault_and_cure() -> None:
    assert "ONNX Runtime raised" in plain_is_wrong(torch.kron, ARGS, OTHERS[0])
    check_repaired(torch.kron, ARGS, OTHERS, kron.REPAIRS)


@pytest.mark.parametrize(("size", "strict"), [(DYNAMIC, False), (AUTO, True)])
def test_declared_and_captured_in_any_way(size: Any, strict: bool) -> None:
    check_repaired(torch.kron, ARGS, OTHERS, kron.REPAIRS, every(*ARGS, size=size), strict)


def test_named_dimensions() -> None:
    names = ({0: "a", 1: "b"}, {0: "c", 1: "d"})
    assert plain_is_wrong(torch.kron, ARGS, OTHERS[0], names).startswith("refused")
    check_repaired(torch.kron, ARGS, OTHERS, kron.REPAIRS, names)
    ranges = ({0: Dim("a", min=2, max=99)}, {1: Dim("d", min=2, max=99)})
    other = (rand(5, 3), rand(4, 8))
    assert "invalid dimensions for input" in plain_is_wrong(torch.kron, ARGS, other, ranges)
    check_repaired(torch.kron, ARGS, [other], kron.REPAIRS, ranges)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x.kron(y),
        lambda x, y: torch.Tensor.kron(x, other=y),
        lambda x, y: torch.kron(input=x, other=y),
        lambda x, y: torch.kron(torch.relu(x), y[1:]) + 1,
    ],
)
def test_ways_to_call_it(function: Callable[..., Any]) -> None:
    check_repaired(function, ARGS, OTHERS, kron.REPAIRS)


@pytest.mark.parametrize(
    ("args", "other"),
    [
        ((rand(3), rand(2, 2, 2)), (rand(5), rand(3, 4, 2))),
        ((rand(2, 2, 3), rand(4)), (rand(3, 4, 2), rand(6))),
        ((rand(3), rand(4)), (rand(7), rand(2))),
        ((rand(2, 3, dtype=torch.int64), rand(2, 2)), (rand(4, 4, dtype=torch.int64), rand(3, 5))),
        ((rand(2, 3, dtype=torch.float64), rand(2, 2, dtype=torch.float32)),) * 2,
    ],
)
def test_ranks_and_dtypes(args: tuple[torch.Tensor, ...], other: tuple[torch.Tensor, ...]) -> None:
    check_repaired(torch.kron, args, [other], kron.REPAIRS)


class Adapter(nn.Module):
    """A small fixed factor, as in low-rank adapters."""

    def __init__(self) -> None:
        super().__init__()
        self.small = nn.Parameter(rand(2, 2), requires_grad=False)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return y @ torch.kron(self.small, x)


def test_one_factor_fixed() -> None:
    model = Adapter()
    args, others = (rand(3, 4), rand(5, 6)), [(rand(6, 4), rand(2, 12)), (rand(3, 7), rand(4, 6))]
    plain_is_wrong(model, args, others[0])
    check_repaired(model, args, others, kron.REPAIRS)


def test_static_sizes_are_left_to_torch() -> None:
    assert kron.kron(*ARGS) is NotImplemented
    assert exported(torch.kron, ARGS, ({}, {}), kron.REPAIRS) == exported(torch.kron, ARGS, ({}, {}))
