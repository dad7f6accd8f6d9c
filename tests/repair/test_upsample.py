"""Antialiased and nearest-exact interpolation, repaired: torch's own pixels and weights at every size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tests.repair.exporting import AUTO, rand, run
from tests.repair.translating import check_translated, plain_fault, translated

from guarddiff.repair import upsample

REPAIRS = upsample.REPAIRS
IMAGES = [(rand(1, 2, h, w),) for h, w in ((7, 9), (13, 17), (8, 8), (30, 11), (3, 31))]
EXAMPLE = (rand(1, 2, 6, 8),)
SHAPES = ({2: AUTO, 3: AUTO},)


def resized(mode: str, **how: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: F.interpolate(x, mode=mode, **how)


def smooth(mode: str, **how: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    return resized(mode, antialias=True, **how)


# --- antialiased ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_fault_and_cure(mode: str) -> None:
    function = smooth(mode, scale_factor=0.5)
    assert "values differ" in plain_fault(function, EXAMPLE, IMAGES[0], SHAPES)
    check_translated(function, EXAMPLE, IMAGES, REPAIRS, SHAPES)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("scale", [0.7, 0.34, 1.5, (0.8, 2.3)], ids=str)
def test_scales(mode: str, scale: Any) -> None:
    check_translated(smooth(mode, scale_factor=scale), EXAMPLE, IMAGES, REPAIRS, SHAPES)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_aligned_corners(mode: str) -> None:
    check_translated(smooth(mode, scale_factor=0.5, align_corners=True), EXAMPLE, IMAGES, REPAIRS, SHAPES)
    check_translated(smooth(mode, size=(1, 5), align_corners=True), EXAMPLE, IMAGES, REPAIRS, SHAPES)


def test_output_size_is_rounded_as_in_torch() -> None:
    """100 * 0.29 is just below 29, in float32 it is 29."""
    others = [(rand(1, 1, 100, 4),), (rand(1, 1, 200, 7),)]
    check_translated(smooth("bilinear", scale_factor=0.29), (rand(1, 1, 50, 8),), others, REPAIRS, SHAPES)


def test_sizes_and_recomputed_scales() -> None:
    function = smooth("bilinear", scale_factor=0.75, recompute_scale_factor=True)
    loose = [(torch.rand(1, 2, h, w) * 0.1,) for h, w in ((7, 9), (12, 5))]
    check_translated(function, EXAMPLE, loose, REPAIRS, SHAPES)
    check_translated(smooth("bicubic", size=(4, 3)), EXAMPLE, loose, REPAIRS, SHAPES)


def test_doubles_and_bytes() -> None:
    images = [(image.double(),) for (image,) in IMAGES]
    check_translated(smooth("bicubic", scale_factor=0.5), (EXAMPLE[0].double(),), images, REPAIRS, SHAPES)
    function = smooth("bicubic", scale_factor=0.7)
    noise = [torch.randint(0, 256, (1, 3, h, w), dtype=torch.uint8) for h, w in ((6, 8), (13, 17))]
    file = translated(function, (noise[0],), REPAIRS, SHAPES)
    for image in noise:  # torch rounds its weights of bytes to whole numbers
        (got,) = run(file, (image,))
        assert np.abs(got.astype(int) - function(image).numpy().astype(int)).max() <= 1


@pytest.mark.skipif(not hasattr(torch.ops.aten, "_upsample_lanczos2d_aa"), reason="this torch has no such mode")
def test_lanczos() -> None:
    check_translated(smooth("lanczos", scale_factor=0.7), EXAMPLE, IMAGES, REPAIRS, SHAPES)
    check_translated(smooth("lanczos", size=(9, 3)), EXAMPLE, IMAGES, REPAIRS, SHAPES)


@pytest.mark.parametrize("channels", [1, 3])
def test_one_pixel_wide(channels: int) -> None:
    """Where torch's own rows are all the first one (2.13, 2.14), so are those of the export."""
    function, others = (
        smooth("bilinear", scale_factor=0.5),
        [(rand(2, channels, h, w),) for h, w in ((8, 3), (9, 2), (3, 3))],
    )
    check_translated(function, (rand(2, channels, 6, 8),), others, REPAIRS, SHAPES)


# --- nearest-exact --------------------------------------------------------------------------------------


def rows(*lengths: int) -> list[tuple[torch.Tensor, ...]]:
    return [(torch.arange(float(n)).reshape(1, 1, n),) for n in lengths]


def test_nearest_exact_fault_and_cure() -> None:
    function = resized("nearest-exact", scale_factor=0.7)
    (example,) = rows(8)
    assert "values differ" in plain_fault(function, example, rows(7)[0], ({2: AUTO},))
    check_translated(function, example, rows(*range(2, 60), 97, 511), REPAIRS, ({2: AUTO},))


@pytest.mark.parametrize("how", [{"size": 55}, {"scale_factor": 2.5}, {"scale_factor": 3}, {"size": 7}], ids=str)
def test_nearest_exact_of_rows(how: Any) -> None:
    """To 55 pixels places lie halfway between two."""
    check_translated(resized("nearest-exact", **how), rows(8)[0], rows(*range(2, 40)), REPAIRS, ({2: AUTO},))


def test_nearest_exact_of_small_and_large_images() -> None:
    """At 0.29 the fifteenth row lies halfway; torch has one kernel for small images, another for large ones."""
    others = [(rand(1, 1, 100, 4),), (rand(1, 1, 200, 400),), (rand(1, 1, 100, 500),)]
    check_translated(resized("nearest-exact", scale_factor=0.29), (rand(1, 1, 50, 8),), others, REPAIRS, SHAPES)


@pytest.mark.parametrize("how", [{"size": (5, 55)}, {"scale_factor": (0.6, 1.3)}, {"size": (5, 155)}], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.uint8])
def test_nearest_exact_of_images(how: Any, dtype: torch.dtype) -> None:
    images = [(image.mul(50).abs().to(dtype),) for (image,) in [EXAMPLE, *IMAGES]]
    check_translated(resized("nearest-exact", **how), images[0], images, REPAIRS, SHAPES)


def test_nearest_exact_of_volumes() -> None:
    function, others = resized("nearest-exact", scale_factor=0.7), [(rand(1, 1, 5, 7, 9),), (rand(1, 1, 13, 3, 8),)]
    check_translated(function, (rand(1, 1, 4, 6, 8),), others, REPAIRS, ({2: AUTO, 3: AUTO, 4: AUTO},))


def test_nearest_exact_to_the_size_of_another() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, size=y.shape[2:], mode="nearest-exact")

    others = [(rand(1, 2, 5, 7), rand(1, 2, 11, 3)), (rand(1, 2, 9, 4), rand(1, 2, 6, 6))]
    shapes = ({2: AUTO, 3: AUTO}, {2: AUTO, 3: AUTO})
    check_translated(function, (rand(1, 2, 6, 8), rand(1, 2, 4, 10)), others, REPAIRS, shapes)
