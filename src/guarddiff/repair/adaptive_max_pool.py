"""Adaptive max pooling, values and indices, at every size.

torch's decomposition is right for the sizes of the example alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from onnxscript import ir

from guarddiff.repair.registry import Repair
from guarddiff.repair.symbolic import same, symbolic
from guarddiff.repair.windows import Size, Value, Windows, length, op, sizes_of, windows

# Types that ONNX Runtime's ArgMax takes; the others fit into float32.
_COMPARED = (ir.DataType.FLOAT, ir.DataType.DOUBLE)


def adaptive_max_pool1d(self: Value, output_size: Sequence[Size]) -> tuple[Value, Value]:
    """``aten.adaptive_max_pool1d``: largest values and their indices, of (N, C, L) or (C, L)."""
    return _maximum(self, sizes_of(output_size, 1))


def adaptive_max_pool2d(self: Value, output_size: Sequence[Size]) -> tuple[Value, Value]:
    """``aten.adaptive_max_pool2d``: of (N, C, H, W) or (C, H, W); indices count through the plane."""
    return _maximum(self, sizes_of(output_size, 2))


def adaptive_max_pool3d(self: Value, output_size: Sequence[Size]) -> tuple[Value, Value]:
    """``aten.adaptive_max_pool3d``: of (N, C, D, H, W) or (C, D, H, W); indices count through the volume."""
    return _maximum(self, sizes_of(output_size, 3))


def _maximum(x: Value, sizes: Sequence[Size]) -> tuple[Value, Value]:
    """Values and indices by different nodes, so that what is not used falls away.

    As in eager PyTorch the index is that of the first of several largest cells, but of the last NaN.
    """
    dtype, leading = x.dtype, len(x.shape) - len(sizes)
    if dtype not in _COMPARED:
        x = op.Cast(x, to=ir.DataType.FLOAT)
    axes = range(-len(sizes), 0)
    found = [windows(x, axis, size) for axis, size in zip(axes, sizes)]
    lost = op.IsNaN(x)
    numbers = op.Where(lost, _constant(float("-inf"), x), x)
    marks = op.Cast(lost, to=ir.DataType.FLOAT)
    any_lost = op.Greater(_largest(marks, axes, found), 0.0)
    values = op.Where(any_lost, _constant(float("nan"), x), _largest(numbers, axes, found))
    slot = op.Where(
        any_lost,
        op.ArgMax(_spread(marks, leading, axes, found), axis=-1, keepdims=0, select_last_index=1),
        op.ArgMax(_spread(numbers, leading, axes, found), axis=-1, keepdims=0),
    )
    values = values if dtype in _COMPARED else op.Cast(values, to=dtype)
    return values, _flat(slot, x, axes, found)


def _constant(number: float, x: Value) -> Value:
    """A float of the type of ``x``."""
    return op.CastLike(op.Constant(value_float=number), x)


def _largest(x: Value, axes: Sequence[int], found: Sequence[Windows]) -> Value:
    """Largest value of every window, one axis after the other, the outermost first: whole rows are gathered."""
    for axis, along in zip(axes, found):
        x = op.ReduceMax(op.Gather(x, along.cells, axis=axis), [axis], keepdims=0)
    return x


def _spread(x: Value, leading: int, axes: Sequence[int], found: Sequence[Windows]) -> Value:
    """The cells of every window along one last axis, in the order of the plane; ``leading`` axes stand before it.

    Cells that are there twice follow the first of themselves, so the first largest and the last NaN stay those.
    """
    count = len(axes)
    for axis, along in zip(axes, found):
        x = op.Gather(x, along.cells, axis=axis)
    first = range(leading)
    windowed = range(leading, leading + 2 * count, 2)
    x = op.Transpose(x, perm=[*first, *windowed, *(axis + 1 for axis in windowed)])
    cells = op.ReduceProd(op.Shape(x, start=-count), keepdims=1)
    return op.Reshape(x, op.Concat(op.Shape(x, end=-count), cells, axis=0))


def _flat(slot: Value, x: Value, axes: Sequence[int], found: Sequence[Windows]) -> Value:
    """Index in the plane, or volume, of the cell at ``slot`` of its window."""
    index, stride = None, None
    for axis, along in zip(reversed(axes), reversed(found)):
        longest = op.Shape(along.steps)
        step, slot = op.Mod(slot, longest), op.Div(slot, longest)
        cell = op.Min(op.Add(_along(along.first, axis), step), _along(along.last, axis))
        if index is None:
            index, stride = cell, length(x, axis)
        else:
            index = op.Add(index, op.Mul(cell, stride))
            stride = op.Mul(stride, length(x, axis))
    return index


def _along(cells: Value, axis: int) -> Value:
    """One number for each window, with as many axes after it as there are after ``axis``."""
    if axis == -2:
        return cells
    return op.Squeeze(cells, [1]) if axis == -1 else op.Unsqueeze(cells, [2])


def _kept(input: Any, output_size: Any, return_indices: bool, rank: int) -> Any:
    """Pooling that leaves some axes as long as they are (``None``): they become channels, so that what is pooled has
    sizes that are numbers. NotImplemented where no open axis is left alone."""
    wanted = list(output_size) if isinstance(output_size, Sequence) else [output_size] * rank
    own = list(input.shape[-rank:])
    alone = [size is None or same(size, n) for size, n in zip(wanted, own)]
    pooled = [axis for axis in range(rank) if not alone[axis]]
    open_ones = any(symbolic(n) for n, left in zip(own, alone) if left)
    if not pooled or not open_ones or any(symbolic(wanted[axis]) for axis in pooled):
        return NotImplemented
    leading = input.dim() - rank
    order = [*range(leading), *(leading + axis for axis in range(rank) if alone[axis])]
    order += [leading + axis for axis in pooled]
    moved = input.permute(order)
    kept = list(moved.shape[: -len(pooled)])
    channels = math.prod(kept[leading - 1 :])
    rows = moved.reshape([*kept[: leading - 1], channels, *(own[axis] for axis in pooled)])
    pool = {1: F.adaptive_max_pool1d, 2: F.adaptive_max_pool2d}[len(pooled)]
    found = pool(rows, [wanted[axis] for axis in pooled], return_indices=True)
    shape, back = [*kept, *(wanted[axis] for axis in pooled)], [order.index(axis) for axis in range(input.dim())]
    values, slots = (one.reshape(shape).permute(back) for one in found)
    return (values, _in_the_plane(slots, own, alone)) if return_indices else values


def _in_the_plane(slots: Any, own: Sequence[Any], alone: Sequence[bool]) -> Any:
    """Indices over the pooled axes as indices over all ``own`` axes."""
    rank = len(own)
    index, stride, rest = None, 1, slots
    for axis in reversed(range(rank)):
        if alone[axis]:
            place = torch.arange(own[axis]).reshape([-1, *[1] * (rank - 1 - axis)])
        else:
            cells = torch.full((), own[axis], dtype=torch.int64)  # torchlib divides by tensors alone
            place, rest = rest % cells, rest // cells
        index = place * stride if index is None else index + place * stride
        stride = stride * own[axis]
    return index


def adaptive_max_pool2d_kept(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """``F.adaptive_max_pool2d`` with None, or the axis's own size, in ``output_size``."""
    return _kept(input, output_size, return_indices, 2)


