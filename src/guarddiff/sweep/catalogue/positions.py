"""Positions: tables stretched to the size, sines and coordinates made by it."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from guarddiff.sweep.catalogue.dims import named, strict
from guarddiff.sweep.catalogue.entry import Entry, module

TABLE, RELATIVE, SINES, COORDINATES = (
    "position tables",
    "relative positions",
    "sines and rotations",
    "coordinates by size",
)


def entries() -> list[Entry]:
    """The entries of this shelf."""
    return [*_tables(), *_relative(), *_sines(), *_coordinates()]


class Scales(nn.Module):
    """A table stretched by scales that are worked out from the sizes, with the offset of DINO."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.table = nn.Conv2d(3, 8, 4, 4), nn.Parameter(torch.randn(1, 8, 4, 4))

    def forward(self, x: torch.Tensor) -> Any:
        tokens = self.embed(x)
        scale = ((tokens.shape[2] + 0.1) / 4, (tokens.shape[3] + 0.1) / 4)
        return tokens + F.interpolate(self.table, scale_factor=scale, mode="bicubic")


class Vision(nn.Module):
    """A vision transformer's table with its class token: ``how`` is the way in which it is stretched."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.embed, self.token = nn.Conv2d(3, 8, 4, 4), nn.Parameter(torch.randn(1, 1, 8))
        self.table = nn.Parameter(torch.randn(1, 17, 8))

    def _grid(self) -> torch.Tensor:
        side = int(math.sqrt(self.table.shape[1] - 1))
        return self.table[:, 1:].reshape(1, side, side, 8).permute(0, 3, 1, 2)

    def _stretched(self, x: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        h, w = x.shape[2] // 4, x.shape[3] // 4
        if self.how == "native kept" and tokens.shape[1] == self.table.shape[1] - 1 and h == w:
            return self.table
        if self.how == "square by root":
            h = w = int(math.sqrt(tokens.shape[1]))
        if self.how == "scale and offset":
            scale = ((h + 0.1) / 4.0, (w + 0.1) / 4.0)
            grid = F.interpolate(self._grid(), scale_factor=scale, mode="bicubic", align_corners=False)
        else:
            antialias = self.how == "antialiased"
            grid = F.interpolate(self._grid(), size=(h, w), mode="bicubic", antialias=antialias)
        return torch.cat([self.table[:, :1], grid.permute(0, 2, 3, 1).reshape(1, -1, 8)], 1)

    def forward(self, x: torch.Tensor) -> Any:
        tokens = self.embed(x).flatten(2).transpose(1, 2)
        table = self._stretched(x, tokens)
        return torch.cat([self.token.expand(x.shape[0], -1, -1), tokens], 1) + table


class Native(nn.Module):
    """A table that is stretched only where the size is not the native one."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.table = nn.Conv2d(3, 8, 4, 4), nn.Parameter(torch.randn(1, 8, 4, 4))

    def forward(self, x: torch.Tensor) -> Any:
        tokens: torch.Tensor = self.embed(x)
        table: torch.Tensor = self.table
        if tokens.shape[2:] != table.shape[2:]:
            table = F.interpolate(table, size=tokens.shape[2:], mode="bicubic")
        return tokens + table


class Cropped(nn.Module):
    """A large table, and its middle taken."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(1, 12, 12, 4))

    def forward(self, x: torch.Tensor) -> Any:
        h, w = x.shape[1:3]
        top, left = (12 - h) // 2, (12 - w) // 2
        return x + self.table[:, top : top + h, left : left + w]


class Learned(nn.Module):
    """A table of positions looked up by arange, as text models have it."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(16, 4)

    def forward(self, x: torch.Tensor) -> Any:
        positions = torch.arange(x.shape[1]).unsqueeze(0).expand(x.shape[0], -1)
        return x + self.table(positions)


class RowsAndColumns(nn.Module):
    """DETR's learned positions: tables of rows and columns, spread over the map."""

    def __init__(self) -> None:
        super().__init__()
        self.rows, self.columns = nn.Embedding(16, 2), nn.Embedding(16, 2)

    def forward(self, x: torch.Tensor) -> Any:
        h, w = x.shape[-2:]
        columns, rows = self.columns(torch.arange(w)), self.rows(torch.arange(h))
        both = torch.cat([columns.unsqueeze(0).repeat(h, 1, 1), rows.unsqueeze(1).repeat(1, w, 1)], -1)
        return x + both.permute(2, 0, 1).unsqueeze(0).repeat(x.shape[0], 1, 1, 1)


