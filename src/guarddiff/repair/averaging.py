"""Averages over the windows of adaptive pooling as ONNX nodes, in the forms that are fastest.

``matrix``: a product with a matrix of zeros and ones, cells × windows. ``gather``: the cells of every window are
gathered and added up. Both add first and divide by the number of cells at the end, as eager PyTorch does. The model
looks first whether the sizes that it is run at are easy ones: windows of two cells along every axis are an AveragePool,
and large windows that divide the input evenly (with ``gather``, windows of any size) are sums over parts of an axis.
docs/repairs-pooling.md has the measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from onnxscript import ir

from guarddiff.repair.windows import Size, Value, as_list, branch, known, length, membership, op, same, windows

Form = Literal["matrix", "gather"]

# Up to this many windows along an axis, a product with a matrix is faster; measured by tests/benchmarks/pooling.py.
MOST_WINDOWS_BY_MATRIX = 32
# From this many cells along every axis of even windows on, sums over parts of an axis are faster than such a product.
LEAST_CELLS_OF_PARTS = 8
_NARROW = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


def average(x: Value, sizes: Sequence[Size], *, strict: bool = False, form: Form | None = None) -> Value:
    """Average over the windows of the last axes of ``x``, one size each, at whatever size ``x`` has.

    ``strict``: NaN and infinity do what they do in eager PyTorch, and means over very long axes are as exact as there.
    Otherwise, where products with matrices are used, one of them makes NaN of the windows of the whole plane (sample
    and channel) that it is in; where cells are gathered, infinity can make NaN of the windows that hold it. ``form``
    None: the faster one. float16 and bfloat16 are added up in float32.
    """
    dtype = x.dtype
    axes = range(-len(sizes), 0)
    wanted = {axis: size for axis, size in zip(axes, sizes) if not same(x, axis, size)}
    if not wanted:
        return op.Identity(x)
    kernel = _kernel(x, sizes)
    result = op.Cast(x, to=ir.DataType.FLOAT) if dtype in _NARROW else x
    if kernel is not None and form is None and any(size != 1 for size in sizes):
        result = _fixed(result, kernel, len(x.shape))
    else:
        result = _pooled(result, wanted, dtype, strict, form, len(sizes), len(x.shape))
    return op.Cast(result, to=dtype) if dtype in _NARROW else result


def _kernel(x: Value, sizes: Sequence[Size]) -> list[int] | None:
    """Kernel of the fixed pooling that gives the same; None where there is none, or ONNX Runtime has none (float64)."""
    lengths = [known(x, axis) for axis in range(-len(sizes), 0)]
    if x.dtype == ir.DataType.DOUBLE:
        return None
    kernel = []
    for n, size in zip(lengths, sizes):
        if n is None or not isinstance(size, int) or not size or n % size:
            return None
        kernel.append(n // size)
    return kernel


def _fixed(x: Value, kernel: list[int], rank: int) -> Value:
    """Pooling with a fixed kernel; ONNX wants a batch axis."""
    if rank > len(kernel) + 1:
        return op.AveragePool(x, kernel_shape=kernel, strides=kernel)
    return op.Squeeze(op.AveragePool(op.Unsqueeze(x, [0]), kernel_shape=kernel, strides=kernel), [0])


def _pooled(
    x: Value, wanted: dict[int, Size], dtype: ir.DataType, strict: bool, form: Form | None, spatial: int, rank: int
) -> Value:
    whole = [axis for axis, size in wanted.items() if isinstance(size, int) and size == 1]
    if whole:
        x = _mean(x, whole, precise=strict and dtype == ir.DataType.FLOAT)
    forms = {axis: form or _form(size, strict) for axis, size in wanted.items() if axis not in whole}
    fixed = all(known(x, axis) is not None for axis in forms) or any(_none(size) for size in wanted.values())
    if form is not None or fixed or len(set(forms.values())) != 1:
        return _divided(x, wanted, forms, dtype, strict, rank)
    sizes = {axis: wanted[axis] for axis in forms}
    by_matrix = "matrix" in forms.values()

    def others() -> Value:
        return _by_parts_or(lambda: _divided(x, wanted, forms, dtype, strict, rank), x, sizes, by_matrix, dtype)

    if dtype == ir.DataType.DOUBLE:
        return others()
    off = op.ReduceMax(op.Abs(op.Sub(_cells(x, sizes), op.Mul(_windows(sizes), 2))), keepdims=0)
    kernel = [2 if axis in sizes else 1 for axis in range(-spatial, 0)]
    pairs = branch(lambda: _fixed(x, kernel, rank))
    return op.If(op.Equal(off, 0), then_branch=pairs, else_branch=branch(others))


def _divided(
    x: Value, wanted: dict[int, Size], forms: dict[int, Form], dtype: ir.DataType, strict: bool, rank: int
) -> Value:
    """Sums over the windows of the axes of ``forms``, divided by the number of cells."""
    # The innermost axis first where matrices make it short; the outermost first where whole rows are gathered.
    order = [axis for axis in sorted(forms, reverse=True) if forms[axis] == "matrix"]
    order += [axis for axis in sorted(forms) if forms[axis] == "gather"]
    to = ir.DataType.DOUBLE if dtype == ir.DataType.DOUBLE else ir.DataType.FLOAT
    count = None
    for axis in order:
        if forms[axis] == "matrix":
            x, counted = _matrix(x, axis, wanted[axis], to)
        else:
            x, counted = _gather(x, axis, wanted[axis], to, strict, rank)
        count = counted if count is None else op.Mul(count, counted)
    return x if count is None else op.Div(x, count)


def _mean(x: Value, axes: list[int], precise: bool) -> Value:
    """Mean over whole axes. One by one: over two at once ONNX Runtime loses ten times as many digits. ``precise``:
    added up in float64, as eager PyTorch's sum in float32 is pairwise and ONNX Runtime's is not."""
    total = op.Cast(x, to=ir.DataType.DOUBLE) if precise else x
    for axis in reversed(axes):
        total = op.ReduceMean(total, [axis], keepdims=1)
    return op.Cast(total, to=ir.DataType.FLOAT) if precise else total


def _by_parts_or(
    otherwise: Callable[[], Value], x: Value, sizes: dict[int, Size], by_matrix: bool, dtype: ir.DataType
) -> Value:
    """Means of equal windows that don't overlap where the sizes divide the axes (``by_matrix``: and the windows are
    large), ``otherwise`` where they don't."""
    axes = sorted(sizes)
    cells, windows = _cells(x, sizes), _windows(sizes)
    some = windows if _numbers(sizes) else op.Max(windows, op.Constant(value_ints=[1]))
    even = op.Equal(op.ReduceMax(op.Mod(cells, some), keepdims=0), 0)
    if not _numbers(sizes):  # of no windows at all there are no parts
        even = op.And(even, op.Greater(op.ReduceMin(windows, keepdims=0), 0))
    if by_matrix:
        even = op.And(even, op.GreaterOrEqual(op.ReduceMin(op.Div(cells, windows), keepdims=0), LEAST_CELLS_OF_PARTS))
    # The innermost axis first where its windows are long; whole rows first where they may be short.
    parts = branch(lambda: _even(x, sizes, axes[::-1] if by_matrix else axes, dtype))
    return op.If(even, then_branch=parts, else_branch=branch(otherwise))


