"""Heads of detectors: grids, anchors, boxes, the best of them."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from guarddiff.sweep.catalogue.dims import named, strict
from guarddiff.sweep.catalogue.entry import Entry, module, one, two

GRID, ANCHOR, BOX = "detection by grids", "anchors", "boxes and scores"


def entries() -> list[Entry]:
    """The entries of this shelf."""
    return [*_grids(), *_anchors(), *_boxes()]


def _mesh(h: int, w: int) -> torch.Tensor:
    rows, columns = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
    return torch.stack((columns, rows), 2).float()


class Yolo(nn.Module):
    """YOLO's head: anchors and a grid turn a map into boxes."""

    def __init__(self, stride: int = 8) -> None:
        super().__init__()
        self.stride = stride
        self.conv, self.anchors = nn.Conv2d(4, 12, 1), nn.Parameter(torch.rand(2, 2) * 8 + 4)

    def forward(self, x: torch.Tensor) -> Any:
        b, _, h, w = x.shape
        out = self.conv(x).view(b, 2, 6, h, w).permute(0, 1, 3, 4, 2).contiguous()
        places, sizes, scores = out.sigmoid().split((2, 2, 2), 4)
        places = (places * 2 - 0.5 + _mesh(h, w).view(1, 1, h, w, 2)) * self.stride
        sizes = (sizes * 2) ** 2 * self.anchors.view(1, 2, 1, 1, 2)
        return torch.cat([places, sizes, scores], 4).view(b, -1, 6)


class YoloKept(nn.Module):
    """The same grid kept as an attribute, made anew for another size: what YOLOv5 does outside of export."""

    def __init__(self) -> None:
        super().__init__()
        self.grid = torch.zeros(1, 1, 1, 2)

    def forward(self, x: torch.Tensor) -> Any:
        h, w = x.shape[2:]
        if self.grid.shape[1:3] != x.shape[2:4]:
            self.grid = _mesh(h, w).view(1, h, w, 2)
        return x[:, :2].permute(0, 2, 3, 1).sigmoid() + self.grid


class Scales(nn.Module):
    """Points of several strides, joined, as YOLOX and YOLOv8 have them."""

    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList(nn.Conv2d(channels, 4, 3, 2, 1) for channels in (3, 4, 4))
        self.head = nn.Conv2d(4, 5, 1)

    def forward(self, x: torch.Tensor) -> Any:
        found, points, strides = [], [], []
        for level, stage in enumerate(self.stages):
            x = F.silu(stage(x))
            out = self.head(x)
            h, w = out.shape[-2:]
            found.append(out.flatten(2))
            points.append(_mesh(h, w).view(-1, 2) + 0.5)
            strides.append(torch.full((h * w, 1), 2.0 ** (level + 1)))
        boxes, scores = torch.split(torch.cat(found, 2), [4, 1], 1)
        points_t, strides_t = torch.cat(points).t(), torch.cat(strides).t()
        near, far = boxes.relu().chunk(2, 1)
        return torch.cat([(points_t - near) * strides_t, (points_t + far) * strides_t, scores.sigmoid()], 1)


class Ratio(nn.Module):
    """The stride worked out from the image and the map."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Conv2d(3, 4, 5, 4, 2)

    def forward(self, x: torch.Tensor) -> Any:
        out = self.body(x)
        h, w = out.shape[2:]
        stride = x.shape[2] // h
        return out[:, :2].flatten(2) + (_mesh(h, w).view(-1, 2).t() * stride)


class Distribution(nn.Module):
    """Distances as the mean of a distribution, by a convolution over the bins."""

    def forward(self, x: torch.Tensor) -> Any:
        b, _, places = x.shape
        bins = x.view(b, 4, 4, places).transpose(2, 1).softmax(1)
        return F.conv2d(bins, torch.arange(4.0).view(1, 4, 1, 1)).view(b, 4, places)


def _grids() -> list[Entry]:
    image, others = (1, 4, 6, 8), ((1, 4, 9, 5), (2, 4, 4, 4))
    return [
        module(GRID, "YOLO, named", Yolo, (2, 4, 6, 8), (3, 4, 9, 5), dynamic=named(batch=0, height=2, width=3)),
        module(GRID, "grid kept as an attribute", YoloKept, image, *others),
        module(GRID, "points of three strides", Scales, (1, 3, 32, 40), (1, 3, 48, 24), (2, 3, 37, 29)),
        module(GRID, "stride by the quotient of sizes", Ratio, (1, 3, 16, 24), (1, 3, 32, 12), (2, 3, 20, 20)),
        module(GRID, "distances by a distribution", Distribution, (2, 16, 6), (2, 16, 11), (1, 16, 3)),
        one(GRID, "grid as fractions", _fractions, (1, 2, 6, 8), (1, 2, 9, 5), (2, 2, 4, 4)),
    ]


def _fractions(x: torch.Tensor) -> Any:
    """Places of a map between 0 and 1, as Deformable DETR's reference points."""
    h, w = x.shape[2:]
    return (_mesh(h, w) + 0.5) / torch.tensor([w, h]) + x.mean((0, 1)).unsqueeze(-1)


