"""Indexing: gather, the best and the sorted, running sums, and what is moved by a size."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from guarddiff.sweep.catalogue.dims import bounded, strict
from guarddiff.sweep.catalogue.entry import Entry, module, one, two

GATHER, BEST, MOVED, RUNNING, SEARCH = (
    "gather",
    "sorted and best",
    "moved and turned",
    "running sums",
    "searched and bucketed",
)
LINE, LINES = (2, 5, 3), ((2, 9, 3), (3, 4, 3), (1, 7, 3))
ROW, ROWS = (2, 6), ((2, 9), (3, 4), (1, 7))


def entries() -> list[Entry]:
    """The entries of this shelf."""
    return [*_gathers(), *_picks(), *_best(), *_moved(), *_running(), *_searched()]


def whole(place: int, shape: tuple[int, ...]) -> torch.Tensor:
    """Normal numbers first, then 0 to 3."""
    return torch.randint(0, 4, shape) if place else torch.randn(shape)


def _gather_rows(x: torch.Tensor, y: torch.Tensor) -> Any:
    return x.gather(1, y.unsqueeze(-1).expand(-1, -1, x.shape[-1]))


def _gather_repeated(x: torch.Tensor, y: torch.Tensor) -> Any:
    return torch.gather(x, 1, y.unsqueeze(-1).repeat(1, 1, x.size(2)))


def _batch_index(x: torch.Tensor, y: torch.Tensor) -> Any:
    """PointNet's way: rows and places, both of the index's shape."""
    rows = torch.arange(x.shape[0]).view(-1, 1).repeat(1, y.shape[1])
    return x[rows, y, :]


def _flat_index(x: torch.Tensor, y: torch.Tensor) -> Any:
    """Batches put one after another, the index shifted by their starts."""
    starts = torch.arange(x.shape[0]).view(-1, 1) * x.shape[1]
    return x.reshape(-1, x.shape[-1])[(y + starts).view(-1)].view(x.shape[0], -1, x.shape[-1])


def _gathers() -> list[Entry]:
    pair, pairs = (LINE, (2, 4)), (((2, 9, 3), (2, 6)), ((3, 4, 3), (3, 2)))
    alike, others = ((2, 5, 3), (2, 5)), (((2, 9, 3), (2, 6)), ((3, 4, 3), (3, 2)))
    plain, plains = ((6, 3), (4,)), (((9, 3), (7,)), ((4, 3), (2,)))
    whole_map, maps = ((2, 3, 4, 5), (2, 6)), (((2, 3, 6, 4), (2, 3)), ((1, 3, 5, 5), (1, 8)))
    return [
        two(GATHER, "rows, index expanded", _gather_rows, pair, *pairs, fill=whole),
        two(GATHER, "rows, index repeated", _gather_repeated, pair, *pairs, fill=whole),
        two(GATHER, "rows, example of equal sizes", _gather_rows, alike, *others, fill=whole),
        two(GATHER, "indexed by rows and places", _batch_index, pair, *pairs, fill=whole),
        two(GATHER, "indexed flat", _flat_index, pair, *pairs, fill=whole),
        two(GATHER, "index select", lambda x, y: x.index_select(0, y), plain, *plains, fill=whole),
        two(GATHER, "embedding of an input", lambda x, y: F.embedding(y, x), plain, *plains, fill=whole),
        two(
            GATHER,
            "take along an axis",
            lambda x, y: torch.take_along_dim(x, y[..., None], 1),
            pair,
            *pairs,
            fill=whole,
        ),
        two(
            GATHER,
            "places of a flat map",
            lambda x, y: x.flatten(2).gather(2, y[:, None].expand(-1, 3, -1)),
            whole_map,
            *maps,
            fill=whole,
        ),
        two(GATHER, "take", lambda x, y: torch.take(x, y), plain, *plains, fill=whole),
        two(
            GATHER,
            "indexed by rows and places, named",
            _batch_index,
            pair,
            *pairs,
            fill=whole,
            dynamic=_names(),
        ),
    ]


def _names() -> list[dict[int, Any]]:
    batch, steps, picks = (torch.export.Dim(name) for name in ("batch", "steps", "picks"))
    return [{0: batch, 1: steps}, {0: batch, 1: picks}]


def _middle(x: torch.Tensor) -> Any:
    return x[torch.arange(x.shape[0]), x.shape[1] // 2]


def _last_valid(x: torch.Tensor) -> Any:
    """The last value that is positive, by the greatest place."""
    places = torch.arange(x.shape[1]) * (x > 0)
    return x.gather(1, places.argmax(1, keepdim=True))


def _every_pair(x: torch.Tensor) -> Any:
    """Spans: first and last token of each pair."""
    n = x.shape[1]
    first, last = torch.meshgrid(torch.arange(n), torch.arange(n), indexing="ij")
    return torch.cat([x[:, first.flatten()], x[:, last.flatten()]], -1)


def _eot(x: torch.Tensor) -> Any:
    """CLIP's text head: each row at the place of its greatest id."""
    hidden = torch.stack([x.float(), x.float().cumsum(1)], -1)
    return hidden[torch.arange(hidden.shape[0]), x.to(torch.int).argmax(dim=-1)]


