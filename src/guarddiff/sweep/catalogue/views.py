"""Views: shapes told in part, axes of size one, two inputs of one size, rows repeated."""

# mypy: disable-error-code="no-untyped-call"
from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from guarddiff.sweep.catalogue.dims import named, strict
from guarddiff.sweep.catalogue.entry import Entry, module, one, two

VIEW, SINGLE, SPREAD, REPEAT = "views with a rest", "axes of size one", "two inputs of one size", "rows repeated"
LINE, LINES = (2, 6, 4), ((2, 9, 4), (3, 4, 4), (1, 7, 4))
MAP, MAPS = (2, 4, 5, 6), ((2, 4, 8, 3), (1, 4, 7, 10))


def entries() -> list[Entry]:
    """The entries of this shelf."""
    return [*_views(), *_flattened(), *_singles(), *_spread(), *_spread_modules(), *_repeated()]


def _heads_back(x: torch.Tensor) -> Any:
    b, n, _ = x.shape
    heads = x.view(b, -1, 2, 2).transpose(1, 2).reshape(b * 2, -1, 2)
    return heads.softmax(1).view(b, 2, n, 2).transpose(1, 2).contiguous().view(b, -1, 4)


def _two_by_two(x: torch.Tensor) -> Any:
    return x.reshape(x.shape[0], -1, 2, x.shape[-1]).mean(2)


def _frames_as_batch(x: torch.Tensor) -> Any:
    """Video: frames put into the batch, and back by view(-1, frames)."""
    b, t = x.shape[:2]
    flat = x.view(b * t, *x.shape[2:]).mean((-2, -1))
    return flat.view(-1, t, flat.shape[-1]).mean(1)


def _views() -> list[Entry]:
    return [
        one(VIEW, "rest last", lambda x: x.view(x.shape[0], -1), LINE, *LINES),
        one(VIEW, "rest first", lambda x: x.view(-1, 4).softmax(0), LINE, *LINES),
        one(VIEW, "all in one", lambda x: x.view(-1).cumsum(0), LINE, *LINES),
        one(VIEW, "rest in the middle", lambda x: x.view(x.shape[0], -1, 2, 2).sum(1), LINE, *LINES),
        one(VIEW, "heads and back", _heads_back, LINE, *LINES),
        one(VIEW, "two by two", _two_by_two, LINE, (2, 10, 4), (3, 4, 4)),
        one(VIEW, "batch as the rest", lambda x: x.view(-1, x.shape[1] * 4).norm(dim=1), LINE, *LINES),
        one(VIEW, "batch as the rest, fixed", lambda x: x.reshape(-1, 24).cumsum(1), LINE, (3, 6, 4), (5, 6, 4)),
        one(VIEW, "turned, then reshaped", lambda x: x.transpose(0, 1).reshape(x.shape[1], -1), LINE, *LINES),
        one(VIEW, "frames as batch", _frames_as_batch, (2, 3, 4, 5, 6), (2, 5, 4, 5, 6), (3, 2, 4, 7, 4)),
        one(VIEW, "as the other half", lambda x: x[:, ::2].reshape(-1, 4) + 1, LINE, *LINES),
        one(VIEW, "two by two, strict", _two_by_two, LINE, (3, 10, 4), (4, 4, 4), dynamic=strict(1, 0, 1)),
    ]


def _flattened() -> list[Entry]:
    return [
        one(VIEW, "flattened", lambda x: x.flatten(1), LINE, *LINES),
        one(VIEW, "places flattened", lambda x: x.flatten(2).transpose(1, 2), MAP, *MAPS),
        one(VIEW, "places flattened and back", lambda x: x.flatten(2).softmax(-1).view(x.shape), MAP, *MAPS),
        one(
            VIEW,
            "places flattened, unflattened",
            lambda x: x.flatten(2).cumsum(-1).unflatten(2, x.shape[2:]),
            MAP,
            *MAPS,
        ),
        one(VIEW, "features unflattened", lambda x: x.unflatten(-1, (2, -1)).sum(-2), LINE, *LINES),
        one(VIEW, "steps unflattened", lambda x: x.unflatten(1, (-1, 2)).amax(2), LINE, (2, 10, 4), (3, 4, 4)),
        one(VIEW, "batch and steps flattened, unflattened", _timed, LINE, *LINES),
        module(
            VIEW,
            "flattened for a layer",
            lambda: nn.Sequential(nn.Flatten(), nn.Linear(24, 3)),
            LINE,
            (3, 6, 4),
            (5, 6, 4),
        ),
        module(
            VIEW,
            "unflattened by a layer",
            lambda: nn.Sequential(nn.Linear(4, 6), nn.Unflatten(-1, (2, 3))),
            LINE,
            *LINES,
        ),
    ]


def _timed(x: torch.Tensor) -> Any:
    return x.flatten(0, 1).mul(2).unflatten(0, x.shape[:2])


def _squeezed_rows(x: torch.Tensor) -> Any:
    """squeeze() without an axis: what it takes away depends on the batch."""
    return x.mean((2, 3), keepdim=True).squeeze()


