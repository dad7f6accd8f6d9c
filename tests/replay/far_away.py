"""Code that the models of the reproduction tests use from another file. No test."""

from __future__ import annotations

import logging
import math
from enum import Enum

import torch
import torch.nn.functional as F
from torch import nn

logger = logging.getLogger(__name__)
FACTOR = 1.5
SECRET = torch.tensor([0.123456, 98765.0])


class Mode(Enum):
    SMOOTH = "bilinear"


def scaled(size: int, factor: float = FACTOR) -> int:
    """A size times a factor."""
    logger.info("scaling")
    return int(math.floor(size * factor))


def enlarged(x: torch.Tensor) -> torch.Tensor:
    return F.interpolate(x, size=(scaled(x.shape[2]), x.shape[3]), mode=Mode.SMOOTH.value)


class Base(nn.Module):
    limit = 3

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.full((4,), 0.123456))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.bias[0]
