"""Ways in which users declare sizes, beside ``Dim.AUTO``."""

from __future__ import annotations

from typing import Any

import torch

Declared = list[dict[int, Any] | None]


def named(inputs: int = 1, /, **axes: int) -> Declared:
    """``torch.export.Dim`` by name for these axes, the same ones for each of so many inputs."""
    dims = {axis: torch.export.Dim(name) for name, axis in axes.items()}
    return [dict(dims) for _ in range(inputs)]


def bounded(least: int, most: int, /, **axes: int) -> Declared:
    """The same for one input, with least and greatest sizes."""
    return [{axis: torch.export.Dim(name, min=least, max=most) for name, axis in axes.items()}]


def strict(inputs: int = 1, /, *axes: int) -> Declared:
    """``Dim.DYNAMIC`` for these axes of each of so many inputs."""
    return [dict.fromkeys(axes, torch.export.Dim.DYNAMIC) for _ in range(inputs)]


def words(inputs: int = 1, /, **axes: int) -> Declared:
    """The names as plain strings, which torch makes dimensions of."""
    return [{axis: name for name, axis in axes.items()} for _ in range(inputs)]