def _tables() -> list[Entry]:
    native, others = (1, 3, 16, 16), ((1, 3, 24, 24), (2, 3, 16, 32))
    other = (2, 3, 20, 24)
    how = ("size", "native kept", "square by root", "scale and offset", "antialiased")
    return [
        module(TABLE, "scales with an offset", Scales, (1, 3, 16, 24), (1, 3, 32, 48), (2, 3, 24, 24)),
        module(TABLE, "native size as it is", Native, (2, 3, 16, 16), (2, 3, 24, 24), (1, 3, 16, 32)),
        module(TABLE, "native size as it is, another in the example", Native, other, (2, 3, 24, 24), (1, 3, 16, 16)),
        module(TABLE, "ViT by size", lambda: Vision(how[0]), native, *others),
        module(TABLE, "DINO, native kept", lambda: Vision(how[1]), native, *others),
        module(TABLE, "ViT, square by root", lambda: Vision(how[2]), native, (1, 3, 24, 24), (2, 3, 32, 32)),
        module(TABLE, "DINOv2, scale and offset", lambda: Vision(how[3]), native, *others),
        module(TABLE, "DINOv2, antialiased", lambda: Vision(how[4]), other, *others),
        module(
            TABLE,
            "ViT by size, named",
            lambda: Vision(how[0]),
            other,
            (2, 3, 24, 24),
            (3, 3, 16, 32),
            dynamic=named(batch=0, height=2, width=3),
        ),
        module(TABLE, "middle of a large one", Cropped, (2, 6, 8, 4), (2, 5, 9, 4), (1, 12, 12, 4)),
        module(TABLE, "looked up by arange", Learned, (2, 6, 4), (2, 10, 4), (1, 16, 4)),
        module(TABLE, "rows and columns of DETR", RowsAndColumns, (2, 4, 5, 6), (2, 4, 8, 3), (1, 4, 12, 16)),
    ]


class Buckets(nn.Module):
    """A bias by the distance, looked up in a table that is cut to the length, as in ALiBi and T5."""

    def __init__(self, sloped: bool) -> None:
        super().__init__()
        self.sloped, self.table = sloped, nn.Embedding(16, 2)

    def forward(self, x: torch.Tensor) -> Any:
        places = torch.arange(x.shape[1])
        apart = places[None] - places[:, None]
        scores = (x @ x.transpose(1, 2)).unsqueeze(1)
        if self.sloped:
            bias = apart.abs() * torch.tensor([-0.5, -0.25]).view(2, 1, 1)
        else:
            bias = self.table(apart.clamp(-8, 7) + 8).permute(2, 0, 1)
        return (scores + bias).softmax(-1)


class Beit(nn.Module):
    """BEiT's table of relative positions, stretched to the size and indexed anew."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(49, 2))

    def forward(self, x: torch.Tensor) -> Any:
        h, w = x.shape[2:]
        old = self.table.reshape(1, 7, 7, 2).permute(0, 3, 1, 2)
        table = F.interpolate(old, size=(2 * h - 1, 2 * w - 1), mode="bilinear").permute(0, 2, 3, 1).reshape(-1, 2)
        rows, columns = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        rows, columns = rows.flatten(), columns.flatten()
        index = (rows[:, None] - rows[None] + h - 1) * (2 * w - 1) + columns[:, None] - columns[None] + w - 1
        tokens = x.flatten(2)
        return tokens.transpose(1, 2) @ tokens + table[index.view(-1)].view(h * w, h * w, -1).sum(-1)


class Continuous(nn.Module):
    """Swin v2's positions: logarithms of the distances through a small net."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, x: torch.Tensor) -> Any:
        h, w = x.shape[2:]
        rows, columns = torch.arange(-(h - 1), h).float(), torch.arange(-(w - 1), w).float()
        table = torch.stack(torch.meshgrid(rows / max(h - 1, 1), columns / max(w - 1, 1), indexing="ij"), -1) * 8
        table = torch.sign(table) * torch.log2(table.abs() + 1.0) / math.log2(8)
        return x.mean((1, 2, 3)).view(-1, 1, 1) + 16 * self.net(table).squeeze(-1).sigmoid()


