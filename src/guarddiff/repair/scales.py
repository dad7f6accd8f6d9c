"""Functions of torch that take a number and make a constant of an open one: scales of interpolation and of attention,
exponents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from guarddiff.repair.symbolic import any_symbolic, symbolic

_A = -0.75  # what torch's bicubic interpolation weighs with
_SMOOTH = ("linear", "bilinear", "trilinear", "bicubic")


def interpolate(
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Any:
    """``F.interpolate`` by scales that are worked out from sizes: by the sizes that come of them where torch steps by
    those, else axis by axis. Left to torch with antialiasing, and to the nearest in float64, where it rounds in ways
    of its own."""
    axes = input.dim() - 2
    scales = tuple(scale_factor) if isinstance(scale_factor, (list, tuple)) else (scale_factor,) * axes
    if size is not None or not any_symbolic(scales) or antialias or len(scales) != axes:
        return NotImplemented
    whole: Callable[[Any], Any] = torch.sym_int
    sizes = tuple(whole(length * scale) for length, scale in zip(input.shape[2:], scales))
    if mode == "area" or recompute_scale_factor or align_corners:
        return F.interpolate(input, size=sizes, mode=mode, align_corners=align_corners)
    if mode not in _WINDOWS or (mode not in _SMOOTH and input.dtype == torch.float64):
        return NotImplemented
    return _stepped(input, sizes, scales, mode)


def _stepped(x: Any, sizes: Sequence[Any], scales: Sequence[Any], mode: str) -> Any:
    """Resized along each axis by steps of the reciprocal of its scale, as torch does it whatever the size is."""
    dtype = torch.float64 if x.dtype == torch.float64 and mode in _SMOOTH else torch.float32
    copies = mode in ("linear", "bilinear", "trilinear") or (mode == "nearest" and x.dim() == 4)
    result = x.to(dtype) if mode in _SMOOTH else x
    for axis, (size, scale) in enumerate(zip(sizes, scales), 2):
        step = torch.scalar_tensor(1.0 / scale, dtype=dtype, device=x.device)
        if copies:  # torch steps by 1 along an axis whose size stays
            step = torch.where(_count(size, x) == _count(x.shape[axis], x), torch.ones_like(step), step)
        if copies and mode == "nearest":
            step = torch.where(_count(size, x) == 2 * _count(x.shape[axis], x), torch.full_like(step, 0.5), step)
        result = _weighted(result, axis, _WINDOWS[mode](torch.arange(size, device=x.device).to(dtype), step))
    return result.to(x.dtype)


def _count(size: Any, x: Any) -> Any:
    """A size as a tensor: to compare it as a number would be a guard."""
    return torch.scalar_tensor(size, dtype=torch.int64, device=x.device)


def _weighted(x: Any, axis: int, windows: Sequence[tuple[Any, Any]]) -> Any:
    """The sum of what stands at indices along an axis, each by its weight (None: taken as it is)."""
    shape = [-1 if at == axis else 1 for at in range(x.dim())]
    total: Any = None
    for index, weight in windows:
        part = x.index_select(axis, index.clamp(min=0, max=x.shape[axis] - 1))
        part = part if weight is None else part * weight.reshape(shape)
        total = part if total is None else total + part
    return total


def _nearest(places: Any, step: Any) -> list[tuple[Any, Any]]:
    return [((places * step).floor().to(torch.int64), None)]


def _nearest_exact(places: Any, step: Any) -> list[tuple[Any, Any]]:
    return [(((places + 0.5) * step).floor().to(torch.int64), None)]


def _linear(places: Any, step: Any) -> list[tuple[Any, Any]]:
    source = (step * (places + 0.5) - 0.5).clamp(min=0)
    index = source.floor()
    return [(index.to(torch.int64), 1 - (source - index)), (index.to(torch.int64) + 1, source - index)]


def _cubic(places: Any, step: Any) -> list[tuple[Any, Any]]:
    source = step * (places + 0.5) - 0.5
    index = source.floor()
    part = source - index
    weights = (_outer(part + 1), _inner(part), _inner(1 - part), _outer(2 - part))
    return [(index.to(torch.int64) + at, weight) for at, weight in zip((-1, 0, 1, 2), weights)]


def _inner(distance: Any) -> Any:
    return ((_A + 2) * distance - (_A + 3)) * distance * distance + 1


def _outer(distance: Any) -> Any:
    return ((_A * distance - 5 * _A) * distance + 8 * _A) * distance - 4 * _A


_WINDOWS: dict[str, Callable[[Any, Any], list[tuple[Any, Any]]]] = {
    "nearest": _nearest,
    "nearest-exact": _nearest_exact,
    "linear": _linear,
    "bilinear": _linear,
    "trilinear": _linear,
    "bicubic": _cubic,
}


def attention(query: Any, key: Any, value: Any, *args: Any, scale: Any = None, **options: Any) -> Any:
    """``F.scaled_dot_product_attention`` with the scale taken into the query."""
    if not symbolic(scale):
        return NotImplemented
    options["scale"] = 1.0
    return F.scaled_dot_product_attention(query * scale, key, value, *args, **options)


def power(base: Any, exponent: Any) -> Any:
    """``torch.pow`` of a tensor with the exponent as a tensor."""
    if not isinstance(base, torch.Tensor) or not symbolic(exponent) or base.is_complex():
        return NotImplemented
    dtype = base.dtype
    if not dtype.is_floating_point:
        dtype = torch.get_default_dtype() if isinstance(exponent, torch.SymFloat) else torch.int64
    return torch.pow(base, torch.scalar_tensor(exponent, dtype=dtype, device=base.device))


FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {
    F.interpolate: interpolate,
    F.scaled_dot_product_attention: attention,
    torch.pow: power,
    torch.Tensor.pow: power,
    torch.Tensor.__pow__: power,
}
"""What is called in place of torch's while a model is captured."""
