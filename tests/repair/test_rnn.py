"""nn.RNN over a dynamic length, repaired."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from tests.repair.exporting import AUTO, rand
from tests.repair.translating import check_translated, plain_fault
from torch import nn
from torch.export import Dim

from guarddiff.repair import capture, rnn

REPAIRS = rnn.REPAIRS


class Recurrent(nn.Module):
    """An RNN of small size, with its own start state where one is given."""

    def __init__(self, **how: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.rnn = nn.RNN(3, 4, **how)

    def forward(self, x: torch.Tensor, y: torch.Tensor | None = None) -> Any:
        return self.rnn(x, y)


@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_fault_and_cure(nonlinearity: str, num_layers: int, bidirectional: bool) -> None:
    model = Recurrent(nonlinearity=nonlinearity, num_layers=num_layers, bidirectional=bidirectional).eval()
    args, others = (rand(5, 2, 3),), [(rand(n, b, 3),) for n, b in ((10, 2), (1, 3), (3, 1), (17, 5))]
    shapes = ({0: AUTO, 1: AUTO},)
    if num_layers == 1:
        assert "in place of" in plain_fault(model, args, others[0], shapes)
    check_translated(model, args, others, REPAIRS, shapes)


@pytest.mark.parametrize("how", [{"bias": False}, {"batch_first": True}, {"dropout": 0.5}], ids=str)
def test_other_arguments(how: dict[str, Any]) -> None:
    model = Recurrent(num_layers=2, bidirectional=True, **how).eval()
    others = [(rand(4, 9, 3),), (rand(7, 2, 3),), (rand(1, 1, 3),)]
    check_translated(model, (rand(5, 2, 3),), others, REPAIRS, ({0: AUTO, 1: AUTO},))


def test_start_state() -> None:
    model = Recurrent(num_layers=2).eval()
    args, others = (rand(5, 2, 3), rand(2, 2, 4)), [(rand(n, b, 3), rand(2, b, 4)) for n, b in ((9, 3), (2, 1))]
    check_translated(model, args, others, REPAIRS, ({0: AUTO, 1: AUTO}, {1: AUTO}))


def test_without_batch() -> None:
    check_translated(Recurrent().eval(), (rand(5, 3),), [(rand(9, 3),), (rand(1, 3),)], REPAIRS, ({0: AUTO},))


@pytest.mark.parametrize("size", [Dim("length", min=2, max=64), "length", Dim.DYNAMIC], ids=["range", "name", "any"])
def test_lengths_declared_in_any_way(size: Any) -> None:
    model, args, other = Recurrent().eval(), (rand(5, 2, 3),), (rand(9, 2, 3),)
    assert plain_fault(model, args, other, ({0: size},))
    check_translated(model, args, [other], REPAIRS, ({0: size},))


def test_what_follows_knows_the_length() -> None:
    """The captured length must not be static: a view holds it."""

    class Flat(Recurrent):
        def forward(self, x: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
            out = self.rnn(x, y)[0]
            return out.view(out.shape[0] * out.shape[1], -1)

    check_translated(Flat().eval(), (rand(5, 2, 3),), [(rand(9, 3, 3),)], REPAIRS, ({0: AUTO, 1: AUTO},))


def test_translation_alone() -> None:
    """For programs that were captured before: values are right where nothing else holds the length."""
    alone = [dataclasses.replace(repair, functions={}) for repair in REPAIRS]
    check_translated(Recurrent().eval(), (rand(5, 2, 3),), [(rand(9, 2, 3),)], alone, ({0: AUTO},))


def test_packed_sequences_and_training_are_left_alone() -> None:
    layer = nn.RNN(3, 4, 2, dropout=0.5)
    packed = nn.utils.rnn.pack_padded_sequence(rand(5, 2, 3), torch.tensor([5, 3]))
    with capture.repairs(REPAIRS):
        layer(packed)
        torch.manual_seed(0)
        there = layer(rand_x := torch.ones(5, 2, 3))[0]
    torch.manual_seed(0)
    assert torch.equal(there, layer(rand_x)[0])


class Layer(nn.Module):
    """An LSTM or a GRU, and something that needs the length of what it gives."""

    def __init__(self, kind: type[nn.LSTM] | type[nn.GRU], **how: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = kind(3, 4, **how)

    def forward(self, x: torch.Tensor) -> Any:
        y, state = self.layer(x)
        steps = torch.arange(x.shape[0]).reshape(-1, 1, 1).expand_as(y)
        return y.flip(0) + steps, state


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("how", [{}, {"num_layers": 2, "bidirectional": True}, {"bias": False}], ids=str)
def test_the_length_stays_open_after_lstm_and_gru(kind: type[nn.LSTM] | type[nn.GRU], how: dict[str, Any]) -> None:
    model = Layer(kind, **how).eval()
    others = [(rand(n, b, 3),) for n, b in ((10, 2), (1, 3), (3, 1))]
    check_translated(model, (rand(5, 2, 3),), others, REPAIRS, ({0: AUTO, 1: AUTO},))


def test_projections_are_torchs_own() -> None:
    layer = nn.LSTM(3, 4, proj_size=2).eval()
    x = rand(5, 2, 3)
    with capture.repairs(REPAIRS):
        there = layer(x)[0]
    torch.testing.assert_close(there, layer(x)[0])
