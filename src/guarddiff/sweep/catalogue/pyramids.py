"""Pooling in modules: heads, pyramids, attention over channels."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from guarddiff.sweep.catalogue.dims import named
from guarddiff.sweep.catalogue.entry import Entry, module

PYRAMID, HEAD, GATE = "pyramid pooling", "pooling heads", "channel attention"


class Pyramid(nn.Module):
    """Pyramid pooling as in PSPNet."""

    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList(
            nn.Sequential(nn.AdaptiveAvgPool2d(size), nn.Conv2d(4, 2, 1)) for size in (1, 2, 3, 6)
        )

    def forward(self, x: torch.Tensor) -> Any:
        pooled = [F.interpolate(stage(x), size=x.shape[2:], mode="bilinear") for stage in self.stages]
        return torch.cat([x, *pooled], dim=1)


class Spatial(nn.Module):
    """Spatial pyramid pooling: windows for a fixed number of bins, worked out from the size as in SPP-net."""

    def __init__(self, levels: tuple[int, ...] = (4, 2, 1)) -> None:
        super().__init__()
        self.levels = levels

    def forward(self, x: torch.Tensor) -> Any:
        height, width = x.shape[2:]
        found = []
        for level in self.levels:
            kernel = math.ceil(height / level), math.ceil(width / level)
            pad = math.floor((kernel[0] * level - height + 1) / 2), math.floor((kernel[1] * level - width + 1) / 2)
            found.append(F.max_pool2d(x, kernel, kernel, pad).flatten(1))
        return torch.cat(found, 1)


class AdaptiveSpatial(nn.Module):
    """The same by adaptive pooling, with a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.classify = nn.Linear(4 * (1 + 4 + 16), 5)

    def forward(self, x: torch.Tensor) -> Any:
        return self.classify(torch.cat([F.adaptive_max_pool2d(x, level).flatten(1) for level in (1, 2, 4)], 1))


class Atrous(nn.Module):
    """ASPP of DeepLab: dilated convolutions and the image's mean."""

    def __init__(self) -> None:
        super().__init__()
        self.branches = nn.ModuleList(nn.Conv2d(4, 2, 3, padding=rate, dilation=rate) for rate in (1, 2, 3))
        self.image = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(4, 2, 1), nn.ReLU())
        self.project = nn.Conv2d(8, 4, 1)

    def forward(self, x: torch.Tensor) -> Any:
        image = F.interpolate(self.image(x), size=x.shape[-2:], mode="bilinear", align_corners=False)
        return self.project(torch.cat([*(branch(x) for branch in self.branches), image], 1))


class Aggregation(nn.Module):
    """DAPPM of DDRNet: average pooling of growing windows, resized and added one to the next."""

    def __init__(self) -> None:
        super().__init__()
        self.pools = nn.ModuleList(nn.AvgPool2d(2 * step + 1, step, step) for step in (1, 2, 4))
        self.mix = nn.ModuleList(nn.Conv2d(4, 4, 3, padding=1) for _ in range(3))

    def forward(self, x: torch.Tensor) -> Any:
        height, width = x.shape[-2:]
        found = [x]
        for pool, mix in zip(self.pools, self.mix):
            resized = F.interpolate(pool(x), size=[height, width], mode="bilinear")
            found.append(mix(resized + found[-1]))
        return torch.cat(found, 1)


def _pyramids() -> list[Entry]:
    image, others = (1, 4, 12, 12), ((1, 4, 18, 24), (2, 4, 13, 15))
    return [
        module(PYRAMID, "PSPNet", Pyramid, image, *others),
        module(PYRAMID, "spatial, windows from sizes", Spatial, image, (1, 4, 16, 24), (2, 4, 20, 12)),
        module(PYRAMID, "spatial, adaptive", AdaptiveSpatial, image, (1, 4, 24, 20), (2, 4, 13, 15)),
        module(PYRAMID, "atrous with the mean of the image", Atrous, image, *others),
        module(PYRAMID, "growing windows", Aggregation, image, *others),
        module(
            PYRAMID,
            "atrous, named dimensions",
            Atrous,
            (2, 4, 12, 12),
            (3, 4, 18, 24),
            (2, 4, 13, 15),
            dynamic=named(batch=0, height=2, width=3),
        ),
    ]


class Vgg(nn.Module):
    """Convolution, pooling to 7 by 7, classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.MaxPool2d(2))
        self.avgpool, self.classifier = nn.AdaptiveAvgPool2d((7, 7)), nn.Linear(4 * 49, 5)

    def forward(self, x: torch.Tensor) -> Any:
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))


class Residual(nn.Module):
    """The end of a ResNet."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 4, 7, 2, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> Any:
        return self.fc(torch.flatten(self.avgpool(self.features(x)), 1))


class Windowed(nn.Module):
    """The end of an old MobileNet: the mean by a window as large as the map."""

    def __init__(self) -> None:
        super().__init__()
        self.features, self.classifier = nn.Conv2d(3, 4, 3, 2, 1), nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> Any:
        x = F.relu6(self.features(x))
        return self.classifier(F.avg_pool2d(x, x.size()[2:]).view(-1, 4))


class Statistics(nn.Module):
    """Statistics pooling of a speaker's embedding: mean and deviation over time."""

    def __init__(self) -> None:
        super().__init__()
        self.frames, self.embed = nn.Conv1d(4, 6, 5, dilation=2), nn.Linear(12, 5)

    def forward(self, x: torch.Tensor) -> Any:
        x = F.relu(self.frames(x))
        return self.embed(torch.cat([x.mean(2), x.var(2).clamp(min=1e-4).sqrt()], 1))