def distinct(place: int, shape: tuple[int, ...]) -> torch.Tensor:
    """Ids without ties."""
    del place
    return torch.stack([torch.randperm(shape[1]) for _ in range(shape[0])])


def _picks() -> list[Entry]:
    return [
        one(GATHER, "middle of each row", _middle, LINE, *LINES),
        one(GATHER, "last that is positive", _last_valid, ROW, *ROWS),
        one(GATHER, "first and last of spans", _every_pair, LINE, *LINES),
        one(GATHER, "greatest id of CLIP", _eot, ROW, *ROWS, fill=distinct),
        one(GATHER, "list of places", lambda x: x[:, [0, 2, -1]], LINE, *LINES),
        one(GATHER, "ellipsis and none", lambda x: x[..., None, :2] * x[:, :, :1, None], LINE, *LINES),
        one(GATHER, "last but one", lambda x: x[:, -2] - x[:, x.shape[1] - 1], LINE, *LINES),
        one(GATHER, "reversed by places", lambda x: x[:, torch.arange(x.shape[1] - 1, -1, -1)], LINE, *LINES),
        one(GATHER, "every third place", lambda x: x[:, torch.arange(0, x.shape[1], 3)], LINE, *LINES),
    ]


def _ranks(x: torch.Tensor) -> Any:
    return x.argsort(-1).argsort(-1).float() / x.shape[-1]


def _nucleus(x: torch.Tensor) -> Any:
    """Top-p: what is beyond 0.8 of the sorted probabilities is left out."""
    values, order = x.softmax(-1).sort(-1, descending=True)
    kept = values.cumsum(-1) - values < 0.8
    return torch.zeros_like(x).scatter(-1, order, values * kept)


