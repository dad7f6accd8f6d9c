"""Adaptive average pooling (and ``interpolate(mode="area")``, which is that) at every size.

torch's decomposition is right for the sizes of the example alone; three-dimensional pooling has none and can't be
exported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from guarddiff.repair.averaging import average
from guarddiff.repair.registry import Repair
from guarddiff.repair.windows import Size, Value, sizes_of


def adaptive_avg_pool1d(self: Value, output_size: Sequence[Size], *, strict: bool = False) -> Value:
    """``aten.adaptive_avg_pool1d``: of (N, C, L) or (C, L). ``strict`` as for ``averaging.average``."""
    return average(self, sizes_of(output_size, 1), strict=strict)


def adaptive_avg_pool2d(self: Value, output_size: Sequence[Size], *, strict: bool = False) -> Value:
    """``aten._adaptive_avg_pool2d`` and ``aten.adaptive_avg_pool2d``: of (N, C, H, W) or (C, H, W)."""
    return average(self, sizes_of(output_size, 2), strict=strict)


def adaptive_avg_pool3d(self: Value, output_size: Sequence[Size], *, strict: bool = False) -> Value:
    """``aten._adaptive_avg_pool3d`` and ``aten.adaptive_avg_pool3d``: of (N, C, D, H, W) or (C, D, H, W)."""
    return average(self, sizes_of(output_size, 3), strict=strict)


# The composites are named as well: they then stay whole, and their comparison of the output size with 1 adds no guard.
TRANSLATIONS: dict[str, Callable[..., Any]] = {
    "aten.adaptive_avg_pool1d.default": adaptive_avg_pool1d,
    "aten.adaptive_avg_pool2d.default": adaptive_avg_pool2d,
    "aten._adaptive_avg_pool2d.default": adaptive_avg_pool2d,
    "aten.adaptive_avg_pool3d.default": adaptive_avg_pool3d,
    "aten._adaptive_avg_pool3d.default": adaptive_avg_pool3d,
}

# NaN and infinity stay in the windows that hold them; slower.
STRICT_TRANSLATIONS: dict[str, Callable[..., Any]] = {
    name: partial(function, strict=True) for name, function in TRANSLATIONS.items()
}

REPAIRS = (
    Repair(
        name="adaptive average pooling",
        ops=("aten.adaptive_avg_pool*d.default", "aten._adaptive_avg_pool*d.default"),
        way="The windows are worked out from the input's size when the model runs: products with averaging matrices, "
        "or gathered cells where the output is large.",
        translations=TRANSLATIONS,
    ),
)