def adaptive_max_pool3d_kept(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """``F.adaptive_max_pool3d`` with None, or the axis's own size, in ``output_size``."""
    return _kept(input, output_size, return_indices, 3)


def _with_indices(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(input: Any, output_size: Any, return_indices: bool = False) -> Any:
        del return_indices
        return function(input, output_size, True)

    return call


TRANSLATIONS: dict[str, Callable[..., Any]] = {
    "aten.adaptive_max_pool1d.default": adaptive_max_pool1d,
    "aten.adaptive_max_pool2d.default": adaptive_max_pool2d,
    "aten.adaptive_max_pool3d.default": adaptive_max_pool3d,
}

REPAIRS = (
    Repair(
        name="adaptive max pooling",
        ops=("aten.adaptive_max_pool*d.default",),
        way="The windows are worked out from the input's size when the model runs, and their cells gathered.",
        translations=TRANSLATIONS,
        functions={
            F.adaptive_max_pool2d: adaptive_max_pool2d_kept,
            F.adaptive_max_pool3d: adaptive_max_pool3d_kept,
            F.adaptive_max_pool2d_with_indices: _with_indices(adaptive_max_pool2d_kept),
            F.adaptive_max_pool3d_with_indices: _with_indices(adaptive_max_pool3d_kept),
        },
    ),
)
