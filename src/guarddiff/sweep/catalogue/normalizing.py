"""Normalizing: norms by torch and by hand, statistics by size, softmax over sizes, losses."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from guarddiff.sweep.catalogue.dims import named, strict, words
from guarddiff.sweep.catalogue.entry import Entry, module, one, two

NORM, HAND, STATISTICS, SOFTMAX, LOSS = (
    "norms by torch",
    "norms by hand",
    "statistics",
    "softmax over sizes",
    "losses and similarities",
)
LINE, LINES = (2, 5, 4), ((2, 9, 4), (3, 4, 4), (1, 7, 4))
MAP, MAPS = (2, 4, 5, 6), ((2, 4, 8, 3), (1, 4, 9, 10))
ROW, ROWS = (3, 6), ((3, 9), (5, 4), (2, 7))


def entries() -> list[Entry]:
    """The entries of this shelf."""
    return [*_norms(), *_functional(), *_by_hand(), *_statistics(), *_order(), *_softmax(), *_losses(), *_weights()]


class Root(nn.Module):
    """LLaMA's RMS norm."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4))

    def forward(self, x: torch.Tensor) -> Any:
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class Channels(nn.Module):
    """A layer norm over the channels of a map, axes moved there and back (ConvNeXt)."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4)

    def forward(self, x: torch.Tensor) -> Any:
        return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def _norms() -> list[Entry]:
    sound, sounds = (2, 4, 6), ((2, 4, 9), (3, 4, 5), (1, 4, 8))
    return [
        module(NORM, "layer", lambda: nn.LayerNorm(4), LINE, *LINES),
        module(NORM, "layer, batch of one", lambda: nn.LayerNorm(4), (1, 5, 4), *LINES[:2]),
        module(NORM, "root mean square", lambda: nn.RMSNorm(4), LINE, *LINES),
        module(NORM, "group", lambda: nn.GroupNorm(2, 4), MAP, *MAPS),
        module(NORM, "group, batch of one", lambda: nn.GroupNorm(2, 4), (1, 4, 5, 6), (2, 4, 8, 3), (3, 4, 9, 10)),
        module(NORM, "group of one", lambda: nn.GroupNorm(1, 4), sound, *sounds),
        module(NORM, "instance of a map", lambda: nn.InstanceNorm2d(4, affine=True), MAP, *MAPS),
        module(NORM, "instance of a line", lambda: nn.InstanceNorm1d(4), sound, *sounds),
        module(
            NORM, "instance, running statistics", lambda: nn.InstanceNorm2d(4, track_running_stats=True), MAP, *MAPS
        ),
        module(NORM, "batch", lambda: nn.BatchNorm2d(4), MAP, *MAPS),
        module(NORM, "batch of a line", lambda: nn.BatchNorm1d(4), sound, *sounds),
        module(NORM, "local response", lambda: nn.LocalResponseNorm(3), MAP, *MAPS),
        module(NORM, "channels of a map", Channels, MAP, *MAPS),
        module(
            NORM, "layer, words", lambda: nn.LayerNorm(4), LINE, (3, 9, 4), (4, 7, 4), dynamic=words(batch=0, steps=1)
        ),
        module(
            NORM,
            "group, strict",
            lambda: nn.GroupNorm(2, 4),
            MAP,
            (3, 4, 8, 3),
            (4, 4, 9, 10),
            dynamic=strict(1, 0, 2, 3),
        ),
    ]


def _functional() -> list[Entry]:
    return [
        one(NORM, "layer over the rest of the axes", lambda x: F.layer_norm(x, x.shape[1:]), MAP, *MAPS),
        one(NORM, "layer over a dynamic axis", lambda x: F.layer_norm(x, (x.shape[-1],)), ROW, *ROWS),
        one(
            NORM,
            "layer over an axis, batch alone",
            lambda x: F.layer_norm(x, x.shape[1:]),
            MAP,
            (1, 4, 5, 6),
            (5, 4, 5, 6),
        ),
        one(NORM, "root mean square over a dynamic axis", lambda x: F.rms_norm(x, (x.shape[-1],)), ROW, *ROWS),
        one(NORM, "instance by function", lambda x: F.instance_norm(x), MAP, *MAPS),
        one(NORM, "batch by function", lambda x: F.batch_norm(x, None, None, training=True), MAP, *MAPS),
        one(NORM, "instance by batch norm", _instance_by_batch, MAP, *MAPS),
        one(NORM, "group, as many as channels", lambda x: F.group_norm(x, x.shape[1]), MAP, *MAPS),
    ]


def _instance_by_batch(x: torch.Tensor) -> Any:
    """All rows of the batch as channels of one."""
    b, c, h, w = x.shape
    return F.batch_norm(x.reshape(1, b * c, h, w), None, None, training=True).view(b, c, h, w)


def _standard(x: torch.Tensor) -> Any:
    return (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 1e-5)


def _by_count(x: torch.Tensor) -> Any:
    n = x.shape[1]
    mean = x.sum(1, keepdim=True) / n
    return (x - mean) / (((x - mean) ** 2).sum(1, keepdim=True) / (n - 1) + 1e-5).sqrt()


def _batch_by_count(x: torch.Tensor) -> Any:
    n = x.numel() / x.size(1)
    mean = x.sum((0, 2, 3), keepdim=True) / n
    return (x - mean) * ((x - mean).pow(2).sum((0, 2, 3), keepdim=True) / n + 1e-5).rsqrt()


def _groups(x: torch.Tensor) -> Any:
    b, c, h, w = x.shape
    grouped = x.view(b, 2, -1)
    grouped = (grouped - grouped.mean(2, keepdim=True)) / (grouped.var(2, keepdim=True) + 1e-5).sqrt()
    return grouped.view(b, c, h, w)


def _global_response(x: torch.Tensor) -> Any:
    """ConvNeXt v2."""
    size = torch.norm(x, p=2, dim=(2, 3), keepdim=True)
    return x * (size / (size.mean(1, keepdim=True) + 1e-6)) + x


def _so_far(x: torch.Tensor) -> Any:
    """Cumulative layer norm of speech separation."""
    count = torch.arange(1, x.shape[1] + 1).view(1, -1, 1) * x.shape[2]
    mean = x.sum(2, keepdim=True).cumsum(1) / count
    power = x.pow(2).sum(2, keepdim=True).cumsum(1) / count
    return (x - mean) / (power - mean**2 + 0.1).sqrt()


def _reversible(x: torch.Tensor) -> Any:
    """RevIN: normalized, the last step carried on, put back."""
    mean, deviation = x.mean(1, keepdim=True), x.var(1, keepdim=True, unbiased=False).add(1e-5).sqrt()
    scaled = (x - mean) / deviation
    return (scaled + scaled[:, -1:]) * deviation + mean


def _adaptive_instance(x: torch.Tensor, y: torch.Tensor) -> Any:
    """AdaIN: the statistics of another map."""
    centred = (x - x.mean((2, 3), keepdim=True)) / (x.std((2, 3), keepdim=True) + 1e-3)
    return centred * y.std((2, 3), keepdim=True) + y.mean((2, 3), keepdim=True)


def _minibatch_deviation(x: torch.Tensor) -> Any:
    """StyleGAN: the deviation over the batch as one more channel."""
    b, _, h, w = x.shape
    deviation = (x - x.mean(0)).square().mean(0).add(1e-6).sqrt().mean()
    return torch.cat([x, deviation.view(1, 1, 1, 1).expand(b, 1, h, w)], 1)


def _by_hand() -> list[Entry]:
    maps = (((2, 4, 5, 6), (2, 4, 5, 6)), ((2, 4, 8, 3), (2, 4, 4, 7)), ((1, 4, 9, 10), (1, 4, 6, 6)))
    return [
        module(HAND, "root mean square", Root, LINE, *LINES),
        one(HAND, "standard", _standard, LINE, *LINES),
        one(HAND, "by count", _by_count, LINE, *LINES),
        one(HAND, "batch by count", _batch_by_count, MAP, *MAPS),
        one(HAND, "groups by view", _groups, MAP, *MAPS),
        one(HAND, "global response", _global_response, MAP, *MAPS),
        one(HAND, "mean and variance so far", _so_far, LINE, *LINES),
        one(HAND, "reversible", _reversible, LINE, *LINES),
        two(HAND, "statistics of another map, example of equal sizes", _adaptive_instance, *maps),
        one(HAND, "deviation over the batch", _minibatch_deviation, MAP, *MAPS),
        one(HAND, "least and greatest", _least_greatest, LINE, *LINES),
        one(HAND, "by count, named", _by_count, LINE, (3, 9, 4), (4, 7, 4), dynamic=named(batch=0, steps=1)),
    ]


def _least_greatest(x: torch.Tensor) -> Any:
    low, high = x.amin((1, 2), keepdim=True), x.amax((1, 2), keepdim=True)
    return (x - low) / (high - low)


def _statistics() -> list[Entry]:
    functions = {
        "mean of all": lambda x: x.mean(),
        "mean of two axes": lambda x: x.mean((0, 1)),
        "variance": lambda x: x.var(1),
        "variance of all": lambda x: x.var(),
        "variance, biased": lambda x: x.var(1, unbiased=False),
        "variance, correction of two": lambda x: torch.var(x, (1, 2), correction=2),
        "deviation of two axes": lambda x: x.std((0, 1), keepdim=True) * x,
        "deviation and mean": lambda x: torch.std_mean(x, dim=1),
        "variance and mean of all": lambda x: torch.var_mean(x),
        "error of the mean": lambda x: x.std(1) / math.sqrt(x.shape[1]),
        "skewness": lambda x: ((x - x.mean(1, keepdim=True)) ** 3).mean(1) / x.std(1) ** 3,
        "norm": lambda x: torch.linalg.vector_norm(x, dim=1) / x.shape[1] ** 0.5,
        "norm of matrices": lambda x: torch.linalg.matrix_norm(x),
        "product": lambda x: x.sigmoid().prod(1),
        "sum of logarithms": lambda x: x.logsumexp(1) - math.log(x.shape[1]),
        "range": lambda x: torch.stack(torch.aminmax(x, dim=1)),
    }
    return [one(STATISTICS, name, function, LINE, *LINES) for name, function in functions.items()]


def _order() -> list[Entry]:
    return [
        one(STATISTICS, "median", lambda x: x.median(1).values, LINE, (2, 9, 4), (3, 3, 4)),
        one(STATISTICS, "median by sorting", lambda x: x.sort(1).values[:, (x.shape[1] - 1) // 2], LINE, *LINES),
        one(STATISTICS, "quantile", lambda x: x.quantile(0.3, dim=1), LINE, *LINES),
        one(STATISTICS, "quantiles", lambda x: torch.quantile(x, torch.tensor([0.25, 0.5]), dim=1), LINE, *LINES),
        one(STATISTICS, "trimmed mean", _trimmed, (2, 8, 4), (2, 12, 4), (3, 6, 4)),
    ]


def _trimmed(x: torch.Tensor) -> Any:
    cut = x.shape[1] // 4
    return x.sort(1).values[:, cut : x.shape[1] - cut].mean(1)


def _spatial(x: torch.Tensor) -> Any:
    """Softmax over all places of a map."""
    return x.view(*x.size()[:2], -1).softmax(2).view_as(x)


def _entropy(x: torch.Tensor) -> Any:
    """Entropy as a part of the greatest there can be."""
    chances = x.softmax(-1)
    return -(chances * chances.log()).sum(-1) / math.log(x.shape[-1])


def _gumbel_free(x: torch.Tensor) -> Any:
    """Sinkhorn: rows and columns in turn."""
    for _ in range(3):
        x = x.log_softmax(-1).log_softmax(-2)
    return x.exp()


def _sparsemax(x: torch.Tensor) -> Any:
    values = x.sort(-1, descending=True).values
    sums = values.cumsum(-1) - 1
    count = torch.arange(1, x.shape[-1] + 1)
    kept = (values * count > sums).sum(-1, keepdim=True)
    return (x - sums.gather(-1, kept - 1) / kept).clamp(min=0)


def _softmax() -> list[Entry]:
    return [
        one(SOFTMAX, "softmax", lambda x: x.softmax(1), LINE, *LINES),
        one(SOFTMAX, "softmax of the batch", lambda x: F.softmax(x, 0), LINE, *LINES),
        one(SOFTMAX, "log softmax", lambda x: F.log_softmax(x, dim=1), LINE, *LINES),
        one(SOFTMAX, "softmin", lambda x: F.softmin(x, 1), LINE, *LINES),
        one(SOFTMAX, "places of a map", _spatial, MAP, *MAPS),
        one(SOFTMAX, "by the root of the size", lambda x: (x / math.sqrt(x.shape[1])).softmax(1), ROW, *ROWS),
        one(SOFTMAX, "entropy", _entropy, ROW, *ROWS),
        one(SOFTMAX, "uniform mixed in", lambda x: 0.9 * x.softmax(-1) + 0.1 / x.shape[-1], ROW, *ROWS),
        one(SOFTMAX, "rows and columns in turn", _gumbel_free, ROW, *ROWS),
        one(SOFTMAX, "sparsemax", _sparsemax, ROW, *ROWS),
        one(
            SOFTMAX,
            "softmax, named",
            lambda x: x.softmax(1),
            LINE,
            (3, 9, 4),
            (4, 7, 4),
            dynamic=named(batch=0, steps=1),
        ),
    ]


def _labels(place: int, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.randint(0, 4, shape) if place else torch.randn(shape)


def _contrastive(x: torch.Tensor, y: torch.Tensor) -> Any:
    scores = F.normalize(x, dim=1) @ F.normalize(y, dim=1).t() / 0.5
    return F.cross_entropy(scores, torch.arange(x.shape[0]))


def _dice(x: torch.Tensor, y: torch.Tensor) -> Any:
    first, second = x.sigmoid().flatten(1), y.sigmoid().flatten(1)
    return 1 - (2 * (first * second).sum(1) + 1) / (first.sum(1) + second.sum(1) + 1)


def _correlation(x: torch.Tensor, y: torch.Tensor) -> Any:
    first, second = x - x.mean(1, keepdim=True), y - y.mean(1, keepdim=True)
    return (first * second).sum(1) / (first.norm(dim=1) * second.norm(dim=1) + 1e-6)


def _losses() -> list[Entry]:
    same = (((3, 5), (3, 5)), ((4, 7), (4, 7)), ((2, 9), (2, 9)))
    classes = (((3, 5), (3,)), ((4, 5), (4,)), ((7, 5), (7,)))
    steps = (((2, 5, 4), (2, 5)), ((3, 7, 4), (3, 7)), ((2, 3, 4), (2, 3)))
    functions: dict[str, Callable[..., Any]] = {
        "mean squared error": F.mse_loss,
        "smooth L1": F.smooth_l1_loss,
        "cosine": lambda x, y: F.cosine_similarity(x, y, dim=1),
        "cosine of the batch": lambda x, y: F.cosine_similarity(x, y, dim=0),
        "pairwise distance": F.pairwise_distance,
        "binary with logits": lambda x, y: F.binary_cross_entropy_with_logits(x, y.sigmoid()),
        "divergence": lambda x, y: F.kl_div(x.log_softmax(1), y.softmax(1), reduction="batchmean"),
        "dice": _dice,
        "correlation": _correlation,
        "contrastive": _contrastive,
    }
    return [
        *(two(LOSS, name, function, *same) for name, function in functions.items()),
        two(LOSS, "cross entropy", F.cross_entropy, *classes, fill=_labels),
        two(
            LOSS,
            "cross entropy of steps",
            lambda x, y: F.cross_entropy(x.flatten(0, 1), y.view(-1)),
            *steps,
            fill=_labels,
        ),
        two(
            LOSS,
            "cross entropy of steps, axes turned",
            lambda x, y: F.cross_entropy(x.transpose(1, 2), y),
            *steps,
            fill=_labels,
        ),
        one(LOSS, "normalized", lambda x: F.normalize(x, dim=1), LINE, *LINES),
        one(LOSS, "normalized over all", lambda x: F.normalize(x.flatten(1), dim=1).view_as(x), LINE, *LINES),
        one(LOSS, "cosines of all rows", lambda x: F.normalize(x, dim=-1) @ F.normalize(x, dim=-1).mT, LINE, *LINES),
    ]


class Standardized(nn.Conv2d):
    """A convolution whose weight is standardized in every call."""

    def forward(self, x: torch.Tensor) -> Any:
        weight = self.weight - self.weight.mean((1, 2, 3), keepdim=True)
        weight = weight / (weight.std((1, 2, 3), keepdim=True) + 1e-5)
        return F.conv2d(x, weight, self.bias, self.stride, self.padding)


class Demodulated(nn.Module):
    """StyleGAN2: a convolution with weights of every row's own, as groups of one batch."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 4, 3, 3) / 6)

    def forward(self, x: torch.Tensor, style: torch.Tensor) -> Any:
        b, c, h, w = x.shape
        weight = self.weight.unsqueeze(0) * style.view(b, 1, c, 1, 1)
        weight = weight * torch.rsqrt(weight.pow(2).sum((2, 3, 4), keepdim=True) + 1e-5)
        return F.conv2d(x.reshape(1, b * c, h, w), weight.view(b * 3, c, 3, 3), padding=1, groups=b).view(b, 3, h, w)


def _weights() -> list[Entry]:
    return [
        module(HAND, "weights standardized", lambda: Standardized(4, 3, 3, padding=1), MAP, *MAPS),
        module(
            HAND,
            "weights parametrized",
            lambda: nn.utils.parametrizations.weight_norm(nn.Conv1d(4, 3, 3)),
            (2, 4, 6),
            (2, 4, 9),
            (3, 4, 5),
        ),
        Entry(
            HAND, "weights of every row", Demodulated, (MAP, (2, 4)), (((2, 4, 8, 3), (2, 4)), ((3, 4, 5, 6), (3, 4)))
        ),
        Entry(
            HAND,
            "weights of every row, batch fixed",
            Demodulated,
            (MAP, (2, 4)),
            (((2, 4, 8, 3), (2, 4)), ((2, 4, 9, 7), (2, 4))),
        ),
    ]