def _heads() -> list[Entry]:
    return [
        module(HEAD, "VGG", Vgg, (1, 3, 28, 28), (1, 3, 32, 40), (3, 3, 56, 28)),
        module(HEAD, "ResNet", Residual, (2, 3, 32, 32), (1, 3, 40, 48), (3, 3, 33, 29)),
        module(HEAD, "mean by a window as large as the map", Windowed, (1, 3, 16, 16), (1, 3, 24, 20), (2, 3, 17, 9)),
        module(HEAD, "statistics over time", Statistics, (2, 4, 20), (1, 4, 31), (3, 4, 12)),
    ]


class Squeeze(nn.Module):
    """Squeeze and excite with linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.excite = nn.Sequential(nn.Linear(4, 2), nn.ReLU(), nn.Linear(2, 4), nn.Sigmoid())

    def forward(self, x: torch.Tensor) -> Any:
        b, c, _, _ = x.shape
        gate = self.excite(F.adaptive_avg_pool2d(x, 1).view(b, c)).view(b, c, 1, 1)
        return x * gate.expand_as(x)


class Efficient(nn.Module):
    """ECA: a convolution along the channels, with a kernel worked out from their number."""

    def __init__(self, channels: int = 8) -> None:
        super().__init__()
        kernel = int(abs((math.log2(channels) + 1) / 2))
        kernel += 1 - kernel % 2
        self.mix = nn.Conv1d(1, 1, kernel, padding=kernel // 2, bias=False)

    def forward(self, x: torch.Tensor) -> Any:
        gate = self.mix(F.adaptive_avg_pool2d(x, 1).squeeze(-1).transpose(-1, -2))
        return x * gate.transpose(-1, -2).unsqueeze(-1).sigmoid()


class Block(nn.Module):
    """CBAM: attention over channels, then over places."""

    def __init__(self) -> None:
        super().__init__()
        self.channels = nn.Sequential(nn.Conv2d(4, 2, 1), nn.ReLU(), nn.Conv2d(2, 4, 1))
        self.places = nn.Conv2d(2, 1, 7, padding=3)

    def forward(self, x: torch.Tensor) -> Any:
        mean, most = F.adaptive_avg_pool2d(x, 1), F.adaptive_max_pool2d(x, 1)
        x = x * (self.channels(mean) + self.channels(most)).sigmoid()
        return x * self.places(torch.cat([x.mean(1, True), x.max(1, True)[0]], 1)).sigmoid()


class Coordinates(nn.Module):
    """Coordinate attention: means along each axis, joined, split again."""

    def __init__(self) -> None:
        super().__init__()
        self.rows, self.columns = nn.AdaptiveAvgPool2d((None, 1)), nn.AdaptiveAvgPool2d((1, None))
        self.mix = nn.Conv2d(4, 4, 1)

    def forward(self, x: torch.Tensor) -> Any:
        height, width = x.shape[2:]
        joined = self.mix(torch.cat([self.rows(x), self.columns(x).transpose(2, 3)], dim=2))
        down, across = torch.split(joined, [height, width], dim=2)
        return x * down.sigmoid() * across.transpose(2, 3).sigmoid()


class Strip(nn.Module):
    """Strip pooling: means of rows and columns, stretched back to the map's size."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.across = nn.Conv2d(4, 4, (3, 1), padding=(1, 0)), nn.Conv2d(4, 4, (1, 3), padding=(0, 1))

    def forward(self, x: torch.Tensor) -> Any:
        _, _, h, w = x.size()
        rows = F.interpolate(self.down(F.adaptive_avg_pool2d(x, (h, 1))), (h, w), mode="bilinear")
        columns = F.interpolate(self.across(F.adaptive_avg_pool2d(x, (1, w))), (h, w), mode="bilinear")
        return x * (rows + columns).sigmoid()


class Context(nn.Module):
    """Global context block: a softmax over places gathers a vector that is added everywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.attend, self.change = nn.Conv2d(4, 1, 1), nn.Conv2d(4, 4, 1)

    def forward(self, x: torch.Tensor) -> Any:
        b, c, h, w = x.shape
        weights = self.attend(x).view(b, 1, h * w).softmax(2).unsqueeze(-1)
        gathered = torch.matmul(x.view(b, c, h * w).unsqueeze(1), weights).view(b, c, 1, 1)
        return x + self.change(gathered)


def _gates() -> list[Entry]:
    image, others = (2, 4, 6, 8), ((2, 4, 9, 5), (3, 4, 12, 16))
    return [
        module(GATE, "squeeze and excite", Squeeze, image, *others),
        module(GATE, "efficient", Efficient, (2, 8, 6, 8), (2, 8, 9, 5), (1, 8, 12, 16)),
        module(GATE, "CBAM", Block, image, *others),
        module(GATE, "coordinates", Coordinates, (1, 4, 6, 8), (2, 4, 9, 5), (1, 4, 12, 16)),
        module(GATE, "strips", Strip, image, *others),
        module(GATE, "global context", Context, image, *others),
        module(
            GATE,
            "squeeze and excite, named dimensions",
            Squeeze,
            image,
            *others,
            dynamic=named(batch=0, height=2, width=3),
        ),
    ]


def entries() -> list[Entry]:
    """The entries of this shelf."""
    return [*_pyramids(), *_heads(), *_gates()]
