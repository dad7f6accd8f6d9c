"""Branches and loops on sizes."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from guarddiff.sweep.catalogue.dims import bounded, named
from guarddiff.sweep.catalogue.entry import Entry, module, one, two

BRANCH, LOOP, RESIZE = "branches on sizes", "loops over a dimension", "resized where sizes differ"


def entries() -> list[Entry]:
    """The entries of this shelf."""
    return [*_branches(), *_pairs(), *_branches_of_modules(), *_loops(), *_loops_of_modules(), *_resized()]


def _checked(x: torch.Tensor) -> Any:
    if x.shape[1] % 2 != 0:
        raise ValueError("an even number of columns is needed")
    return x.reshape(x.shape[0], 2, -1)


def _normed(x: torch.Tensor) -> Any:
    """Normalized over the batch, but not where there is one row only."""
    return (x - x.mean(0)) / (x.std(0) + 1) if x.shape[0] > 1 else x


def _branches() -> list[Entry]:
    return [
        one(BRANCH, "longer than", lambda x: x * 2 if x.shape[1] > 4 else x + 1, (2, 3), (2, 8), (3, 5)),
        one(
            BRANCH,
            "longer than, on the same side",
            lambda x: x * 2 if x.shape[1] > 4 else x + 1,
            (2, 6),
            (2, 8),
            (3, 5),
        ),
        one(BRANCH, "even", lambda x: x * 2 if x.shape[1] % 2 == 0 else x + 1, (2, 4), (2, 7), (3, 8)),
        one(BRANCH, "square", lambda x: x.mT + 1 if x.shape[0] == x.shape[1] else x.mT * 2, (3, 4), (5, 5), (3, 7)),
        one(BRANCH, "an odd size refused", _checked, (2, 4), (2, 8), (3, 6)),
        one(BRANCH, "batch of one apart", _normed, (2, 3), (1, 3), (4, 3)),
        one(BRANCH, "batch of one as the example", _normed, (1, 3), (2, 3), (4, 3)),
        one(
            BRANCH,
            "longer than, within its bounds",
            lambda x: x * 2 if x.shape[1] > 4 else x + 1,
            (6, 6),
            (8, 12),
            (7, 5),
            dynamic=bounded(5, 16, rows=0, columns=1),
        ),
    ]


def _broadcast(x: torch.Tensor, y: torch.Tensor) -> Any:
    if y.shape[0] != x.shape[0]:
        y = y.expand(x.shape[0], -1)
    return x * y


def _equal(x: torch.Tensor, y: torch.Tensor) -> Any:
    return x + y if x.shape[1] == y.shape[1] else torch.cat([x, y], 1)


def _longer_first(x: torch.Tensor, y: torch.Tensor) -> Any:
    return torch.cat([x, y], 1) if x.shape[1] >= y.shape[1] else torch.cat([y, x], 1)


def _pairs() -> list[Entry]:
    return [
        two(
            BRANCH,
            "batch of a prompt, equal in the example",
            _broadcast,
            ((2, 3), (2, 3)),
            ((4, 3), (1, 3)),
            ((4, 3), (4, 3)),
        ),
        two(BRANCH, "equal lengths added", _equal, ((2, 4), (2, 4)), ((2, 6), (2, 6)), ((2, 4), (2, 7))),
        two(BRANCH, "the longer first", _longer_first, ((2, 5), (2, 3)), ((2, 4), (2, 7)), ((3, 6), (3, 2))),
    ]


class Hybrid(nn.Module):
    """Linear or quadratic attention, whichever costs less for the length."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(8, 24)

    def forward(self, x: torch.Tensor) -> Any:
        query, key, value = self.project(x).chunk(3, -1)
        query, key = query.softmax(-1), key.softmax(1)
        if x.shape[1] > x.shape[2]:
            return query @ (key.transpose(1, 2) @ value)
        return query @ key.transpose(1, 2) @ (value * 2)


