"""Pooling by functions: adaptive, by kernels, by kernels that are worked out from sizes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from guarddiff.sweep.catalogue.dims import bounded, named, strict, words
from guarddiff.sweep.catalogue.entry import Entry, module, one, two

AVERAGE, MAXIMUM, AREA = "adaptive average pooling", "adaptive max pooling", "area interpolation"
WINDOWS, GLOBAL, SIZED = "pooling by kernels", "global pooling", "pooling by the input size"


def entries() -> list[Entry]:
    """The entries of this shelf."""
    return [*_average(), *_average_by_sizes(), *_maximum(), *_area(), *_windows(), *_unpooled(), *_global(), *_sized()]


def _average() -> list[Entry]:
    pool1, pool2, pool3 = F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d
    return [
        one(AVERAGE, "1d to 1", lambda x: pool1(x, 1), (2, 3, 8), (2, 3, 13), (1, 3, 4)),
        one(AVERAGE, "1d to 2", lambda x: pool1(x, 2), (2, 3, 8), (2, 3, 16), (1, 3, 11)),
        one(AVERAGE, "1d to 3, does not divide", lambda x: pool1(x, 3), (2, 3, 8), (2, 3, 16), (2, 3, 9)),
        one(AVERAGE, "2d to 1", lambda x: pool2(x, 1).flatten(1), (2, 3, 8, 6), (2, 3, 5, 9), (4, 3, 16, 12)),
        one(AVERAGE, "2d to (2, 3)", lambda x: pool2(x, (2, 3)), (1, 3, 6, 6), (1, 3, 12, 12), (1, 3, 10, 9)),
        one(
            AVERAGE,
            "2d to (2, 3), does not divide",
            lambda x: pool2(x, (2, 3)),
            (1, 3, 7, 8),
            (1, 3, 14, 16),
            (2, 3, 9, 5),
        ),
        one(AVERAGE, "2d to (None, 2)", lambda x: pool2(x, (None, 2)), (1, 3, 6, 8), (1, 3, 12, 16), (1, 3, 7, 8)),
        one(AVERAGE, "2d to (1, None)", lambda x: pool2(x, (1, None)), (1, 3, 6, 8), (1, 3, 12, 16), (1, 3, 6, 5)),
        one(AVERAGE, "2d to (7, 7), larger", lambda x: pool2(x, 7), (1, 3, 5, 4), (1, 3, 7, 7), (1, 3, 10, 8)),
        one(
            AVERAGE,
            "2d to 4, named dimensions",
            lambda x: pool2(x, 4),
            (2, 3, 8, 12),
            (3, 3, 16, 24),
            (2, 3, 9, 13),
            dynamic=named(batch=0, height=2, width=3),
        ),
        one(
            AVERAGE,
            "2d to 2, bounds",
            lambda x: pool2(x, 2),
            (2, 3, 8, 8),
            (2, 3, 16, 12),
            (2, 3, 32, 30),
            dynamic=bounded(8, 64, height=2, width=3),
        ),
        one(AVERAGE, "3d to 1", lambda x: pool3(x, 1), (1, 2, 4, 4, 4), (2, 2, 6, 5, 8), (1, 2, 3, 4, 7)),
        one(AVERAGE, "3d to (2, 2, 2)", lambda x: pool3(x, (2, 2, 2)), (1, 2, 4, 4, 4), (1, 2, 6, 5, 8)),
        one(AVERAGE, "unbatched", lambda x: pool2(x, (2, 2)), (3, 6, 8), (3, 12, 16), (3, 7, 5)),
    ]


def _average_by_sizes() -> list[Entry]:
    pool: Callable[..., torch.Tensor] = F.adaptive_avg_pool2d
    return [
        one(
            AVERAGE,
            "2d to half the size",
            lambda x: pool(x, (x.shape[2] // 2, x.shape[3] // 2)),
            (1, 3, 8, 12),
            (1, 3, 9, 13),
            (1, 3, 16, 10),
        ),
        two(
            AVERAGE,
            "2d to the size of another input",
            lambda x, y: pool(x, y.shape[2:]) + y,
            ((1, 3, 8, 12), (1, 3, 4, 6)),
            ((1, 3, 9, 13), (1, 3, 5, 4)),
            ((1, 3, 20, 18), (1, 3, 10, 9)),
        ),
        one(
            AVERAGE, "1d to a root", lambda x: F.adaptive_avg_pool1d(x, int(x.shape[2] ** 0.5)), (2, 3, 16), (2, 3, 36)
        ),
    ]


def _maximum() -> list[Entry]:
    pool1 = F.adaptive_max_pool1d
    pool2: Callable[..., Any] = F.adaptive_max_pool2d
    return [
        one(MAXIMUM, "1d to 4", lambda x: pool1(x, 4), (2, 3, 8), (2, 3, 16), (2, 3, 11)),
        one(MAXIMUM, "2d to (2, 3)", lambda x: pool2(x, (2, 3)), (1, 3, 6, 6), (1, 3, 12, 12), (1, 3, 7, 8)),
        one(
            MAXIMUM,
            "2d with indices",
            lambda x: pool2(x, (2, 3), return_indices=True),
            (1, 3, 6, 6),
            (1, 3, 12, 12),
            (1, 3, 8, 9),
        ),
        one(MAXIMUM, "2d to (None, 2)", lambda x: pool2(x, (None, 2)), (1, 3, 6, 8), (1, 3, 12, 16)),
        one(
            MAXIMUM,
            "2d to half the size",
            lambda x: pool2(x, (x.shape[2] // 2, x.shape[3] // 2)),
            (1, 3, 8, 12),
            (1, 3, 9, 13),
            (1, 3, 16, 10),
        ),
    ]


def _area() -> list[Entry]:
    return [
        one(
            AREA,
            "to (3, 4)",
            lambda x: F.interpolate(x, size=(3, 4), mode="area"),
            (1, 3, 6, 8),
            (1, 3, 12, 16),
            (1, 3, 7, 9),
        ),
        one(
            AREA,
            "by half",
            lambda x: F.interpolate(x, scale_factor=0.5, mode="area"),
            (1, 3, 6, 8),
            (1, 3, 12, 16),
            (1, 3, 9, 7),
        ),
        two(
            AREA,
            "to the size of another input",
            lambda x, y: F.interpolate(x, size=y.shape[-2:], mode="area") * y,
            ((1, 1, 8, 8), (1, 3, 4, 4)),
            ((1, 1, 16, 12), (1, 3, 4, 6)),
        ),
    ]


def _windows() -> list[Entry]:
    image, others = (1, 3, 8, 10), ((1, 3, 9, 13), (2, 3, 16, 11))
    return [
        one(
            WINDOWS,
            "average, ceil mode, padding not counted",
            lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
            image,
            *others,
        ),
        one(WINDOWS, "average, divisor", lambda x: F.avg_pool2d(x, 3, 2, divisor_override=4), image, *others),
        one(WINDOWS, "maximum, ceil mode", lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True), image, *others),
        one(WINDOWS, "maximum, dilated", lambda x: F.max_pool2d(x, 3, 1, 1, dilation=2), image, *others),
        one(WINDOWS, "maximum and its indices", lambda x: F.max_pool2d(x, 2, return_indices=True), image, *others),
        one(WINDOWS, "average of a line", lambda x: F.avg_pool1d(x, 4, 4), (2, 3, 9), (2, 3, 12), (1, 3, 15)),
        one(WINDOWS, "power average", lambda x: F.lp_pool2d(x.abs() + 0.1, 2, 3, 2), image, *others),
        one(
            WINDOWS,
            "average of 3, strict dimensions",
            lambda x: F.avg_pool2d(x, 3, 1, 1),
            (2, 3, 8, 10),
            (2, 3, 9, 13),
            (3, 3, 16, 11),
            dynamic=strict(1, 0, 2, 3),
        ),
    ]


def _unpool_to_size(x: torch.Tensor) -> Any:
    pooled, indices = F.max_pool2d(x, 2, return_indices=True)
    return F.max_unpool2d(pooled.relu(), indices, (2, 2), output_size=x.shape[2:])


def _unpooled() -> list[Entry]:
    return [
        one(WINDOWS, "unpooled to the size before", _unpool_to_size, (1, 2, 6, 8), (1, 2, 7, 9), (2, 2, 8, 6)),
    ]


class GeneralizedMean(nn.Module):
    """GeM pooling as retrieval models have it."""

    def __init__(self) -> None:
        super().__init__()
        self.power = nn.Parameter(torch.full((1,), 3.0))

    def forward(self, x: torch.Tensor) -> Any:
        x = x.clamp(min=1e-2).pow(self.power)
        return F.avg_pool2d(x, (x.size(-2), x.size(-1))).pow(1.0 / self.power).flatten(1)


class MeanAndMaximum(nn.Module):
    """timm's catavgmax."""

    def forward(self, x: torch.Tensor) -> Any:
        return torch.cat([F.adaptive_avg_pool2d(x, 1), F.adaptive_max_pool2d(x, 1)], 1).flatten(1)


