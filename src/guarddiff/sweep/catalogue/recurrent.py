"""Recurrent nets: torch's layers, cells in loops, and what stands around them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from guarddiff.sweep.catalogue.dims import named, strict
from guarddiff.sweep.catalogue.entry import Entry, module, one

LAYER, LAST, CELL, NET = "recurrent layers", "last steps", "cells in loops", "recurrent nets"
LINE, LINES = (2, 5, 3), ((2, 10, 3), (3, 4, 3), (1, 7, 3))


def entries() -> list[Entry]:
    """The entries of this shelf."""
    return [*_layers(), *_states(), *_last(), *_cells(), *_scans(), *_nets(), *_decoders()]


class Layer(nn.Module):
    """One of torch's layers; ``states`` hands its last states back too."""

    def __init__(self, kind: Callable[..., nn.RNNBase], states: bool = True, **more: Any) -> None:
        super().__init__()
        self.states, self.layer = states, kind(3, 4, **{"batch_first": True, **more})

    def forward(self, x: torch.Tensor) -> Any:
        result, states = self.layer(x)
        return (result, states) if self.states else result


def _layers() -> list[Entry]:
    second, seconds = (5, 2, 3), ((10, 2, 3), (4, 3, 3))
    found = []
    kinds: dict[str, Callable[..., nn.RNNBase]] = {"RNN": nn.RNN, "LSTM": nn.LSTM, "GRU": nn.GRU}
    for name, kind in kinds.items():
        found += [
            module(LAYER, name, functools.partial(Layer, kind), LINE, *LINES),
            module(LAYER, f"{name}, two layers", functools.partial(Layer, kind, num_layers=2), LINE, *LINES),
            module(LAYER, f"{name}, both ways", functools.partial(Layer, kind, bidirectional=True), LINE, *LINES),
            module(LAYER, f"{name}, batch second", functools.partial(Layer, kind, batch_first=False), second, *seconds),
        ]
    return [
        *found,
        module(LAYER, "RNN, relu, result only", lambda: Layer(nn.RNN, False, nonlinearity="relu"), LINE, *LINES),
        module(LAYER, "LSTM, projected", lambda: Layer(nn.LSTM, proj_size=2), LINE, *LINES),
        module(LAYER, "LSTM, batch of one", lambda: Layer(nn.LSTM), (1, 5, 3), (2, 5, 3), (3, 9, 3)),
        module(LAYER, "GRU, batch of one", lambda: Layer(nn.GRU, False), (1, 5, 3), (2, 5, 3), (3, 9, 3)),
        module(LAYER, "LSTM, batch alone", lambda: Layer(nn.LSTM), LINE, (3, 5, 3), (5, 5, 3)),
        module(LAYER, "GRU, named", lambda: Layer(nn.GRU), LINE, (3, 9, 3), (4, 4, 3), dynamic=named(batch=0, steps=1)),
        module(LAYER, "LSTM, strict", lambda: Layer(nn.LSTM), LINE, (3, 9, 3), (4, 4, 3), dynamic=strict(1, 0, 1)),
    ]


class Given(nn.Module):
    """A GRU whose first state is an input."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.GRU(3, 4, batch_first=True)

    def forward(self, x: torch.Tensor, state: torch.Tensor) -> Any:
        return self.layer(x, state)


class GivenPair(nn.Module):
    """An LSTM of two layers whose first states are inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(3, 4, 2, batch_first=True)

    def forward(self, x: torch.Tensor, state: torch.Tensor, memory: torch.Tensor) -> Any:
        return self.layer(x, (state, memory))


class Made(nn.Module):
    """An LSTM with states of zeros made by the batch, or learned and spread over it."""

    def __init__(self, learned: bool) -> None:
        super().__init__()
        self.learned, self.layer = learned, nn.LSTM(3, 4, batch_first=True)
        self.state = nn.Parameter(torch.randn(1, 1, 4))

    def forward(self, x: torch.Tensor) -> Any:
        if self.learned:
            state = self.state.expand(-1, x.size(0), -1).contiguous()
        else:
            state = torch.zeros(1, x.size(0), 4, dtype=x.dtype)
        return self.layer(x, (state, torch.zeros_like(state)))[0]


