"""What torch exports silently wrong, pattern by pattern: a model, an example, and sizes at which it has to be right.

All dimensions of all inputs are declared ``Dim.AUTO`` unless ``shapes`` says otherwise. ``others`` are shapes of the
inputs (a tuple for each) that eager PyTorch accepts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Pattern:
    """``group`` is the operator that the figures are gathered under; ``fill`` makes an input of a shape (by its
    position); None gives normal random numbers."""

    group: str
    name: str
    make: Callable[[], nn.Module]
    example: Shapes
    others: tuple[Shapes, ...]
    fill: Callable[[int, tuple[int, ...]], torch.Tensor] | None = None
    shapes: Any = None

    def inputs(self, shapes: Shapes) -> tuple[torch.Tensor, ...]:
        """Inputs of these shapes, the same in every run."""
        torch.manual_seed(0)
        fill = self.fill or _normal
        return tuple(fill(place, shape) for place, shape in enumerate(shapes))


def _normal(place: int, shape: tuple[int, ...]) -> torch.Tensor:
    del place
    return torch.randn(shape)


class Of(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


class OfTwo(Of):
    """The same for two inputs."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:  # type: ignore[override]
        return self.function(x, y)


def _one(
    group: str, name: str, function: Callable[..., Any], example: tuple[int, ...], *others: tuple[int, ...], **more: Any
) -> Pattern:
    return Pattern(group, name, lambda: Of(function), (example,), tuple((other,) for other in others), **more)


def _two(group: str, name: str, function: Callable[..., Any], example: Shapes, *others: Shapes, **more: Any) -> Pattern:
    return Pattern(group, name, lambda: OfTwo(function), example, others, **more)


