"""Average and maximum pooling whose kernel or stride is a size of the input (``F.avg_pool2d(x, x.shape[2:])``).

Capture makes such a kernel a number. Where the kernel is the whole axis, pooling is a reduction; elsewhere the windows
are gathered by indices that are made when the model runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from guarddiff.repair.registry import Repair
from guarddiff.repair.symbolic import any_symbolic, same, symbolic

_sym_min: Any = torch.sym_min


@dataclass(frozen=True)
class _Axis:
    """How one axis is pooled."""

    axis: int
    size: Any
    kernel: Any
    stride: Any
    padding: Any
    dilation: Any

    @property
    def open(self) -> bool:
        """Whether one of its numbers is a size that is not known yet."""
        return any_symbolic((self.kernel, self.stride, self.padding, self.dilation))

    @property
    def whole(self) -> bool:
        """Whether there is one window, and it is all of the axis."""
        return same(self.kernel, self.size) and same(self.padding, 0) and same(self.dilation, 1)

    def windows(self, input: Any, ceil: bool) -> tuple[Any, Any]:
        """The input with the axis replaced by two, window and place in the window; and, with ``ceil``, which of these
        places are in the input: the last window may reach beyond it, and repeats its first element there."""
        spare = self.size - self.dilation * (self.kernel - 1) - 1
        count = (spare + self.stride - 1 if ceil else spare) // self.stride + 1
        if ceil and not (same(self.stride, self.kernel) and same(self.dilation, 1)):
            count = _sym_min(count, (self.size - 1) // self.stride + 1)  # no window begins beyond the input
        starts = (torch.arange(count, device=input.device) * self.stride).unsqueeze(1)
        chosen = starts + (torch.arange(self.kernel, device=input.device) * self.dilation).unsqueeze(0)
        inside = chosen < self.size if ceil else None
        if inside is not None:
            chosen = torch.where(inside, chosen, starts)
        shape = list(input.shape)
        shape[self.axis : self.axis + 1] = [count, self.kernel]
        return input.index_select(self.axis, chosen.reshape(-1)).reshape(shape), inside


def _axes(input: Any, rank: int, kernel: Any, stride: Any, padding: Any, dilation: Any) -> list[_Axis] | None:
    """One axis after the other; None where the arguments are of another form or all known."""
    if input.dim() not in (rank + 1, rank + 2):
        return None
    kernel = _each(kernel, rank)
    stride = kernel if stride is None or _empty(stride) else _each(stride, rank)
    padding, dilation = _each(padding, rank), _each(dilation, rank)
    if kernel is None or stride is None or padding is None or dilation is None:
        return None
    first = input.dim() - rank
    given = zip(input.shape[first:], kernel, stride, padding, dilation, strict=True)
    axes = [_Axis(first + number, *numbers) for number, numbers in enumerate(given)]
    return axes if any(axis.open for axis in axes) else None


def _empty(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and not value


def _each(value: Any, rank: int) -> list[Any] | None:
    if not isinstance(value, (tuple, list)):
        return [value] * rank
    if len(value) == 1:
        return list(value) * rank
    return list(value) if len(value) == rank else None


def _padded(axes: list[_Axis]) -> bool:
    return not all(same(axis.padding, 0) for axis in axes if axis.open)


def _reduced(input: Any, axes: list[_Axis], reduce: Callable[..., Any], ceil: bool) -> Any:
    """The input with the open axes pooled, each by itself; the others are left."""
    whole = [axis.axis for axis in axes if axis.open and axis.whole]
    if whole:
        input = reduce(input, whole, keepdim=True)
    for axis in axes:
        if axis.open and not axis.whole:
            windows, inside = axis.windows(input, ceil)
            input = _over(windows, axis.axis + 1, reduce, inside)
    return input


def _over(windows: Any, place: int, reduce: Callable[..., Any], inside: Any) -> Any:
    """The windows reduced along the axis of places. ``inside``: which places count in sums and means; None: all."""
    if inside is None or reduce is torch.amax:
        return reduce(windows, [place], keepdim=False)
    counted = inside.reshape(*inside.shape, *(1 for _ in windows.shape[place + 1 :]))
    wide = torch.promote_types(windows.dtype, torch.float32)  # a sum of halves may not fit into one
    total = torch.where(counted, windows, 0.0).to(wide).sum(place)
    return (total / counted.sum(1).to(wide) if reduce is torch.mean else total).to(windows.dtype)


def _rest(axes: list[_Axis]) -> dict[str, list[Any]]:
    """Kernel, stride, padding of what is left to the original, which sees windows of one element on open axes."""
    return {
        "kernel_size": [1 if axis.open else axis.kernel for axis in axes],
        "stride": [1 if axis.open else axis.stride for axis in axes],
        "padding": [0 if axis.open else axis.padding for axis in axes],
    }


def _average(rank: int) -> Callable[..., Any]:
    original: Callable[..., Any] = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[rank - 1]

    def avg_pool(
        input: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Any:
        axes = _axes(input, rank, kernel_size, stride, padding, 1)
        if axes is None or _padded(axes) or not input.is_floating_point() or symbolic(divisor_override):
            return NotImplemented
        done = _reduced(input, axes, torch.mean if divisor_override is None else torch.sum, ceil_mode)
        if all(axis.open for axis in axes):
            return done if divisor_override is None else done / divisor_override
        more = {} if divisor_override is None else {"divisor_override": divisor_override}
        return original(done, **_rest(axes), ceil_mode=ceil_mode, count_include_pad=count_include_pad, **more)

    return avg_pool


def _maximum(rank: int, indices_by_default: bool = False) -> Callable[..., Any]:
    original: Callable[..., Any] = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[rank - 1]

    def max_pool(
        input: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = indices_by_default,
    ) -> Any:
        axes = _axes(input, rank, kernel_size, stride, padding, dilation)
        if axes is None or _padded(axes):
            return NotImplemented
        if return_indices:
            return _with_indices(input, axes)
        done = _reduced(input, axes, torch.amax, ceil_mode)
        if all(axis.open for axis in axes):
            return done
        left = [1 if axis.open else axis.dilation for axis in axes]
        return original(done, **_rest(axes), dilation=left, ceil_mode=ceil_mode)

    return max_pool


def _with_indices(input: Any, axes: list[_Axis]) -> Any:
    """Values and flat indices of one window that is the whole input; NotImplemented for others."""
    if not all(axis.whole for axis in axes):
        return NotImplemented
    first = axes[0].axis
    flat = input.reshape(*input.shape[:first], -1)
    shape = [*input.shape[:first], *(1 for _ in axes)]
    return flat.amax(-1).reshape(shape), flat.argmax(-1).reshape(shape)


_WAY = "a reduction over the whole axis, or windows gathered by indices; the kernel is read when the model runs"

REPAIRS = (
    Repair(
        name="average pooling with a kernel of the input's size",
        ops=("avg_pool[123]d", "aten.avg_pool[123]d.*"),
        way=_WAY,
        stages=("declare", "capture"),
        functions={F.avg_pool1d: _average(1), F.avg_pool2d: _average(2), F.avg_pool3d: _average(3)},
    ),
    Repair(
        name="maximum pooling with a kernel of the input's size",
        ops=("max_pool[123]d", "max_pool[123]d_with_indices", "aten.max_pool[123]d.*", "aten.max_pool[123]d_with_*"),
        way=_WAY,
        stages=("declare", "capture"),
        functions={
            F.max_pool1d: _maximum(1),
            F.max_pool2d: _maximum(2),
            F.max_pool3d: _maximum(3),
            torch.max_pool1d: _maximum(1),
            torch.max_pool2d: _maximum(2),
            torch.max_pool3d: _maximum(3),
            torch.max_pool1d_with_indices: _maximum(1, True),
            F.max_pool1d_with_indices: _maximum(1, True),
            F.max_pool2d_with_indices: _maximum(2, True),
            F.max_pool3d_with_indices: _maximum(3, True),
        },
    ),
)
