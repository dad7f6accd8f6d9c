"""Attention by distance, in blocks and without a softmax over all."""

# mypy: disable-error-code="no-untyped-call"
from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from guarddiff.sweep.catalogue.attention import causal, sentences, split
from guarddiff.sweep.catalogue.dims import named
from guarddiff.sweep.catalogue.entry import Entry, module, one

DISTANCE, ROTARY, BLOCKS, LINEAR = (
    "attention by distance",
    "rotary attention",
    "attention in blocks",
    "linear attention",
)
LINE, LINES = (2, 8, 4), ((2, 12, 4), (3, 16, 4), (1, 4, 4))


def entries() -> list[Entry]:
    """The entries of this shelf."""
    return [*_distances(), *_rotary(), *_blocks(), *_windows(), *_linear(), *_landmarks()]


def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Plain attention over the last but one axis."""
    scale = math.sqrt(query.shape[-1])
    return (query @ key.transpose(-1, -2) / scale).softmax(-1) @ value


class Buckets(nn.Module):
    """T5's bias: distances in buckets that grow with the logarithm."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(8, 2)

    @staticmethod
    def _buckets(n: int) -> torch.Tensor:
        apart = torch.arange(n)[None, :] - torch.arange(n)[:, None]
        bucket = (apart > 0).to(torch.long) * 4
        apart = torch.abs(apart)
        large = 2 + (torch.log(apart.float().clamp(min=1) / 2) / math.log(8) * 2).to(torch.long)
        large = torch.min(large, torch.full_like(large, 3))
        return bucket + torch.where(apart < 2, apart, large)

    def forward(self, x: torch.Tensor) -> Any:
        heads = split(x)
        bias = self.table(self._buckets(x.shape[1])).permute(2, 0, 1).unsqueeze(0)
        return (heads @ heads.transpose(2, 3) + bias).softmax(-1) @ heads


class Shaw(nn.Module):
    """Learned keys of the clipped distance (Shaw et al.)."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(9, 8)

    def forward(self, x: torch.Tensor) -> Any:
        places = torch.arange(x.size(1))
        keys = self.table((places[None, :] - places[:, None]).clamp(-4, 4) + 4)
        scores = x @ x.transpose(1, 2) + torch.einsum("bid,ijd->bij", x, keys)
        return (scores / math.sqrt(8)).softmax(-1) @ x


class Skewed(nn.Module):
    """Transformer-XL's relative scores, shifted by a column of zeros and a view."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(32, 4))

    def forward(self, x: torch.Tensor) -> Any:
        heads = split(x)
        b, h, n, _ = heads.shape
        places = heads @ self.table[-n:].t()
        places = torch.cat([places.new_zeros(b, h, n, 1), places], -1).view(b, h, n + 1, n)[:, :, 1:]
        scores = heads @ heads.transpose(2, 3) + places.reshape(b, h, n, n)
        return (scores + causal(n)).softmax(-1) @ heads


