"""Python's arithmetic on sizes: numbers in the sum, in the shape and in the slice."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from guarddiff.sweep.catalogue.dims import named, words
from guarddiff.sweep.catalogue.entry import Entry, module, one, two

FACTORS, SLICES, SHAPES, TENSORS, FILLED = (
    "sizes as factors",
    "sizes in slices",
    "sizes in shapes",
    "sizes as tensors",
    "tensors made by size",
)


def entries() -> list[Entry]:
    """The entries of this shelf."""
    return [*_whole(), *_real(), *_slices(), *_shapes(), *_tensors(), *_filled(), *_modules()]


def _divided(x: torch.Tensor) -> Any:
    whole, rest = divmod(x.shape[1], 3)
    return x * whole + rest


def _whole() -> list[Entry]:
    row, rows = (2, 4), ((2, 8), (3, 7))
    return [
        one(FACTORS, "int", lambda x: x * int(x.shape[1]), row, *rows),
        one(FACTORS, "floor and remainder", _divided, row, *rows),
        one(FACTORS, "greatest of two", lambda x: x * max(x.shape[1], 5), row, *rows),
        one(FACTORS, "number of elements", lambda x: x.sum() / x.numel(), row, *rows),
        one(FACTORS, "number of bits", lambda x: x * x.shape[1].bit_length(), row, *rows),
        one(FACTORS, "length by len", lambda x: x * len(x), row, *rows),
    ]


def _real() -> list[Entry]:
    row, rows = (2, 4), ((2, 8), (3, 7))
    return [
        one(FACTORS, "float", lambda x: x * float(x.shape[1]), row, *rows),
        one(FACTORS, "math.sqrt", lambda x: x / math.sqrt(x.shape[1]), row, *rows),
        one(FACTORS, "power of a half", lambda x: x * x.shape[1] ** 0.5, row, *rows),
        one(FACTORS, "math.log", lambda x: x * math.log(x.shape[1]), row, *rows),
        one(FACTORS, "int of math.log2", lambda x: x * int(math.log2(x.shape[1])), row, *rows),
        one(FACTORS, "math.floor", lambda x: x * math.floor(x.shape[1] * 0.6), row, *rows),
        one(FACTORS, "math.ceil", lambda x: x * math.ceil(x.shape[1] / 3), row, *rows),
        one(FACTORS, "round of a half", lambda x: x * round(x.shape[1] / 2), row, *rows),
        one(FACTORS, "int of a product", lambda x: x * int(x.shape[1] * 0.7), row, *rows),
        one(FACTORS, "int of math.sqrt", lambda x: x * int(math.sqrt(x.shape[1])), (2, 9), (2, 16), (3, 25)),
        one(FACTORS, "math.sqrt, named", lambda x: x / math.sqrt(x.shape[1]), row, *rows, dynamic=named(n=0, d=1)),
        one(FACTORS, "half, named", lambda x: x * (x.shape[1] // 2), row, *rows, dynamic=named(n=0, d=1)),
    ]


def _middle_row(x: torch.Tensor) -> Any:
    return x[:, x.shape[1] // 2] + x[:, (x.shape[1] - 1) // 2]


def _kept(x: torch.Tensor) -> Any:
    """Token pruning: the first and the best of the rest are kept."""
    keep = math.ceil(0.7 * (x.shape[1] - 1))
    index = x[:, 1:].mean(-1).topk(keep, dim=1).indices
    return torch.cat([x[:, :1], x[:, 1:].gather(1, index.unsqueeze(-1).expand(-1, -1, x.shape[-1]))], 1)


def _slices() -> list[Entry]:
    row, rows = (2, 4), ((2, 8), (3, 7))
    return [
        one(SLICES, "to half", lambda x: x[:, : x.shape[1] // 2], row, *rows),
        one(SLICES, "to int of half", lambda x: x[:, : int(0.5 * x.shape[1])], row, *rows),
        one(SLICES, "the middle", _middle_row, row, *rows),
        one(SLICES, "best int of half", lambda x: x.topk(int(0.5 * x.shape[1]), dim=1).values, row, *rows),
        one(SLICES, "at most 6 best", lambda x: x.topk(min(6, x.shape[1]), dim=1).values, row, *rows),
        one(SLICES, "tokens kept by ceil", _kept, (2, 9, 4), (2, 17, 4), (1, 12, 4)),
    ]


def _grid_from_tokens(x: torch.Tensor) -> Any:
    """Tokens back to a square map, with its side by the root."""
    batch, tokens, features = x.shape
    side = int(math.sqrt(tokens))
    return F.avg_pool2d(x.transpose(1, 2).reshape(batch, features, side, side), 2)


def _shapes() -> list[Entry]:
    return [
        one(SHAPES, "flattened by a product", lambda x: x.view(x.shape[0] * x.shape[1], -1), (2, 3, 4), (3, 5, 4)),
        one(SHAPES, "square map from tokens", _grid_from_tokens, (2, 16, 3), (2, 36, 3), (1, 64, 3)),
        one(
            SHAPES,
            "batch put aside",
            lambda x: torch.unflatten(x.flatten(0, 1).cumsum(-1), 0, (x.shape[0], x.shape[1])),
            (2, 3, 4),
            (3, 5, 4),
            (1, 2, 4),
        ),
        one(
            SHAPES,
            "halves, words",
            lambda x: x.view(x.shape[0], 2, x.shape[1] // 2),
            (2, 4),
            (2, 8),
            (3, 6),
            dynamic=words(rows=0, columns=1),
        ),
    ]


def _tensors() -> list[Entry]:
    row, rows = (2, 4), ((2, 8), (3, 7))
    return [
        one(TENSORS, "torch.tensor of a size", lambda x: x * torch.tensor(x.shape[1]), row, *rows),
        one(TENSORS, "a shape as a tensor", lambda x: x.sum() + torch.as_tensor(x.shape), row, *rows),
        one(
            TENSORS, "root of a tensor", lambda x: x / torch.tensor(x.shape[1], dtype=torch.float32).sqrt(), row, *rows
        ),
        one(TENSORS, "new tensor", lambda x: x / x.new_tensor([x.shape[1]]), row, *rows),
        one(TENSORS, "width and height as a scale", _normalized, (2, 3, 8, 6), (2, 3, 10, 12), (1, 3, 5, 9)),
    ]


def _normalized(x: torch.Tensor) -> Any:
    """Boxes as fractions of the image, with its sizes as a tensor."""
    scale = torch.tensor([x.shape[3], x.shape[2], x.shape[3], x.shape[2]], dtype=x.dtype)
    return x.flatten(2)[..., :4] / scale


def _positions(x: torch.Tensor) -> Any:
    return x + torch.arange(x.shape[1], dtype=x.dtype)


def _diagonal(x: torch.Tensor) -> Any:
    return x @ torch.eye(x.shape[1]) + torch.full((x.shape[1],), 1.0 / x.shape[1])


def _from_the_end(x: torch.Tensor) -> Any:
    return x * torch.arange(x.shape[1] - 1, -1, -1)


def _filled() -> list[Entry]:
    row, rows = (2, 4), ((2, 8), (3, 7))
    return [
        one(FILLED, "arange backwards", _from_the_end, row, *rows),
        one(FILLED, "arange of half steps", lambda x: torch.arange(0, x.shape[1] / 2, 0.5) + x[:, :1], row, *rows),
        one(FILLED, "linspace", lambda x: x + torch.linspace(0, 1, x.shape[1]), row, *rows),
        one(
            FILLED, "linspace of centres", lambda x: x * torch.linspace(0.5, x.shape[1] - 0.5, 4)[None, :1], row, *rows
        ),
        one(FILLED, "ones, upper triangle", lambda x: torch.ones(x.shape[1], x.shape[1]).triu() * x[0], row, *rows),
        one(FILLED, "eye and full", _diagonal, row, *rows),
        one(FILLED, "arange, named", _positions, row, *rows, dynamic=named(n=0, d=1)),
    ]


class Scaled(nn.Module):
    """Attention with a scale of the logarithm of the length, as long-context models have it."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(4, 12)

    def forward(self, x: torch.Tensor) -> Any:
        query, key, value = self.project(x).chunk(3, -1)
        scale = math.log(x.shape[1]) / math.log(8) / math.sqrt(query.shape[-1])
        return (query @ key.transpose(1, 2) * scale).softmax(-1) @ value


