"""Scales and exponents that are worked out from sizes: as torch does it with the number, at every size."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.repair.exporting import SAMPLED, as_if_open, rand, same_tensors
from tests.repair.translating import check_translated, plain_fault

from guarddiff.repair import numbers, scales

REPAIRS = numbers.REPAIRS
TABLE = rand(1, 2, 4, 4)
MODES = {
    "nearest": (1, 2, 3),
    "nearest-exact": (1, 2, 3),
    "linear": (1,),
    "bilinear": (2,),
    "trilinear": (3,),
    "bicubic": (2,),
    "area": (1, 2),
}


@pytest.mark.parametrize(("mode", "axes"), [(mode, axes) for mode, every in MODES.items() for axes in every])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
def test_it_is_torchs_interpolation(mode: str, axes: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    if dtype == torch.float64 and mode.startswith("nearest"):
        pytest.skip("left to torch")
    as_if_open(monkeypatch, scales, "any_symbolic")
    for scale in (0.3, 1 / 3, 0.5, 0.77, 1.0, 1.3, 7.1 / 5, 2.0, 2.3, 2.51, 14 / 5, 3.7):
        for size in (1, 2, 5, 8, 37):
            x = rand(2, 2, *(size + axis for axis in range(axes)), dtype=dtype)
            if int(size * scale) < 1:
                continue
            given = (scale,) * axes
            expected = F.interpolate(x, scale_factor=given, mode=mode)
            got = scales.interpolate(x, scale_factor=given, mode=mode)
            tolerance = 5e-3 if dtype == torch.float16 else 5e-5
            torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("options", [{"recompute_scale_factor": True}, {"align_corners": True}])
def test_where_torch_steps_by_the_sizes(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    as_if_open(monkeypatch, scales, "any_symbolic")
    for scale in (0.77, 1.3, 2.51):
        x = rand(1, 2, 5, 8)
        more = {"scale_factor": (scale, 1.0), "mode": "bicubic", **options}
        same_tensors(scales.interpolate(x, **more), F.interpolate(x, **more))


def test_what_is_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    x = rand(1, 2, 4, 4)
    assert scales.interpolate(x, scale_factor=2.0) is NotImplemented
    as_if_open(monkeypatch, scales, "any_symbolic")
    assert scales.interpolate(x, size=(2, 2)) is NotImplemented
    assert scales.interpolate(x, scale_factor=2.0, mode="bicubic", antialias=True) is NotImplemented
    assert scales.interpolate(x, scale_factor=(2.0,)) is NotImplemented
    assert scales.interpolate(x, scale_factor=2.0, mode="no such mode") is NotImplemented
    assert scales.interpolate(x.double(), scale_factor=2.0) is NotImplemented
    assert scales.attention(x, x, x, scale=2.0) is NotImplemented
    assert scales.power(x, 2.0) is NotImplemented


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
def test_a_table_stretched_by_scales(mode: str) -> None:
    """As DINO stretches its position embedding: a little more than the size, so that no row is lost."""

    def function(x: torch.Tensor) -> torch.Tensor:
        scale = ((x.shape[2] + 0.1) / math.sqrt(16), (x.shape[3] + 0.1) / 4)
        return F.interpolate(TABLE, scale_factor=scale, mode=mode) + x

    others = [(rand(1, 2, h, w),) for h, w in ((7, 20), (4, 4), (3, 5), (14, 13))]
    assert plain_fault(function, (rand(1, 2, 8, 12),), others[0])
    check_translated(function, (rand(1, 2, 8, 12),), others, REPAIRS, single=SAMPLED)


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_an_open_image_by_an_open_scale(mode: str) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, scale_factor=(float(x.shape[2]) / 7, x.shape[3] ** 0.5 / 3), mode=mode)

    check_translated(
        function, (rand(1, 2, 8, 12),), [(rand(1, 2, 19, 33),), (rand(2, 2, 7, 9),)], REPAIRS, single=SAMPLED
    )


def test_attention() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(x, x, x, scale=1 / math.sqrt(x.shape[2]))

    assert "values differ" in plain_fault(function, (rand(2, 2, 4, 4),), (rand(2, 2, 9, 4),))
    check_translated(function, (rand(2, 2, 4, 4),), [(rand(2, 2, 9, 4),), (rand(1, 2, 1, 4),)], REPAIRS)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.abs() ** float(x.shape[1] / 2),
        lambda x: torch.pow(x.abs().double(), x.shape[1] / 2),
        lambda x: (x * 3).long() ** x.shape[1],
        lambda x: x.pow(x.shape[1]),
    ],
)
def test_exponents(function: Any) -> None:
    check_translated(function, (rand(2, 2),), [(rand(2, 3),), (rand(3, 1),)], REPAIRS)