class Shifted(nn.Module):
    """Conformer's shift: twice as many places as steps, padded and viewed."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> Any:
        b, n, d = x.shape
        places = torch.arange(n - 1, -n, -1.0)
        angles = places[:, None] * torch.exp(torch.arange(0, d, 2) * (-math.log(10000.0) / d))
        table = self.project(torch.stack([angles.sin(), angles.cos()], -1).flatten(1))
        scores = F.pad(x @ table.t(), (1, 0))
        scores = scores.view(b, scores.size(2), scores.size(1))[:, 1:].view(b, n, 2 * n - 1)[:, :, :n]
        return ((x @ x.transpose(1, 2) + scores) / math.sqrt(d)).softmax(-1) @ x


def _alibi(x: torch.Tensor) -> Any:
    heads = split(x)
    places = torch.arange(x.shape[1])
    slopes = torch.tensor([2.0 ** (-8 * (i + 1) / 2) for i in range(2)]).view(1, 2, 1, 1)
    bias = slopes * (places[None, :] - places[:, None]).view(1, 1, x.shape[1], -1)
    return (heads @ heads.transpose(2, 3) / 2 + bias + causal(x.shape[1])).softmax(-1) @ heads


def _distance_decay(x: torch.Tensor) -> Any:
    """RetNet: what is further back counts less."""
    n = x.shape[1]
    apart = torch.arange(n).unsqueeze(1) - torch.arange(n).unsqueeze(0)
    decay = torch.where(apart >= 0, 0.9 ** apart.abs().float(), torch.zeros(()))
    return (x @ x.transpose(1, 2) * decay / decay.sum(-1, keepdim=True).sqrt()) @ x


def _distances() -> list[Entry]:
    return [
        module(DISTANCE, "T5", Buckets, *sentences()),
        module(DISTANCE, "Shaw", Shaw, *sentences()),
        module(DISTANCE, "Transformer-XL", Skewed, *sentences()),
        module(DISTANCE, "Conformer", Shifted, *sentences()),
        one(DISTANCE, "ALiBi", _alibi, *sentences()),
        one(DISTANCE, "RetNet", _distance_decay, *sentences()),
        module(DISTANCE, "T5, named", Buckets, (2, 5, 8), (3, 9, 8), (4, 4, 8), dynamic=named(batch=0, length=1)),
    ]


class Rotary(nn.Module):
    """Rotary attention: ``how`` the pairs lie, and whether angles are made or cropped from a table."""

    angles: torch.Tensor

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.register_buffer("inverse", 1.0 / 100 ** (torch.arange(0, 4, 2).float() / 4))
        self.register_buffer("angles", torch.outer(torch.arange(32).float(), 1.0 / 100 ** (torch.arange(2) / 2)))

    def _turned(self, x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
        if self.how == "pairs":
            first, second = x.reshape(*x.shape[:-1], -1, 2).unbind(-1)
            turned = [first * angles.cos() - second * angles.sin(), first * angles.sin() + second * angles.cos()]
            return torch.stack(turned, -1).flatten(-2)
        angles = torch.cat((angles, angles), dim=-1)
        first, second = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
        return x * angles.cos() + torch.cat((-second, first), dim=-1) * angles.sin()

    def forward(self, x: torch.Tensor) -> Any:
        if self.how == "cropped":
            angles = self.angles[: x.shape[1]]
        else:
            angles = torch.outer(torch.arange(x.shape[1]).float(), self.get_buffer("inverse"))
        heads = split(x)
        turned = self._turned(heads, angles)
        return attend(turned, turned, heads).transpose(1, 2).reshape(x.shape)


class Numbered(nn.Module):
    """LLaMA's way: positions are an input."""

    def forward(self, x: torch.Tensor, places: torch.Tensor) -> Any:
        inverse = torch.tensor([1.0, 0.1])
        angles = (inverse[None, :, None].expand(places.shape[0], -1, 1) @ places[:, None, :].float()).transpose(1, 2)
        angles = torch.cat((angles, angles), dim=-1).unsqueeze(1)
        heads = split(x)
        first, second = heads.chunk(2, -1)
        turned = heads * angles.cos() + torch.cat((-second, first), -1) * angles.sin()
        return attend(turned, turned, heads)


def places(place: int, shape: tuple[int, ...]) -> torch.Tensor:
    """Normal numbers first, then places."""
    return torch.arange(shape[1]).repeat(shape[0], 1) if place else torch.randn(shape)


def _rotary() -> list[Entry]:
    return [
        module(ROTARY, "halves", lambda: Rotary("halves"), *sentences()),
        module(ROTARY, "pairs", lambda: Rotary("pairs"), *sentences()),
        module(ROTARY, "cropped from a table", lambda: Rotary("cropped"), *sentences()),
        Entry(
            ROTARY,
            "places given",
            Numbered,
            ((2, 5, 8), (2, 5)),
            (((2, 9, 8), (2, 9)), ((3, 4, 8), (3, 4))),
            fill=places,
        ),
    ]


