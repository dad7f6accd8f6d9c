"""Attention: torch's own modules, and written by hand."""

# mypy: disable-error-code="no-untyped-call"
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from guarddiff.sweep.catalogue.dims import named, strict, words
from guarddiff.sweep.catalogue.entry import Entry, module, one

TORCH, HAND = "attention by torch", "attention by hand"
SENTENCE, SENTENCES = (2, 5, 8), ((2, 9, 8), (3, 4, 8), (1, 7, 8))


def entries() -> list[Entry]:
    """The entries of this shelf."""
    return [*_multihead(), *_scaled(), *_transformers(), *_hand()]


def causal(length: int) -> torch.Tensor:
    """Minus infinity above the diagonal."""
    return torch.full((length, length), float("-inf")).triu(1)


class Multihead(nn.Module):
    """torch's attention of a sequence to itself; ``mask`` makes the mask of a length."""

    def __init__(self, mask: Callable[[int], torch.Tensor] | None = None, weights: bool = False, **more: Any) -> None:
        super().__init__()
        self.mask, self.weights = mask, weights
        self.attention = nn.MultiheadAttention(8, 2, **{"batch_first": True, **more})

    def forward(self, x: torch.Tensor) -> Any:
        length = x.shape[1] if self.attention.batch_first else x.shape[0]
        mask = None if self.mask is None else self.mask(length)
        result, weights = self.attention(x, x, x, attn_mask=mask, need_weights=self.weights)
        return (result, weights) if self.weights else result


class Padded(Multihead):
    """The same with a padding mask made of lengths."""

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> Any:  # type: ignore[override]
        padding = torch.arange(x.shape[1])[None, :] >= lengths[:, None]
        return self.attention(x, x, x, key_padding_mask=padding, need_weights=False)[0]


def lengths(place: int, shape: tuple[int, ...]) -> torch.Tensor:
    """Normal numbers first, then lengths of 2 to 4 steps."""
    return torch.arange(shape[0]) % 3 + 2 if place else torch.randn(shape)


def _multihead() -> list[Entry]:
    return [
        module(TORCH, "multihead", Multihead, SENTENCE, *SENTENCES),
        module(TORCH, "multihead, weights", lambda: Multihead(weights=True), SENTENCE, *SENTENCES),
        module(TORCH, "multihead, causal", lambda: Multihead(causal), SENTENCE, *SENTENCES),
        module(
            TORCH,
            "multihead, causal, bool",
            lambda: Multihead(lambda n: torch.ones(n, n, dtype=torch.bool).triu(1), True),
            SENTENCE,
            *SENTENCES,
        ),
        module(TORCH, "multihead, batch second", lambda: Multihead(batch_first=False), (5, 2, 8), (9, 2, 8), (4, 3, 8)),
        module(TORCH, "multihead, bias of keys", lambda: Multihead(add_bias_kv=True), SENTENCE, *SENTENCES),
        module(TORCH, "multihead, zero attention", lambda: Multihead(add_zero_attn=True), SENTENCE, *SENTENCES),
        module(TORCH, "multihead, batch of one", Multihead, (1, 5, 8), (2, 5, 8), (3, 9, 8)),
        module(TORCH, "multihead, named", Multihead, SENTENCE, (3, 9, 8), (4, 4, 8), dynamic=named(batch=0, length=1)),
        Entry(
            TORCH,
            "multihead, padding",
            Padded,
            ((2, 6, 8), (2,)),
            (((3, 6, 8), (3,)), ((4, 9, 8), (4,))),
            fill=lengths,
        ),
    ]


def split(x: torch.Tensor) -> torch.Tensor:
    """Two heads of 4 features."""
    return x.view(x.shape[0], x.shape[1], 2, 4).transpose(1, 2)


def _sdpa(**more: Any) -> Callable[[torch.Tensor], Any]:
    def attend(x: torch.Tensor) -> Any:
        x = split(x)
        return F.scaled_dot_product_attention(x, x, x, **more)

    return attend


def _sdpa_tril(x: torch.Tensor) -> Any:
    n = x.shape[1]
    x = split(x)
    return F.scaled_dot_product_attention(x, x, x, attn_mask=torch.ones(n, n, dtype=torch.bool).tril())


def _sdpa_bias(x: torch.Tensor) -> Any:
    n = x.shape[1]
    x = split(x)
    apart = torch.arange(n)[None] - torch.arange(n)[:, None]
    bias = -0.5 * apart.abs().to(x.dtype)
    return F.scaled_dot_product_attention(x, x, x, attn_mask=bias.expand(x.shape[0], 1, n, n))


def _sdpa_by_length(x: torch.Tensor) -> Any:
    x = split(x)
    return F.scaled_dot_product_attention(x, x, x, scale=math.log(x.shape[2]) / 4)