def _adaptive() -> Sequence[Pattern]:
    average, maximum = "adaptive average pooling", "adaptive max pooling"
    return [
        _one(average, "1d to 2", lambda x: F.adaptive_avg_pool1d(x, 2), (2, 3, 8), (2, 3, 16), (1, 3, 11)),
        _one(average, "1d to 3, does not divide", lambda x: F.adaptive_avg_pool1d(x, 3), (2, 3, 8), (2, 3, 16)),
        _one(average, "2d to (2, 3)", lambda x: F.adaptive_avg_pool2d(x, (2, 3)), (1, 3, 6, 6), (1, 3, 12, 12)),
        _one(
            average,
            "2d to (2, 3), does not divide",
            lambda x: F.adaptive_avg_pool2d(x, (2, 3)),
            (1, 3, 7, 8),
            (1, 3, 14, 16),
            (2, 3, 9, 5),
        ),
        _one(average, "2d to (None, 2)", lambda x: F.adaptive_avg_pool2d(x, (None, 2)), (1, 3, 6, 8), (1, 3, 12, 16)),
        _one(average, "2d to (1, None)", lambda x: F.adaptive_avg_pool2d(x, (1, None)), (1, 3, 6, 8), (1, 3, 12, 16)),
        _one(average, "2d to (7, 7)", lambda x: F.adaptive_avg_pool2d(x, (7, 7)), (1, 3, 7, 7), (1, 3, 14, 14)),
        _one(
            average,
            "2d to half the height",
            lambda x: F.adaptive_avg_pool2d(x, (x.shape[2] // 2, x.shape[3] // 2)),
            (1, 3, 8, 12),
            (1, 3, 9, 13),
            (1, 3, 16, 10),
        ),
        _two(
            average,
            "2d to another input's size",
            lambda x, y: F.adaptive_avg_pool2d(x, y.shape[2:]) + y,
            ((1, 3, 8, 12), (1, 3, 4, 6)),
            ((1, 3, 9, 13), (1, 3, 5, 4)),
        ),
        _one(
            average, "3d to (2, 2, 2)", lambda x: F.adaptive_avg_pool3d(x, (2, 2, 2)), (1, 2, 4, 4, 4), (1, 2, 6, 5, 8)
        ),
        _one(
            average,
            "area interpolation to a size",
            lambda x: F.interpolate(x, size=(3, 4), mode="area"),
            (1, 3, 6, 8),
            (1, 3, 12, 16),
            (1, 3, 7, 9),
        ),
        _one(
            average,
            "area interpolation by a scale",
            lambda x: F.interpolate(x, scale_factor=0.5, mode="area"),
            (1, 3, 6, 8),
            (1, 3, 12, 16),
        ),
        Pattern(average, "pyramid pooling", Pyramid, ((1, 4, 12, 12),), (((1, 4, 18, 24),), ((2, 4, 13, 15),))),
        Pattern(average, "head of a VGG", Head, ((1, 3, 28, 28),), (((1, 3, 32, 40),), ((3, 3, 56, 28),))),
        Pattern(average, "coordinate attention", Coordinates, ((1, 4, 6, 8),), (((2, 4, 9, 5),), ((1, 4, 12, 16),))),
        _one(maximum, "1d", lambda x: F.adaptive_max_pool1d(x, 4), (2, 3, 8), (2, 3, 16)),
        _one(maximum, "2d", lambda x: F.adaptive_max_pool2d(x, (2, 3)), (1, 3, 6, 6), (1, 3, 12, 12), (1, 3, 7, 8)),
        _one(
            maximum,
            "2d with indices",
            lambda x: F.adaptive_max_pool2d(x, (2, 3), return_indices=True),
            (1, 3, 6, 6),
            (1, 3, 12, 12),
        ),
        _one(maximum, "2d to (None, 2)", lambda x: F.adaptive_max_pool2d(x, (None, 2)), (1, 3, 6, 8), (1, 3, 12, 16)),
        _one(maximum, "3d", lambda x: F.adaptive_max_pool3d(x, 2), (1, 2, 4, 4, 4), (1, 2, 6, 5, 8)),
    ]


class Pyramid(nn.Module):
    """Pyramid pooling as in PSPNet."""

    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList(
            nn.Sequential(nn.AdaptiveAvgPool2d(size), nn.Conv2d(4, 2, 1)) for size in (1, 2, 3, 6)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pooled = [F.interpolate(stage(x), size=x.shape[2:], mode="bilinear") for stage in self.stages]
        return torch.cat([x, *pooled], dim=1)


class Head(nn.Module):
    """Convolution, pooling to 7×7, classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.MaxPool2d(2))
        self.avgpool, self.classifier = nn.AdaptiveAvgPool2d((7, 7)), nn.Linear(4 * 49, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))


class Coordinates(nn.Module):
    """Coordinate attention: means along each axis, joined, split again."""

    def __init__(self) -> None:
        super().__init__()
        self.rows, self.columns = nn.AdaptiveAvgPool2d((None, 1)), nn.AdaptiveAvgPool2d((1, None))
        self.mix = nn.Conv2d(4, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        height, width = x.shape[2:]
        joined = self.mix(torch.cat([self.rows(x), self.columns(x).transpose(2, 3)], dim=2))
        down, across = torch.split(joined, [height, width], dim=2)
        return x * down.sigmoid() * across.transpose(2, 3).sigmoid()


def _whole(place: int, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.randint(0, 3, shape) if place else torch.randn(shape)


def _captured() -> Sequence[Pattern]:
    pool, numbers, branch = "pooling by the input's size", "sizes as numbers", "branches on sizes"
    return [
        _two(
            "bucketize",
            "boundaries as an input",
            lambda x, y: torch.bucketize(x, y.sort().values),
            ((2, 5), (3,)),
            ((2, 5), (6,)),
            ((4, 2), (1,)),
        ),
        _two("kron", "two matrices", torch.kron, ((2, 3), (4, 5)), ((4, 6), (8, 10)), ((1, 3), (2, 2))),
        _one(pool, "average over all", lambda x: F.avg_pool2d(x, x.shape[2:]), (1, 3, 6, 8), (1, 3, 12, 16)),
        _one(pool, "maximum over all", lambda x: F.max_pool2d(x, x.shape[2:]), (1, 3, 6, 8), (1, 3, 12, 16)),
        _one(pool, "average over halves", lambda x: F.avg_pool2d(x, x.shape[2] // 2), (1, 3, 6, 8), (1, 3, 12, 16)),
        _one("split", "into pieces of two", lambda x: x.split(2, dim=1), (3, 6), (3, 12)),
        _one("tensor_split", "into three", lambda x: torch.tensor_split(x, 3, dim=1), (2, 6), (2, 7), (2, 9)),
        _one("loops over a dimension", "unbind", lambda x: x.unbind(1), (2, 3), (2, 6)),
        _one("loops over a dimension", "for row in x", lambda x: sum(row * 2 for row in x), (3, 4), (6, 4)),
        _one(
            "loops over a dimension",
            "range of a size",
            lambda x: torch.stack([x[:, i] for i in range(x.shape[1])]),
            (2, 3),
            (2, 6),
        ),
        Pattern("nn.RNN", "dynamic length", Recurrent, ((2, 5, 3),), (((2, 10, 3),), ((3, 4, 3),))),
        Pattern("loops over a dimension", "LSTMCell", Cells, ((5, 2, 3),), (((10, 2, 3),),)),
        _two(
            "multi_dot", "multi_dot", lambda x, y: torch.linalg.multi_dot([x, y, x]), ((2, 3), (3, 2)), ((4, 5), (5, 4))
        ),
        _two("multi_dot", "chain_matmul", lambda x, y: torch.chain_matmul(x, y, x), ((2, 3), (3, 2)), ((4, 5), (5, 4))),
        _two(
            "affine_grid",
            "by a shape",
            lambda x, y: F.grid_sample(x, F.affine_grid(y, x.shape)),
            ((2, 3, 8, 10), (2, 2, 3)),
            ((2, 3, 12, 10), (2, 2, 3)),
        ),
        _one("values by size", "linspace", lambda x: x + torch.linspace(0, 1, x.shape[1]), (2, 5), (2, 9)),
        _one("values by size", "hann_window", lambda x: x * torch.hann_window(x.shape[1]), (2, 8), (2, 12)),
        _one("values by size", "tril_indices", lambda x: torch.tril_indices(x.shape[0], x.shape[0]), (4, 4), (6, 6)),
        _two(
            "values by size",
            "one_hot",
            lambda x, y: F.one_hot(y, x.shape[1]),
            ((2, 4), (3,)),
            ((2, 8), (5,)),
            fill=_whole,
        ),
        _one(numbers, "math.sqrt", lambda x: x / math.sqrt(x.shape[1]), (2, 4), (2, 8)),
        _one(numbers, "float", lambda x: x * float(x.shape[1]), (2, 4), (2, 8)),
        _one(numbers, "int", lambda x: x * int(x.shape[1]), (2, 4), (2, 8)),
        _one(numbers, "as_tensor of a shape", lambda x: x.sum() + torch.as_tensor(x.shape), (2, 4), (2, 8), (3, 5)),
        _one(numbers, "slice to int of half", lambda x: x[:, : int(0.5 * x.shape[1])], (2, 4), (2, 8), (2, 7)),
        _one(numbers, "topk of int of half", lambda x: x.topk(int(0.5 * x.shape[1]), dim=1).values, (2, 4), (2, 8)),
        _one(
            numbers,
            "scale to int of size",
            lambda x: F.interpolate(x, size=(int(x.shape[2] * 1.5), int(x.shape[3] * 0.29))),
            (1, 2, 8, 100),
            (1, 2, 12, 200),
            (1, 2, 7, 300),
        ),
        Pattern(numbers, "windows put together", Windows, ((1, 8, 12, 3),), (((1, 16, 24, 3),), ((2, 8, 4, 3),))),
        Pattern(
            numbers,
            "position embedding by scales",
            Positions,
            ((1, 3, 16, 24),),
            (((1, 3, 32, 48),), ((2, 3, 24, 24),)),
        ),
        _one(branch, "longer than", lambda x: x * 2 if x.shape[1] > 4 else x + 1, (2, 3), (2, 8)),
        _one(branch, "even", lambda x: x * 2 if x.shape[1] % 2 == 0 else x + 1, (2, 4), (2, 7)),
        _one(branch, "square", lambda x: x.mT + 1 if x.shape[0] == x.shape[1] else x.mT * 2, (3, 4), (5, 5)),
        Pattern(
            branch,
            "position embedding, native size as it is",
            Native,
            ((2, 3, 16, 16),),
            (((2, 3, 24, 24),), ((1, 3, 16, 32),)),
        ),
        Pattern(branch, "resize where sizes differ", Resized, ((1, 2, 8, 8),), (((1, 2, 9, 8),), ((2, 2, 12, 16),))),
        Pattern("batch of one", "encoder of two layers", Encoder, ((1, 5, 8),), (((2, 5, 8),), ((3, 7, 8),))),
        _one(
            "Fourier transform",
            "length given",
            lambda x: torch.view_as_real(torch.fft.fft(x, n=x.shape[1])),
            (2, 7),
            (2, 14),
        ),
    ]


class Recurrent(nn.Module):
    """A plain recurrent net, both results."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.RNN(3, 4, batch_first=True)

    def forward(self, x: torch.Tensor) -> Any:
        return self.rnn(x)


class Cells(nn.Module):
    """A loop over the steps with a cell."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(3, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state, memory = x.new_zeros(x.shape[1], 4), x.new_zeros(x.shape[1], 4)
        steps = []
        for step in x:
            state, memory = self.cell(step, (state, memory))
            steps.append(state)
        return torch.stack(steps)


class Windows(nn.Module):
    """Cut into windows of 4×4 and put together again, with the batch worked out as Swin does."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, h, w, c = x.shape
        cut = x.view(b, h // 4, 4, w // 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 4, 4, c) * 2
        batch = int(cut.shape[0] / (h * w / 4 / 4))
        return cut.view(batch, h // 4, w // 4, 4, 4, -1).permute(0, 1, 3, 2, 4, 5).reshape(batch, h, w, -1)


class Positions(nn.Module):
    """Position embedding stretched by scales that are worked out from the sizes, as ViT and DINO do."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.table = nn.Conv2d(3, 8, 4, 4), nn.Parameter(torch.randn(1, 8, 4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = self.embed(x)
        scale = ((tokens.shape[2] + 0.1) / 4, (tokens.shape[3] + 0.1) / 4)
        return tokens + F.interpolate(self.table, scale_factor=scale, mode="bicubic")


class Native(nn.Module):
    """Position embedding that is stretched only where the size is not the native one."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.table = nn.Conv2d(3, 8, 4, 4), nn.Parameter(torch.randn(1, 8, 4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens, table = self.embed(x), self.table
        if tokens.shape[2:] != table.shape[2:]:
            table = F.interpolate(table, size=tokens.shape[2:], mode="bicubic")
        return tokens + table


class Resized(nn.Module):
    """Half and back, resized where an odd size lost a row."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(2, 4, 3, 2, 1), nn.ConvTranspose2d(4, 2, 2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        up = self.up(self.down(x))
        if up.shape[2:] != x.shape[2:]:
            up = F.interpolate(up, size=x.shape[2:])
        return torch.cat([x, up], dim=1)


class Encoder(nn.Module):
    """A transformer's encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.encoder(x)


def _index(place: int, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.arange(math.prod(shape)).reshape(shape) % 2 if place else torch.randn(shape)


def _translated() -> Sequence[Pattern]:
    resize, scatter = "interpolation", "scatter"
    return [
        _one("squeeze", "example of one", lambda x: x.squeeze(1), (2, 1, 3), (2, 2, 3), (3, 4, 3)),
        _two(
            scatter,
            "scatter",
            lambda x, y: torch.zeros(3, 4).scatter(0, y, x),
            ((3, 4), (3, 4)),
            ((3, 4), (2, 4)),
            fill=_index,
        ),
        _two(
            scatter,
            "scatter_add",
            lambda x, y: torch.zeros(3, 4).scatter_add(0, y, x),
            ((3, 4), (3, 4)),
            ((3, 4), (2, 4)),
            fill=_index,
        ),
        _two(
            scatter,
            "scatter_reduce, maximum",
            lambda x, y: torch.zeros(3, 4).scatter_reduce(0, y, x, "amax"),
            ((3, 4), (3, 4)),
            ((3, 4), (2, 4)),
            fill=_index,
        ),
        _one(
            resize,
            "antialiased, half",
            lambda x: F.interpolate(x, scale_factor=0.5, mode="bilinear", antialias=True),
            (1, 2, 6, 8),
            (1, 2, 7, 9),
        ),
        _one(
            resize,
            "nearest-exact",
            lambda x: F.interpolate(x, scale_factor=0.7, mode="nearest-exact"),
            (1, 2, 8, 10),
            (1, 2, 7, 9),
            (1, 2, 16, 11),
        ),
        _one(
            "floor division",
            "rounded up",
            lambda x: F.pad(x, (0, -(-x.shape[1] // 4) * 4 - x.shape[1])),
            (2, 8),
            (2, 9),
            (2, 11),
        ),
        _two(
            "floor division",
            "negative padding",
            lambda x, y: F.pad(x, ((y.shape[1] - x.shape[1]) // 2, 0)),
            ((2, 8), (2, 4)),
            ((2, 8), (2, 5)),
            ((2, 9), (2, 4)),
        ),
        _two(
            "repeat_interleave",
            "count from a size",
            lambda x, y: x.repeat_interleave(y.shape[1], dim=0),
            ((1, 3), (1, 4)),
            ((2, 3), (2, 4)),
            ((1, 3), (1, 6)),
        ),
    ]


def every() -> list[Pattern]:
    """All patterns."""
    return [*_adaptive(), *_captured(), *_translated()]
