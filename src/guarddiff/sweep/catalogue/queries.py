"""Attention to another length, learned tokens beside a sequence, cached keys."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from guarddiff.sweep.catalogue.attention import Encoder, Heads, sentences, split
from guarddiff.sweep.catalogue.entry import Entry, Of, OfTwo, module, one

CROSS, TOKENS, CACHED = "attention to another length", "learned tokens", "cached keys"


def entries() -> list[Entry]:
    """The entries of this shelf."""
    return [*_tokens(), *_cross(), *_cached()]


class Prefixed(nn.Module):
    """Learned tokens before the sequence: ``how`` they are spread over the batch."""

    def __init__(self, how: str, inner: Callable[[], nn.Module] = Heads) -> None:
        super().__init__()
        self.how, self.tokens, self.inner = how, nn.Parameter(torch.randn(1, 2, 8)), inner()

    def forward(self, x: torch.Tensor) -> Any:
        if self.how == "expand":
            tokens = self.tokens.expand(x.shape[0], -1, -1)
        elif self.how == "repeat":
            tokens = self.tokens.repeat(x.shape[0], 1, 1)
        else:
            tokens = self.tokens + torch.zeros_like(x[:, :1])
        return self.inner(torch.cat([tokens, x], dim=1))[:, tokens.shape[1] :]


def _class_token(x: torch.Tensor) -> Any:
    token = x.new_ones(1, 1, x.shape[-1]).expand(x.shape[0], -1, -1)
    joined = torch.cat((token, x), dim=1)
    return ((joined @ joined.transpose(1, 2)).softmax(-1) @ joined)[:, 0]


def _tokens() -> list[Entry]:
    return [
        module(TOKENS, "prompt tokens, expand", lambda: Prefixed("expand"), *sentences()),
        module(TOKENS, "prompt tokens, repeat", lambda: Prefixed("repeat"), *sentences()),
        module(TOKENS, "prompt tokens, added", lambda: Prefixed("add"), *sentences()),
        module(TOKENS, "prompt tokens, encoder", lambda: Prefixed("expand", lambda: Encoder(1)), *sentences()),
        one(TOKENS, "class token", _class_token, *sentences()),
    ]


class Latents(nn.Module):
    """Perceiver: a few learned queries look at a sequence of any length."""

    def __init__(self) -> None:
        super().__init__()
        self.latents, self.attention = nn.Parameter(torch.randn(3, 8)), nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> Any:
        queries = self.latents.unsqueeze(0).repeat(x.shape[0], 1, 1)
        return self.attention(queries, x, x, need_weights=False)[0]


class Pooled(nn.Module):
    """One learned query pools the sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.randn(8))

    def forward(self, x: torch.Tensor) -> Any:
        return torch.bmm((x @ self.query).softmax(1).unsqueeze(1), x).squeeze(1)


class CrossMultihead(nn.Module):
    """torch's attention of one sequence to another."""

    def __init__(self, weights: bool = False) -> None:
        super().__init__()
        self.weights, self.attention = weights, nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        result, weights = self.attention(x, y, y, need_weights=self.weights)
        return (result, weights) if self.weights else result


def _cross_scaled(x: torch.Tensor, y: torch.Tensor) -> Any:
    return F.scaled_dot_product_attention(split(x), split(y), split(y)).transpose(1, 2).flatten(2)


def _cross_causal(x: torch.Tensor, y: torch.Tensor) -> Any:
    return F.scaled_dot_product_attention(split(x), split(y), split(y), is_causal=True)


def _cross_both(x: torch.Tensor, y: torch.Tensor) -> Any:
    """BiDAF: both ways over one matrix of scores."""
    scores = x @ y.transpose(1, 2) / math.sqrt(x.shape[-1])
    return scores.softmax(2) @ y, scores.softmax(1).transpose(1, 2) @ x


def _cross() -> list[Entry]:
    pair, pairs = ((2, 4, 8), (2, 6, 8)), (((2, 7, 8), (2, 6, 8)), ((3, 5, 8), (3, 9, 8)))
    same, alike = ((2, 5, 8), (2, 5, 8)), (((2, 7, 8), (2, 6, 8)), ((3, 5, 8), (3, 9, 8)))
    batch, first, second = (torch.export.Dim(name) for name in ("batch", "first", "second"))
    two_names = [{0: batch, 1: first}, {0: batch, 1: second}]
    return [
        module(CROSS, "latents", Latents, *sentences()),
        module(CROSS, "pooled by one query", Pooled, *sentences()),
        Entry(CROSS, "multihead", CrossMultihead, pair, pairs),
        Entry(CROSS, "multihead, example of equal lengths", CrossMultihead, same, alike),
        Entry(CROSS, "multihead, weights", lambda: CrossMultihead(True), pair, pairs),
        Entry(CROSS, "multihead, named", CrossMultihead, pair, pairs, dynamic=two_names),
        Entry(CROSS, "scaled", lambda: OfTwo(_cross_scaled), pair, pairs),
        Entry(CROSS, "scaled, example of equal lengths", lambda: OfTwo(_cross_scaled), same, alike),
        Entry(CROSS, "scaled, causal", lambda: OfTwo(_cross_causal), pair, pairs),
        Entry(CROSS, "both ways", lambda: OfTwo(_cross_both), pair, pairs),
        Entry(CROSS, "both ways, example of equal lengths", lambda: OfTwo(_cross_both), same, alike),
        module(CROSS, "first token to all", lambda: Of(lambda x: (x[:, :1] @ x.mT).softmax(-1) @ x), *sentences()),
    ]


