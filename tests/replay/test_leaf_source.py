"""torch.nn modules as the calls that make them."""

from __future__ import annotations

import ast

import pytest
import torch
from torch import nn

from guarddiff.replay import leaf_source
from guarddiff.replay.python_source import Unwritable


@pytest.mark.parametrize(
    "module",
    [
        nn.Conv2d(3, 8, 3, padding=1, bias=False),
        nn.LSTM(4, 5, num_layers=2, batch_first=True, bidirectional=True),
        nn.GRU(4, 5),
        nn.BatchNorm2d(3),
        nn.Embedding(10, 4, padding_idx=0),
        nn.MultiheadAttention(8, 2, batch_first=True),
        nn.MultiheadAttention(8, 2, bias=False),
        nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu"),
        nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2, norm=nn.LayerNorm(8)),
        nn.Upsample(scale_factor=2, mode="bilinear"),
        nn.AdaptiveAvgPool2d((2, 3)),
        nn.GELU(),
    ],
    ids=lambda module: type(module).__name__,
)
def test_the_call_makes_the_same_kind_of_module(module: nn.Module) -> None:
    text = ast.unparse(leaf_source.text(module))
    made = eval(text)
    assert type(made) is type(module)
    shapes = {name: value.shape for name, value in module.state_dict().items()}
    assert {name: value.shape for name, value in made.state_dict().items()} == shapes


def test_a_private_kind_is_written_as_the_public_one() -> None:
    out = nn.MultiheadAttention(8, 2).out_proj
    assert ast.unparse(leaf_source.text(out)).startswith("torch.nn.Linear(")


def test_an_unknown_module_is_refused() -> None:
    with pytest.raises(Unwritable):
        leaf_source.text(nn.Transformer(8, 2, 1, 1, 16, custom_encoder=nn.Identity()))


def test_the_random_state_is_left_alone() -> None:
    module = nn.MultiheadAttention(8, 2)
    before = torch.random.get_rng_state()
    leaf_source.text(module)
    assert torch.equal(torch.random.get_rng_state(), before)
