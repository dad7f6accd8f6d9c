"""Numbers worked out from sizes (``int(0.5 * h)``, ``math.sqrt(n)``, ``float(n)``), in 64 bits as Python does.

The exporter declares every such number that is no whole one as a float32. What it is exactly stands beside that
value, for the operators that go on from it: only tensors get the rounded one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from onnxscript import ir

from guarddiff.core.stage import Stage
from guarddiff.repair import scales, stand_ins
from guarddiff.repair.registry import Repair
from guarddiff.repair.symbolic import any_symbolic
from guarddiff.repair.windows import op

_EXACT = "guarddiff.exact"
_DOUBLE, _FLOAT, _INT = ir.DataType.DOUBLE, ir.DataType.FLOAT, ir.DataType.INT64


def _floating(value: Any) -> bool:
    if isinstance(value, ir.Value):
        return value.dtype is not None and bool(value.dtype.is_floating_point())
    return isinstance(value, float)


def _exact(value: Any) -> Any:
    """The number in float64."""
    if not isinstance(value, ir.Value):
        return op.Constant(value=ir.tensor(float(value), dtype=_DOUBLE))
    exact = value.meta.get(_EXACT)
    return op.Cast(value, to=_DOUBLE) if exact is None else exact


def _shown(exact: Any) -> Any:
    """The float32 that the exporter declares, with the exact number beside it."""
    value = op.Cast(exact, to=_FLOAT)
    value.meta[_EXACT] = exact
    return value


def _number(name: str) -> Callable[..., Any]:
    """A translation by one ONNX operator: of whole numbers as torch makes it, in float64 where one is a float."""

    def number(*values: Any) -> Any:
        write = getattr(op, name)
        if any(_floating(value) for value in values):
            return _shown(write(*map(_exact, values)))
        return write(*values)

    number.__name__ = name.lower()
    return number


def truediv(one: Any, other: Any) -> Any:
    """Python's ``/``, a float of whole numbers too."""
    return _shown(op.Div(_exact(one), _exact(other)))


def mod(one: Any, other: Any) -> Any:
    """Python's ``%``: the sign of what is left is the divisor's."""
    if not _floating(one) and not _floating(other):
        return op.Mod(one, other)
    one, other = _exact(one), _exact(other)
    left = op.Mod(one, other, fmod=1)
    return _shown(op.Where(op.Less(op.Mul(op.Sign(left), op.Sign(other)), _exact(0.0)), op.Add(left, other), left))


def power(base: Any, exponent: Any) -> Any:
    """Python's ``**``; of whole numbers a whole one unless the exponent is known to be negative."""
    negative = isinstance(exponent, int) and exponent < 0
    if negative or _floating(base) or _floating(exponent):
        return _shown(op.Pow(_exact(base), _exact(exponent)))
    return op.Pow(base, exponent)


def rounded(value: Any, digits: Any = None) -> Any:
    """Python's ``round``: halves to the even side; a whole number where no digits are asked for.

    Raises NotImplementedError for digits: Python rounds the decimal number there.
    """
    if digits not in (None, 0):
        raise NotImplementedError("round() to digits of a number that is worked out from sizes")
    if not _floating(value):
        return op.Identity(value)
    near = op.Round(_exact(value))
    return op.Cast(near, to=_INT) if digits is None else _shown(near)


def _whole(name: str | None) -> Callable[..., Any]:
    """A translation to a whole number: by an ONNX operator first, or cut off (None)."""

    def whole(value: Any) -> Any:
        if not _floating(value):
            return op.Identity(value)
        exact = _exact(value)
        return op.Cast(exact if name is None else getattr(op, name)(exact), to=_INT)

    return whole


def sym_float(value: Any) -> Any:
    """``float()`` of a size."""
    return _shown(_exact(value))


def square_root(value: Any) -> Any:
    """``math.sqrt``."""
    return _shown(op.Sqrt(_exact(value)))


def scalar_tensor(number: Any, dtype: int = -1, layout: str = "", device: str = "", pin_memory: bool = False) -> Any:
    """A tensor of no axes; in float64 it holds the exact number."""
    del layout, device, pin_memory
    to = _FLOAT if dtype in (-1, None) else dtype
    if isinstance(number, ir.Value):
        return op.Cast(number.meta.get(_EXACT, number), to=to)
    return op.Cast(_exact(number) if isinstance(number, float) else op.Constant(value=ir.tensor(number)), to=to)


def local_scalar(tensor: Any) -> Any:
    """``Tensor.item``: the number that the first element is."""
    first = op.Gather(op.Reshape(tensor, op.Constant(value_ints=[-1])), op.Constant(value_int=0))
    if tensor.dtype == ir.DataType.BOOL:
        return op.Cast(first, to=ir.DataType.BOOL)
    if not tensor.dtype.is_floating_point():
        return op.Cast(first, to=_INT)
    return _shown(first) if tensor.dtype == _DOUBLE else op.Cast(first, to=_FLOAT)


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Any:
    """``torch.as_tensor`` of a list of sizes, which its capture makes numbers."""
    if isinstance(data, torch.Tensor) or not any_symbolic(_leaves(data)):
        return NotImplemented
    if dtype is None:
        whole = all(isinstance(leaf, (int, torch.SymInt)) for leaf in _leaves(data))
        dtype = torch.int64 if whole else torch.get_default_dtype()
    return _stacked(data, dtype, device)


def _leaves(data: Any) -> list[Any]:
    return [leaf for one in data for leaf in _leaves(one)] if isinstance(data, (list, tuple)) else [data]


def _stacked(data: Any, dtype: torch.dtype, device: Any) -> Any:
    if isinstance(data, (list, tuple)):
        return torch.stack([_stacked(one, dtype, device) for one in data])
    if isinstance(data, torch.Tensor):
        return data.to(dtype=dtype, device=device)
    return torch.scalar_tensor(data, dtype=dtype, device=device)


_TAKERS = ("interpolate", "scaled_dot_product_attention", "pow", "__pow__")
_STAGES: tuple[Stage, ...] = ("declare", "capture")

REPAIRS = (
    Repair(
        name="sizes turned into numbers",
        ops=("int()", "float()", "max()", "min()", "math.*()", "as_tensor", *_TAKERS),
        way="int(), float(), max(), min() and functions of math keep the size open; what they give is worked out in 64"
        " bits when the model runs",
        stages=_STAGES,
        translations={
            "operator.add": _number("Add"),
            "operator.sub": _number("Sub"),
            "operator.mul": _number("Mul"),
            "operator.neg": _number("Neg"),
            "operator.abs": _number("Abs"),
            "operator.truediv": truediv,
            "operator.mod": mod,
            "operator.pow": power,
            "math.trunc": _whole(None),
            "math.floor": _whole("Floor"),
            "math.ceil": _whole("Ceil"),
            "builtins.round": rounded,
            "torch.sym_int": _whole(None),
            "torch.sym_float": sym_float,
            "torch.sym_sqrt": square_root,
            "torch.sym_max": _number("Max"),
            "torch.sym_min": _number("Min"),
            "aten.scalar_tensor.default": scalar_tensor,
            "aten._local_scalar_dense.default": local_scalar,
        },
        functions={torch.as_tensor: as_tensor, **scales.FUNCTIONS},
        stand_ins=stand_ins.STAND_INS,
    ),
)
