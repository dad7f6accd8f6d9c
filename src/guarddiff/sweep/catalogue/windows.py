"""Windows, patches and shuffles: cutting a map into pieces and putting it together again."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from guarddiff.sweep.catalogue.dims import named, strict, words
from guarddiff.sweep.catalogue.entry import Entry, module, one

SWIN, PATCHES, FOLD, SHUFFLE = "windows of Swin", "patches", "unfold and fold", "pixel shuffles"


def entries() -> list[Entry]:
    """The entries of this shelf."""
    return [*_windows(), *_swin(), *_patches(), *_folds(), *_shuffles(), *_moved()]


def cut(x: torch.Tensor, side: int) -> torch.Tensor:
    """(batch, height, width, features) → (windows, side, side, features)."""
    b, h, w, c = x.shape
    return x.view(b, h // side, side, w // side, side, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, side, side, c)


def joined(windows: torch.Tensor, side: int, h: int, w: int) -> torch.Tensor:
    """The way back, with the batch worked out by ``int`` as Swin does."""
    b = int(windows.shape[0] / (h * w / side / side))
    return windows.view(b, h // side, w // side, side, side, -1).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, -1)


def joined_by_rest(windows: torch.Tensor, side: int, h: int, w: int) -> torch.Tensor:
    """The way back, with the batch left to view."""
    x = windows.view(-1, h // side, w // side, side, side, windows.shape[-1])
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, h, w, windows.shape[-1])


def _there_and_back(x: torch.Tensor) -> Any:
    return joined(cut(x, 4) * 2, 4, x.shape[1], x.shape[2])


def _by_rest(x: torch.Tensor) -> Any:
    return joined_by_rest(cut(x, 4) * 2, 4, x.shape[1], x.shape[2])


def _grid(x: torch.Tensor) -> Any:
    """MaxViT's grid: 2 by 2 cells spread over the whole map."""
    b, h, w, c = x.shape
    return x.view(b, 2, h // 2, 2, w // 2, c).permute(0, 2, 4, 1, 3, 5).reshape(-1, 2, 2, c).sum((1, 2))


def _windows() -> list[Entry]:
    example, others = (1, 8, 12, 3), ((1, 16, 24, 3), (2, 8, 4, 3))
    return [
        one(SWIN, "cut and joined by int", _there_and_back, example, *others),
        one(SWIN, "grid of MaxViT", _grid, example, *others),
        one(
            SWIN,
            "cut and joined by the rest, named",
            _by_rest,
            (2, 8, 12, 3),
            (2, 16, 24, 3),
            (3, 8, 4, 3),
            dynamic=named(batch=0, height=1, width=2),
        ),
    ]


class Attention(nn.Module):
    """Attention within windows of 4 by 4, of a map padded to whole windows, shifted or not."""

    def __init__(self, shift: int, masked: bool = False, rest: bool = False) -> None:
        super().__init__()
        self.shift, self.masked, self.join = shift, masked, joined_by_rest if rest else joined
        self.qkv, self.project = nn.Linear(4, 12), nn.Linear(4, 4)

    def _mask(self, h: int, w: int) -> torch.Tensor:
        image = torch.zeros(1, h, w, 1)
        parts = (slice(0, -4), slice(-4, -self.shift), slice(-self.shift, None))
        for row, down in enumerate(parts):
            for column, across in enumerate(parts):
                image[:, down, across, :] = 3 * row + column
        windows = cut(image, 4).view(-1, 16)
        apart = windows.unsqueeze(1) - windows.unsqueeze(2)
        return apart.masked_fill(apart != 0, -100.0).masked_fill(apart == 0, 0.0)

    def forward(self, x: torch.Tensor) -> Any:
        b, height, width, c = x.shape
        x = F.pad(x, (0, 0, 0, (4 - width % 4) % 4, 0, (4 - height % 4) % 4))
        h, w = x.shape[1:3]
        if self.shift:
            x = x.roll((-self.shift, -self.shift), (1, 2))
        windows = cut(x, 4).view(-1, 16, c)
        query, key, value = self.qkv(windows).chunk(3, -1)
        scores = query @ key.transpose(1, 2) * c**-0.5
        if self.masked:
            mask = self._mask(h, w)
            scores = (scores.view(b, -1, 16, 16) + mask.unsqueeze(0)).view(-1, 16, 16)
        x = self.join(self.project(scores.softmax(-1) @ value).view(-1, 4, 4, c), 4, h, w)
        if self.shift:
            x = x.roll((self.shift, self.shift), (1, 2))
        return x[:, :height, :width].contiguous()


class ShiftedUnlessSmall(Attention):
    """Shifted only where the map is larger than one window, as torchvision does."""

    def forward(self, x: torch.Tensor) -> Any:
        h, w = x.shape[1:3]
        down, across = (2 if h > 4 else 0), (2 if w > 4 else 0)
        x = cut(x.roll((-down, -across), (1, 2)), 4).softmax(2)
        return joined_by_rest(x, 4, h, w).roll((down, across), (1, 2))


class Merging(nn.Module):
    """Swin's patch merging; an odd size is padded."""

    def __init__(self, always: bool) -> None:
        super().__init__()
        self.always, self.reduce = always, nn.Linear(12, 6, bias=False)

    def forward(self, x: torch.Tensor) -> Any:
        _, h, w, _ = x.shape
        if self.always or h % 2 == 1 or w % 2 == 1:
            x = F.pad(x, (0, 0, 0, w % 2, 0, h % 2))
        return self.reduce(torch.cat([x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)], -1))