class Energy(nn.Module):
    """SimAM: an energy of each place, by the number of places."""

    def forward(self, x: torch.Tensor) -> Any:
        n = x.shape[2] * x.shape[3] - 1
        squared = (x - x.mean((2, 3), keepdim=True)) ** 2
        return x * (squared / (4 * (squared.sum((2, 3), keepdim=True) / n + 1e-4)) + 0.5).sigmoid()


def _modules() -> list[Entry]:
    image, others = (2, 3, 6, 8), ((2, 3, 9, 5), (1, 3, 12, 16))
    return [
        module(FACTORS, "attention by the logarithm of the length", Scaled, (2, 8, 4), (2, 16, 4), (1, 5, 4)),
        module(FACTORS, "energy of places", Energy, image, *others),
        two(
            FACTORS,
            "Gram matrix",
            lambda x, y: x.flatten(1) @ y.flatten(1).T / (x.shape[1] * x.shape[2]),
            ((2, 3, 4), (2, 3, 4)),
            ((2, 6, 5), (2, 6, 5)),
            ((3, 2, 4), (3, 2, 4)),
            dynamic=named(2, channels=0, height=1, width=2),
        ),
        two(
            SLICES,
            "offset between two",
            lambda x, y: x[:, x.shape[1] - y.shape[1] :] + y,
            ((2, 8), (2, 5)),
            ((2, 9), (2, 3)),
            ((3, 4), (3, 4)),
        ),
    ]