def _states() -> list[Entry]:
    return [
        Entry(LAYER, "GRU, state given", Given, (LINE, (1, 2, 4)), (((2, 9, 3), (1, 2, 4)), ((3, 4, 3), (1, 3, 4)))),
        Entry(
            LAYER,
            "LSTM, states given",
            GivenPair,
            (LINE, (2, 2, 4), (2, 2, 4)),
            (((2, 9, 3), (2, 2, 4), (2, 2, 4)), ((3, 4, 3), (2, 3, 4), (2, 3, 4))),
        ),
        module(LAYER, "LSTM, zeros by the batch", lambda: Made(False), LINE, *LINES),
        module(LAYER, "LSTM, learned state", lambda: Made(True), LINE, *LINES),
    ]


class Last(nn.Module):
    """A classifier on ``what`` is last of a layer that runs both ways."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what
        self.layer, self.out = nn.GRU(3, 4, 2, batch_first=True, bidirectional=True), nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> Any:
        result, state = self.layer(x)
        if self.what == "states":
            last = torch.cat([state[-2], state[-1]], dim=1)
        elif self.what == "view":
            last = state.view(2, 2, x.shape[0], 4)[-1].transpose(0, 1).reshape(x.shape[0], -1)
        elif self.what == "step":
            last = result[:, -1]
        elif self.what == "ends":
            last = torch.cat([result[:, x.shape[1] - 1, :4], result[:, 0, 4:]], 1)
        else:
            last = torch.max(result, 1).values + result.mean(1)
        return self.out(last)


class Gathered(nn.Module):
    """The last valid step of each row, by lengths."""

    def __init__(self, indexed: bool) -> None:
        super().__init__()
        self.indexed, self.layer = indexed, nn.GRU(3, 4, batch_first=True)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> Any:
        result, _ = self.layer(x)
        if self.indexed:
            return result[torch.arange(x.shape[0]), lengths - 1]
        index = (lengths - 1).view(-1, 1, 1).expand(-1, 1, result.size(2))
        return result.gather(1, index).squeeze(1)


class Reversed(nn.Module):
    """The valid part of each row turned round by its length, then a GRU."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.GRU(3, 4, batch_first=True)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> Any:
        places = torch.arange(x.shape[1])[None]
        turned = (lengths[:, None] - 1 - places).clamp(min=0)
        result = self.layer(x.gather(1, turned.unsqueeze(-1).expand_as(x)))[0]
        return result * (places < lengths[:, None]).unsqueeze(-1)


def lengths(place: int, shape: tuple[int, ...]) -> torch.Tensor:
    """Normal numbers first, then lengths of 2 to 4 steps."""
    return torch.arange(shape[0]) % 3 + 2 if place else torch.randn(shape)


def _last() -> list[Entry]:
    what = {"states": "states", "view": "states by view", "step": "last step", "ends": "both ends", "pooled": "pooled"}
    rows, others = ((3, 5, 3), (3,)), (((2, 9, 3), (2,)), ((4, 4, 3), (4,)))
    return [
        *(module(LAST, name, functools.partial(Last, key), LINE, *LINES) for key, name in what.items()),
        module(LAST, "last step, batch of one", lambda: Last("step"), (1, 5, 3), (2, 5, 3), (3, 9, 3)),
        Entry(LAST, "gathered by lengths", lambda: Gathered(False), rows, others, fill=lengths),
        Entry(LAST, "indexed by lengths", lambda: Gathered(True), rows, others, fill=lengths),
        Entry(LAST, "turned round by lengths", Reversed, rows, others, fill=lengths),
    ]