def _chunked(x: torch.Tensor) -> Any:
    b, n, d = x.shape
    chunks = x.view(b, n // 4, 4, d)
    return attend(chunks, chunks, chunks).reshape(b, n, d)


def _chunked_rest(x: torch.Tensor) -> Any:
    chunks = x.reshape(-1, 4, x.shape[-1])
    return attend(chunks, chunks, chunks).view_as(x)


def _chunked_padded(x: torch.Tensor) -> Any:
    b, n, d = x.shape
    chunks = F.pad(x, (0, 0, 0, -n % 4)).view(b, -1, 4, d)
    return attend(chunks, chunks, chunks).reshape(b, -1, d)[:, :n]


def _padded_by_branch(x: torch.Tensor) -> Any:
    b, n, d = x.shape
    if n % 4 != 0:
        x = F.pad(x, (0, 0, 0, 4 - n % 4))
    chunks = x.view(b, -1, 4, d)
    return attend(chunks, chunks, chunks).reshape(b, -1, d)[:, :n]


def _one_back(x: torch.Tensor) -> Any:
    """Each block looks at itself and the one before (Reformer, local attention)."""
    chunks = x.unflatten(1, (-1, 4))
    before = torch.cat([torch.zeros_like(chunks[:, :1]), chunks[:, :-1]], 1)
    near = torch.cat([before, chunks], 2)
    return attend(chunks, near, near).flatten(1, 2)


def _strided(x: torch.Tensor) -> Any:
    """Every other step with every other step."""
    b, n, d = x.shape
    apart = x.view(b, n // 2, 2, d).transpose(1, 2)
    return attend(apart, apart, apart).transpose(1, 2).reshape(b, n, d)


def _halves(x: torch.Tensor) -> Any:
    """Two blocks, however long the sequence is."""
    blocks = torch.stack(x.chunk(2, dim=1), 1)
    return attend(blocks, blocks, blocks).flatten(1, 2)


def _split_blocks(x: torch.Tensor) -> Any:
    return torch.cat([attend(part, part, part) for part in x.split(4, dim=1)], 1)


def _blocks() -> list[Entry]:
    return [
        one(BLOCKS, "by view", _chunked, LINE, *LINES),
        one(BLOCKS, "by reshape of the rest", _chunked_rest, LINE, *LINES),
        one(BLOCKS, "padded", _chunked_padded, (2, 9, 4), (2, 12, 4), (3, 6, 4)),
        one(BLOCKS, "padded, whole in the example", _chunked_padded, LINE, (2, 9, 4), (3, 14, 4)),
        one(BLOCKS, "padded by a branch", _padded_by_branch, LINE, (2, 9, 4), (3, 12, 4)),
        one(BLOCKS, "one back", _one_back, LINE, *LINES),
        one(BLOCKS, "every other step", _strided, LINE, (2, 6, 4), (3, 16, 4)),
        one(BLOCKS, "halves", _halves, LINE, (2, 6, 4), (3, 16, 4)),
        one(BLOCKS, "by split", _split_blocks, LINE, (2, 12, 4), (2, 10, 4)),
        one(BLOCKS, "by view, a multiple named", _chunked, LINE, (2, 12, 4), (3, 16, 4), dynamic=_multiples()),
    ]


def _multiples() -> list[dict[int, Any]]:
    return [{0: torch.export.Dim("batch"), 1: 4 * torch.export.Dim("chunks", max=16)}]


def _near_mask(x: torch.Tensor) -> Any:
    places = torch.arange(x.shape[1])
    far = (places[None] - places[:, None]).abs() > 2
    return (x @ x.transpose(1, 2)).masked_fill(far, -1e9).softmax(-1) @ x


def _near_band(x: torch.Tensor) -> Any:
    n = x.shape[1]
    band = torch.ones(n, n).tril(1) * torch.ones(n, n).triu(-2)
    return F.scaled_dot_product_attention(x, x, x, attn_mask=band > 0)


def _near_unfolded(x: torch.Tensor) -> Any:
    near = F.pad(x, (0, 0, 2, 2)).unfold(1, 5, 1)
    return torch.einsum("bnw,bndw->bnd", torch.einsum("bnd,bndw->bnw", x, near).softmax(-1), near)


def _near_and_first(x: torch.Tensor) -> Any:
    """Longformer: neighbours, and the first token for all."""
    places = torch.arange(x.shape[1])
    seen = (places[None] - places[:, None]).abs() <= 1
    seen = seen | (places == 0)[None] | (places == 0)[:, None]
    return torch.where(seen, x @ x.transpose(1, 2), torch.tensor(-1e4)).softmax(-1) @ x


def _map_blocks(x: torch.Tensor) -> Any:
    """Blocks of a map with a rim (HaloNet), by unfold."""
    b, c, h, w = x.shape
    query = x.view(b, c, h // 2, 2, w // 2, 2).permute(0, 2, 4, 3, 5, 1).reshape(b, -1, 4, c)
    halo = F.unfold(x, 4, stride=2, padding=1).view(b, c, 16, -1).permute(0, 3, 2, 1)
    mixed = attend(query, halo, halo)
    return mixed.view(b, h // 2, w // 2, 2, 2, c).permute(0, 5, 1, 3, 2, 4).reshape(b, c, h, w)


def _windows() -> list[Entry]:
    return [
        one(BLOCKS, "neighbours by a mask", _near_mask, LINE, *LINES),
        one(BLOCKS, "neighbours by a band", _near_band, LINE, *LINES),
        one(BLOCKS, "neighbours by unfold", _near_unfolded, LINE, *LINES),
        one(BLOCKS, "neighbours and the first", _near_and_first, LINE, *LINES),
        one(BLOCKS, "map with a rim", _map_blocks, (1, 3, 4, 6), (1, 3, 8, 4), (2, 3, 6, 10)),
    ]


def _elu(x: torch.Tensor) -> Any:
    query, key = F.elu(x) + 1, F.elu(-x) + 1
    norm = 1 / torch.einsum("bnd,bd->bn", query, key.sum(1))
    return torch.einsum("bnd,bde,bn->bne", query, torch.einsum("bnd,bne->bde", key, x), norm)


def _elu_causal(x: torch.Tensor) -> Any:
    query, key = F.elu(x) + 1, F.elu(-x) + 1
    summed = torch.einsum("bnd,bne->bnde", key, x).cumsum(1)
    norm = (query * key.cumsum(1)).sum(-1, keepdim=True)
    return torch.einsum("bnd,bnde->bne", query, summed) / norm


def _efficient(x: torch.Tensor) -> Any:
    """Both softmaxes apart; values divided by the number of places."""
    flat = x.flatten(2)
    context = flat.softmax(-1) @ (flat / flat.shape[-1]).transpose(1, 2)
    return (context.transpose(1, 2) @ flat.softmax(1)).view(x.shape)


def _mean_of_products(x: torch.Tensor) -> Any:
    return x @ (x.transpose(1, 2) @ x / x.shape[1])


def _linear() -> list[Entry]:
    return [
        one(LINEAR, "elu", _elu, LINE, *LINES),
        one(LINEAR, "elu, causal", _elu_causal, LINE, *LINES),
        one(LINEAR, "efficient, of a map", _efficient, (2, 4, 5, 6), (2, 4, 8, 3), (1, 4, 7, 7)),
        one(LINEAR, "divided by the length", _mean_of_products, LINE, *LINES),
    ]


class Projected(nn.Module):
    """Linformer: keys of a fixed number, by a table cut to the length."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(32, 4) / 4)

    def forward(self, x: torch.Tensor) -> Any:
        keys = torch.einsum("bnd,nk->bkd", x, self.table[: x.shape[1]])
        return attend(x, keys, keys)


def _pooled_keys(x: torch.Tensor) -> Any:
    keys = F.avg_pool1d(x.transpose(1, 2), 2, 2).transpose(1, 2)
    return attend(x, keys, keys)


def _adaptive_keys(x: torch.Tensor) -> Any:
    keys = F.adaptive_avg_pool1d(x.transpose(1, 2), 4).transpose(1, 2)
    return attend(x, keys, keys)


def _landmarks_of(x: torch.Tensor) -> Any:
    """Nystromformer: means of blocks, 4 however long the sequence is."""
    b, n, d = x.shape
    few = x.reshape(b, 4, n // 4, d).mean(dim=-2)
    left, middle = (x @ few.transpose(1, 2)).softmax(-1), (few @ few.transpose(1, 2)).softmax(-1)
    return left @ (middle @ ((few @ x.transpose(1, 2)).softmax(-1) @ x))


def _landmarks_at(x: torch.Tensor) -> Any:
    few = x[:, :: x.shape[1] // 4]
    return attend(x, few, few)


def _landmarks() -> list[Entry]:
    return [
        module(LINEAR, "keys by a table cut to the length", Projected, LINE, *LINES),
        one(LINEAR, "keys pooled by two", _pooled_keys, LINE, *LINES),
        one(LINEAR, "keys pooled to four", _adaptive_keys, LINE, *LINES),
        one(LINEAR, "means of four blocks", _landmarks_of, LINE, *LINES),
        one(LINEAR, "every fourth part", _landmarks_at, LINE, *LINES),
    ]