class Cut(nn.Module):
    """A table of positions, and longer inputs cut to it."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(8, 4))

    def forward(self, x: torch.Tensor) -> Any:
        if x.shape[1] > 8:
            x = x[:, :8]
        return x + self.table[: x.shape[1]]


class Cached(nn.Module):
    """Coordinates kept for one size, and worked out anew for others."""

    grid: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("grid", self._made(4, 4))

    @staticmethod
    def _made(height: int, width: int) -> torch.Tensor:
        rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        return torch.stack([columns, rows]).float()

    def forward(self, x: torch.Tensor) -> Any:
        grid = self.grid
        if grid.shape[1:] != x.shape[2:]:
            grid = self._made(x.shape[2], x.shape[3])
        return x[:, :2].sigmoid() + grid


class Growing(nn.Module):
    """Sines kept for a length and grown where the input is longer, as rotary embeddings were of old."""

    def __init__(self) -> None:
        super().__init__()
        self.longest = 0
        self.table = torch.zeros(0)

    def forward(self, x: torch.Tensor) -> Any:
        if x.shape[1] > self.longest:
            self.longest = 16
            self.table = torch.arange(16).float().sin()
        return x + self.table[: x.shape[1]]


def _branches_of_modules() -> list[Entry]:
    return [
        module(BRANCH, "linear or quadratic attention", Hybrid, (2, 5, 8), (2, 12, 8), (1, 7, 8)),
        module(BRANCH, "cut to a table", Cut, (2, 6, 4), (2, 10, 4), (1, 8, 4)),
        module(BRANCH, "coordinates kept, native size", Cached, (2, 3, 4, 4), (2, 3, 5, 6), (1, 3, 8, 4)),
        module(BRANCH, "sines grown at the first call", Growing, (2, 6), (2, 10), (3, 4)),
    ]


def _halved(x: torch.Tensor) -> Any:
    while x.shape[1] > 3:
        x = F.avg_pool1d(x.unsqueeze(1), 2, ceil_mode=True).squeeze(1)
    return x.sum(1)


def _running(x: torch.Tensor) -> Any:
    """A running sum by hand, step by step."""
    state, found = torch.zeros(x.shape[0]), []
    for step in range(x.shape[1]):
        state = 0.9 * state + x[:, step]
        found.append(state)
    return torch.stack(found, 1)


def _by_one(x: torch.Tensor) -> Any:
    """Images of a batch one by one, put together again."""
    return torch.cat([F.softmax(x[i : i + 1], dim=1) for i in range(x.shape[0])])


def _chunked(x: torch.Tensor) -> Any:
    return torch.cat([chunk.cumsum(1) for chunk in torch.split(x, 4, dim=1)], 1)


def _zipped(x: torch.Tensor, y: torch.Tensor) -> Any:
    return sum(a * b for a, b in zip(x.chunk(2, 1), y.chunk(2, 1)))


def _loops() -> list[Entry]:
    return [
        one(LOOP, "unbind", lambda x: x.unbind(1), (2, 3), (2, 6), (4, 3)),
        one(LOOP, "for row in x", lambda x: sum(row * 2 for row in x), (3, 4), (6, 4), (3, 7)),
        one(LOOP, "range of a size", lambda x: torch.stack([x[:, i] for i in range(x.shape[1])]), (2, 3), (2, 6)),
        one(LOOP, "running sum", _running, (2, 4), (2, 8), (3, 5)),
        one(LOOP, "images one by one", _by_one, (2, 3, 4), (4, 3, 4), (1, 3, 4)),
        one(LOOP, "chunks of 4", _chunked, (2, 8), (2, 12), (2, 6)),
        one(LOOP, "halved while longer", _halved, (2, 8), (2, 5), (3, 16)),
        two(
            LOOP,
            "zip of chunks, named",
            _zipped,
            ((2, 4), (2, 4)),
            ((2, 6), (2, 6)),
            ((3, 8), (3, 8)),
            dynamic=named(2, rows=0, columns=1),
        ),
    ]


class Recurrence(nn.Module):
    """A cell applied step by step, with the batch dynamic only."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(7, 4)

    def forward(self, x: torch.Tensor) -> Any:
        state = x.new_zeros(x.shape[0], 4)
        for step in range(x.shape[1]):
            state = self.mix(torch.cat([x[:, step], state], 1)).tanh()
        return state


class Shared(nn.Module):
    """One head for every frame of a clip, all at once."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Conv2d(2, 3, 3, padding=1)

    def forward(self, x: torch.Tensor) -> Any:
        return self.head(x.flatten(0, 1)).unflatten(0, x.shape[:2])


def _loops_of_modules() -> list[Entry]:
    return [
        module(LOOP, "recurrence, length fixed", Recurrence, (2, 5, 3), (1, 5, 3), (4, 5, 3)),
        module(LOOP, "all frames at once", Shared, (2, 3, 2, 5, 6), (2, 5, 2, 5, 6), (1, 3, 2, 8, 6)),
    ]


class Resized(nn.Module):
    """Half and back, resized where an odd size lost a row."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(2, 4, 3, 2, 1), nn.ConvTranspose2d(4, 2, 2, 2)

    def forward(self, x: torch.Tensor) -> Any:
        up = self.up(self.down(x))
        if up.shape[2:] != x.shape[2:]:
            up = F.interpolate(up, size=x.shape[2:])
        return torch.cat([x, up], dim=1)


class Padded(Resized):
    """Padded to an even size first, where it is odd, and cut to the size in the end."""

    def forward(self, x: torch.Tensor) -> Any:
        height, width = x.shape[2:]
        if height % 2 or width % 2:
            x = F.pad(x, (0, width % 2, 0, height % 2))
        return self.up(self.down(x))[:, :, :height, :width]


class Projected(nn.Module):
    """A shortcut that is pooled where the body made the map smaller."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Conv2d(2, 2, 3, 2, 1)

    def forward(self, x: torch.Tensor) -> Any:
        out = self.body(x)
        if out.shape != x.shape:
            x = F.avg_pool2d(x, 2, 2, ceil_mode=True, count_include_pad=False)
        return out + x


def _like(x: torch.Tensor, y: torch.Tensor) -> Any:
    if x.shape[-2:] != y.shape[-2:]:
        x = F.interpolate(x, size=y.shape[-2:], mode="bilinear")
    return torch.cat([x, y], 1)


def _resized() -> list[Entry]:
    return [
        module(RESIZE, "after an odd size", Resized, (1, 2, 8, 8), (1, 2, 9, 8), (2, 2, 12, 16)),
        module(RESIZE, "after an odd size, odd in the example", Resized, (1, 2, 9, 7), (1, 2, 8, 8), (2, 2, 11, 13)),
        module(RESIZE, "padded to even and cut", Padded, (1, 2, 8, 8), (1, 2, 9, 8), (2, 2, 12, 15)),
        module(RESIZE, "shortcut pooled", Projected, (1, 2, 8, 8), (1, 2, 9, 8), (2, 2, 12, 16)),
        two(
            RESIZE,
            "like another, equal in the example",
            _like,
            ((1, 2, 8, 8), (1, 2, 8, 8)),
            ((1, 2, 5, 4), (1, 2, 9, 6)),
        ),
    ]