class Skewed(nn.Module):
    """Relative scores shifted into place by a reshape, as in the Music Transformer and Conformer."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(33, 4))

    def forward(self, x: torch.Tensor) -> Any:
        b, n, _ = x.shape
        table = self.table[16 - n + 1 : 16 + n]
        scores = F.pad(x @ table.t(), (1, 0)).view(b, 2 * n, n)
        return scores[:, 1:].reshape(b, n, 2 * n - 1)[:, :, :n]


def _relative() -> list[Entry]:
    return [
        module(RELATIVE, "bias looked up", lambda: Buckets(False), (2, 6, 4), (2, 10, 4), (1, 3, 4)),
        module(RELATIVE, "bias by slopes", lambda: Buckets(True), (2, 6, 4), (2, 10, 4), (1, 3, 4)),
        module(RELATIVE, "BEiT", Beit, (2, 3, 4, 4), (2, 3, 5, 6), (1, 3, 8, 3)),
        module(RELATIVE, "Swin v2", Continuous, (2, 3, 4, 4), (2, 3, 5, 6), (1, 3, 8, 3)),
        module(RELATIVE, "shifted by a reshape", Skewed, (2, 6, 4), (2, 10, 4), (1, 3, 4)),
    ]


class Sines(nn.Module):
    """Sines and cosines of the places in a sequence, made for its length or cut from a table."""

    table: torch.Tensor

    def __init__(self, kept: bool) -> None:
        super().__init__()
        self.kept = kept
        self.register_buffer("table", self._made(32))

    @staticmethod
    def _made(length: int) -> torch.Tensor:
        angles = torch.arange(length)[:, None] * torch.exp(torch.arange(0, 8, 2) * (-math.log(10000.0) / 8))
        return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)

    def forward(self, x: torch.Tensor) -> Any:
        return x + (self.table[: x.shape[1]] if self.kept else self._made(x.shape[1]))


class Sines2d(nn.Module):
    """DETR's sines: places counted by a running sum over a mask and made fractions of the size."""

    def forward(self, x: torch.Tensor) -> Any:
        seen = torch.ones(x.shape[0], x.shape[2], x.shape[3])
        rows, columns = seen.cumsum(1), seen.cumsum(2)
        rows, columns = rows / (rows[:, -1:] + 1e-6), columns / (columns[:, :, -1:] + 1e-6)
        scale = 2 * math.pi / torch.tensor([1.0, 100.0])
        angles = torch.cat([rows[..., None] * scale, columns[..., None] * scale], -1)
        return x + torch.cat([angles.sin(), angles.cos()], -1).permute(0, 3, 1, 2)


class Rotary(nn.Module):
    """Rotary positions of a sequence (the halves swapped), or of a map (half for rows, half for columns)."""

    def __init__(self, flat: bool) -> None:
        super().__init__()
        self.flat = flat

    def forward(self, x: torch.Tensor) -> Any:
        if self.flat:
            angles = torch.outer(torch.arange(x.shape[1]).float(), torch.tensor([1.0, 0.1, 0.01, 0.001]))
        else:
            h, w = x.shape[1:3]
            scale = torch.tensor([1.0, 0.01])
            rows = (torch.arange(h)[:, None] * scale)[:, None].expand(h, w, 2)
            angles = torch.cat([rows, (torch.arange(w)[:, None] * scale)[None].expand(h, w, 2)], -1)
        angles = torch.cat([angles, angles], -1)
        first, second = x.chunk(2, -1)
        return x * angles.cos() + torch.cat([-second, first], -1) * angles.sin()


def _sines() -> list[Entry]:
    return [
        module(SINES, "made for the length", lambda: Sines(False), (2, 6, 8), (2, 10, 8), (1, 17, 8)),
        module(
            SINES,
            "cut from a table, strict",
            lambda: Sines(True),
            (2, 6, 8),
            (2, 10, 8),
            (3, 17, 8),
            dynamic=strict(1, 0, 1),
        ),
        module(SINES, "DETR with a mask", Sines2d, (2, 8, 5, 6), (2, 8, 8, 3), (1, 8, 4, 9)),
        module(SINES, "rotary", lambda: Rotary(True), (2, 6, 8), (2, 10, 8), (1, 17, 8)),
        module(SINES, "rotary of a map", lambda: Rotary(False), (2, 4, 5, 8), (2, 6, 3, 8), (1, 7, 8, 8)),
    ]


class Coordinates(nn.Module):
    """CoordConv: two more channels with the place."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 3, 3, padding=1)

    def forward(self, x: torch.Tensor) -> Any:
        b, _, h, w = x.shape
        columns = torch.linspace(-1, 1, w).repeat(b, h, 1).unsqueeze(1)
        rows = (torch.arange(h) / (h - 1) * 2 - 1).view(1, 1, h, 1).expand(b, 1, h, w)
        return self.conv(torch.cat([x, columns, rows], 1))


class Argmax(nn.Module):
    """Soft argmax: the mean place of a heat map."""

    def forward(self, x: torch.Tensor) -> Any:
        h, w = x.shape[2:]
        weights = x.flatten(2).softmax(-1).view_as(x)
        rows, columns = torch.arange(h).float(), torch.arange(w).float()
        return torch.stack([(weights.sum(2) * columns).sum(-1) / w, (weights.sum(3) * rows).sum(-1) / h], -1)


def _coordinates() -> list[Entry]:
    image, others = (2, 2, 5, 6), ((2, 2, 8, 3), (1, 2, 4, 9))
    return [
        module(COORDINATES, "CoordConv", Coordinates, image, *others),
        module(COORDINATES, "soft argmax", Argmax, image, *others),
    ]
