"""Small nets for images: encoders and decoders, warps, whole classifiers."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from guarddiff.sweep.catalogue.dims import named
from guarddiff.sweep.catalogue.entry import Entry, module, two

DECODER, WARP, NET = "encoders and decoders", "sampling by grids", "small nets"


def entries() -> list[Entry]:
    """The entries of this shelf."""
    return [*_decoders(), *_pyramids(), *_warps(), *_nets(), *_other_nets()]


def _block(before: int, after: int, stride: int = 1) -> nn.Module:
    return nn.Sequential(nn.Conv2d(before, after, 3, stride, 1), nn.BatchNorm2d(after), nn.ReLU())


class Unet(nn.Module):
    """U-Net of two steps; ``fit`` is how the upsampled map is brought to the skip connection's size."""

    def __init__(self, fit: str) -> None:
        super().__init__()
        self.fit = fit
        self.first, self.second, self.third = _block(3, 4), _block(4, 4), _block(4, 4)
        self.up = nn.ConvTranspose2d(4, 4, 2, 2)
        self.up_mix, self.last = _block(8, 4), nn.Conv2d(8, 2, 3, padding=1)

    def _fitted(self, x: torch.Tensor, skip: torch.Tensor) -> torch.Tensor:
        h, w = skip.shape[2:]
        if self.fit == "padded":
            down, across = h - x.shape[2], w - x.shape[3]
            return F.pad(x, (across // 2, across - across // 2, down // 2, down - down // 2))
        if self.fit == "resized":
            return F.interpolate(x, size=(h, w), mode="bilinear", align_corners=True)
        if self.fit == "resized if needed" and x.shape != skip.shape:
            return F.interpolate(x, size=skip.shape[2:], mode="nearest")
        return x

    def _joined(self, x: torch.Tensor, skip: torch.Tensor) -> torch.Tensor:
        x = self._fitted(self.up(x), skip)
        if self.fit == "cropped":
            skip = skip[:, :, : x.shape[2], : x.shape[3]]
        return torch.cat([skip, x], 1)

    def forward(self, x: torch.Tensor) -> Any:
        first = self.first(x)
        second = self.second(F.max_pool2d(first, 2))
        third = self.third(F.max_pool2d(second, 2))
        return self.last(self._joined(self.up_mix(self._joined(third, second)), first))


class ToSize(nn.Module):
    """A transposed convolution to the size of the input."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(2, 4, 3, 2, 1), nn.ConvTranspose2d(4, 2, 3, 2, 1)

    def forward(self, x: torch.Tensor) -> Any:
        return x + self.up(F.relu(self.down(x)), output_size=x.shape[2:])


class Segmented(nn.Module):
    """SegNet: pooling's places kept, and the maps unpooled to the sizes before."""

    def __init__(self) -> None:
        super().__init__()
        self.encode, self.decode = _block(2, 4), nn.Conv2d(4, 2, 3, padding=1)

    def forward(self, x: torch.Tensor) -> Any:
        features = self.encode(x) + x.mean(1, keepdim=True)
        pooled, places = F.max_pool2d(features, 2, return_indices=True)
        return self.decode(F.max_unpool2d(pooled, places, (2, 2), output_size=features.size()))


def _decoders() -> list[Entry]:
    image, others = (1, 3, 16, 20), ((1, 3, 24, 16), (2, 3, 19, 22))
    whole = ((1, 3, 24, 16), (2, 3, 12, 28))
    return [
        module(DECODER, "U-Net, sizes that divide", lambda: Unet("as it is"), image, *whole),
        module(DECODER, "U-Net, padded", lambda: Unet("padded"), image, *others),
        module(DECODER, "U-Net, resized if needed", lambda: Unet("resized if needed"), image, *others),
        module(DECODER, "U-Net, cropped", lambda: Unet("cropped"), image, *others),
        module(
            DECODER,
            "U-Net, named",
            lambda: Unet("resized"),
            (2, 3, 16, 20),
            (2, 3, 24, 16),
            (3, 3, 19, 22),
            dynamic=named(batch=0, height=2, width=3),
        ),
        module(DECODER, "transposed to a size", ToSize, (1, 2, 8, 10), (1, 2, 9, 12), (2, 2, 7, 7)),
        module(DECODER, "SegNet", Segmented, (1, 2, 8, 10), (1, 2, 12, 6), (2, 2, 9, 7)),
    ]


class TopDown(nn.Module):
    """A feature pyramid: the coarse maps resized to the fine ones and added, the coarsest pooled once more."""

    def __init__(self, by_size: bool) -> None:
        super().__init__()
        self.by_size = by_size
        self.stages = nn.ModuleList([_block(3, 4, 2), _block(4, 4, 2), _block(4, 4, 2)])
        self.inner = nn.ModuleList(nn.Conv2d(4, 4, 1) for _ in range(3))

    def forward(self, x: torch.Tensor) -> Any:
        maps = []
        for stage, inner in zip(self.stages, self.inner):
            x = stage(x)
            maps.append(inner(x))
        found = [maps[-1]]
        for fine in reversed(maps[:-1]):
            if self.by_size:
                coarse = F.interpolate(found[-1], size=fine.shape[-2:], mode="nearest")
            else:
                coarse = F.interpolate(found[-1], scale_factor=2.0, mode="nearest")
            found.append(fine + coarse)
        return [*reversed(found), F.max_pool2d(found[0], 1, 2, 0)]


def _pyramids() -> list[Entry]:
    image, others, whole = (1, 3, 32, 40), ((1, 3, 37, 29), (2, 3, 24, 48)), ((1, 3, 48, 24), (2, 3, 24, 48))
    return [
        module(DECODER, "feature pyramid by size", lambda: TopDown(True), image, *others),
        module(DECODER, "feature pyramid by scale", lambda: TopDown(False), image, *whole),
    ]


def _warped(x: torch.Tensor, flow: torch.Tensor) -> Any:
    """The image moved by a flow, with the grid as fractions of the size."""
    b, _, h, w = x.shape
    columns = torch.arange(w).view(1, -1).repeat(h, 1).view(1, 1, h, w).repeat(b, 1, 1, 1)
    rows = torch.arange(h).view(-1, 1).repeat(1, w).view(1, 1, h, w).repeat(b, 1, 1, 1)
    places = torch.cat([columns, rows], 1).float() + flow
    across = 2.0 * places[:, 0] / max(w - 1, 1) - 1.0
    down = 2.0 * places[:, 1] / max(h - 1, 1) - 1.0
    return F.grid_sample(x, torch.stack([across, down], -1), align_corners=True)


def _turned(x: torch.Tensor, y: torch.Tensor) -> Any:
    size: Any = x.shape
    return F.grid_sample(x, F.affine_grid(y, size, align_corners=False), align_corners=False)


def _turned_to_size(x: torch.Tensor, y: torch.Tensor) -> Any:
    grid = F.affine_grid(y, [x.shape[0], x.shape[1], 6, x.shape[3] // 2], align_corners=True)
    return F.grid_sample(x, grid, align_corners=True)


def _looked_up(x: torch.Tensor, y: torch.Tensor) -> Any:
    """Features at points, bilinear, as point heads and RAFT's lookup do."""
    h, w = x.shape[-2:]
    points = torch.stack([2 * y[..., 0] / (w - 1) - 1, 2 * y[..., 1] / (h - 1) - 1], -1)
    return F.grid_sample(x, points.unsqueeze(2), align_corners=True).squeeze(3)


class Transformer(nn.Module):
    """A spatial transformer: the turn is told by a small net."""

    def __init__(self) -> None:
        super().__init__()
        self.tell = nn.Sequential(nn.Conv2d(2, 3, 3, 2, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 6))

    def forward(self, x: torch.Tensor) -> Any:
        turn = self.tell(x).view(-1, 2, 3) * 0.1 + torch.eye(2, 3)
        return F.grid_sample(x, F.affine_grid(turn, list(x.size()), align_corners=False), align_corners=False)


def _warps() -> list[Entry]:
    flow = ((1, 3, 8, 10), (1, 2, 8, 10))
    flows = (((1, 3, 12, 7), (1, 2, 12, 7)), ((2, 3, 9, 9), (2, 2, 9, 9)))
    turn = ((2, 3, 8, 10), (2, 2, 3))
    turns = (((2, 3, 12, 10), (2, 2, 3)), ((3, 3, 7, 14), (3, 2, 3)))
    points = ((2, 3, 8, 10), (2, 5, 2))
    return [
        two(WARP, "flow", _warped, flow, *flows),
        two(WARP, "flow, named", _warped, ((2, 3, 8, 10), (2, 2, 8, 10)), *flows[1:], dynamic=named(2, n=0, h=2, w=3)),
        two(WARP, "affine grid by a shape", _turned, turn, *turns),
        two(WARP, "affine grid by computed sizes", _turned_to_size, turn, *turns),
        two(WARP, "points looked up", _looked_up, points, ((2, 3, 12, 9), (2, 7, 2)), ((1, 3, 5, 6), (1, 5, 2))),
        module(WARP, "spatial transformer", Transformer, (2, 2, 8, 10), (2, 2, 12, 7), (1, 2, 9, 9)),
    ]


class Residual(nn.Module):
    """A small ResNet."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.one, self.two = _block(3, 4, 2), _block(4, 4), _block(4, 8, 2)
        self.shortcut, self.head = nn.Conv2d(4, 8, 1, 2), nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> Any:
        x = F.max_pool2d(self.stem(x), 3, 2, 1)
        x = F.relu(x + self.one(x))
        x = F.relu(self.shortcut(x) + self.two(x))
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Dense(nn.Module):
    """A small DenseNet."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_block(3 + 2 * i, 2) for i in range(3))
        self.transition, self.head = nn.Conv2d(9, 4, 1), nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> Any:
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        x = F.avg_pool2d(self.transition(x), 2)
        return self.head(torch.flatten(F.adaptive_avg_pool2d(F.relu(x), (1, 1)), 1))


class Mobile(nn.Module):
    """A small MobileNet: depthwise, squeezed, hard activations."""

    def __init__(self) -> None:
        super().__init__()
        self.expand, self.depth = nn.Conv2d(3, 8, 1), nn.Conv2d(8, 8, 5, 2, 2, groups=8)
        self.squeeze, self.project, self.head = nn.Conv2d(8, 8, 1), nn.Conv2d(8, 4, 1), nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> Any:
        x = self.depth(F.hardswish(self.expand(x)))
        x = x * F.hardsigmoid(self.squeeze(F.adaptive_avg_pool2d(x, 1)))
        return self.head(self.project(x).mean([2, 3]))


class NextBlock(nn.Module):
    """A block of ConvNeXt: the norm over channels after a permutation."""

    def __init__(self) -> None:
        super().__init__()
        self.depth, self.norm = nn.Conv2d(4, 4, 7, padding=3, groups=4), nn.LayerNorm(4)
        self.up, self.down = nn.Linear(4, 16), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> Any:
        inner = self.norm(self.depth(x).permute(0, 2, 3, 1))
        return x + self.down(F.gelu(self.up(inner))).permute(0, 3, 1, 2)


class NonLocal(nn.Module):
    """Attention among all places, the keys pooled, the scores divided by their number."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Conv2d(4, 2, 1) for _ in range(3))
        self.out = nn.Conv2d(2, 4, 1)

    def forward(self, x: torch.Tensor) -> Any:
        b, _, h, w = x.shape
        small = F.max_pool2d(x, 2)
        query = self.query(x).view(b, 2, -1).permute(0, 2, 1)
        key, value = self.key(small).view(b, 2, -1), self.value(small).view(b, 2, -1).permute(0, 2, 1)
        scores = query @ key
        scores = scores / scores.size(-1)
        return x + self.out((scores @ value).permute(0, 2, 1).contiguous().view(b, 2, h, w))


def _nets() -> list[Entry]:
    image, others = (1, 3, 32, 32), ((1, 3, 40, 48), (3, 3, 33, 29))
    small, smalls = (1, 4, 6, 8), ((2, 4, 9, 5), (1, 4, 12, 7))
    return [
        module(NET, "ResNet", Residual, image, *others),
        module(NET, "DenseNet", Dense, (2, 3, 12, 12), (1, 3, 16, 20), (3, 3, 13, 9)),
        module(
            NET,
            "MobileNet, named",
            Mobile,
            (2, 3, 12, 12),
            (4, 3, 16, 20),
            (3, 3, 13, 9),
            dynamic=named(batch=0, height=2, width=3),
        ),
        module(NET, "ConvNeXt block", NextBlock, small, *smalls),
        module(NET, "non-local, pooled", NonLocal, small, *smalls),
    ]


class Upscaled(nn.Module):
    """Super-resolution by a pixel shuffle; ``back`` is how the image is stretched that is added."""

    def __init__(self, back: str) -> None:
        super().__init__()
        self.back, self.body, self.tail = back, _block(3, 4), nn.Conv2d(4, 12, 3, padding=1)

    def forward(self, x: torch.Tensor) -> Any:
        out = F.pixel_shuffle(self.tail(self.body(x)), 2)
        return out + F.interpolate(x, scale_factor=2, mode=self.back, align_corners=False)


class Restored(nn.Module):
    """Denoising: padded to a multiple, half and back, cut to the image."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(3, 4, 2, 2), nn.Conv2d(4, 12, 1)

    def forward(self, x: torch.Tensor) -> Any:
        _, _, h, w = x.size()
        padded = F.pad(x, (0, (4 - w % 4) % 4, 0, (4 - h % 4) % 4), "reflect")
        return (padded + F.pixel_shuffle(self.up(self.down(padded)), 2))[:, :, :h, :w]


class Text(nn.Module):
    """TextCNN: maxima over time of several widths."""

    def __init__(self) -> None:
        super().__init__()
        self.widths = nn.ModuleList(nn.Conv1d(4, 3, width) for width in (2, 3, 4))

    def forward(self, x: torch.Tensor) -> Any:
        found = [F.relu(conv(x.transpose(1, 2))) for conv in self.widths]
        return torch.cat([F.max_pool1d(one, one.size(2)).squeeze(2) for one in found], 1)


def _other_nets() -> list[Entry]:
    image, others = (1, 3, 8, 10), ((1, 3, 9, 7), (2, 3, 12, 11))
    line, lines = (2, 9, 4), ((2, 14, 4), (1, 5, 4))
    return [
        module(NET, "super-resolution, bilinear added", lambda: Upscaled("bilinear"), image, *others),
        module(NET, "super-resolution, bicubic added", lambda: Upscaled("bicubic"), image, *others),
        module(NET, "denoising, padded and cut", Restored, image, *others),
        module(NET, "text, window over time", Text, line, *lines),
    ]