class Cells(nn.Module):
    """A loop over the steps with a cell, written in ``how`` people write it."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.cell, self.gru = how, nn.LSTMCell(3, 4), nn.GRUCell(3, 4)

    def forward(self, x: torch.Tensor) -> Any:
        state = memory = x.new_zeros(x.shape[0], 4)
        steps = []
        if self.how == "range":
            for i in range(x.size(1)):
                state, memory = self.cell(x[:, i], (state, memory))
                steps.append(state)
            return torch.stack(steps, dim=1)
        if self.how == "unbind":
            for step in x.unbind(1):
                state = self.gru(step, state)
                steps.append(state)
            return torch.stack(steps, dim=1)
        if self.how == "first three":
            for i in range(3):
                state = self.gru(x[:, i], state)
            return state
        for i in reversed(range(x.size(1))):
            state = self.gru(x[:, i, :], state)
        return state


class RowsFirst(nn.Module):
    """``for step in x``, the steps first."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(3, 4)

    def forward(self, x: torch.Tensor) -> Any:
        state, memory = x.new_zeros(x.shape[1], 4), x.new_zeros(x.shape[1], 4)
        steps = []
        for step in x:
            state, memory = self.cell(step, (state, memory))
            steps.append(state)
        return torch.stack(steps)


def _cells() -> list[Entry]:
    second, seconds = (5, 2, 3), ((10, 2, 3), (4, 3, 3))
    return [
        module(CELL, "range of a size", lambda: Cells("range"), LINE, *LINES),
        module(CELL, "unbind", lambda: Cells("unbind"), LINE, *LINES),
        module(CELL, "backwards", lambda: Cells("backwards"), LINE, *LINES),
        module(CELL, "range of a size, batch alone", lambda: Cells("range"), LINE, (3, 5, 3), (4, 5, 3)),
        module(CELL, "first three steps", lambda: Cells("first three"), LINE, *LINES),
        module(CELL, "for step in x", RowsFirst, second, *seconds),
    ]


def _moving_average(x: torch.Tensor) -> Any:
    state, found = x[:, 0], [x[:, 0]]
    for i in range(1, x.shape[1]):
        state = 0.9 * state + 0.1 * x[:, i]
        found.append(state)
    return torch.stack(found, 1)


def _closed_average(x: torch.Tensor) -> Any:
    """The same without a loop: a triangle of powers."""
    apart = torch.arange(x.shape[1])[:, None] - torch.arange(x.shape[1])
    weights = torch.where(apart >= 0, 0.9 ** apart.clamp(min=0).float(), 0.0)
    return torch.einsum("ts,bsd->btd", weights, x)


def _selective(x: torch.Tensor) -> Any:
    """A state space with gates of its own, as cumulative sums of logarithms."""
    gates = F.logsigmoid(x).cumsum(1)
    apart = (gates.unsqueeze(2) - gates.unsqueeze(1)).clamp(max=0)
    kept = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()[None, :, :, None]
    return (apart.exp() * kept * x.unsqueeze(1)).sum(2)


def _doubling(x: torch.Tensor) -> Any:
    """A scan in rounds of doubled strides, as many as the length needs."""
    stride = 1
    while stride < x.shape[1]:
        x = x + 0.5 * F.pad(x, (0, 0, stride, 0))[:, : x.shape[1]]
        stride *= 2
    return x


def _scans() -> list[Entry]:
    return [
        one(CELL, "moving average", _moving_average, LINE, *LINES),
        one(CELL, "moving average by powers", _closed_average, LINE, *LINES),
        one(CELL, "gates by running sums", _selective, LINE, *LINES),
        one(CELL, "rounds of doubled strides", _doubling, LINE, *LINES),
    ]


class Speech(nn.Module):
    """Convolutions over frames and features, the rest into an LSTM (DeepSpeech, CRNN)."""

    def __init__(self, both: bool) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3, (2, 2), 1)
        self.layer, self.out = nn.LSTM(8, 4, batch_first=True, bidirectional=both), nn.Linear(8 if both else 4, 5)

    def forward(self, x: torch.Tensor) -> Any:
        x = self.conv(x.unsqueeze(1)).relu()
        b, c, t, f = x.shape
        x = x.permute(0, 2, 1, 3).reshape(b, t, c * f)
        return self.out(self.layer(x)[0]).log_softmax(-1)