class Rows(nn.Module):
    """A running state of the batch size, kept by expand from one row."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.randn(1, 4))

    def forward(self, x: torch.Tensor) -> Any:
        return torch.cat([self.first.expand(x.size(0), 4).unsqueeze(1), x], 1).cumsum(1)


def _singles() -> list[Entry]:
    return [
        one(SINGLE, "squeezed, example of one", lambda x: x.squeeze(1), (2, 1, 3), (2, 2, 3), (3, 4, 3)),
        one(SINGLE, "squeezed, example of two", lambda x: x.squeeze(1), (2, 2, 3), (2, 1, 3), (3, 4, 3)),
        one(SINGLE, "all squeezed", _squeezed_rows, MAP, (3, 4, 8, 3), (1, 4, 7, 10)),
        one(SINGLE, "all squeezed, batch of one", _squeezed_rows, (1, 4, 5, 6), (3, 4, 8, 3), (2, 4, 7, 10)),
        one(SINGLE, "fixed one squeezed", lambda x: x.mean(1, keepdim=True).squeeze(1), LINE, *LINES),
        one(SINGLE, "batch of one kept", lambda x: x - x.mean(0, keepdim=True), (1, 5), (2, 5), (4, 5)),
        one(SINGLE, "batch of one, first row", lambda x: x[0] + x, (1, 5), (2, 5), (4, 5)),
        one(SINGLE, "one step in the example", lambda x: x.cumsum(1) / x.shape[1], (2, 1, 3), (2, 4, 3), (3, 7, 3)),
        one(
            SINGLE,
            "one channel spread to three",
            lambda x: x.expand(-1, 3, -1, -1),
            (2, 1, 4, 5),
            (2, 1, 6, 4),
            (1, 1, 7, 7),
        ),
        one(SINGLE, "grey or colour", _coloured, (2, 1, 4, 5), (2, 3, 6, 4), (1, 1, 7, 7)),
        module(SINGLE, "first row spread", Rows, LINE, *LINES),
        module(SINGLE, "first row spread, batch of one", Rows, (1, 6, 4), (2, 9, 4), (3, 4, 4)),
        one(SINGLE, "added axes", lambda x: (x[:, None] - x[:, :, None]).abs().sum(-1), LINE, *LINES),
    ]


def _coloured(x: torch.Tensor) -> Any:
    if x.shape[1] == 1:
        x = x.repeat(1, 3, 1, 1)
    return x * torch.tensor([0.3, 0.6, 0.1]).view(1, 3, 1, 1)


def _spread() -> list[Entry]:
    same = (((3, 4), (3, 4)), ((6, 4), (6, 4)), ((5, 7), (5, 7)))
    maybe = (((3, 4), (3, 4)), ((6, 4), (1, 4)), ((5, 7), (5, 1)))
    row = (((3, 4), (1, 4)), ((6, 4), (6, 4)), ((5, 7), (1, 7)))
    line = (((2, 5, 3), (2, 3)), ((2, 9, 3), (2, 3)), ((4, 2, 3), (4, 3)))
    feature = (((2, 4, 5, 6), (2, 4)), ((2, 4, 8, 3), (2, 4)), ((1, 4, 7, 7), (1, 4)))
    lengths = (((2, 5, 3), (2, 5, 3)), ((2, 9, 3), (2, 4, 3)), ((3, 2, 3), (3, 6, 3)))
    shorter = (((2, 5, 3), (2, 8, 3)), ((2, 9, 3), (2, 9, 3)), ((3, 2, 3), (3, 6, 3)))
    return [
        two(SPREAD, "added", lambda x, y: x + y, *same),
        two(SPREAD, "added, one of them spread elsewhere", lambda x, y: x + y, *maybe),
        two(SPREAD, "added, one of them spread in the example", lambda x, y: x + y, *row),
        two(SPREAD, "expand as", lambda x, y: x * y.expand_as(x), *same),
        two(SPREAD, "expand as, one row in the example", lambda x, y: x * y.expand_as(x), *row),
        two(SPREAD, "broadcast tensors", lambda x, y: torch.stack(torch.broadcast_tensors(x, y)), *maybe),
        two(SPREAD, "rows spread over steps", lambda x, y: x * y.unsqueeze(1).expand(-1, x.shape[1], -1), *line),
        two(
            SPREAD,
            "rows repeated over steps",
            lambda x, y: torch.cat([x, y[:, None].repeat(1, x.size(1), 1)], -1),
            *line,
        ),
        two(SPREAD, "rows spread over a map", lambda x, y: x * y.view(y.shape[0], -1, 1, 1) + x, *feature),
        two(SPREAD, "joined, lengths equal in the example", lambda x, y: torch.cat([x, y], 1).cumsum(1), *lengths),
        two(SPREAD, "every pair, lengths equal in the example", lambda x, y: x[:, :, None] + y[:, None], *lengths),
        two(SPREAD, "means, lengths equal in the example", lambda x, y: x.mean(1) * y.mean(1), *lengths),
        two(
            SPREAD,
            "the other padded to one length",
            lambda x, y: F.pad(x, (0, 0, 0, y.shape[1] - x.shape[1])) + y,
            *shorter,
        ),
        two(SPREAD, "added, named", lambda x, y: x + y, *same, dynamic=named(2, rows=0, columns=1)),
    ]


class Towers(nn.Module):
    """Users and items of a recommender: two towers, a dot of each pair of rows or of all."""

    def __init__(self, all_pairs: bool) -> None:
        super().__init__()
        self.all_pairs, self.users, self.items = all_pairs, nn.Linear(4, 3), nn.Linear(5, 3)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        users, items = F.normalize(self.users(x), dim=-1), F.normalize(self.items(y), dim=-1)
        return users @ items.t() if self.all_pairs else (users * items).sum(-1)


class Interest(nn.Module):
    """DIN: a candidate beside every step of the history, weighed."""

    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Linear(16, 1)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        spread = y.unsqueeze(1).expand_as(x)
        weights = self.score(torch.cat([spread, x, spread - x, spread * x], -1)).transpose(1, 2)
        return torch.cat([torch.bmm(weights, x).squeeze(1), y], -1)


class Film(nn.Module):
    """A map scaled and shifted by what a vector says."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 8)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        scale, shift = self.layer(y)[:, :, None, None].chunk(2, 1)
        return x * (scale + 1) + shift