def _cells(x: Value, sizes: dict[int, Size]) -> Value:
    """How long the axes of ``sizes`` are when the model runs, as a list."""
    axes = sorted(sizes)
    if axes == list(range(axes[0], axes[0] + len(axes))):
        return op.Shape(x, start=axes[0]) if axes[-1] == -1 else op.Shape(x, start=axes[0], end=axes[-1] + 1)
    return op.Concat(*(length(x, axis) for axis in axes), axis=0)


def _windows(sizes: dict[int, Size]) -> Value:
    """The sizes as a list, in the order of their axes."""
    ordered = [sizes[axis] for axis in sorted(sizes)]
    if _numbers(sizes):
        return op.Constant(value_ints=ordered)
    return op.Concat(*map(as_list, ordered), axis=0) if len(ordered) > 1 else as_list(ordered[0])


def _numbers(sizes: dict[int, Size]) -> bool:
    """Whether all sizes are known when the model is exported."""
    return all(isinstance(size, int) for size in sizes.values())


def _none(size: Size) -> bool:
    return isinstance(size, int) and size == 0


def _even(x: Value, wanted: dict[int, Size], axes: Sequence[int], dtype: ir.DataType) -> Value:
    count = None
    for axis in axes:
        n = length(x, axis)
        size = as_list(wanted[axis])
        each = op.Div(n, size)
        count = each if count is None else op.Mul(count, each)
        rows = x if axis >= -2 else _folded(x, axis)
        inner = [op.Shape(rows, start=-1)] if axis < -1 else []
        split = op.Reshape(rows, op.Concat(op.Shape(x, end=axis), size, each, *inner, axis=0))
        sums = op.ReduceSum(split, [-2 if axis < -1 else -1], keepdims=0)
        x = sums if axis >= -2 else _unfolded(sums, x, axis, wanted[axis])
    return op.Div(x, op.Cast(count, to=ir.DataType.DOUBLE if dtype == ir.DataType.DOUBLE else ir.DataType.FLOAT))