class Expanding(nn.Module):
    """Swin-Unet's patch expanding."""

    def __init__(self) -> None:
        super().__init__()
        self.expand = nn.Linear(4, 8)

    def forward(self, x: torch.Tensor) -> Any:
        x = self.expand(x)
        b, h, w, c = x.shape
        x = x.view(b, h, w, 2, 2, c // 4).permute(0, 1, 3, 2, 4, 5)
        return x.reshape(b, h * 2, w * 2, c // 4)


def _swin() -> list[Entry]:
    even, odd, wide = (1, 8, 8, 4), (1, 7, 9, 4), (2, 12, 16, 4)
    return [
        module(SWIN, "attention, joined by the rest", lambda: Attention(0, rest=True), even, odd, wide),
        module(SWIN, "attention, shifted, masked", lambda: Attention(2, True), even, odd, wide),
        module(
            SWIN, "attention, shifted, masked, joined by the rest", lambda: Attention(2, True, True), odd, even, wide
        ),
        module(SWIN, "shifted unless small", lambda: ShiftedUnlessSmall(0), even, (1, 4, 8, 4), wide),
        module(SWIN, "merging", lambda: Merging(False), (1, 8, 6, 3), (1, 7, 9, 3), (2, 12, 10, 3)),
        module(SWIN, "expanding", Expanding, (1, 3, 4, 4), (2, 5, 4, 4), (1, 8, 2, 4)),
        module(
            SWIN,
            "merging, strict",
            lambda: Merging(True),
            (2, 8, 6, 3),
            (2, 7, 9, 3),
            (2, 12, 10, 3),
            dynamic=strict(1, 1, 2),
        ),
    ]


def _patchify(x: torch.Tensor) -> torch.Tensor:
    """MAE's patches, any height and width."""
    b, c, height, width = x.shape
    x = x.reshape(b, c, height // 4, 4, width // 4, 4)
    return torch.einsum("nchpwq->nhwpqc", x).reshape(b, height // 4 * (width // 4), 16 * c)


def _unpatchify(x: torch.Tensor) -> Any:
    """MAE's way back, with a square map by the root of the number of patches."""
    side = int(x.shape[1] ** 0.5)
    x = x.reshape(x.shape[0], side, side, 4, 4, 3)
    return torch.einsum("nhwpqc->nchpwq", x).reshape(x.shape[0], 3, side * 4, side * 4)


class Embedded(nn.Module):
    """A patch embedding, class token and all."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.token = nn.Conv2d(3, 8, 4, 4), nn.Parameter(torch.randn(1, 1, 8))

    def forward(self, x: torch.Tensor) -> Any:
        x = self.embed(x).flatten(2).transpose(1, 2)
        return torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1)


class Restored(Embedded):
    """Tokens, and back to an image by a transposed convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.restore = nn.ConvTranspose2d(8, 3, 4, 4)

    def forward(self, x: torch.Tensor) -> Any:
        h, w = x.shape[2] // 4, x.shape[3] // 4
        tokens = super().forward(x)[:, 1:].softmax(-1)
        return self.restore(tokens.transpose(1, 2).reshape(-1, 8, h, w))


def _patches() -> list[Entry]:
    image, others = (1, 3, 8, 12), ((1, 3, 16, 12), (2, 3, 8, 4))
    return [
        one(PATCHES, "patchify", _patchify, image, *others),
        one(PATCHES, "unpatchify a square", _unpatchify, (2, 4, 48), (2, 9, 48), (1, 16, 48)),
        module(PATCHES, "embedded", Embedded, image, (1, 3, 17, 14), (2, 3, 8, 4)),
        module(PATCHES, "embedded, words", Embedded, (2, 3, 8, 12), (3, 3, 16, 12), dynamic=words(batch=0, height=2)),
        module(PATCHES, "embedded and restored", Restored, image, *others),
    ]


def _unfold_fold(x: torch.Tensor) -> Any:
    patches = F.unfold(x, 3, padding=1)
    return F.fold(patches * 2, x.shape[2:], 3, padding=1)


def _local(x: torch.Tensor) -> Any:
    """Each place with its neighbours, by unfold."""
    b, c, h, w = x.shape
    near = F.unfold(x, 3, padding=1).view(b, c, 9, h, w)
    return (near * near.softmax(2)).sum(2)


def _folds() -> list[Entry]:
    image, others = (1, 2, 8, 12), ((1, 2, 12, 8), (2, 2, 16, 4))
    return [
        one(FOLD, "unfold", lambda x: F.unfold(x, 3, padding=1, stride=2), image, (1, 2, 7, 9), (2, 2, 16, 4)),
        one(FOLD, "unfold and fold, overlapping", _unfold_fold, image, *others),
        one(FOLD, "neighbours weighed", _local, image, (1, 2, 7, 9), (2, 2, 16, 4)),
        one(
            FOLD,
            "context of 3 steps",
            lambda x: F.pad(x, (0, 0, 1, 1)).unfold(1, 3, 1),
            (2, 5, 3),
            (2, 9, 3),
            (1, 4, 3),
        ),
    ]


def _space_to_depth(x: torch.Tensor) -> Any:
    b, c, h, w = x.size()
    x = x.view(b, c, h // 2, 2, w // 2, 2).permute(0, 3, 5, 1, 2, 4).contiguous()
    return x.view(b, c * 4, h // 2, w // 2)


def _focus(x: torch.Tensor) -> Any:
    """YOLOv5's focus layer."""
    return torch.cat([x[..., ::2, ::2], x[..., 1::2, ::2], x[..., ::2, 1::2], x[..., 1::2, 1::2]], 1)


def _shuffles() -> list[Entry]:
    image, others = (1, 4, 6, 8), ((1, 4, 8, 4), (2, 4, 10, 6))
    return [
        one(SHUFFLE, "pixel shuffle", lambda x: F.pixel_shuffle(x, 2), image, (1, 4, 7, 5), (2, 4, 10, 6)),
        one(SHUFFLE, "space to depth", _space_to_depth, image, *others),
        one(SHUFFLE, "focus", _focus, image, *others),
        one(SHUFFLE, "channel shuffle by torch", lambda x: F.channel_shuffle(x, 2), image, (1, 4, 7, 5), (2, 4, 9, 6)),
        one(
            SHUFFLE,
            "pixel unshuffle, named",
            lambda x: F.pixel_unshuffle(x, 2),
            (2, 4, 6, 8),
            (2, 4, 8, 4),
            (3, 4, 10, 6),
            dynamic=named(batch=0, height=2, width=3),
        ),
    ]


def _axial(x: torch.Tensor) -> Any:
    """Attention along the rows: they go to the batch and come back."""
    b, c, h, w = x.shape
    rows = x.permute(0, 2, 3, 1).reshape(b * h, w, c)
    rows = (rows @ rows.transpose(1, 2)).softmax(-1) @ rows
    return rows.view(b, h, w, c).permute(0, 3, 1, 2)


def _moved() -> list[Entry]:
    return [
        one(SWIN, "rows to the batch and back", _axial, (1, 4, 5, 6), (2, 4, 7, 6), (1, 4, 3, 9)),
    ]
