"""What the nets of transformers share: small configurations, and inputs of text."""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from torch import nn

from guarddiff.sweep.case import Shape
from guarddiff.sweep.models.net import Fill, Input, Net, points

VOCABULARY = 96
TEXT = points("n s", (2, 8), (1, 13), (3, 20), (2, 5))

SMALL: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 64,
}
"""What most configurations of encoders call it."""

DECODER: dict[str, Any] = {**SMALL, "num_key_value_heads": 2, "use_cache": False, "pad_token_id": 0}
"""What most configurations of decoders since Llama call it."""


def build(model: str, config: str, **given: Any) -> Callable[[], nn.Module]:
    """Makes the model of this class from the configuration of that class; both with names of transformers."""
    return functools.partial(_build, model, config, given)


def configuration(config: str, **given: Any) -> Any:
    """A configuration of transformers."""
    return getattr(import_module("transformers"), config)(**given)


def _build(model: str, config: str, given: dict[str, Any]) -> nn.Module:
    made: nn.Module = getattr(import_module("transformers"), model)(configuration(config, **given))
    return made


def tokens(shape: Shape, low: int = 3, high: int = VOCABULARY) -> torch.Tensor:
    """Numbers of words; the first few stand for padding and the like and do not occur."""
    return torch.randint(low, high, shape)


def mask(shape: Shape) -> torch.Tensor:
    """Ones, with a zero or two at the end of all rows but the first."""
    made = torch.ones(shape, dtype=torch.int64)
    for row in range(1, shape[0]):
        made[row, max(shape[1] - row % 3, 1) :] = 0
    return made


def ones(shape: Shape) -> torch.Tensor:
    """A mask that leaves nothing out."""
    return torch.ones(shape, dtype=torch.int64)


def types(shape: Shape) -> torch.Tensor:
    """Zeros for the first half of the words, ones for the second."""
    return (torch.arange(shape[-1]) >= shape[-1] // 2).long().expand(shape).contiguous()


def boxes(shape: Shape) -> torch.Tensor:
    """Boxes of words on a page of 1000 by 1000: left, top, right, bottom."""
    low = torch.randint(0, 500, (*shape[:-1], 2))
    return torch.cat((low, low + torch.randint(1, 500, low.shape)), -1)


def words(name: str = "input_ids", axes: tuple[int | str, ...] = ("n", "s"), fill: Fill = tokens) -> Input:
    """The input of words."""
    return Input(fill, axes, name)


def masked(name: str = "attention_mask", axes: tuple[int | str, ...] = ("n", "s")) -> Input:
    """The mask of the words."""
    return Input(mask, axes, name)


def text(name: str, make: Callable[[], nn.Module], **more: Any) -> Net:
    """A model of words and their mask; ``more`` goes to Net, ``points`` among it."""
    return Net(name, make, (words(), masked()), **{"points": TEXT, **more})


def translation(name: str, make: Callable[[], nn.Module], **more: Any) -> Net:
    """An encoder and a decoder, of words each."""
    inputs = (words(), masked(), words("decoder_input_ids", ("n", "t")))
    rows = points("n s t", (2, 8, 6), (1, 13, 4), (3, 20, 9), (2, 5, 12))
    return Net(name, make, inputs, **{"points": rows, **more})


class Cached(nn.Module):
    """A decoder of two layers with its cache as tensors: how generation is exported, one step of it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        key0: torch.Tensor,
        value0: torch.Tensor,
        key1: torch.Tensor,
        value1: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        cache = import_module("transformers").DynamicCache()
        cache.update(key0, value0, 0)
        cache.update(key1, value1, 1)
        out = self.model(input_ids=input_ids, attention_mask=attention_mask, past_key_values=cache, use_cache=True)
        layers = out.past_key_values.layers
        return (out.logits, *(tensor for layer in layers for tensor in (layer.keys, layer.values)))


class Taken(nn.Module):
    """A model of pictures of which some outputs are taken, by name."""

    def __init__(self, model: nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model = model
        self.names = names

    def forward(self, pixel_values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        out = self.model(pixel_values=pixel_values)
        return tuple(getattr(out, name) for name in self.names)
