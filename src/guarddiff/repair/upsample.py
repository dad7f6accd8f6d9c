"""Interpolation with antialiasing and nearest-exact, by scale or by size.

torch rounds the output size down and still steps by the scale that it was given; the export steps by the quotient of
the sizes, which is the same only where the scale divides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import onnx_ir as ir
import torch
from onnxscript import opset18

from guarddiff.repair.registry import Repair

op: Any = opset18  # its type hints leave out numbers and lists

_FLOAT, _DOUBLE, _INT64 = ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.INT64


@dataclass(frozen=True)
class _Axis:
    """One axis to be resized: its number, its old and new size (0-d int64) and the scale, where one was given."""

    number: int
    size: Any
    wanted: Any
    scale: float | None

    def step(self, dtype: Any, align_corners: bool = False) -> Any:
        """Old pixels per new pixel, as torch computes it: in the type of the coordinates."""
        if not align_corners and self.scale is not None and self.scale > 0:
            return _constant(1.0 / self.scale, dtype)
        size, wanted = (op.Cast(one, to=dtype) for one in (self.size, self.wanted))
        if not align_corners:
            return op.Div(size, wanted)
        one = _constant(1.0, dtype)
        steps = op.Sub(wanted, one)
        step = op.Div(op.Sub(size, one), op.Max(steps, one))
        return op.Where(op.Greater(steps, _constant(0.0, dtype)), step, _constant(0.0, dtype))


def _constant(value: Any, dtype: Any = _INT64) -> Any:
    return op.Constant(value=ir.tensor(value, dtype=dtype))


def _axes(x: Any, output_size: Sequence[Any] | None, scales: Sequence[float | None] | None) -> list[_Axis]:
    """The axes after batch and channels; ``scales`` None: none were given."""
    axes = []
    for at in range(len(x.shape) - 2):
        size = op.Squeeze(op.Shape(x, start=at + 2, end=at + 3), [0])
        scale = scales[at] if scales else None
        if output_size is not None:
            wanted = output_size[at]
            wanted = _constant(wanted) if isinstance(wanted, int) else op.Cast(wanted, to=_INT64)
        else:  # rounded down in double precision, as torch does
            product = op.Mul(op.Cast(size, to=_DOUBLE), _constant(float(scale or 1.0), _DOUBLE))
            wanted = op.Cast(op.Floor(product), to=_INT64)
        axes.append(_Axis(at + 2, size, wanted, scale))
    return axes


def _count(size: Any, dtype: Any) -> Any:
    """0, 1, ... size - 1, in this type."""
    return op.Cast(op.Range(_constant(0), size, _constant(1)), to=dtype)


# --- nearest-exact ----------------------------------------------------------------------------------------


def nearest_exact_vec(input: Any, output_size: Any, scale_factors: Sequence[float] | None = None) -> Any:
    """_upsample_nearest_exact1d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors), also 2d and 3d"""
    return _nearest_exact(input, output_size, scale_factors)


def nearest_exact(self: Any, output_size: Any, *scales: float | None, **named: float | None) -> Any:
    """_upsample_nearest_exact1d(Tensor self, SymInt[1] output_size, float? scales=None), also 2d and 3d"""
    return _nearest_exact(self, output_size, _scales(len(self.shape) - 2, scales, named))


def _nearest_exact(x: Any, output_size: Any, scales: Sequence[float | None] | None) -> Any:
    axes, double = _axes(x, output_size, scales), x.dtype == _DOUBLE
    for axis in axes:
        if len(axes) == 2:  # torch has a kernel of its own for small images
            small = op.LessOrEqual(op.Add(axes[0].wanted, axes[1].wanted), _constant(128))
            places = op.Where(small, _places(axis, _FLOAT, _FLOAT), _places(axis, _DOUBLE if double else _FLOAT))
        else:
            places = _places(axis, _DOUBLE if double else _FLOAT)
        found = op.Cast(op.Floor(op.Add(places, _constant(0.5, _FLOAT))), to=_INT64)
        x = op.Gather(x, op.Min(found, op.Sub(axis.size, _constant(1))), axis=axis.number)
    return x


def _places(axis: _Axis, step: Any, product: Any = _DOUBLE) -> Any:
    """Where each new pixel lies among the old ones, in float32. Halfway between two the last bit decides: ``step`` and
    ``product`` are the types that torch has them in (one that is rounded once with the sum is as good as double)."""
    half = _constant(0.5, product)
    stepped = op.Mul(op.Add(_count(axis.wanted, product), half), op.Cast(axis.step(step), to=product))
    return op.Cast(op.Max(op.Sub(stepped, half), _constant(0.0, product)), to=_FLOAT)


# --- antialiased ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Filter:
    """A filter over the distance in pixels (not negative), and how the Resize of ONNX names it."""

    weights: Callable[[Any, Any], Any]
    reach: float
    resize: dict[str, Any] | None = None


def _triangle(distance: Any, dtype: Any) -> Any:
    return op.Max(op.Sub(_constant(1.0, dtype), distance), _constant(0.0, dtype))


def _cubic(distance: Any, dtype: Any) -> Any:
    """Keys' cubic with a = -0.5."""

    def polynomial(*factors: float) -> Any:
        value = _constant(factors[0], dtype)
        for factor in factors[1:]:
            value = op.Add(op.Mul(value, distance), _constant(factor, dtype))
        return value

    near, far = polynomial(1.5, -2.5, 0.0, 1.0), polynomial(-0.5, 2.5, -4.0, 2.0)
    far = op.Where(op.Less(distance, _constant(2.0, dtype)), far, _constant(0.0, dtype))
    return op.Where(op.Less(distance, _constant(1.0, dtype)), near, far)


