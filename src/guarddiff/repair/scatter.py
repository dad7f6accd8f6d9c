"""scatter, scatter_add, scatter_reduce with an index smaller than the source: torch reads the part of the source that
the index covers, ONNX ScatterElements wants both of one shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript import opset18

from guarddiff.repair.registry import Repair

op: Any = opset18  # its type hints leave out numbers and lists

_REDUCTIONS = {"sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "amin": "min", "amax": "max"}


def scatter_src(self: Any, dim: int, index: Any, src: Any) -> Any:
    """scatter.src(Tensor self, int dim, Tensor index, Tensor src)"""
    return _scatter(self, dim, index, src)


def scatter_value(self: Any, dim: int, index: Any, value: float) -> Any:
    """scatter.value(Tensor self, int dim, Tensor index, Scalar value)"""
    return _scatter(self, dim, index, _filled(index, value, self.dtype))


def scatter_src_reduce(self: Any, dim: int, index: Any, src: Any, reduce: str) -> Any:
    """scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce)"""
    return _scatter(self, dim, index, src, _REDUCTIONS[reduce])


def scatter_value_reduce(self: Any, dim: int, index: Any, value: float, reduce: str) -> Any:
    """scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce)"""
    return _scatter(self, dim, index, _filled(index, value, self.dtype), _REDUCTIONS[reduce])


def scatter_add(self: Any, dim: int, index: Any, src: Any) -> Any:
    """scatter_add(Tensor self, int dim, Tensor index, Tensor src)"""
    return _scatter(self, dim, index, src, "add")


def scatter_reduce(self: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool = True) -> Any:
    """scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True)"""
    if reduce == "mean":
        return _mean(self, dim, index, src, include_self)
    rank = len(self.shape)
    if not include_self:
        self = _scatter(self, dim, index, _filled(index, _neutral(reduce, self.dtype), self.dtype))
    return _scatter(self, dim, index, src, _REDUCTIONS[reduce], rank)


def _scatter(self: Any, dim: int, index: Any, src: Any, reduction: str = "none", rank: int | None = None) -> Any:
    """``rank`` of ``self``, where it is a value that was made here (those don't know their shape)."""
    scalar = (len(self.shape) if rank is None else rank) == 0
    if scalar:
        self = op.Reshape(self, [1])
    src = _covered(src, index)
    if len(index.shape) == 0:
        index, src = op.Reshape(index, [1]), op.Reshape(src, [1])
    found = op.ScatterElements(self, index, src, axis=dim, reduction=reduction)
    return op.Squeeze(found, [0]) if scalar else found


def _covered(src: Any, index: Any) -> Any:
    """The part of the source that the index covers."""
    axes = [axis for axis, (a, b) in enumerate(zip(src.shape or (), index.shape or ())) if not _same(a, b)]
    if not axes:
        return src
    ends = op.Shape(index)
    if len(axes) < len(index.shape):
        ends = op.Gather(ends, op.Constant(value_ints=axes), axis=0)
    starts = op.Constant(value_ints=[0] * len(axes))
    return op.Slice(src, starts, ends, op.Constant(value_ints=axes))


def _same(one: Any, other: Any) -> bool:
    """Whether two sizes are numbers and equal: names can be equal by a guard that doesn't hold everywhere."""
    return isinstance(one, int) and isinstance(other, int) and one == other


def _filled(index: Any, value: float, dtype: Any) -> Any:
    if len(index.shape) == 0:
        return op.Constant(value=ir.tensor(value, dtype=dtype))
    return op.ConstantOfShape(op.Shape(index), value=ir.tensor([value], dtype=dtype))


def _neutral(reduce: str, dtype: Any) -> Any:
    """What leaves a reduction as it is."""
    if reduce in ("sum", "prod"):
        return int(reduce == "prod")
    if dtype == ir.DataType.BOOL:
        return reduce == "amin"
    if dtype.is_floating_point():
        return float("inf") if reduce == "amin" else float("-inf")
    limits = np.iinfo(dtype.numpy())
    return int(limits.max if reduce == "amin" else limits.min)


def _mean(self: Any, dim: int, index: Any, src: Any, include_self: bool) -> Any:
    dtype = self.dtype
    one, none = (op.Constant(value=ir.tensor(number, dtype=dtype)) for number in (1, 0))
    own = op.Expand(one if include_self else none, op.Shape(self))
    rank = len(self.shape)
    count = op.Max(_scatter(own, dim, index, _filled(index, 1, dtype), "add", rank), one)
    if not include_self:
        self = _scatter(self, dim, index, _filled(index, 0, dtype), rank=rank)
    total = _scatter(self, dim, index, src, "add", rank)
    if dtype.is_floating_point():
        return op.Div(total, count)
    return op.Div(op.Sub(total, op.Mod(total, count)), count)  # floors, as torch does


OPS: Sequence[str] = (
    "aten.scatter.*",
    "aten.scatter_.*",
    "aten.scatter_add.*",
    "aten.scatter_add_.*",
    "aten.scatter_reduce.*",
    "aten.scatter_reduce_.*",
)

REPAIRS = (
    Repair(
        name="scatter with an index smaller than the source",
        ops=tuple(OPS),
        way="the source is cut to the index's shape at run time, then ScatterElements",
        translations={
            "aten.scatter.src": scatter_src,
            "aten.scatter.value": scatter_value,
            "aten.scatter.reduce": scatter_src_reduce,
            "aten.scatter.value_reduce": scatter_value_reduce,
            "aten.scatter_add.default": scatter_add,
            "aten.scatter_reduce.two": scatter_reduce,
        },
    ),
)
