"""Floor division of sizes that can be negative (``-(-n // 4)``, ``(a - b) // 2``): torch writes ONNX Div, which cuts
towards zero."""

from __future__ import annotations

from typing import Any

from onnxscript import opset18

from guarddiff.repair.registry import Repair

op: Any = opset18  # its type hints leave out numbers and lists


def floordiv(numerator: Any, denominator: Any) -> Any:
    """Python's ``//`` on numbers; exact for int64, at every sign."""
    if _floating(numerator) or _floating(denominator):
        return op.Floor(op.Div(_number(numerator), _number(denominator)))
    # ONNX Mod takes the sign of the divisor, as Python's % does: what is left is divisible.
    return op.Div(op.Sub(numerator, op.Mod(numerator, denominator)), denominator)


def _floating(value: Any) -> bool:
    if isinstance(value, (int, float)):
        return isinstance(value, float)
    return value.dtype is not None and bool(value.dtype.is_floating_point())


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, (int, float)) else op.Cast(value, to=_FLOAT)


_FLOAT = 1  # onnx.TensorProto.FLOAT

REPAIRS = (
    Repair(
        name="floor division of sizes",
        ops=("operator.floordiv",),
        way="divides after the remainder, which has the divisor's sign, is taken away: floors at every sign",
        translations={"operator.floordiv": floordiv},
    ),
)