class Anchors(nn.Module):
    """Anchors of a region proposal net: shifts and cells, flattened; the stride as whole numbers from sizes."""

    cells: torch.Tensor

    def __init__(self, stride_from_sizes: bool) -> None:
        super().__init__()
        self.stride_from_sizes = stride_from_sizes
        self.body, self.head = nn.Conv2d(3, 4, 3, 4, 1), nn.Conv2d(4, 12, 1)
        self.register_buffer("cells", torch.tensor([[-4.0, -4, 4, 4], [-8, -4, 8, 4], [-4, -8, 4, 8]]))

    def forward(self, x: torch.Tensor) -> Any:
        features = self.body(x)
        h, w = features.shape[-2:]
        down, across = (x.shape[-2] // h, x.shape[-1] // w) if self.stride_from_sizes else (4, 4)
        rows, columns = torch.meshgrid(torch.arange(h) * down, torch.arange(w) * across, indexing="ij")
        rows, columns = rows.reshape(-1), columns.reshape(-1)
        shifts = torch.stack((columns, rows, columns, rows), dim=1)
        anchors = (shifts.view(-1, 1, 4) + self.cells.view(1, -1, 4)).reshape(-1, 4)
        deltas = self.head(features).view(x.shape[0], -1, 4, h, w).permute(0, 3, 4, 1, 2).reshape(x.shape[0], -1, 4)
        return anchors + deltas


class Defaults(nn.Module):
    """SSD's default boxes of two maps, with the sizes as fractions."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, 3, 4, 1), nn.Conv2d(4, 4, 3, 2, 1)

    def forward(self, x: torch.Tensor) -> Any:
        maps = [self.first(x)]
        maps.append(self.second(maps[0]))
        found = []
        for step, one_map in enumerate(maps):
            h, w = one_map.shape[2:]
            centres = (_mesh(h, w).reshape(-1, 2) + 0.5) / torch.tensor([w, h])
            sizes = torch.full((h * w, 2), 0.2 * (step + 1))
            found.append(torch.cat([centres, sizes * math.sqrt(2)], 1))
        return torch.cat(found).unsqueeze(0) + torch.cat([one.flatten(2) for one in maps], 2).transpose(1, 2)


def _anchors() -> list[Entry]:
    image, whole, odd = (1, 3, 16, 24), (2, 3, 32, 20), (1, 3, 19, 13)
    return [
        module(ANCHOR, "region proposals, stride from sizes", lambda: Anchors(True), image, whole, odd),
        module(
            ANCHOR,
            "region proposals, strict",
            lambda: Anchors(False),
            (2, 3, 16, 24),
            (3, 3, 32, 20),
            (2, 3, 19, 13),
            dynamic=strict(1, 0, 2, 3),
        ),
        module(ANCHOR, "default boxes", Defaults, image, whole, odd),
    ]


def _best(x: torch.Tensor) -> Any:
    """The best of a heat map, at most 5: the map's maxima, their scores and places."""
    peaks = x * (F.max_pool2d(x, 3, 1, 1) == x)
    scores, places = peaks.flatten(1).topk(5)
    width = x.shape[3]
    return scores, places % width, (places // width) % x.shape[2]


def _proposals(x: torch.Tensor) -> Any:
    """The best half of the proposals and their boxes."""
    scores, boxes = x[..., 0], x[..., 1:]
    index = scores.topk(min(6, x.shape[1]), dim=1).indices
    return boxes.gather(1, index.unsqueeze(-1).expand(-1, -1, 4))


def _overlaps(x: torch.Tensor, y: torch.Tensor) -> Any:
    """Intersection over union of two sets of boxes."""
    x, y = torch.cat([x[:, :2], x[:, :2] + x[:, 2:].abs()], 1), torch.cat([y[:, :2], y[:, :2] + y[:, 2:].abs()], 1)
    least, most = torch.max(x[:, None, :2], y[:, :2]), torch.min(x[:, None, 2:], y[:, 2:])
    common = (most - least).clamp(min=0).prod(2)
    return common / ((x[:, 2:] - x[:, :2]).prod(1)[:, None] + (y[:, 2:] - y[:, :2]).prod(1) - common + 1e-2)


def _clipped(x: torch.Tensor, y: torch.Tensor) -> Any:
    """Boxes clipped to the image."""
    h, w = y.shape[-2:]
    places = (x * 4 + 4).reshape(-1, 2, 2)
    return torch.stack([places[..., 0].clamp(0, w), places[..., 1].clamp(0, h)], -1).view(-1, 4)


def _matched(x: torch.Tensor, y: torch.Tensor) -> Any:
    """Each query's nearest key, and how near."""
    near = torch.cdist(x, y)
    return near.min(1)


def _boxes() -> list[Entry]:
    boxes, others = ((5, 4), (3, 4)), (((7, 4), (2, 4)), ((4, 4), (4, 4)))
    return [
        one(BOX, "peaks of a heat map", _best, (1, 1, 8, 10), (1, 1, 12, 7), (2, 1, 9, 9)),
        one(BOX, "at most 6 best", _proposals, (2, 9, 5), (2, 14, 5), (1, 4, 5)),
        two(BOX, "overlaps", _overlaps, boxes, *others),
        two(BOX, "nearest", _matched, ((5, 3), (4, 3)), ((7, 3), (2, 3)), ((2, 3), (6, 3))),
        two(
            BOX,
            "clipped to the image",
            _clipped,
            ((5, 4), (1, 3, 8, 10)),
            ((7, 4), (1, 3, 3, 5)),
            ((2, 4), (2, 3, 12, 4)),
        ),
    ]
