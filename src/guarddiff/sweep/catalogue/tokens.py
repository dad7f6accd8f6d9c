"""Sequences: heads over a length, tokens with positions, forecasts."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from guarddiff.sweep.catalogue.dims import strict, words
from guarddiff.sweep.catalogue.entry import Entry, module, one
from guarddiff.sweep.catalogue.sequences import IDS, LINE, LINES, MORE, ids

HEAD, TOKENS, FORECAST = "heads over a length", "tokens and positions", "forecasts"


def entries() -> list[Entry]:
    """The entries of this shelf."""
    return [*_heads(), *_tokens(), *_forecasts()]


def _first_last(x: torch.Tensor) -> Any:
    return torch.cat([x[:, 0], x[:, -1], x.mean(1)], -1)


def _greedy(x: torch.Tensor) -> Any:
    """CTC: the best of each step, repeats and blanks put to -1."""
    best = x.log_softmax(-1).argmax(-1)
    before = F.pad(best[:, :-1], (1, 0), value=-1)
    return torch.where((best != before) & (best != 0), best, -1)


def _statistics(x: torch.Tensor) -> Any:
    """x-vectors: mean and deviation over time."""
    return torch.cat([x.mean(1), x.var(1).clamp(min=1e-5).sqrt()], 1)


class Attentive(nn.Module):
    """Attentive statistics with the mean of all steps beside each (ECAPA)."""

    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> Any:
        weights = self.score(torch.cat([x, x.mean(1, keepdim=True).expand_as(x)], -1)).tanh().softmax(1)
        mean = (weights * x).sum(1)
        return torch.cat([mean, ((weights * x * x).sum(1) - mean**2).clamp(min=1e-4).sqrt()], 1)


class Vlad(nn.Module):
    """NetVLAD: differences to centres, by soft assignment."""

    def __init__(self) -> None:
        super().__init__()
        self.assign, self.centres = nn.Linear(4, 3), nn.Parameter(torch.randn(3, 4))

    def forward(self, x: torch.Tensor) -> Any:
        weights = self.assign(x).softmax(-1)
        found = torch.einsum("bnk,bnd->bkd", weights, x) - weights.sum(1).unsqueeze(-1) * self.centres
        return F.normalize(F.normalize(found, dim=-1).flatten(1), dim=-1)


class Timed(nn.Module):
    """A layer for every step, batch and steps put together and taken apart."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))

    def forward(self, x: torch.Tensor) -> Any:
        flat = x.contiguous().view(-1, x.size(-1))
        return self.layer(flat).view(x.size(0), -1, 3)


def _heads() -> list[Entry]:
    return [
        one(HEAD, "mean", lambda x: x.mean(1), LINE, *LINES),
        one(HEAD, "adaptive mean", lambda x: F.adaptive_avg_pool1d(x.mT, 1).squeeze(-1), LINE, *LINES),
        one(HEAD, "adaptive mean of four", lambda x: F.adaptive_avg_pool1d(x.mT, 4).flatten(1), LINE, *LINES),
        one(HEAD, "average over the length", lambda x: F.avg_pool1d(x.mT, x.shape[1]).squeeze(-1), LINE, *LINES),
        one(HEAD, "first, last and mean", _first_last, LINE, *LINES),
        one(HEAD, "CTC, greedy", _greedy, LINE, *LINES),
        one(HEAD, "statistics", _statistics, LINE, *LINES),
        module(HEAD, "attentive statistics", Attentive, LINE, *LINES),
        module(HEAD, "differences to centres", Vlad, LINE, *LINES),
        module(HEAD, "every step", Timed, LINE, *LINES),
        module(HEAD, "every step, batch of one", Timed, (1, 8, 4), (2, 12, 4), (3, 9, 4)),
        one(HEAD, "statistics, words", _statistics, LINE, (3, 12, 4), (4, 9, 4), dynamic=words(batch=0, steps=1)),
    ]


class Embedded(nn.Module):
    """Tokens with positions, ``how`` they are made."""

    places: torch.Tensor

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.tokens, self.table = nn.Embedding(10, 4), nn.Embedding(16, 4)
        self.learned = nn.Parameter(torch.randn(1, 16, 4))
        self.register_buffer("places", torch.arange(16).expand((1, -1)))

    def forward(self, x: torch.Tensor) -> Any:
        b, n = x.shape
        made: dict[str, Callable[[], torch.Tensor]] = {
            "arange": lambda: self.table(torch.arange(n, device=x.device)),
            "arange, expanded": lambda: self.table(torch.arange(n).unsqueeze(0).expand(b, n)),
            "cropped buffer": lambda: self.table(self.places[:, :n]),
            "expanded like": lambda: self.table(torch.arange(n).expand_as(x)),
            "cut table": lambda: self.learned[:, :n],
            "stretched table": lambda: F.interpolate(self.learned.mT, size=n, mode="linear").mT,
            "shifted by two": lambda: self.table(torch.arange(2, n + 2)),
            "counted": lambda: self.table(torch.ones_like(x).cumsum(1) - 1),
            "sines": lambda: _sines(n),
            "backwards": lambda: self.table(torch.arange(n - 1, -1, -1)),
        }
        return self.tokens(x) * 2 + made[self.how]()


