"""The Kronecker product, whose capture reads concrete sizes."""

from __future__ import annotations

from typing import Any

import torch

from guarddiff.repair.registry import Repair
from guarddiff.repair.symbolic import any_symbolic


def kron(input: Any, other: Any, *, out: Any = None) -> Any:
    """``torch.kron`` as one broadcast product and one reshape, which leave the sizes open."""
    if out is not None or not any_symbolic((*input.shape, *other.shape)):
        return NotImplemented
    rank = max(input.dim(), other.dim())
    left, right = _of_rank(input, rank), _of_rank(other, rank)
    for axis in range(rank):
        left, right = left.unsqueeze(2 * axis + 1), right.unsqueeze(2 * axis)
    product = left * right
    return product.reshape([product.shape[2 * axis] * product.shape[2 * axis + 1] for axis in range(rank)])


def _of_rank(tensor: Any, rank: int) -> Any:
    for _ in range(rank - tensor.dim()):
        tensor = tensor.unsqueeze(0)
    return tensor


REPAIRS = (
    Repair(
        name="Kronecker product",
        ops=("aten.kron.*", "kron", "Tensor.kron"),
        way="a product of the two tensors with their axes interleaved, reshaped; sizes are read when the model runs",
        stages=("declare", "capture"),
        functions={torch.kron: kron, torch.Tensor.kron: kron},
    ),
)
