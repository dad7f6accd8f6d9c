"""Adaptive max pooling, values and indices, at every size.

torch's decomposition is right for the sizes of the example alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from onnxscript import ir

from guarddiff.repair.registry import Repair
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
    ),
)
