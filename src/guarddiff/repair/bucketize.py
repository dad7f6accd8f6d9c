"""bucketize and searchsorted: torch's decomposition unrolls a binary search for the number of boundaries of the
example, and there is no translation of searchsorted at all."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
from onnxscript import opset18

from guarddiff.repair.registry import Repair

op: Any = opset18  # its type hints leave out numbers and lists

_COMPARED = (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.INT32, ir.DataType.INT64)


def bucketize(self: Any, boundaries: Any, out_int32: bool = False, right: bool = False) -> Any:
    """bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False), and .Scalar"""
    return _places(boundaries, self, out_int32, right, boundaries.dtype, 1)


def searchsorted(
    sorted_sequence: Any,
    self: Any,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    """searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False,
    str? side=None, Tensor? sorter=None), and .Scalar"""
    dtype, rank = sorted_sequence.dtype, len(sorted_sequence.shape)
    if sorter is not None:
        sorted_sequence = op.GatherElements(sorted_sequence, sorter, axis=-1)
    return _places(sorted_sequence, self, out_int32, right or side == "right", dtype, rank)


def _places(boundaries: Any, values: Any, out_int32: bool, right: bool, dtype: Any, rank: int) -> Any:
    """How many boundaries (of this dtype and rank) lie before each value; NaN comes after all, as in torch."""
    boundaries, values = _comparable(boundaries, values, dtype)
    if rank > 1:
        boundaries = op.Unsqueeze(boundaries, [-2])
    values = op.Unsqueeze(values, [-1])
    stop = op.Greater(boundaries, values) if right else op.GreaterOrEqual(boundaries, values)
    before = op.Cast(op.Not(stop), to=ir.DataType.INT32)
    count = op.ReduceSum(before, [-1], keepdims=0)
    return count if out_int32 else op.Cast(count, to=ir.DataType.INT64)


def _comparable(boundaries: Any, values: Any, dtype: Any) -> tuple[Any, Any]:
    """Both in one type that ONNX Runtime compares."""
    compared = dtype
    if dtype not in _COMPARED:
        compared = ir.DataType.FLOAT if dtype.is_floating_point() else ir.DataType.INT64
    if isinstance(values, (int, float)):
        if isinstance(values, float) and compared.is_integer():
            compared = ir.DataType.FLOAT
        values = op.Constant(value=ir.tensor(values, dtype=compared))
    elif compared != dtype:
        values = op.Cast(values, to=compared)
    return (boundaries if compared == dtype else op.Cast(boundaries, to=compared)), values


REPAIRS = (
    Repair(
        name="bucketize and searchsorted",
        ops=("aten.bucketize.*", "aten.searchsorted.*"),
        way="counts the boundaries before each value; memory grows with values times boundaries",
        translations={
            "aten.bucketize.Tensor": bucketize,
            "aten.bucketize.Scalar": bucketize,
            "aten.searchsorted.Tensor": searchsorted,
            "aten.searchsorted.Scalar": searchsorted,
        },
    ),
)