class Cached(nn.Module):
    """One step or a few of a decoder: what came before is an input, joined by cat; ``mask`` is made of both lengths."""

    def __init__(self, mask: Callable[[int, int], torch.Tensor] | None = None) -> None:
        super().__init__()
        self.mask, self.project = mask, nn.Linear(8, 24)

    def forward(self, x: torch.Tensor, past: torch.Tensor) -> Any:
        query, key, value = self.project(x).chunk(3, -1)
        key = torch.cat([past[0], split(key)], dim=2)
        value = torch.cat([past[1], split(value)], dim=2)
        scores = split(query) @ key.transpose(2, 3) / 2
        if self.mask is not None:
            scores = scores.masked_fill(~self.mask(x.shape[1], key.shape[2]), float("-inf"))
        return (scores.softmax(-1) @ value).transpose(1, 2).flatten(2), torch.stack([key, value])


def _by_diagonal(queries: int, keys: int) -> torch.Tensor:
    return torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)


def _by_places(queries: int, keys: int) -> torch.Tensor:
    past = keys - queries
    return torch.arange(keys)[None, :] <= torch.arange(past, past + queries)[:, None]


def _by_crop(queries: int, keys: int) -> torch.Tensor:
    """GPT-2's way: a large triangle, cropped."""
    return torch.ones(32, 32, dtype=torch.bool).tril()[keys - queries : keys, :keys]


class CachedPlaces(nn.Module):
    """New tokens take their positions from a table, after those that came before."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(32, 8)

    def forward(self, x: torch.Tensor, past: torch.Tensor) -> Any:
        places = torch.arange(past.shape[1], past.shape[1] + x.shape[1])
        return torch.cat([past, x + self.table(places).unsqueeze(0)], 1)


def _last_kept(x: torch.Tensor, past: torch.Tensor) -> Any:
    """A cache of the last 6 steps."""
    joined = torch.cat([past, x], 1)[:, -6:]
    return (x @ joined.transpose(1, 2)).softmax(-1) @ joined, joined


def _written(x: torch.Tensor, cache: torch.Tensor) -> Any:
    """A cache of fixed length, its first places written anew."""
    cache = cache.index_copy(1, torch.arange(x.shape[1]), x)
    return (x @ cache.transpose(1, 2)).softmax(-1) @ cache


def _cached() -> list[Entry]:
    step = ((2, 1, 8), (2, 2, 2, 5, 4))
    steps = (((2, 1, 8), (2, 2, 2, 9, 4)), ((3, 1, 8), (2, 3, 2, 1, 4)))
    few = ((2, 3, 8), (2, 2, 2, 5, 4))
    fews = (((2, 4, 8), (2, 2, 2, 9, 4)), ((3, 2, 8), (2, 3, 2, 3, 4)), ((1, 6, 8), (2, 1, 2, 6, 4)))
    flat, flats = ((2, 3, 8), (2, 5, 8)), (((2, 4, 8), (2, 9, 8)), ((3, 2, 8), (3, 6, 8)))
    return [
        Entry(CACHED, "one step", Cached, step, steps),
        Entry(CACHED, "a few steps", Cached, few, fews),
        Entry(CACHED, "a few steps, triangle by its diagonal", lambda: Cached(_by_diagonal), few, fews),
        Entry(CACHED, "a few steps, triangle by places", lambda: Cached(_by_places), few, fews),
        Entry(CACHED, "a few steps, cropped triangle", lambda: Cached(_by_crop), few, fews),
        Entry(CACHED, "one step, cropped triangle", lambda: Cached(_by_crop), step, steps),
        Entry(CACHED, "positions after the past", CachedPlaces, flat, flats),
        Entry(CACHED, "last six kept", lambda: OfTwo(_last_kept), flat, (*flats, ((1, 2, 8), (1, 2, 8)))),
        Entry(CACHED, "written in place", lambda: OfTwo(_written), flat, flats),
    ]