def _form(size: Size, strict: bool) -> Form:
    return "matrix" if not strict and isinstance(size, int) and size <= MOST_WINDOWS_BY_MATRIX else "gather"


def _matrix(x: Value, axis: int, size: Size, to: ir.DataType) -> tuple[Value, Value]:
    """Sums over the windows of one axis, and the number of cells of each."""
    inner = axis == -1
    ones = op.Cast(membership(x, axis, size, cells_first=inner), to=to)
    count = op.ReduceSum(ones, [0 if inner else 1], keepdims=0 if inner else 1)
    if inner:
        return op.MatMul(x, ones), count
    if axis == -2:
        return op.MatMul(ones, x), count
    return _unfolded(op.MatMul(ones, _folded(x, axis)), x, axis, size), op.Unsqueeze(count, [2])


def _gather(x: Value, axis: int, size: Size, to: ir.DataType, strict: bool, rank: int) -> tuple[Value, Value]:
    """As ``_matrix``. No cell outside a window is touched; a window shorter than the longest holds its last cell once
    more, times zero, or with ``strict`` a zero in its place."""
    if axis == -1:  # whole rows are copied many times faster than single cells
        swap = [*range(rank - 2), rank - 1, rank - 2]
        sums, count = _gather(op.Transpose(x, perm=swap), -2, size, to, strict, rank)
        return op.Transpose(sums, perm=swap), op.Squeeze(count, [1])
    found = windows(x, axis, size)
    inside = op.LessOrEqual(op.Add(found.first, found.steps), found.last)
    ones = op.Cast(inside, to=to)
    count = op.ReduceSum(ones, [1], keepdims=1)
    picked = op.Gather(x if axis == -2 else _folded(x, axis), found.cells, axis=-2)
    if strict:
        picked = _where(op.Unsqueeze(inside, [2]), picked, to)
    sums = op.Squeeze(op.MatMul(op.Unsqueeze(ones, [1]), picked), [-2])
    return (sums, count) if axis == -2 else (_unfolded(sums, x, axis, size), op.Unsqueeze(count, [2]))


def _where(inside: Value, x: Value, to: ir.DataType) -> Value:
    return op.Where(inside, x, op.Cast(op.Constant(value_float=0.0), to=to))


def _folded(x: Value, axis: int) -> Value:
    """The axes after ``axis`` as one."""
    inner = op.ReduceProd(op.Shape(x, start=axis + 1), keepdims=1)
    return op.Reshape(x, op.Concat(op.Shape(x, end=axis + 1), inner, axis=0))


def _unfolded(rows: Value, x: Value, axis: int, size: Size) -> Value:
    """The axes of ``x`` again, with ``size`` along ``axis``."""
    return op.Reshape(rows, op.Concat(op.Shape(x, end=axis), as_list(size), op.Shape(x, start=axis + 1), axis=0))