def _lanczos(distance: Any, dtype: Any) -> Any:
    """sinc(x) sinc(x / 3) for x below 3."""

    def sinc(value: Any) -> Any:
        angle = op.Mul(value, _constant(math.pi, dtype))
        zero = op.Equal(angle, _constant(0.0, dtype))
        one = _constant(1.0, dtype)
        return op.Where(zero, one, op.Div(op.Sin(angle), op.Where(zero, one, angle)))

    product = op.Mul(sinc(distance), sinc(op.Div(distance, _constant(3.0, dtype))))
    return op.Where(op.Less(distance, _constant(3.0, dtype)), product, _constant(0.0, dtype))


_BILINEAR = _Filter(_triangle, 1.0, {"mode": "linear"})
_BICUBIC = _Filter(_cubic, 2.0, {"mode": "cubic", "cubic_coeff_a": -0.5})
_LANCZOS = _Filter(_lanczos, 3.0)


def _antialiased(kind: _Filter) -> dict[str, Callable[..., Any]]:
    """The translations of one filter: by sizes and scales, and by the arguments of ``interpolate`` (vec)."""

    def default(self: Any, output_size: Any, align_corners: bool, *scales: float | None, **named: float | None) -> Any:
        return _filtered(self, output_size, align_corners, _scales(2, scales, named), kind)

    def vec(input: Any, output_size: Any, align_corners: bool, scale_factors: Any = None) -> Any:
        return _filtered(input, output_size, align_corners, scale_factors, kind)

    return {"default": default, "vec": vec}


