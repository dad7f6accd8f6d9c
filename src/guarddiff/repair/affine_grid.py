"""``affine_grid`` for a shape with open sizes, which its capture makes numbers."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from guarddiff.repair.registry import Repair
from guarddiff.repair.symbolic import any_symbolic


def affine_grid(theta: Any, size: Any, align_corners: bool | None = None) -> Any:
    """``F.affine_grid`` as a sum of the coordinates of each axis, times the columns of ``theta``."""
    rank = len(size) - 2
    if rank not in (2, 3) or theta.dim() != 3 or not theta.is_floating_point() or not any_symbolic(size):
        return NotImplemented
    if any(isinstance(given, int) and given != want for given, want in zip(theta.shape[1:], (rank, rank + 1))):
        return NotImplemented
    grid = theta[:, :, rank].reshape(-1, *(1,) * rank, rank)
    for place, count in enumerate(size[2:]):
        line = _line(count, theta, bool(align_corners))
        column = theta[:, :, rank - 1 - place].reshape(-1, *(1,) * rank, rank)
        grid = grid + line.reshape(*(-1 if other == place else 1 for other in range(rank)), 1) * column
    return grid


def _line(count: Any, theta: Any, align_corners: bool) -> Any:
    """The coordinates of one axis, in -1 to 1; 0 where there is one place."""
    places = torch.arange(count, device=theta.device)
    total = torch.full((), count, dtype=torch.int64, device=theta.device)
    steps = (total - 1).clamp(min=1) if align_corners else total
    return (2 * places + 1 - total).to(theta.dtype) / steps.to(theta.dtype)


REPAIRS = (
    Repair(
        name="affine grid by shape",
        ops=("affine_grid", "affine_grid_generator", "aten.affine_grid_generator.*"),
        way="computed from ranges as long as the sizes are when the model runs",
        stages=("declare", "capture"),
        functions={F.affine_grid: affine_grid, torch.affine_grid_generator: affine_grid},
    ),
)
