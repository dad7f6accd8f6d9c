"""Weights that let wrong results show."""

from __future__ import annotations

import torch
from torch import nn

from guarddiff.sweep.models.weights import enliven


class Scaled(nn.Module):
    """A block whose layer scale is next to nothing, after a position table of zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.pos_embed = nn.Parameter(torch.zeros(1, 4, 8))
        self.block = nn.Linear(8, 8)
        self.gamma = nn.Parameter(torch.full((8,), 1e-6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.gamma * self.block(x + self.pos_embed)


def test_layer_scales_and_position_tables_count() -> None:
    torch.manual_seed(0)
    model, x = Scaled().eval(), torch.randn(2, 4, 8)
    enliven(model, (x,), {})
    assert model.gamma.min() >= 0.5
    assert model.pos_embed.std() > 0.1


def test_signal_passes_through_many_normalized_layers() -> None:
    torch.manual_seed(0)
    layers: list[nn.Module] = [nn.Conv2d(3, 16, 1)]
    for _ in range(30):
        layers += [nn.Conv2d(16, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    model, x = nn.Sequential(*layers).eval(), torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        before = model(x)
        enliven(model, (x,), {})
        after, other = model(x), model(torch.randn(2, 3, 8, 8))
    assert before.std() < 1e-3
    assert after.std() > 0.1
    assert (after - other).abs().max() > 0.1
    assert not any(module.training for module in model.modules())
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_weights_that_carry_the_signal_are_left_alone() -> None:
    model = nn.LSTM(4, 8)
    given = {name: parameter.clone() for name, parameter in model.named_parameters()}
    enliven(model, (torch.randn(3, 1, 4),), {})
    assert all(torch.equal(given[name], parameter) for name, parameter in model.named_parameters())


def test_parametrized_weights_are_left_alone() -> None:
    model = nn.utils.parametrizations.weight_norm(nn.Conv1d(2, 2, 3))
    before = model.weight.clone()
    enliven(model, (torch.randn(1, 2, 8),), {})
    assert torch.equal(model.weight, before)
