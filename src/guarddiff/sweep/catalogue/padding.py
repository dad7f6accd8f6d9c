"""Padding, cropping, rolling and flipping, by sizes."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from guarddiff.sweep.catalogue.dims import named, strict, words
from guarddiff.sweep.catalogue.entry import Entry, Of, module, one, two

MODES, MULTIPLES, SAME, CROPS, MOVED = (
    "padding modes",
    "padding to a multiple",
    "padding to the same size",
    "cropping",
    "rolling and flipping",
)


def entries() -> list[Entry]:
    """The entries of this shelf."""
    return [*_modes(), *_multiples(), *_same(), *_to_sizes(), *_crops(), *_moved()]


def _padded(pad: tuple[int, ...], mode: str) -> Of:
    return Of(lambda x: F.pad(x, pad, mode))


def _modes() -> list[Entry]:
    image, others = (1, 2, 6, 8), ((1, 2, 7, 5), (2, 2, 12, 9))
    both = (1, 2, 3, 0)
    return [
        module(MODES, "zeros", lambda: _padded(both, "constant"), image, *others),
        module(MODES, "reflected", lambda: _padded(both, "reflect"), image, *others),
        module(MODES, "circular", lambda: _padded(both, "circular"), image, *others),
        one(MODES, "negative", lambda x: F.pad(x, (-1, -2, 2, -1)), image, *others),
        module(
            MODES,
            "circular convolution",
            lambda: nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular"),
            image,
            *others,
        ),
        module(
            MODES,
            "reflecting convolution",
            lambda: nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect"),
            (2, 2, 6, 8),
            (2, 2, 7, 5),
            (3, 2, 12, 9),
            dynamic=strict(1, 0, 2, 3),
        ),
    ]


def _by_remainder(x: torch.Tensor) -> Any:
    height, width = x.shape[-2:]
    return F.pad(x, (0, (4 - width % 4) % 4, 0, (4 - height % 4) % 4))


def _where_needed(x: torch.Tensor) -> Any:
    height, width = x.shape[-2:]
    right, below = (4 - width % 4) % 4, (4 - height % 4) % 4
    if right > 0 or below > 0:
        x = F.pad(x, (0, right, 0, below))
    return x


def _by_int_of_ceil(x: torch.Tensor) -> Any:
    length = x.shape[1]
    return F.pad(x, (0, int(math.ceil(length / 8)) * 8 - length))


def _half_each_side(x: torch.Tensor) -> Any:
    height, width = x.shape[-2:]
    down, across = -height % 8, -width % 8
    return F.pad(x, (across // 2, across - across // 2, down // 2, down - down // 2), mode="replicate")


def _into_chunks(x: torch.Tensor) -> Any:
    """Padded to whole chunks, cut, summed within them, and cut to the length again, as chunked attention does."""
    batch, length, features = x.shape
    padded = F.pad(x, (0, 0, 0, -length % 4))
    chunks = padded.view(batch, -1, 4, features)
    return (chunks + chunks.mean(2, keepdim=True)).view(batch, -1, features)[:, :length]


def _multiples() -> list[Entry]:
    image, others = (1, 2, 8, 12), ((1, 2, 7, 9), (2, 2, 10, 16))
    row, rows = (2, 8), ((2, 9), (3, 11))
    return [
        one(MULTIPLES, "by remainder", _by_remainder, image, *others),
        one(MULTIPLES, "only where needed", _where_needed, image, *others),
        one(
            MULTIPLES,
            "only where needed, example that needs it",
            _where_needed,
            (1, 2, 7, 9),
            (1, 2, 8, 12),
            (2, 2, 5, 6),
        ),
        one(MULTIPLES, "by int of ceil", _by_int_of_ceil, row, *rows),
        one(MULTIPLES, "by negative floor", lambda x: F.pad(x, (0, -(-x.shape[1] // 4) * 4 - x.shape[1])), row, *rows),
        one(MULTIPLES, "half on each side", _half_each_side, (1, 2, 8, 12), (1, 2, 13, 9), (2, 2, 10, 16)),
        one(
            MULTIPLES,
            "into chunks and back, words",
            _into_chunks,
            (2, 9, 3),
            (2, 8, 3),
            (2, 15, 3),
            dynamic=words(length=1),
        ),
    ]


class SameConvolution(nn.Module):
    """Convolution with the padding of TensorFlow, worked out from the size as EfficientNets do."""

    def __init__(self, kernel: int, stride: int) -> None:
        super().__init__()
        self.kernel, self.stride = kernel, stride
        self.conv = nn.Conv2d(2, 3, kernel, stride)

    def _missing(self, size: int) -> int:
        return max((math.ceil(size / self.stride) - 1) * self.stride + self.kernel - size, 0)

    def forward(self, x: torch.Tensor) -> Any:
        down, across = self._missing(x.shape[-2]), self._missing(x.shape[-1])
        return self.conv(F.pad(x, (across // 2, across - across // 2, down // 2, down - down // 2)))


class SameConvolutionByFloor(SameConvolution):
    """The same in whole numbers."""

    def _missing(self, size: int) -> int:
        return max((-(size // -self.stride) - 1) * self.stride + self.kernel - size, 0)


class SamePooling(SameConvolution):
    """The same for max pooling, only where padding is needed, as EfficientDet does."""

    def forward(self, x: torch.Tensor) -> Any:
        down, across = self._missing(x.shape[-2]), self._missing(x.shape[-1])
        if down > 0 or across > 0:
            pad = (across // 2, across - across // 2, down // 2, down - down // 2)
            x = F.pad(x, pad, value=-float("inf"))
        return F.max_pool2d(x, self.kernel, self.stride)


class Causal(nn.Module):
    """Causal convolution: padded on the left, dilated."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(3, 4, 3, dilation=2)

    def forward(self, x: torch.Tensor) -> Any:
        return self.conv(F.pad(x, (4, 0)))


