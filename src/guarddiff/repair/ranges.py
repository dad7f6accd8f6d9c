"""Evenly spaced values, windows and indices of triangles by a size, which their capture makes a number.

Conditions on the size (one element, none) are tensors of the model: as Python's they would be guards.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from guarddiff.core.stage import Stage
from guarddiff.repair.registry import Refusal, Repair, release
from guarddiff.repair.symbolic import any_symbolic, plain_factory, same, symbolic


def linspace(start: Any, end: Any, steps: Any, **options: Any) -> Any:
    """``torch.linspace`` from ``arange``: counted from the start in the first half, from the end in the second, as
    there. Whole-number dtypes are left to it: what they give hangs on how it rounds."""
    dtype, device = options.get("dtype") or torch.get_default_dtype(), options.get("device")
    if not any_symbolic((start, end, steps)) or not plain_factory(options) or not dtype.is_floating_point:
        return NotImplemented
    if any(_complex(number) for number in (start, end)):
        return NotImplemented
    first, last = (_scalar(bound, dtype, device).to(_WORKED_OUT_IN.get(dtype, dtype)) for bound in (start, end))
    places = torch.arange(steps, device=device)
    count = _scalar(steps, torch.int64, device)
    step = (last - first) / (count - 1).clamp(min=1).to(first.dtype)
    from_first = first + step * places.to(first.dtype)
    from_last = last - step * (count - 1 - places).to(first.dtype)
    half = torch.div(count, 2, rounding_mode="trunc").clamp(min=1)
    return torch.where(places < half, from_first, from_last).to(dtype)


_WORKED_OUT_IN = dict.fromkeys((torch.float16, torch.bfloat16) if release() >= (2, 15) else (), torch.float32)
"""Since 2.15 torch works out ranges of half precision in single precision."""


def _complex(number: Any) -> bool:
    return isinstance(number, complex) or (isinstance(number, torch.Tensor) and number.is_complex())


def _scalar(number: Any, dtype: torch.dtype, device: Any) -> Any:
    """A tensor of no axes, from a number, a size or such a tensor."""
    if isinstance(number, torch.Tensor):
        return number.to(device=device, dtype=dtype)
    return torch.full((), number, dtype=dtype, device=device)


def logspace(start: Any, end: Any, steps: Any, base: float = 10.0, **options: Any) -> Any:
    """``torch.logspace`` as a power of ``linspace``."""
    dtype = options.get("dtype") or torch.get_default_dtype()
    if symbolic(base):
        return NotImplemented
    exponents = linspace(start, end, steps, **options)
    if exponents is NotImplemented:
        return NotImplemented
    return torch.pow(torch.full((), base, dtype=dtype, device=options.get("device")), exponents)


def _window(shape: Callable[..., Any], *names: str) -> Callable[..., Any]:
    """A window function of a size. ``shape``: places, the last place and ``names`` in order, to values; all tensors but
    the last."""

    def window(window_length: Any, periodic: bool = True, *args: float, **options: Any) -> Any:
        more = dict(zip(names, args, strict=False)) | {name: options.pop(name) for name in names if name in options}
        dtype, device = options.get("dtype") or torch.get_default_dtype(), options.get("device")
        if not symbolic(window_length) or not plain_factory(options) or not dtype.is_floating_point:
            return NotImplemented
        count = torch.full((), window_length, dtype=torch.int64, device=device)
        last = (count if periodic else count - 1).clamp(min=1).to(torch.float64)
        values = shape(torch.arange(window_length, device=device).to(torch.float64), last, **more)
        return torch.where(count == 1, torch.ones((), dtype=torch.float64, device=device), values).to(dtype)

    return window


def _hamming(places: Any, last: Any, alpha: float = 0.54, beta: float = 0.46) -> Any:
    return alpha - beta * torch.cos(places * (2 * math.pi / last))


def _hann(places: Any, last: Any) -> Any:
    return _hamming(places, last, 0.5, 0.5)


def _blackman(places: Any, last: Any) -> Any:
    angle = places * (2 * math.pi / last)
    return 0.42 - 0.5 * torch.cos(angle) + 0.08 * torch.cos(2 * angle)


def _bartlett(places: Any, last: Any) -> Any:
    rising = places * (2 / last)
    return torch.where(rising <= 1, rising, 2 - rising)


def tril_indices(row: Any, col: Any, offset: Any = 0, **options: Any) -> Any:
    """``torch.tril_indices`` of a square: the i-th pair by a square root, mended where that is rounded."""
    found = _triangle(row, col, -offset, options)
    return found if found is NotImplemented else torch.stack(found)


def triu_indices(row: Any, col: Any, offset: Any = 0, **options: Any) -> Any:
    """``torch.triu_indices`` of a square: the lower triangle, turned and read from the end."""
    found = _triangle(row, col, offset, options)
    return found if found is NotImplemented else torch.stack([row - 1 - line.flip(0) for line in found])


def _triangle(row: Any, col: Any, below: Any, options: dict[str, Any]) -> Any:
    """Rows and columns of a square's places at least ``below`` under the diagonal."""
    if not symbolic(row) or not same(row, col) or symbolic(below) or below not in (0, 1) or not plain_factory(options):
        return NotImplemented
    dtype = options.get("dtype") or torch.int64
    side = row - below
    places = torch.arange(side * (side + 1) // 2, device=options.get("device"))
    rows = ((torch.sqrt(8 * places.to(torch.float64) + 1) - 1) / 2).floor().to(torch.int64)
    rows = rows - (rows * (rows + 1) // 2 > places).to(torch.int64)
    rows = rows + ((rows + 1) * (rows + 2) // 2 <= places).to(torch.int64)
    columns = places - rows * (rows + 1) // 2
    return (rows + below).to(dtype), columns.to(dtype)


_STAGES: tuple[Stage, ...] = ("declare", "capture")

REPAIRS = (
    Repair(
        name="evenly spaced values by size",
        ops=("linspace", "logspace", "aten.linspace.*", "aten.logspace.*"),
        way="computed from a range as long as the size is when the model runs",
        stages=_STAGES,
        functions={torch.linspace: linspace, torch.logspace: logspace},
    ),
    Repair(
        name="window functions by size",
        ops=("*hann_window*", "*hamming_window*", "*blackman_window*", "*bartlett_window*"),
        way="computed (in float64) from a range as long as the size is when the model runs",
        stages=_STAGES,
        functions={
            torch.hann_window: _window(_hann),
            torch.hamming_window: _window(_hamming, "alpha", "beta"),
            torch.blackman_window: _window(_blackman),
            torch.bartlett_window: _window(_bartlett),
        },
    ),
    Repair(
        name="indices of triangles by size",
        ops=("*tril_indices*", "*triu_indices*"),
        way="computed from a range as long as the triangle is when the model runs; squares, offset 0 and next to it",
        stages=_STAGES,
        functions={torch.tril_indices: tril_indices, torch.triu_indices: triu_indices},
    ),
)

REFUSALS = (
    Refusal(
        ops=("*kaiser_window*",),
        why="a Kaiser window needs a Bessel function, which ONNX does not have",
        way_out="use another window, or give the window to the model as an input",
    ),
)