def _sdpa_grouped(x: torch.Tensor) -> Any:
    query = x.view(x.shape[0], x.shape[1], 4, 2).transpose(1, 2)
    key = query[:, :2]
    return F.scaled_dot_product_attention(query, key, key, enable_gqa=True).transpose(1, 2).flatten(2)


def _scaled() -> list[Entry]:
    return [
        one(TORCH, "scaled", _sdpa(), SENTENCE, *SENTENCES),
        one(TORCH, "scaled, causal", _sdpa(is_causal=True), SENTENCE, *SENTENCES),
        one(TORCH, "scaled, scale given", _sdpa(scale=0.3), SENTENCE, *SENTENCES),
        one(TORCH, "scaled, scale by the length", _sdpa_by_length, SENTENCE, *SENTENCES),
        one(TORCH, "scaled, lower triangle", _sdpa_tril, SENTENCE, *SENTENCES),
        one(TORCH, "scaled, bias by distance", _sdpa_bias, SENTENCE, *SENTENCES),
        one(TORCH, "scaled, grouped queries", _sdpa_grouped, SENTENCE, *SENTENCES),
        one(TORCH, "scaled, causal, batch of one", _sdpa(is_causal=True), (1, 5, 8), (2, 5, 8), (3, 9, 8)),
        one(TORCH, "scaled, strict", _sdpa(), SENTENCE, (3, 9, 8), (4, 4, 8), dynamic=strict(1, 0, 1)),
    ]


class Encoder(nn.Module):
    """torch's encoder of some layers."""

    def __init__(self, layers: int, masked: bool = False, **more: Any) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, **{"batch_first": True, **more})
        self.masked = masked
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)

    def forward(self, x: torch.Tensor) -> Any:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1]) if self.masked else None
        return self.encoder(x, mask=mask, is_causal=self.masked)


class Decoder(nn.Module):
    """torch's decoder of some layers, with a causal mask."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, batch_first=True), layers)

    def forward(self, x: torch.Tensor, memory: torch.Tensor) -> Any:
        return self.decoder(x, memory, tgt_mask=causal(x.shape[1]), tgt_is_causal=True)


class Whole(nn.Module):
    """torch's encoder and decoder in one."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Transformer(8, 2, 1, 1, 16, batch_first=True)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        return self.net(x, y, tgt_mask=self.net.generate_square_subsequent_mask(y.shape[1]))


def _transformers() -> list[Entry]:
    pair, pairs = ((2, 4, 8), (2, 6, 8)), (((2, 7, 8), (2, 6, 8)), ((3, 5, 8), (3, 9, 8)))
    return [
        module(TORCH, "encoder layer", lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), *sentences()),
        module(TORCH, "encoder of 2", lambda: Encoder(2), *sentences()),
        module(TORCH, "encoder of 2, batch of one", lambda: Encoder(2), (1, 5, 8), (2, 5, 8), (3, 7, 8)),
        module(TORCH, "encoder of 1, norm first", lambda: Encoder(1, norm_first=True, activation="gelu"), *sentences()),
        module(TORCH, "encoder of 2, causal", lambda: Encoder(2, True), *sentences()),
        Entry(TORCH, "decoder of 1", lambda: Decoder(1), pair, pairs),
        Entry(TORCH, "decoder of 2", lambda: Decoder(2), pair, pairs),
        Entry(TORCH, "encoder and decoder", Whole, pair, pairs),
        module(
            TORCH, "encoder of 1, batch second", lambda: Encoder(1, batch_first=False), (5, 2, 8), (9, 2, 8), (4, 3, 8)
        ),
    ]


def sentences() -> tuple[tuple[int, ...], ...]:
    """Shapes of sequences, the example first."""
    return (SENTENCE, *SENTENCES)