def _best() -> list[Entry]:
    return [
        one(BEST, "best three", lambda x: x.topk(3, dim=-1), ROW, *ROWS),
        one(BEST, "least two, batch alone", lambda x: x.topk(2, dim=-1, largest=False).values, ROW, (3, 6), (5, 6)),
        one(BEST, "best third", lambda x: x.topk(x.shape[1] // 3, dim=1).values, ROW, *ROWS),
        one(BEST, "best by int of a product", lambda x: x.topk(max(1, int(x.shape[1] * 0.4)), 1).values, ROW, *ROWS),
        one(BEST, "best of all, at most 4", lambda x: x.topk(min(4, x.shape[1]), 1).values, ROW, *ROWS),
        one(BEST, "sorted", lambda x: x.sort(1), ROW, *ROWS),
        one(BEST, "sorted order", lambda x: x.argsort(1, descending=True), ROW, *ROWS),
        one(BEST, "sorted by another column", lambda x: _sorted_rows(x), LINE, *LINES),
        one(BEST, "ranks", _ranks, ROW, *ROWS),
        one(BEST, "nucleus", _nucleus, ROW, *ROWS),
        one(BEST, "kth value", lambda x: x.kthvalue(2, dim=1).values, ROW, *ROWS),
        one(BEST, "second best", lambda x: x.sort(1, descending=True).values[:, 1], ROW, *ROWS),
        one(BEST, "place of the greatest", lambda x: (x.argmax(1), x.argmin(-1), x.max(1).indices), ROW, *ROWS),
        one(BEST, "beams over all words", _beams, LINE, *LINES),
        one(
            BEST,
            "best three, bounded",
            lambda x: x.topk(3, dim=-1),
            (4, 6),
            (5, 9),
            (3, 5),
            dynamic=bounded(3, 64, rows=0, items=1),
        ),
    ]


def _sorted_rows(x: torch.Tensor) -> Any:
    order = x[..., 0].argsort(1)
    return x.gather(1, order.unsqueeze(-1).expand_as(x))


def _beams(x: torch.Tensor) -> Any:
    """Beam search: the best of all beams and words, told apart by floor and remainder."""
    values, index = x.log_softmax(-1).flatten(1).topk(2, 1)
    return values, index // x.shape[-1], index % x.shape[-1]


def _diagonals(x: torch.Tensor) -> Any:
    return torch.diag_embed(x), torch.diag_embed(x).diagonal(1, 1, 2)


def _moved() -> list[Entry]:
    square = (4, 4), (6, 6), (3, 3)
    return [
        one(MOVED, "roll", lambda x: x.roll(1, 1), LINE, *LINES),
        one(MOVED, "roll by half", lambda x: x.roll(x.shape[1] // 2, 1), LINE, *LINES),
        one(MOVED, "roll by two axes", lambda x: x.roll((2, -1), (0, 1)), LINE, *LINES),
        one(MOVED, "flip", lambda x: x.flip(1), LINE, *LINES),
        one(MOVED, "flip and sum", lambda x: x + torch.flip(x, (0, 1)), LINE, *LINES),
        one(MOVED, "rot90", lambda x: torch.rot90(x, 1, (0, 1)), LINE, *LINES),
        one(MOVED, "shifted by cat", lambda x: torch.cat([x[:, 1:], x[:, :1]], 1), LINE, *LINES),
        one(MOVED, "diagonal", lambda x: x.diagonal(1), *square),
        one(MOVED, "diagonals embedded", _diagonals, ROW, *ROWS),
        one(MOVED, "unfolded", lambda x: x.unfold(1, 3, 1).mean(-1), LINE, *LINES),
        one(MOVED, "unfolded by half", lambda x: x.unfold(1, x.shape[1] // 2, 1).mean(-1), LINE, *LINES),
        one(MOVED, "differences", lambda x: x.diff(dim=1), LINE, *LINES),
        one(MOVED, "moved axes", lambda x: x.movedim(1, -1).swapaxes(0, 1), LINE, *LINES),
        one(
            MOVED,
            "roll by half, strict",
            lambda x: x.roll(x.shape[1] // 2, 1),
            LINE,
            (2, 9, 3),
            (3, 4, 3),
            dynamic=strict(1, 0, 1),
        ),
    ]


def _running() -> list[Entry]:
    functions = {
        "cumsum": lambda x: x.cumsum(1),
        "cumprod": lambda x: x.sigmoid().cumprod(1),
        "cummax": lambda x: x.cummax(1).values,
        "logcumsumexp": lambda x: x.logcumsumexp(1),
        "mean so far": lambda x: x.cumsum(1) / torch.arange(1, x.shape[1] + 1)[:, None],
        "backwards": lambda x: x.flip(1).cumsum(1).flip(1),
        "without the last": lambda x: F.pad(x.cumsum(1), (0, 0, 1, 0))[:, :-1],
        "window sums": lambda x: (
            F.pad(x, (0, 0, 3, 0)).cumsum(1)[:, 3:] - F.pad(x, (0, 0, 3, 0)).cumsum(1)[:, : x.shape[1]]
        ),
        "rendered weights": lambda x: _rendered(x),
        "trapezoids": lambda x: torch.trapezoid(x, dim=1),
    }
    return [one(RUNNING, name, function, LINE, *LINES) for name, function in functions.items()]


def _rendered(x: torch.Tensor) -> Any:
    """NeRF: what is left of the light after the samples before."""
    alpha = x.sigmoid()
    left = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-6], 1), 1)[:, :-1]
    return (alpha * left).sum(1)


class Buckets(nn.Module):
    """Numbers in buckets with fixed boundaries, looked up in a table."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(5, 3)

    def forward(self, x: torch.Tensor) -> Any:
        return self.table(torch.bucketize(x, torch.tensor([-1.0, -0.2, 0.3, 1.1])))


def _regulated(x: torch.Tensor) -> Any:
    """Which step each of 8 frames belongs to, by running sums of lengths."""
    ends = x.sigmoid().cumsum(1).contiguous()
    frames = torch.linspace(0.05, 0.95, 8).expand(x.shape[0], -1) * ends[:, -1:]
    return torch.searchsorted(ends, frames.contiguous())


def _searched() -> list[Entry]:
    pair, pairs = ((2, 5), (3,)), (((2, 5), (6,)), ((4, 2), (2,)))
    return [
        two(SEARCH, "bucketize, boundaries given", lambda x, y: torch.bucketize(x, y.sort().values), pair, *pairs),
        two(
            SEARCH, "searchsorted, boundaries given", lambda x, y: torch.searchsorted(y.sort().values, x), pair, *pairs
        ),
        two(SEARCH, "by comparing", lambda x, y: (x.unsqueeze(-1) > y).sum(-1), pair, *pairs),
        one(SEARCH, "searchsorted in running sums", _regulated, (2, 5), (2, 9), (3, 3)),
        one(SEARCH, "bucketize by ranks", lambda x: torch.bucketize(x, torch.linspace(-2, 2, x.shape[1])), ROW, *ROWS),
        module(SEARCH, "fixed buckets", Buckets, ROW, *ROWS),
        two(SEARCH, "is in", lambda x, y: torch.isin(x.round(), y.round()), pair, *pairs),
    ]