def _global() -> list[Entry]:
    image, others = (2, 3, 6, 8), ((2, 3, 12, 16), (3, 3, 7, 5))
    return [
        one(GLOBAL, "mean", lambda x: x.mean((2, 3)), image, *others),
        one(GLOBAL, "sum over the product", lambda x: x.sum((2, 3)) / (x.shape[2] * x.shape[3]), image, *others),
        module(GLOBAL, "generalized mean", GeneralizedMean, image, *others),
        module(GLOBAL, "mean and maximum", MeanAndMaximum, image, *others),
        one(
            GLOBAL,
            "log-sum-exp",
            lambda x: x.flatten(2).logsumexp(2) - math.log(2),
            image,
            *others,
            dynamic=words(batch=0, height=2, width=3),
        ),
    ]


def _sized() -> list[Entry]:
    image, others = (1, 3, 6, 8), ((1, 3, 12, 16), (2, 3, 9, 7))
    return [
        one(SIZED, "average over all", lambda x: F.avg_pool2d(x, x.shape[2:]), image, *others),
        one(SIZED, "average over all, squeezed", lambda x: F.avg_pool2d(x, x.shape[2:])[:, :, 0, 0], image, *others),
        one(SIZED, "maximum over all", lambda x: F.max_pool2d(x, x.shape[2:]), image, *others),
        one(SIZED, "average over halves", lambda x: F.avg_pool2d(x, x.shape[2] // 2), image, *others),
        one(SIZED, "average over a rounded half", lambda x: F.avg_pool2d(x, round(x.shape[2] / 2)), image, *others),
        one(SIZED, "maximum over time", lambda x: F.max_pool1d(x, x.size(2)).squeeze(2), (2, 3, 8), (2, 3, 12)),
        one(
            SIZED,
            "average over all, named dimensions",
            lambda x: F.avg_pool2d(x, x.shape[2:]),
            (2, 3, 6, 8),
            (2, 3, 12, 16),
            (3, 3, 9, 7),
            dynamic=named(batch=0, height=2, width=3),
        ),
        one(
            SIZED,
            "windows by ceil, stride by floor",
            lambda x: F.max_pool2d(x, math.ceil(x.shape[2] / 3), x.shape[2] // 3),
            (1, 3, 6, 6),
            (1, 3, 9, 9),
            (1, 3, 8, 8),
        ),
    ]
