"""Interpolation: modes, sizes worked out from sizes, scales worked out from sizes."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from guarddiff.sweep.catalogue.dims import named, strict, words
from guarddiff.sweep.catalogue.entry import Entry, Of, module, one, two

MODES, SIZES, SCALES, LIKE = (
    "interpolation modes",
    "resizing to computed sizes",
    "resizing by computed scales",
    "resizing to the size of another",
)


def entries() -> list[Entry]:
    """The entries of this shelf."""
    return [*_by_scale(), *_to_size(), *_other_ranks(), *_sizes(), *_scales(), *_like(), *_modules()]


def _scaled(mode: str, scale: float | tuple[float, float], **more: Any) -> Of:
    return Of(lambda x: F.interpolate(x, scale_factor=scale, mode=mode, **more))


def _sized(mode: str, size: tuple[int, ...], **more: Any) -> Of:
    return Of(lambda x: F.interpolate(x, size=size, mode=mode, **more))


def _by_scale() -> list[Entry]:
    image, others = (1, 2, 8, 10), ((1, 2, 7, 9), (2, 2, 16, 11))
    return [
        module(MODES, "nearest by 2", lambda: _scaled("nearest", 2.0), image, *others),
        module(MODES, "nearest by 0.7", lambda: _scaled("nearest", 0.7), image, *others),
        module(MODES, "nearest-exact by 0.7", lambda: _scaled("nearest-exact", 0.7), image, *others),
        module(MODES, "bilinear by 2", lambda: _scaled("bilinear", 2.0), image, *others),
        module(MODES, "bilinear by (1.5, 0.6)", lambda: _scaled("bilinear", (1.5, 0.6)), image, *others),
        module(
            MODES,
            "bilinear by 2, corners aligned",
            lambda: _scaled("bilinear", 2.0, align_corners=True),
            image,
            *others,
        ),
        module(
            MODES,
            "bilinear by 0.6, scale worked out again",
            lambda: _scaled("bilinear", 0.6, recompute_scale_factor=True),
            image,
            *others,
        ),
        module(MODES, "bicubic by 2", lambda: _scaled("bicubic", 2.0), image, *others),
        module(
            MODES, "bilinear, antialiased, by half", lambda: _scaled("bilinear", 0.5, antialias=True), image, *others
        ),
    ]


def _to_size() -> list[Entry]:
    image, others = (1, 2, 8, 10), ((1, 2, 7, 9), (2, 2, 16, 11))
    return [
        module(MODES, "nearest to (5, 12)", lambda: _sized("nearest", (5, 12)), image, *others),
        module(MODES, "bilinear to (16, 16)", lambda: _sized("bilinear", (16, 16)), image, *others),
        module(MODES, "bicubic to (6, 14)", lambda: _sized("bicubic", (6, 14)), image, *others),
        module(
            MODES,
            "bilinear, antialiased, to (4, 4)",
            lambda: _sized("bilinear", (4, 4), antialias=True),
            image,
            *others,
        ),
        module(
            MODES,
            "bilinear to (12, 12), words",
            lambda: _sized("bilinear", (12, 12)),
            (2, 2, 8, 10),
            (3, 2, 7, 9),
            (2, 2, 16, 11),
            dynamic=words(batch=0, height=2, width=3),
        ),
    ]


def _other_ranks() -> list[Entry]:
    line, lines = (2, 3, 10), ((2, 3, 7), (1, 3, 16))
    volume, volumes = (1, 2, 4, 6, 5), ((1, 2, 5, 4, 8),)
    return [
        module(MODES, "linear by 2", lambda: _scaled("linear", 2.0), line, *lines),
        module(MODES, "trilinear to (4, 8, 8)", lambda: _sized("trilinear", (4, 8, 8)), volume, *volumes),
    ]


def _resize(x: torch.Tensor, size: Any, mode: str = "bilinear") -> Any:
    return F.interpolate(x, size=size, mode=mode)


def _shorter_side(x: torch.Tensor) -> Any:
    height, width = x.shape[-2:]
    scale = 12 / min(height, width)
    return _resize(x, (int(height * scale), int(width * scale)))


def _multiple_of_eight(x: torch.Tensor) -> Any:
    height, width = x.shape[-2:]
    return _resize(x, (int(math.ceil(height / 8) * 8), int(math.ceil(width / 8) * 8)))


def _there_and_back(x: torch.Tensor) -> Any:
    size = x.shape[2:]
    return x + _resize(_resize(x, (size[0] // 2, size[1] // 2)), size)


def _sizes() -> list[Entry]:
    image, others = (1, 2, 8, 10), ((1, 2, 7, 9), (2, 2, 16, 13))
    return [
        one(SIZES, "half", lambda x: _resize(x, (x.shape[2] // 2, x.shape[3] // 2)), image, *others),
        one(SIZES, "int of 1.5", lambda x: _resize(x, (int(x.shape[2] * 1.5), int(x.shape[3] * 1.5))), image, *others),
        one(
            SIZES,
            "int of 1.5 and of 0.29",
            lambda x: _resize(x, (int(x.shape[2] * 1.5), int(x.shape[3] * 0.29)), "nearest"),
            (1, 2, 8, 100),
            (1, 2, 12, 200),
            (1, 2, 7, 300),
        ),
        one(SIZES, "rounded up half", lambda x: _resize(x, [math.ceil(s / 2) for s in x.shape[2:]]), image, *others),
        one(SIZES, "down to even", lambda x: _resize(x, [s // 2 * 2 for s in x.shape[2:]]), image, *others),
        one(SIZES, "multiple of 8", _multiple_of_eight, image, *others),
        one(SIZES, "shorter side to 12", _shorter_side, (1, 2, 8, 12), (1, 2, 24, 16), (1, 2, 6, 9)),
        one(SIZES, "half and back", _there_and_back, image, *others),
        one(
            SIZES,
            "twice, named dimensions",
            lambda x: _resize(x, (x.shape[2] * 2, x.shape[3] * 2)),
            (2, 2, 8, 10),
            (2, 2, 7, 9),
            (3, 2, 16, 13),
            dynamic=named(batch=0, height=2, width=3),
        ),
        one(
            SIZES,
            "int of 1.5, strict dimensions",
            lambda x: _resize(x, (int(x.shape[2] * 1.5), int(x.shape[3] * 1.5))),
            (2, 2, 8, 10),
            (2, 2, 7, 9),
            (2, 2, 16, 13),
            dynamic=strict(1, 2, 3),
        ),
    ]


def _scales() -> list[Entry]:
    image, others = (1, 2, 8, 10), ((1, 2, 12, 20), (2, 2, 16, 13))
    return [
        one(
            SCALES,
            "to a height of 16",
            lambda x: F.interpolate(x, scale_factor=16 / x.shape[2], mode="bilinear"),
            (1, 2, 8, 10),
            (1, 2, 4, 6),
            (1, 2, 32, 20),
        ),
        two(
            SCALES,
            "ratio of two sizes",
            lambda x, y: y + F.interpolate(x, scale_factor=y.shape[2] / x.shape[2], mode="nearest"),
            ((1, 2, 4, 5), (1, 2, 8, 10)),
            ((1, 2, 4, 5), (1, 2, 16, 20)),
            ((1, 2, 3, 4), (1, 2, 6, 8)),
        ),
        one(
            SCALES,
            "a table to the size of the input",
            lambda x: x + F.interpolate(TABLE, scale_factor=(x.shape[2] / 4, x.shape[3] / 4), mode="bilinear"),
            image,
            *others,
        ),
    ]


TABLE = torch.linspace(-1, 1, 16).sin().reshape(1, 1, 4, 4)


def _like() -> list[Entry]:
    pair, pairs = ((1, 2, 4, 5), (1, 2, 8, 10)), (((1, 2, 5, 7), (1, 2, 9, 14)), ((2, 2, 3, 3), (2, 2, 7, 5)))
    return [
        two(LIKE, "bilinear", lambda x, y: y + _resize(x, y.shape[2:]), pair, *pairs),
        two(LIKE, "bicubic", lambda x, y: y + _resize(x, y.size()[-2:], "bicubic"), pair, *pairs),
        two(
            LIKE,
            "longer line",
            lambda x, y: y * F.interpolate(x, size=y.shape[-1], mode="linear"),
            ((2, 3, 5), (2, 3, 10)),
            ((2, 3, 4), (2, 3, 9)),
            ((1, 3, 7), (1, 3, 7)),
        ),
        two(
            LIKE,
            "mask to features",
            lambda x, y: y * F.interpolate(x[:, None].float(), size=y.shape[-2:])[:, 0:1],
            ((1, 8, 12), (1, 2, 4, 6)),
            ((1, 16, 12), (1, 2, 4, 3)),
            ((2, 9, 9), (2, 2, 3, 5)),
        ),
        two(
            LIKE,
            "bilinear, shared batch by name",
            lambda x, y: y + _resize(x, y.shape[2:]),
            ((2, 2, 4, 5), (2, 2, 8, 10)),
            ((3, 2, 4, 5), (3, 2, 8, 10)),
            ((4, 2, 4, 5), (4, 2, 8, 10)),
            dynamic=named(2, batch=0),
        ),
    ]


class Logits(nn.Module):
    """A segmentation head: logits of a quarter of the size, brought to the image's."""

    def __init__(self) -> None:
        super().__init__()
        self.features, self.head = nn.Conv2d(3, 4, 3, 4, 1), nn.Conv2d(4, 2, 1)

    def forward(self, x: torch.Tensor) -> Any:
        logits = self.head(F.relu(self.features(x)))
        return F.interpolate(logits, size=x.shape[-2:], mode="bilinear", align_corners=False)


def _modules() -> list[Entry]:
    return [
        module(LIKE, "segmentation head", Logits, (1, 3, 16, 24), (1, 3, 32, 20), (2, 3, 17, 30)),
    ]
