"""Taking a dimension apart whose size is open: right where the number of pieces does not depend on the size."""

from __future__ import annotations

from typing import Any

import torch

from guarddiff.repair.registry import Refusal, Repair
from guarddiff.repair.symbolic import symbolic


def tensor_split(
    input: Any, indices_or_sections: Any = None, dim: int = 0, *, sections: Any = None, indices: Any = None
) -> Any:
    """``torch.tensor_split`` into a number of pieces, with lengths that are computed from the size."""
    count = indices_or_sections if sections is None else sections
    if indices is not None or not _number(count) or count < 1 or not symbolic(_size(input, dim)):
        return NotImplemented
    size = _size(input, dim)
    return _apart(input, [(size + count - 1 - place) // count for place in range(count - 1)], dim)


def chunk(input: Any, chunks: Any, dim: int = 0) -> Any:
    """``torch.chunk`` where it makes as many pieces as are asked for at the example's size.

    At a few small sizes eager makes fewer. That the last piece is not empty is therefore a guard, and asked for.
    """
    if not _number(chunks) or chunks < 1 or not symbolic(_size(input, dim)):
        return NotImplemented
    size = _size(input, dim)
    length = (size + chunks - 1) // chunks
    if size - length * (chunks - 1) < 1:
        return NotImplemented
    return _apart(input, [length] * (chunks - 1), dim)


def split(tensor: Any, split_size_or_sections: Any = None, dim: int = 0, *, split_size: Any = None) -> Any:
    """``torch.split`` with a length that is computed from the size (``x.split(x.shape[0] // 2)``).

    That there are as many pieces as at the example's size is a guard, as it is in torch's own.
    """
    length = split_size_or_sections if split_size is None else split_size
    if not symbolic(length) or isinstance(length, (tuple, list)) or not symbolic(_size(tensor, dim)):
        return NotImplemented
    size = _size(tensor, dim)
    return _apart(tensor, [length] * (int((size + length - 1) // length) - 1), dim)


def _number(count: Any) -> bool:
    return isinstance(count, int) and not isinstance(count, bool)


def _size(tensor: Any, dim: int) -> Any:
    """The size of one dimension; 0 where there is none such, which the original has to say."""
    return tensor.shape[dim] if -tensor.dim() <= dim < tensor.dim() else 0


def _apart(tensor: Any, lengths: list[Any], dim: int) -> tuple[Any, ...]:
    """Pieces of these lengths, and the rest."""
    rest = tensor.shape[dim]
    for length in lengths:
        rest = rest - length
    return tuple(torch.split_with_sizes(tensor, [*lengths, rest], dim))


_WAY_OUT = (
    "treat the pieces at once (reshape the dimension to blocks, or make it part of the batch), or declare it static"
)

REPAIRS = (
    Repair(
        name="tensor_split of an open dimension",
        ops=("aten.tensor_split.*", "tensor_split"),
        way="a split at lengths that are computed when the model runs",
        stages=("declare", "capture"),
        functions={torch.tensor_split: tensor_split, torch.Tensor.tensor_split: tensor_split},
    ),
    Repair(
        name="chunk of an open dimension",
        ops=("aten.chunk.*", "chunk"),
        way="a split at lengths that are computed when the model runs; sizes that make fewer chunks are left out",
        stages=("declare", "capture"),
        functions={torch.chunk: chunk, torch.Tensor.chunk: chunk, torch.split: split, torch.Tensor.split: split},
    ),
)

REFUSALS = (
    Refusal(
        ops=("aten.split.*", "split"),
        why="the number of pieces depends on the size, and a model's number of results is fixed",
        way_out=_WAY_OUT,
    ),
)