def _spread_modules() -> list[Entry]:
    maps = (((2, 4, 8, 3), (2, 3)), ((1, 4, 7, 7), (1, 3)), ((3, 4, 5, 6), (3, 3)))
    history = (((2, 9, 4), (2, 4)), ((1, 2, 4), (1, 4)), ((3, 6, 4), (3, 4)))
    return [
        Entry(SPREAD, "two towers", lambda: Towers(False), ((3, 4), (3, 5)), (((6, 4), (6, 5)), ((2, 4), (2, 5)))),
        Entry(
            SPREAD,
            "two towers, all pairs",
            lambda: Towers(True),
            ((3, 4), (6, 5)),
            (((6, 4), (2, 5)), ((2, 4), (2, 5))),
        ),
        Entry(
            SPREAD,
            "two towers, all pairs, example of equal sizes",
            lambda: Towers(True),
            ((3, 4), (3, 5)),
            (((6, 4), (2, 5)), ((2, 4), (4, 5))),
        ),
        Entry(SPREAD, "a candidate and a history", Interest, ((2, 6, 4), (2, 4)), history),
        Entry(SPREAD, "scaled and shifted", Film, ((2, 4, 5, 6), (2, 3)), maps),
    ]


def _beams(x: torch.Tensor) -> Any:
    """Every row three times, best words of each, back to rows."""
    b = x.shape[0]
    spread = x.repeat_interleave(3, dim=0) * torch.tensor([1.0, 0.5, 0.25]).repeat(b).view(-1, 1, 1)
    return spread.view(b, 3, -1).topk(2, -1).values


def _beams_view(x: torch.Tensor) -> Any:
    b, n, d = x.shape
    spread = x.unsqueeze(1).expand(b, 3, n, d).contiguous().view(b * 3, n, d)
    return spread.cumsum(1).view(b, 3, n, d)[:, -1]


def _guided(x: torch.Tensor) -> Any:
    """Diffusion: the batch twice, with and without, apart by chunk."""
    with_text, without = torch.cat([x] * 2).tanh().chunk(2)
    return without + 7.5 * (with_text - without * 0.5)


def _repeated() -> list[Entry]:
    counted = (((2, 3), (2, 4)), ((2, 3), (2, 6)), ((4, 3), (4, 2)))
    return [
        one(REPEAT, "beams by repeating", _beams, LINE, *LINES),
        one(REPEAT, "beams by expand", _beams_view, LINE, *LINES),
        one(REPEAT, "batch twice", _guided, LINE, *LINES),
        one(REPEAT, "rows as often as there are", lambda x: x.repeat(x.shape[0], 1), (2, 4), (3, 4), (5, 4)),
        one(REPEAT, "rows as often as steps", lambda x: x[:, 0].repeat_interleave(x.shape[1], 0), LINE, *LINES),
        two(
            REPEAT,
            "rows as often as columns of the other",
            lambda x, y: x.repeat_interleave(y.shape[1], dim=0),
            *counted,
        ),
        two(
            REPEAT,
            "rows spread over columns of the other",
            lambda x, y: x[:, None].expand(-1, y.shape[1], -1).flatten(0, 1),
            *counted,
        ),
        one(REPEAT, "nearest by repeating", lambda x: x.repeat_interleave(2, 2).repeat_interleave(2, 3), MAP, *MAPS),
        one(REPEAT, "beams by repeating, named", _beams, LINE, (3, 9, 4), (4, 5, 4), dynamic=named(batch=0, steps=1)),
    ]