class Lines(nn.Module):
    """CRNN: a text line's columns into a GRU, the steps first."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.layer, self.out = nn.Conv2d(1, 4, 3, padding=1), nn.GRU(4, 4), nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> Any:
        x = F.max_pool2d(self.conv(x), (x.shape[2], 2)).squeeze(2).permute(2, 0, 1)
        t, b, h = x.size()
        found, _ = self.layer(x)
        return self.out(found.contiguous().view(t * b, h)).view(t, b, -1)


class Conv1d(nn.Module):
    """A convolution in time, then a GRU: the length halved."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.layer = nn.Conv1d(3, 4, 3, stride=2, padding=1), nn.GRU(4, 4, batch_first=True)

    def forward(self, x: torch.Tensor) -> Any:
        return self.layer(self.conv(x.transpose(1, 2)).relu().transpose(1, 2))[0][:, -1]


class Pyramidal(nn.Module):
    """Listen, attend and spell: two steps joined to one between layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.GRU(3, 4, batch_first=True), nn.GRU(8, 4, batch_first=True)

    def forward(self, x: torch.Tensor) -> Any:
        x = self.first(x)[0]
        b, n, d = x.shape
        return self.second(x[:, : n // 2 * 2].reshape(b, n // 2, d * 2))[0]


class ManyToMany(nn.Module):
    """Sentences of a document: words into one GRU, the sentences' last states into another."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.sentences = nn.GRU(3, 4, batch_first=True), nn.GRU(4, 4, batch_first=True)

    def forward(self, x: torch.Tensor) -> Any:
        b, sentences, words, d = x.shape
        last = self.words(x.view(b * sentences, words, d))[1]
        return self.sentences(last.squeeze(0).view(b, sentences, -1))[1].squeeze(0)


def _nets() -> list[Entry]:
    frames, others = (2, 9, 8), ((2, 14, 8), (1, 20, 8))
    return [
        module(NET, "frames to an LSTM", lambda: Speech(False), frames, *others),
        module(NET, "frames to an LSTM, both ways", lambda: Speech(True), frames, *others),
        module(NET, "columns of a line to a GRU", Lines, (2, 1, 6, 10), (2, 1, 6, 16), (1, 1, 8, 22)),
        module(NET, "convolution and GRU", Conv1d, LINE, *LINES),
        module(NET, "two steps joined", Pyramidal, (2, 6, 3), (2, 9, 3), (3, 12, 3)),
        module(NET, "sentences of words", ManyToMany, (2, 3, 5, 3), (2, 4, 7, 3), (3, 2, 4, 3)),
    ]


class Seq2seq(nn.Module):
    """An encoder, and a decoder that runs so many steps on its own results; None: as many as there were inputs."""

    def __init__(self, steps: int | None, attends: bool = False) -> None:
        super().__init__()
        self.steps, self.attends = steps, attends
        self.encoder, self.cell, self.out = nn.GRU(3, 4, batch_first=True), nn.GRUCell(3, 4), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> Any:
        memory, state = self.encoder(x)
        state, step = state[-1], x[:, -1]
        found = []
        for _ in range(x.shape[1] if self.steps is None else self.steps):
            state = self.cell(step, state)
            if self.attends:
                weights = torch.bmm(memory, state.unsqueeze(2)).squeeze(2).softmax(1)
                state = state + torch.bmm(weights.unsqueeze(1), memory).squeeze(1)
            step = self.out(state)
            found.append(step)
        return torch.stack(found, 1)


class Teacher(nn.Module):
    """A decoder layer over given targets, started with the encoder's states."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.LSTM(3, 4, batch_first=True), nn.LSTM(3, 4, batch_first=True)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        return self.decoder(y, self.encoder(x)[1])[0]


def _decoders() -> list[Entry]:
    return [
        module(NET, "decoder of four steps", lambda: Seq2seq(4), LINE, *LINES),
        module(NET, "decoder of as many steps", lambda: Seq2seq(None), LINE, *LINES),
        module(NET, "decoder of three steps with attention", lambda: Seq2seq(3, True), LINE, *LINES),
        Entry(
            NET, "decoder over targets", Teacher, (LINE, (2, 4, 3)), (((2, 9, 3), (2, 6, 3)), ((3, 4, 3), (3, 5, 3)))
        ),
    ]
