"""Weights at which wrong results show: what a freshly made network says hardly depends on its inputs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrize

_TINY = 0.01
_SPREAD = 0.3
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_NORMALIZATIONS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


@torch.no_grad()
def enliven(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], gain: float = 1.0) -> None:
    """Draw weights anew where they would let the signal die, and measure the statistics of batch normalizations.

    Networks start with layer scales of 1e-6, gammas of zero, position tables near zero and batch normalizations that
    normalize nothing. Whatever such a part does wrong is lost in the output. ``gain`` multiplies the weights of
    convolutions.
    """
    normalized = any(isinstance(module, _NORMALIZATIONS) for module in model.modules())
    for module in model.modules():
        gated = normalized and getattr(module, "bias", None) is not None  # what no batch normalization follows
        if parametrize.is_parametrized(module):
            continue
        for name, parameter in module.named_parameters(recurse=False):
            if parameter.is_floating_point() and parameter.ndim:
                _draw(module, name, parameter, gain / 3 if gated else gain)
    _measure(model, args, kwargs)


def _draw(module: nn.Module, name: str, parameter: nn.Parameter, gain: float) -> None:
    if name == "weight" and isinstance(module, _CONVOLUTIONS):
        parameter.normal_(0, gain * math.sqrt(2 / (parameter.numel() / parameter.shape[0])))
    elif name == "weight" and isinstance(module, _TRANSPOSED):
        stride = math.prod(module.stride)
        parameter.normal_(0, gain * math.sqrt(2 * stride / (parameter.numel() / parameter.shape[1])))
    elif name == "weight" and isinstance(module, nn.Linear):
        parameter.normal_(0, 1 / math.sqrt(module.in_features))
    elif name == "weight" and isinstance(module, nn.Embedding):
        parameter.normal_(0, 1)
    elif name == "weight" and parameter.ndim == 1 and parameter.abs().mean() < 0.1:
        parameter.uniform_(0.3, 0.6)  # a normalization's, often the last of a branch
    elif _constant(parameter):
        _draw_constant(name, parameter)
    elif parameter.ndim > 1 and parameter.std() < 0.1 and _is_table(name):
        parameter.normal_(0, _SPREAD)


def _draw_constant(name: str, parameter: nn.Parameter) -> None:
    value = parameter.flatten()[0].item()
    if "bias" in name and parameter.ndim == 1:
        parameter.add_(torch.randn_like(parameter) * 0.1)
    elif abs(value) > _TINY:
        parameter.mul_(torch.empty_like(parameter).uniform_(0.8, 1.2))
    elif "bias" in name or _is_table(name):
        parameter.normal_(0, _SPREAD)
    else:  # a gamma, a layer scale
        parameter.uniform_(0.5, 1)


def _constant(parameter: nn.Parameter) -> bool:
    return bool(parameter.numel()) and bool((parameter == parameter.flatten()[0]).all())


def _is_table(name: str) -> bool:
    return any(part in name for part in ("pos", "token", "table", "embed", "rel_", "query", "latent"))


def _measure(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """One run in which every batch normalization takes the scale of what it is given.

    One scale for all channels, and a quarter of the mean: a deep stack of layers that each set every channel to mean
    0 and variance 1 makes large differences of the smallest ones, those between two libraries' sums among them.
    """
    layers = [
        module for module in model.modules() if isinstance(module, _NORMALIZATIONS) and module.track_running_stats
    ]
    hooks = [layer.register_forward_pre_hook(_take_scale) for layer in layers]
    try:
        if layers:
            model(*args, **kwargs)
    finally:
        for hook in hooks:
            hook.remove()


def _take_scale(layer: nn.Module, args: tuple[torch.Tensor, ...]) -> None:
    mean, variance = layer.running_mean, layer.running_var
    if isinstance(mean, torch.Tensor) and isinstance(variance, torch.Tensor):
        given = args[0]
        mean.copy_(given.transpose(0, 1).flatten(1).mean(1) / 4)
        centred = given - mean.reshape(1, -1, *[1] * (given.ndim - 2))
        variance.fill_(max(centred.square().mean().item(), 1e-8))