def _sines(n: int) -> torch.Tensor:
    places = torch.arange(0, n).unsqueeze(1)
    result = torch.zeros(n, 4)
    scale = torch.exp(torch.arange(0, 4, 2) * -(math.log(10000.0) / 4))
    result[:, 0::2], result[:, 1::2] = torch.sin(places * scale), torch.cos(places * scale)
    return result


def _tokens() -> list[Entry]:
    how = (
        "arange",
        "arange, expanded",
        "cropped buffer",
        "expanded like",
        "cut table",
        "stretched table",
        "shifted by two",
        "counted",
        "sines",
        "backwards",
    )
    return [
        *(module(TOKENS, name, functools.partial(Embedded, name), IDS, *MORE, fill=ids) for name in how),
        module(TOKENS, "arange, batch of one", lambda: Embedded("arange"), (1, 7), (2, 12), (3, 5), fill=ids),
        module(TOKENS, "cut table, whole in the example", lambda: Embedded("cut table"), (2, 16), *MORE, fill=ids),
        module(
            TOKENS,
            "arange, strict",
            lambda: Embedded("arange"),
            IDS,
            (3, 12),
            (4, 5),
            fill=ids,
            dynamic=strict(1, 0, 1),
        ),
        module(TOKENS, "bag of tokens", lambda: nn.EmbeddingBag(10, 4, mode="mean"), IDS, *MORE, fill=ids),
        module(TOKENS, "tied head", Tied, IDS, *MORE, fill=ids),
    ]


class Tied(nn.Module):
    """A language model of nothing but its table: scores of the last step alone."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 4)

    def forward(self, x: torch.Tensor) -> Any:
        hidden = self.table(x).cumsum(1) / torch.arange(1, x.shape[1] + 1).view(-1, 1)
        return hidden[:, [-1], :] @ self.table.weight.t()


def _patches(x: torch.Tensor) -> Any:
    """PatchTST: the end repeated, then patches that overlap."""
    return F.pad(x.transpose(1, 2), (0, 2), mode="replicate").unfold(-1, 4, 2).flatten(0, 1)


def _decomposed(x: torch.Tensor) -> Any:
    """Autoformer, DLinear: trend by a moving average, ends repeated."""
    front, end = x[:, :1].repeat(1, 2, 1), x[:, -1:].repeat(1, 2, 1)
    trend = F.avg_pool1d(torch.cat([front, x, end], 1).transpose(1, 2), 5, 1).transpose(1, 2)
    return trend, x - trend


def _periods(x: torch.Tensor) -> Any:
    """TimesNet: the length as rows of a period of 4, padded to a whole number."""
    b, n, d = x.shape
    length = n if n % 4 == 0 else (n // 4 + 1) * 4
    padded = torch.cat([x, x.new_zeros(b, length - n, d)], 1)
    return padded.reshape(b, length // 4, 4, d).permute(0, 3, 1, 2)


def _holt(x: torch.Tensor) -> Any:
    """A straight line through all steps, carried on for three."""
    n = x.shape[1]
    t = torch.arange(n, dtype=x.dtype) - (n - 1) / 2
    slope = (x * t[:, None]).sum(1) / (t**2).sum()
    ahead = torch.arange(n, n + 3) - (n - 1) / 2
    return x.mean(1, keepdim=True) + slope.unsqueeze(1) * ahead[:, None]


class Basis(nn.Module):
    """N-BEATS: polynomials of the time over as many steps as came in."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> Any:
        t = torch.arange(x.shape[1], dtype=torch.float32) / x.shape[1]
        basis = torch.stack([t**i for i in range(3)])
        return self.layer(x.mean(1)) @ basis


def _forecasts() -> list[Entry]:
    return [
        one(FORECAST, "patches that overlap", _patches, LINE, *LINES),
        one(FORECAST, "trend and rest", _decomposed, LINE, *LINES),
        one(FORECAST, "rows of a period", _periods, LINE, *LINES),
        one(FORECAST, "straight line", _holt, LINE, *LINES),
        module(FORECAST, "polynomials", Basis, LINE, *LINES),
    ]
