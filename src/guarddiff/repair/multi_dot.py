"""Products of several matrices, whose capture reads concrete sizes to choose the order of multiplication."""

from __future__ import annotations

from functools import reduce
from typing import Any

import torch

from guarddiff.repair.registry import Repair
from guarddiff.repair.symbolic import any_symbolic


def multi_dot(tensors: Any, *, out: Any = None) -> Any:
    """``torch.linalg.multi_dot`` from left to right."""
    tensors = list(tensors)
    if out is not None or len(tensors) < 3 or not any_symbolic(size for tensor in tensors for size in tensor.shape):
        return NotImplemented
    return reduce(torch.matmul, tensors)


def chain_matmul(*matrices: Any, out: Any = None) -> Any:
    """``torch.chain_matmul`` from left to right."""
    if any(matrix.dim() != 2 for matrix in matrices):
        return NotImplemented
    return multi_dot(matrices, out=out)


REPAIRS = (
    Repair(
        name="product of several matrices",
        ops=("aten.linalg_multi_dot.*", "linalg_multi_dot", "aten.chain_matmul.*", "chain_matmul"),
        way="the matrices are multiplied from left to right (equal but for rounding; another order may be faster)",
        stages=("declare", "capture"),
        functions={torch.linalg.multi_dot: multi_dot, torch.chain_matmul: chain_matmul},
    ),
)
