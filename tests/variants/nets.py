"""Small models whose weights are large enough to be shared."""

from __future__ import annotations

import torch
from torch import nn

SIZES = [(1, 3, 12, 12), (1, 3, 16, 20), (2, 3, 9, 12)]


def net() -> nn.Module:
    """Of torch's own classes, which any process can load."""
    torch.manual_seed(0)
    layers = (nn.Conv2d(3, 64, 3), nn.BatchNorm2d(64), nn.ReLU(), nn.AdaptiveAvgPool2d((3, 2)), nn.Flatten())
    return nn.Sequential(*layers, nn.Linear(384, 40)).eval()


def example() -> torch.Tensor:
    return torch.randn(1, 3, 12, 12)


class Tagged(nn.Module):
    """Two inputs of different dtypes, one by keyword, and a setting that is no parameter."""

    def __init__(self, scale: float = 2.0) -> None:
        super().__init__()
        self.scale = scale
        self.words = nn.Embedding(10, 64)

    def forward(self, ids: torch.Tensor, *, mask: torch.Tensor) -> torch.Tensor:
        return (self.words(ids) * self.scale * mask.unsqueeze(-1)).sum(1)