class CausalByCropping(nn.Module):
    """Causal convolution as TCN has it: padded on both sides, the end cut off."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(3, 4, 3, padding=4, dilation=2)

    def forward(self, x: torch.Tensor) -> Any:
        return self.conv(x)[:, :, : x.shape[2]] + self.conv(x)[:, :, :-4].relu()


def _same() -> list[Entry]:
    image, others = (1, 2, 8, 12), ((1, 2, 7, 9), (2, 2, 15, 16))
    return [
        module(SAME, "convolution of 3 by 2", lambda: SameConvolution(3, 2), image, *others),
        module(SAME, "convolution of 3 by 2, whole numbers", lambda: SameConvolutionByFloor(3, 2), image, *others),
        module(SAME, "pooling of 3 by 2", lambda: SamePooling(3, 2), image, *others),
        module(SAME, "convolution, same by torch", lambda: nn.Conv2d(2, 3, 4, padding="same"), image, *others),
        module(SAME, "causal by cropping", CausalByCropping, (2, 3, 9), (2, 3, 12), (1, 3, 6)),
    ]


def _to_square(x: torch.Tensor) -> Any:
    height, width = x.shape[-2:]
    side = max(height, width)
    return F.pad(x, (0, side - width, 0, side - height))


def _skip(x: torch.Tensor, y: torch.Tensor) -> Any:
    """The decoder of the well-known U-Net: padded to the skip connection by the difference."""
    down, across = y.size(2) - x.size(2), y.size(3) - x.size(3)
    x = F.pad(x, [across // 2, across - across // 2, down // 2, down - down // 2])
    return torch.cat([y, x], dim=1)


def _to_sizes() -> list[Entry]:
    return [
        one(SAME, "to a square", _to_square, (1, 2, 6, 9), (1, 2, 9, 12), (1, 2, 10, 7)),
        one(SAME, "to a length of 8, or cut", lambda x: F.pad(x, (0, 8 - x.shape[1])), (2, 5), (2, 8), (3, 12)),
        two(
            SAME,
            "to a skip connection",
            _skip,
            ((1, 2, 4, 6), (1, 3, 6, 9)),
            ((1, 2, 4, 6), (1, 3, 4, 6)),
            ((2, 2, 5, 6), (2, 3, 8, 7)),
        ),
        two(
            SAME,
            "negative where the other is smaller",
            lambda x, y: F.pad(x, ((y.shape[1] - x.shape[1]) // 2, 0)),
            ((2, 8), (2, 4)),
            ((2, 8), (2, 5)),
            ((2, 9), (2, 4)),
        ),
    ]


def _middle(x: torch.Tensor, height: int, width: int) -> Any:
    top, left = (x.shape[-2] - height) // 2, (x.shape[-1] - width) // 2
    return x[..., top : top + height, left : left + width]


def _middle_rounded(x: torch.Tensor) -> Any:
    """As torchvision's centre crop: half-integers rounded to even."""
    top, left = int(round((x.shape[-2] - 4) / 2.0)), int(round((x.shape[-1] - 4) / 2.0))
    return x[..., top : top + 4, left : left + 4]


def _crops() -> list[Entry]:
    image, others = (1, 2, 8, 10), ((1, 2, 9, 13), (2, 2, 7, 6))
    return [
        one(CROPS, "middle 4 by 4", lambda x: _middle(x, 4, 4), image, *others),
        one(CROPS, "middle 4 by 4, rounded", _middle_rounded, image, *others),
        two(
            CROPS,
            "to the size of another, from the middle",
            lambda x, y: torch.cat([_middle(x, y.shape[2], y.shape[3]), y], 1),
            ((1, 2, 8, 10), (1, 3, 4, 6)),
            ((1, 2, 9, 13), (1, 3, 4, 5)),
            ((2, 2, 7, 7), (2, 3, 7, 7)),
        ),
        two(
            CROPS,
            "to the shorter of two",
            lambda x, y: x[:, : min(x.shape[1], y.shape[1])] + y[:, : min(x.shape[1], y.shape[1])],
            ((2, 5), (2, 8)),
            ((2, 9), (2, 6)),
            ((3, 7), (3, 7)),
        ),
        one(CROPS, "down to even", lambda x: x[:, :, : x.shape[2] // 2 * 2, : x.shape[3] // 2 * 2], image, *others),
        one(CROPS, "last 4", lambda x: x[:, -4:], (2, 9), (2, 6), (3, 12), dynamic=named(batch=0, length=1)),
    ]


def _moved() -> list[Entry]:
    image, others = (1, 2, 6, 8), ((1, 2, 7, 5), (2, 2, 12, 9))
    return [
        one(MOVED, "rolled by 2", lambda x: x.roll((-2, 3), (2, 3)), image, *others),
        one(
            MOVED,
            "spectrum centred",
            lambda x: torch.roll(x, (x.shape[2] // 2, x.shape[3] // 2), (2, 3)),
            (2, 2, 6, 8),
            (2, 2, 7, 5),
            (3, 2, 12, 9),
            dynamic=named(batch=0, height=2, width=3),
        ),
        one(MOVED, "turned by a quarter", lambda x: x.rot90(1, (2, 3)), image, *others),
        one(
            MOVED,
            "temporal shift",
            lambda x: torch.cat([F.pad(x[:, 1:, :2], (0, 0, 0, 0, 0, 1)), x[:, :, 2:]], 2),
            (2, 5, 4, 3),
            (2, 8, 4, 3),
            (1, 3, 4, 3),
        ),
    ]
