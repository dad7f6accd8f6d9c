"""Products of several matrices, repaired."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.repair.exporting import AUTO, DYNAMIC, as_if_open, check_repaired, every, plain_is_wrong, rand, same_tensors

from guarddiff.repair import multi_dot

pytestmark = pytest.mark.filterwarnings("ignore:torch.chain_matmul is deprecated")
ARGS = (rand(3, 8), rand(8, 4), rand(4, 6))
OTHERS = [(rand(30, 2), rand(2, 9), rand(9, 4)), (rand(2, 3), rand(3, 4), rand(4, 2))]


def dot(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    return torch.linalg.multi_dot([x, y, z])


@pytest.mark.parametrize("function", [dot, torch.chain_matmul])
def test_fault_and_cure(function: Callable[..., Any]) -> None:
    assert "ONNX Runtime raised" in plain_is_wrong(function, ARGS, OTHERS[0])
    check_repaired(function, ARGS, OTHERS, multi_dot.REPAIRS)


@pytest.mark.parametrize(("size", "strict"), [(DYNAMIC, False), (AUTO, True)])
def test_declared_and_captured_in_any_way(size: Any, strict: bool) -> None:
    shapes = every(*ARGS, size=size)
    check_repaired(dot, ARGS, OTHERS, multi_dot.REPAIRS, shapes, strict)


def test_vectors_at_the_ends() -> None:
    args, other = (rand(8), rand(8, 4), rand(4)), (rand(5), rand(5, 7), rand(7))
    check_repaired(dot, args, [other], multi_dot.REPAIRS)


def test_equal_to_eager(monkeypatch: pytest.MonkeyPatch) -> None:
    assert multi_dot.multi_dot(ARGS) is NotImplemented
    assert multi_dot.chain_matmul(*ARGS) is NotImplemented
    as_if_open(monkeypatch, multi_dot, "any_symbolic")
    chain = [rand(2, 3), rand(3, 5), rand(5, 1), rand(1, 4), rand(4, 2)]
    for count in (3, 4, 5):
        same_tensors(multi_dot.multi_dot(chain[:count]), torch.linalg.multi_dot(chain[:count]))
        same_tensors(multi_dot.chain_matmul(*chain[:count]), torch.chain_matmul(*chain[:count]))
    ends = [rand(2), *chain[:2], rand(5)]
    same_tensors(multi_dot.multi_dot(ends), torch.linalg.multi_dot(ends))
    assert multi_dot.multi_dot(chain[:2]) is NotImplemented
    assert multi_dot.multi_dot(chain, out=torch.empty(2, 2)) is NotImplemented
    assert multi_dot.chain_matmul(*ends) is NotImplemented
