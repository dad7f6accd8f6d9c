"""Splitting and joining: pieces by number, by size, by lists of sizes, and how they come together again."""

# mypy: disable-error-code="no-untyped-call"
from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from guarddiff.sweep.catalogue.dims import bounded, named, strict
from guarddiff.sweep.catalogue.entry import Entry, module, one, two

SPLIT, CHUNK, UNBIND, SLICES, JOIN, NARROW = (
    "split",
    "chunk",
    "unbind and rows",
    "slices joined",
    "interleaved and stacked",
    "narrow",
)
ROW, ROWS = (2, 6), ((2, 12), (3, 8), (1, 10))
LINE, LINES = (2, 6, 3), ((2, 12, 3), (3, 8, 3), (1, 4, 3))


def entries() -> list[Entry]:
    """The entries of this shelf."""
    return [*_splits(), *_splits_of_two(), *_chunks(), *_unbound(), *_slices(), *_joined(), *_narrowed(), *_modules()]


def _halves(x: torch.Tensor) -> Any:
    first, second = x.split(x.shape[1] // 2, dim=1)
    return first * second


def _rest(x: torch.Tensor) -> Any:
    first, second = x.split([2, x.shape[1] - 2], dim=1)
    return first.sum(1), second


def _by_a_third(x: torch.Tensor) -> Any:
    third = x.shape[1] // 3
    first, second = torch.split(x, [third, x.shape[1] - third], 1)
    return torch.cat([second, first], 1)


def _splits() -> list[Entry]:
    return [
        one(SPLIT, "into pieces of two", lambda x: x.split(2, dim=1), ROW, *ROWS),
        one(SPLIT, "into pieces of two, first only", lambda x: x.split(2, dim=1)[0], ROW, *ROWS),
        one(SPLIT, "into pieces of two, last only", lambda x: x.split(2, dim=1)[-1], ROW, *ROWS),
        one(SPLIT, "into pieces of four, uneven", lambda x: x.split(4, dim=1), ROW, (2, 7), (3, 8)),
        one(SPLIT, "into pieces of two, stacked", lambda x: torch.stack(x.split(2, 1)).mean(0), ROW, *ROWS),
        one(SPLIT, "halves by size", _halves, ROW, *ROWS),
        one(SPLIT, "two and the rest", _rest, ROW, *ROWS),
        one(SPLIT, "a third and the rest", _by_a_third, ROW, *ROWS),
        one(SPLIT, "features, batch free", lambda x: x.split([1, 2], dim=-1), LINE, *LINES),
        one(SPLIT, "rows of the batch", lambda x: torch.cat(x.split(1), 1), (2, 6), (3, 6), (5, 6)),
        one(
            SPLIT,
            "two and the rest, bounded",
            _rest,
            (4, 6),
            (5, 12),
            (6, 8),
            dynamic=bounded(4, 64, rows=0, columns=1),
        ),
        one(SPLIT, "halves by size, strict", _halves, ROW, (3, 12), (4, 8), dynamic=strict(1, 0, 1)),
    ]


def _as_joined(x: torch.Tensor, y: torch.Tensor) -> Any:
    """Joined, worked on together, split as they were."""
    joined = torch.cat([x, y], 1).softmax(1)
    return joined.split([x.shape[1], y.shape[1]], dim=1)


def _as_joined_slices(x: torch.Tensor, y: torch.Tensor) -> Any:
    joined = torch.cat([x, y], 1).cumsum(1)
    return joined[:, : x.shape[1]] * 2, joined[:, x.shape[1] :]


def _siamese(x: torch.Tensor, y: torch.Tensor) -> Any:
    """Both through one net as one batch, then apart by chunk."""
    first, second = torch.cat([x, y], 0).tanh().chunk(2, 0)
    return (first * second).sum(-1)


def _siamese_by_size(x: torch.Tensor, y: torch.Tensor) -> Any:
    both = torch.cat([x, y]).tanh()
    return both[: x.shape[0]].mean(0) - both[x.shape[0] :].mean(0)


def _splits_of_two() -> list[Entry]:
    pair, pairs = ((2, 4, 3), (2, 6, 3)), (((2, 7, 3), (2, 5, 3)), ((3, 3, 3), (3, 9, 3)))
    alike, others = ((2, 4, 3), (2, 4, 3)), (((2, 7, 3), (2, 5, 3)), ((3, 3, 3), (3, 9, 3)))
    same, sames = ((2, 4), (2, 4)), (((3, 4), (3, 4)), ((5, 4), (5, 4)))
    rows, more = ((2, 4), (3, 4)), (((5, 4), (2, 4)), ((4, 4), (4, 4)))
    return [
        two(SPLIT, "joined and split again", _as_joined, pair, *pairs),
        two(SPLIT, "joined and split again, example of equal sizes", _as_joined, alike, *others),
        two(SPLIT, "joined and cut again", _as_joined_slices, pair, *pairs),
        two(SPLIT, "joined and cut again, example of equal sizes", _as_joined_slices, alike, *others),
        two(CHUNK, "two batches in one", _siamese, same, *sames),
        two(CHUNK, "two batches in one, named", _siamese, same, *sames, dynamic=named(2, batch=0)),
        two(SPLIT, "two batches in one, by size", _siamese_by_size, rows, *more),
    ]


def _gated(x: torch.Tensor) -> Any:
    value, gate = x.chunk(2, dim=1)
    return value * gate.sigmoid()


def _recombined(x: torch.Tensor) -> Any:
    return torch.cat([a + b for a, b in zip(x.chunk(3, 1), x.roll(1, 1).chunk(3, 1))], 1)


def _chunks() -> list[Entry]:
    return [
        one(CHUNK, "two of the features", lambda x: x.chunk(2, -1)[0] * 2, (2, 5, 4), (2, 9, 4), (3, 4, 4)),
        one(CHUNK, "gate along the length", _gated, ROW, *ROWS),
        one(CHUNK, "glu along the length", lambda x: F.glu(x, 1), ROW, *ROWS),
        one(CHUNK, "glu of the features", lambda x: F.glu(x, -1), (2, 5, 4), (2, 9, 4), (3, 4, 4)),
        one(CHUNK, "into three", lambda x: x.chunk(3, 1), ROW, (2, 9), (3, 12)),
        one(CHUNK, "into three, uneven", lambda x: x.chunk(3, 1), (2, 7), (2, 8), (3, 13)),
        one(CHUNK, "into three, fewer elsewhere", lambda x: x.chunk(3, 1), ROW, (2, 4), (2, 2)),
        one(CHUNK, "zipped with another", _recombined, ROW, (2, 9), (3, 12)),
        one(CHUNK, "tensor split into three", lambda x: torch.tensor_split(x, 3, dim=1), ROW, (2, 7), (3, 8)),
        one(CHUNK, "tensor split at places", lambda x: torch.tensor_split(x, (1, 4), dim=1), ROW, *ROWS),
        one(CHUNK, "tensor split at half", lambda x: torch.tensor_split(x, (x.shape[1] // 2,), dim=1), ROW, *ROWS),
        one(CHUNK, "hsplit", lambda x: torch.hsplit(x, 2), ROW, *ROWS),
        one(CHUNK, "hsplit at places", lambda x: torch.hsplit(x, [2, 5]), ROW, *ROWS),
        one(CHUNK, "vsplit", lambda x: torch.vsplit(x, 2), (4, 3), (6, 3), (2, 3)),
        one(CHUNK, "two of the features, words", _gated, (2, 6, 3), (3, 6, 5), (4, 6, 2), dynamic=_batch_word()),
    ]


def _batch_word() -> list[dict[int, Any]]:
    return [{0: "batch", 2: "steps"}]


def _by_comprehension(x: torch.Tensor) -> Any:
    return torch.stack([row / row.norm() for row in x])


def _by_index(x: torch.Tensor) -> Any:
    return torch.stack([x[i] * (i + 1) for i in range(x.shape[0])])


def _by_index_len(x: torch.Tensor) -> Any:
    return torch.cat([x[i : i + 1].softmax(-1) for i in range(len(x))], dim=0)


def _pairs_of_steps(x: torch.Tensor) -> Any:
    steps = x.unbind(1)
    return torch.stack([b - a for a, b in zip(steps[:-1], steps[1:])], 1)


def _enumerated(x: torch.Tensor) -> Any:
    total = torch.zeros_like(x[0])
    for i, row in enumerate(x):
        total = total + row / (i + 1)
    return total


def _filled_rows(x: torch.Tensor) -> Any:
    result = torch.zeros_like(x)
    for i in range(x.shape[0]):
        result[i] = x[i] - x[i].mean()
    return result


def _unbound() -> list[Entry]:
    few, more = (3, 4), ((6, 4), (2, 4))
    return [
        one(UNBIND, "unbind", lambda x: x.unbind(1), (2, 3), (2, 6), (4, 2)),
        one(UNBIND, "unbind features", lambda x: sum(x.unbind(-1)), LINE, *LINES),
        one(UNBIND, "boxes unbound", _boxes, (5, 4), (9, 4), (2, 4)),
        one(UNBIND, "comprehension over rows", _by_comprehension, few, *more),
        one(UNBIND, "rows by range", _by_index, few, *more),
        one(UNBIND, "rows by len", _by_index_len, few, *more),
        one(UNBIND, "neighbours zipped", _pairs_of_steps, (2, 4), (2, 6), (3, 3)),
        one(UNBIND, "rows enumerated", _enumerated, few, *more),
        one(UNBIND, "rows written", _filled_rows, few, *more),
        one(UNBIND, "first and last row", lambda x: x[0] + x[-1], few, *more),
        one(UNBIND, "rows unpacked", _unpacked, (2, 4), (2, 6), (2, 3)),
        one(UNBIND, "comprehension over rows, batch of one", _by_comprehension, (1, 4), (2, 4), (4, 4)),
    ]


def _boxes(x: torch.Tensor) -> Any:
    left, top, right, bottom = x.unbind(-1)
    return torch.stack([(left + right) / 2, (top + bottom) / 2, right - left, bottom - top], -1)


def _unpacked(x: torch.Tensor) -> Any:
    first, second = x
    return first * second


def _shifts(x: torch.Tensor) -> Any:
    """The step before, the step, and the next one."""
    padded = F.pad(x, (0, 0, 1, 1))
    return torch.cat([padded[:, :-2], x, padded[:, 2:]], -1)


def _frames(x: torch.Tensor) -> Any:
    """Frames of three with their neighbours, as many as there are."""
    return torch.stack([x[:, i : i + 3].mean(1) for i in range(x.shape[1] - 2)], 1)


def _three_offsets(x: torch.Tensor) -> Any:
    return torch.stack([x[:, i : x.shape[1] - 2 + i] for i in range(3)]).max(0).values


def _haar(x: torch.Tensor) -> Any:
    even, odd = x[:, 0::2], x[:, 1::2]
    return torch.cat([(even + odd) / 2, (even - odd) / 2], 1)


def _temporal_shift(x: torch.Tensor) -> Any:
    """TSM: part of the features from the next step, part from the one before."""
    result = torch.zeros_like(x)
    result[:, :-1, :1] = x[:, 1:, :1]
    result[:, 1:, 1:2] = x[:, :-1, 1:2]
    result[:, :, 2:] = x[:, :, 2:]
    return result


def _slices() -> list[Entry]:
    return [
        one(SLICES, "neighbours by padding", _shifts, LINE, *LINES),
        one(SLICES, "frames by a loop", _frames, LINE, *LINES),
        one(SLICES, "three offsets", _three_offsets, LINE, *LINES),
        one(SLICES, "Haar", _haar, LINE, *LINES),
        one(SLICES, "shift in time", _temporal_shift, LINE, *LINES),
        one(SLICES, "differences by slices", lambda x: x[:, 1:] - x[:, :-1], LINE, *LINES),
        one(
            SLICES,
            "halves exchanged",
            lambda x: torch.cat([x[:, x.shape[1] // 2 :], x[:, : x.shape[1] // 2]], 1),
            LINE,
            *LINES,
        ),
        one(SLICES, "mirrored", lambda x: torch.cat([x, x.flip(1)[:, 1:]], 1), LINE, *LINES),
        one(SLICES, "odd after even", lambda x: torch.cat([x[:, ::2], x[:, 1::2]], 1), LINE, (2, 9, 3), (1, 5, 3)),
        one(
            SLICES,
            "three offsets, bounded",
            _three_offsets,
            (4, 6, 3),
            (5, 12, 3),
            (6, 8, 3),
            dynamic=bounded(4, 32, batch=0, steps=1),
        ),
    ]


def _interleaved(x: torch.Tensor, y: torch.Tensor) -> Any:
    return torch.stack([x, y], dim=2).flatten(1, 2)


def _interleaved_view(x: torch.Tensor, y: torch.Tensor) -> Any:
    return torch.stack([x, y], dim=2).view(x.shape[0], 2 * x.shape[1], -1)


def _woven(x: torch.Tensor, y: torch.Tensor) -> Any:
    result = x.new_empty(x.shape[0], x.shape[1] + y.shape[1], x.shape[2])
    result[:, ::2], result[:, 1::2] = x, y
    return result


def _joined() -> list[Entry]:
    pair, pairs = ((2, 4, 3), (2, 4, 3)), (((2, 7, 3), (2, 7, 3)), ((3, 2, 3), (3, 2, 3)))
    rows, more = ((3, 4), (3, 4)), (((6, 4), (6, 4)), ((2, 7), (2, 7)))
    return [
        two(JOIN, "stack and flatten", _interleaved, pair, *pairs),
        two(JOIN, "stack and view", _interleaved_view, pair, *pairs),
        two(JOIN, "written in turn", _woven, pair, *pairs),
        two(JOIN, "stacked", lambda x, y: torch.stack([x, y, x * y], 1), rows, *more),
        two(JOIN, "columns", lambda x, y: torch.column_stack([x, y]), rows, *more),
        two(JOIN, "vstack and hstack", lambda x, y: (torch.vstack([x, y]), torch.hstack([x, y])), rows, *more),
        one(JOIN, "repeated twice", lambda x: x.repeat_interleave(2, 1), LINE, *LINES),
        one(JOIN, "repeated twice by expand", _doubled, LINE, *LINES),
        one(JOIN, "tiled", lambda x: x.tile(1, 2, 1), LINE, *LINES),
        two(
            JOIN,
            "repeated by a size",
            lambda x, y: x.repeat_interleave(y.shape[1], dim=0),
            ((1, 3), (1, 4)),
            ((2, 3), (2, 4)),
            ((1, 3), (1, 6)),
        ),
        two(JOIN, "stack and flatten, named", _interleaved, pair, *pairs, dynamic=named(2, batch=0, steps=1)),
    ]


def _doubled(x: torch.Tensor) -> Any:
    return x[:, :, None, :].expand(-1, -1, 2, -1).reshape(x.shape[0], -1, x.shape[2])


def _narrowed() -> list[Entry]:
    pair, pairs = ((2, 8), (2, 5)), (((2, 12), (2, 3)), ((3, 4), (3, 4)))
    return [
        one(NARROW, "first three", lambda x: x.narrow(1, 0, 3), ROW, *ROWS),
        one(NARROW, "all but the last", lambda x: x.narrow(1, 0, x.shape[1] - 1), ROW, *ROWS),
        one(NARROW, "middle half", lambda x: x.narrow(1, x.shape[1] // 4, x.shape[1] // 2), ROW, *ROWS),
        two(NARROW, "to the other", lambda x, y: x.narrow(1, 0, y.shape[1]) + y, pair, *pairs),
        two(NARROW, "to the shorter", _to_shorter, pair, *pairs, ((2, 3), (2, 9))),
        one(NARROW, "at most eight", lambda x: x[:, :8].softmax(1), ROW, *ROWS),
        one(NARROW, "last four", lambda x: x[:, -4:] * 2, ROW, *ROWS, (2, 3)),
        one(NARROW, "select", lambda x: x.select(1, 0) + x.select(1, -1), ROW, *ROWS),
    ]


def _to_shorter(x: torch.Tensor, y: torch.Tensor) -> Any:
    n = min(x.shape[1], y.shape[1])
    return x[:, :n] * y[:, :n]


class Multiscale(nn.Module):
    """Res2Net: groups of features, each with what the one before gave."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(2, 2, 3, padding=1) for _ in range(3))

    def forward(self, x: torch.Tensor) -> Any:
        parts = x.split(2, 1)
        last = parts[0]
        found = [last]
        for layer, part in zip(self.layers, parts[1:]):
            last = layer(part + last)
            found.append(last)
        return torch.cat(found, 1)


class Fields(nn.Module):
    """A recommender's fields: columns looked up in tables of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(7, 3) for _ in range(4))

    def forward(self, x: torch.Tensor) -> Any:
        found = [table(column) for table, column in zip(self.tables, x.unbind(1))]
        return torch.stack(found, 1).flatten(1)


def ids(place: int, shape: tuple[int, ...]) -> torch.Tensor:
    """Ids from 0 to 6."""
    del place
    return torch.randint(0, 7, shape)


def _modules() -> list[Entry]:
    return [
        module(SPLIT, "groups of features", Multiscale, (2, 8, 5), (2, 8, 9), (3, 8, 4)),
        module(UNBIND, "fields of a table", Fields, (2, 4), (5, 4), (3, 4), fill=ids),
        module(UNBIND, "fields of a table, batch of one", Fields, (1, 4), (5, 4), (3, 4), fill=ids),
    ]