def _filtered(x: Any, output_size: Any, align_corners: bool, scales: Any, kind: _Filter) -> Any:
    """Two products with matrices of weights that are made at run time, the last axis first."""
    axes, original = _axes(x, output_size, scales), x.dtype
    if kind.resize is not None and not align_corners and not any(scales or ()):
        sizes = op.Concat(op.Shape(x, end=2), *(op.Unsqueeze(axis.wanted, [0]) for axis in axes), axis=0)
        how = {"antialias": 1, "exclude_outside": 1, "coordinate_transformation_mode": "half_pixel"}
        return op.Resize(x, None, None, sizes, **how, **kind.resize)
    dtype = _DOUBLE if original == _DOUBLE else _FLOAT
    if original != dtype:
        x = op.Cast(x, to=dtype)
    height, width = (_weights(axis, align_corners, kind, dtype) for axis in axes)
    if _rows_of_one_pixel_are_equal():
        first = op.Slice(height, *(_constant([number]) for number in (0, 1, 0)))
        height = op.Where(
            op.Equal(axes[1].wanted, _constant(1)), op.Add(op.Mul(height, _constant(0.0, dtype)), first), height
        )
    rounded: Callable[[Any], Any] = partial(_bytes, dtype=dtype) if original.is_integer() else lambda value: value
    x = rounded(op.MatMul(height, rounded(op.MatMul(x, op.Transpose(width, perm=[1, 0])))))
    return x if original == dtype else op.Cast(x, to=original)


def _bytes(x: Any, dtype: Any) -> Any:
    """Rounded to 0 to 255, after each product as in torch; bytes are the only whole numbers that it takes."""
    return op.Clip(op.Round(x), _constant(0.0, dtype), _constant(255.0, dtype))


@lru_cache(maxsize=1)
def _rows_of_one_pixel_are_equal() -> bool:
    """Whether this torch has a fault that 2.13 and 2.14 have: in a result one pixel wide every row is the first one.

    The export has to agree with the torch that it was made by.
    """
    ramp = torch.arange(8.0).reshape(1, 1, 8, 1)
    small = torch.nn.functional.interpolate(ramp, size=(4, 1), mode="bilinear", antialias=True).flatten()
    return bool(small[0] == small[-1])


def _weights(axis: _Axis, align_corners: bool, kind: _Filter, dtype: Any) -> Any:
    """(new size, old size): how much of each old pixel goes into each new one. No weight is left outside torch's
    window: the filter is 0 there."""
    half, one = _constant(0.5, dtype), _constant(1.0, dtype)
    step = axis.step(dtype, align_corners)
    centre = op.Unsqueeze(op.Mul(step, op.Add(_count(axis.wanted, dtype), half)), [1])
    offset = op.Add(op.Sub(_count(axis.size, dtype), centre), half)
    weights = kind.weights(op.Abs(op.Div(offset, op.Max(step, one))), dtype)
    total = op.ReduceSum(weights, [1], keepdims=1)
    return op.Div(weights, op.Where(op.Equal(total, _constant(0.0, dtype)), one, total))


def _scales(rank: int, scales: Sequence[float | None], named: dict[str, float | None]) -> list[float | None] | None:
    """The scales of an overload that takes them one by one, in any way; None where there are none."""
    names = ("scales",) if rank == 1 else ("scales_d", "scales_h", "scales_w")[-rank:]
    found = [*scales, *(named.get(name) for name in names[len(scales) :])]
    return found if any(found) else None


def _named(operator: str, functions: dict[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    return {f"aten.{operator}.{overload}": function for overload, function in functions.items()}


REPAIRS = (
    Repair(
        name="nearest-exact interpolation",
        ops=("aten._upsample_nearest_exact*",),
        way="the index of each pixel is computed at run time from the scale that was given, then Gather",
        translations={
            name: function
            for rank in (1, 2, 3)
            for name, function in _named(
                f"_upsample_nearest_exact{rank}d", {"default": nearest_exact, "vec": nearest_exact_vec}
            ).items()
        },
    ),
    Repair(
        name="antialiased interpolation",
        ops=("aten._upsample_bilinear2d_aa*", "aten._upsample_bicubic2d_aa*", "aten._upsample_lanczos2d_aa*"),
        way=(
            "two matrix products with torch's own weights, made at run time from the sizes and the scale that was "
            "given; a NaN or infinity spreads over its row and column of the result"
        ),
        translations={
            **_named("_upsample_bilinear2d_aa", _antialiased(_BILINEAR)),
            **_named("_upsample_bicubic2d_aa", _antialiased(_BICUBIC)),
            **_named("_upsample_lanczos2d_aa", _antialiased(_LANCZOS)),
        },
    ),
)