class Heads(nn.Module):
    """Attention of two heads by hand; ``change`` alters the scores before the softmax."""

    def __init__(self, change: Callable[[torch.Tensor], torch.Tensor] | None = None) -> None:
        super().__init__()
        self.change = change
        self.project, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> Any:
        b, n, _ = x.shape
        query, key, value = self.project(x).view(b, n, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
        if self.change is not None:
            scores = self.change(scores)
        return self.out((scores.softmax(-1) @ value).transpose(1, 2).reshape(b, n, -1))


class OldHeads(nn.Module):
    """fairseq's way: the batch second, the heads put into the batch, bmm."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(8, 8) for _ in range(3))

    def _split(self, x: torch.Tensor) -> torch.Tensor:
        return x.contiguous().view(-1, x.shape[1] * 2, 4).transpose(0, 1)

    def forward(self, x: torch.Tensor) -> Any:
        n, b, d = x.shape
        query, key, value = self._split(self.query(x)), self._split(self.key(x)), self._split(self.value(x))
        weights = torch.bmm(query, key.transpose(1, 2)).softmax(-1)
        return torch.bmm(weights, value).transpose(0, 1).contiguous().view(n, b, d)


class BertHeads(nn.Module):
    """BERT's way: shapes made by adding tuples of sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(8, 8) for _ in range(3))

    def _split(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(x.size()[:-1] + (2, 4)).permute(0, 2, 1, 3)

    def forward(self, x: torch.Tensor) -> Any:
        query, key, value = self._split(self.query(x)), self._split(self.key(x)), self._split(self.value(x))
        scores = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(4)
        mixed = torch.matmul(F.softmax(scores, dim=-1), value).permute(0, 2, 1, 3).contiguous()
        return mixed.view(mixed.size()[:-2] + (8,))


def _einsum(x: torch.Tensor) -> Any:
    heads = x.unflatten(-1, (2, 4))
    weights = torch.einsum("bihd,bjhd->bhij", heads, heads).softmax(-1)
    return torch.einsum("bhij,bjhd->bihd", weights, heads).flatten(2)


class Grouped(nn.Module):
    """Grouped queries: two heads of keys for four of queries."""

    def __init__(self, expanded: bool) -> None:
        super().__init__()
        self.expanded, self.query, self.key, self.value = expanded, nn.Linear(8, 8), nn.Linear(8, 4), nn.Linear(8, 4)

    def _repeat(self, x: torch.Tensor) -> torch.Tensor:
        if not self.expanded:
            return x.repeat_interleave(2, dim=1)
        b, h, n, d = x.shape
        return x[:, :, None].expand(b, h, 2, n, d).reshape(b, h * 2, n, d)

    def forward(self, x: torch.Tensor) -> Any:
        b, n, _ = x.shape
        query = self.query(x).view(b, n, 4, 2).transpose(1, 2)
        key = self._repeat(self.key(x).view(b, n, 2, 2).transpose(1, 2))
        value = self._repeat(self.value(x).view(b, n, 2, 2).transpose(1, 2))
        weights = (query @ key.transpose(2, 3) * 2**-0.5 + causal(n)).softmax(-1)
        return (weights @ value).transpose(1, 2).reshape(b, n, -1)


class Talking(nn.Module):
    """Talking heads: the scores mixed over heads before the softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(2, 2)

    def forward(self, scores: torch.Tensor) -> Any:
        return self.mix(scores.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def _axial(x: torch.Tensor) -> Any:
    """Along the rows, then along the columns of a map."""
    rows = x.permute(0, 2, 3, 1)
    rows = (rows @ rows.transpose(-1, -2)).softmax(-1) @ rows
    columns = rows.transpose(1, 2)
    return ((columns @ columns.transpose(-1, -2)).softmax(-1) @ columns).permute(0, 3, 2, 1)


def _non_local(x: torch.Tensor) -> Any:
    """A non-local block: every place of a map with every place, divided by their number."""
    flat = x.view(x.shape[0], x.shape[1], -1)
    weights = flat.transpose(1, 2) @ flat / flat.shape[-1]
    return x + (flat @ weights).view(x.shape[0], x.shape[1], *x.shape[2:])


def _channels(x: torch.Tensor) -> Any:
    """Attention of channels to channels, scaled by the number of places."""
    flat = x.flatten(2)
    weights = (flat @ flat.transpose(1, 2) * flat.shape[2] ** -0.5).softmax(-1)
    return (weights @ flat).view_as(x)


def _hand() -> list[Entry]:
    image, others = (2, 4, 5, 6), ((2, 4, 8, 3), (1, 4, 7, 7))
    return [
        module(HAND, "two heads", Heads, *sentences()),
        module(HAND, "two heads, batch of one", Heads, (1, 5, 8), (2, 5, 8), (3, 9, 8)),
        module(HAND, "two heads, causal", lambda: Heads(lambda s: s + causal(s.shape[-1])), *sentences()),
        module(
            HAND,
            "two heads, by the root of the length",
            lambda: Heads(lambda s: s / math.sqrt(s.shape[-1])),
            *sentences(),
        ),
        module(HAND, "two heads, power of the length", lambda: Heads(lambda s: s * s.size(-1) ** -0.5), *sentences()),
        module(HAND, "two heads, words", Heads, SENTENCE, (3, 9, 8), (4, 4, 8), dynamic=words(batch=0, length=1)),
        module(HAND, "heads in the batch", OldHeads, (5, 2, 8), (9, 2, 8), (4, 3, 8)),
        module(HAND, "BERT", BertHeads, *sentences()),
        one(HAND, "einsum", _einsum, *sentences()),
        module(HAND, "grouped queries, repeated", lambda: Grouped(False), *sentences()),
        module(HAND, "grouped queries, expanded", lambda: Grouped(True), *sentences()),
        module(HAND, "talking heads", lambda: Heads(Talking()), *sentences()),
        one(HAND, "axial", _axial, image, *others),
        one(HAND, "non-local block", _non_local, image, *others),
        one(HAND, "channels to channels", _channels, image, *others),
    ]
