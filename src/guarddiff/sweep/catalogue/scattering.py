"""Scatter: written, added and reduced at places that are inputs or follow from the values."""

from __future__ import annotations

import math
from typing import Any

import torch

from guarddiff.sweep.catalogue.entry import Entry, one, two
from guarddiff.sweep.catalogue.indexing import LINE, LINES, ROW, ROWS, whole

SCATTER = "scatter"


def entries() -> list[Entry]:
    """The entries of this shelf."""
    return [*_scatters(), *_scatters_of_rows(), *_scatters_by_size()]


def alternating(place: int, shape: tuple[int, ...]) -> torch.Tensor:
    """Normal numbers first, then 0 and 1 in turn."""
    return torch.arange(math.prod(shape)).reshape(shape) % 2 if place else torch.randn(shape)


def _scatters() -> list[Entry]:
    table, cut, more = ((3, 4), (3, 4)), ((3, 4), (2, 4)), ((3, 4), (1, 4))
    return [
        two(
            SCATTER, "scatter", lambda x, y: torch.zeros(3, 4).scatter(0, y, x), table, cut, more, fill=alternating_rows
        ),
        two(
            SCATTER,
            "scatter add",
            lambda x, y: torch.zeros(3, 4).scatter_add(0, y, x),
            table,
            cut,
            more,
            fill=alternating,
        ),
        two(
            SCATTER,
            "scatter reduce, maximum",
            lambda x, y: torch.zeros(3, 4).scatter_reduce(0, y, x, "amax"),
            table,
            cut,
            more,
            fill=alternating,
        ),
        two(
            SCATTER,
            "scatter reduce, mean",
            lambda x, y: torch.zeros(3, 4).scatter_reduce(0, y, x, "mean"),
            table,
            cut,
            more,
            fill=alternating,
        ),
        two(
            SCATTER,
            "scatter reduce, sum without self",
            lambda x, y: torch.ones(3, 4).scatter_reduce(0, y, x, "sum", include_self=False),
            table,
            cut,
            more,
            fill=alternating,
        ),
    ]


def _scatters_of_rows() -> list[Entry]:
    rows = ((5, 3), (5,)), ((9, 3), (9,)), ((4, 3), (4,))
    return [
        two(SCATTER, "index add", lambda x, y: torch.zeros(4, 3).index_add(0, y, x), *rows, fill=whole),
        two(SCATTER, "index add by size", lambda x, y: x.index_add(0, y, x, alpha=0.5), *rows, fill=whole),
        two(
            SCATTER,
            "index put, summed",
            lambda x, y: torch.zeros(4, 3).index_put((y,), x, accumulate=True),
            *rows,
            fill=whole,
        ),
        two(SCATTER, "pooled by group", _pooled, *rows, fill=whole),
        two(
            SCATTER, "messages of a graph", _messages, ((5, 3), (2, 6)), ((9, 3), (2, 4)), ((4, 3), (2, 9)), fill=whole
        ),
        two(
            SCATTER,
            "messages of a graph, example of equal sizes",
            _messages,
            ((6, 3), (2, 6)),
            ((9, 3), (2, 4)),
            ((4, 3), (2, 9)),
            fill=whole,
        ),
    ]


def alternating_rows(place: int, shape: tuple[int, ...]) -> torch.Tensor:
    """Normal numbers first, then the number of the row: no place is written twice."""
    return torch.arange(shape[0])[:, None].expand(shape).contiguous() if place else torch.randn(shape)


def _pooled(x: torch.Tensor, y: torch.Tensor) -> Any:
    """Mean of each of 4 groups, as graph nets pool."""
    index = y.unsqueeze(-1).expand(-1, x.shape[1])
    total = torch.zeros(4, x.shape[1]).scatter_add(0, index, x)
    return total / torch.zeros(4).scatter_add(0, y, torch.ones_like(x[:, 0])).clamp(min=1).unsqueeze(-1)


def _messages(x: torch.Tensor, y: torch.Tensor) -> Any:
    """Edges from nodes to nodes, summed where they end."""
    return torch.zeros_like(x).index_add(0, y[1], x[y[0]])


def _kept(x: torch.Tensor) -> Any:
    """Sparse: all but the best three of a row are zero."""
    best = x.topk(3, dim=-1)
    return torch.zeros_like(x).scatter(-1, best.indices, best.values.softmax(-1))


def _masked_best(x: torch.Tensor) -> Any:
    mask = torch.zeros(x.shape[0], x.shape[1], dtype=torch.bool).scatter(1, x.topk(2, 1).indices, True)
    return x.masked_fill(~mask, -1e4).softmax(1)


def _row_written(x: torch.Tensor) -> Any:
    result = torch.zeros(x.shape[0], x.shape[1] + 2, x.shape[2])
    result[:, 1 : x.shape[1] + 1] = x
    return result


def _halves_written(x: torch.Tensor) -> Any:
    result = torch.empty_like(x)
    result[:, 0::2] = x[:, 0::2].sin()
    result[:, 1::2] = x[:, 1::2].cos()
    return result


def _histogram(x: torch.Tensor) -> Any:
    """Counts of 4 classes in each row."""
    classes = (x.sigmoid() * 4).long()
    return torch.zeros(x.shape[0], 4).scatter_add(1, classes, torch.ones_like(x)) / x.shape[1]


def _scatters_by_size() -> list[Entry]:
    return [
        one(SCATTER, "best three kept", _kept, ROW, *ROWS),
        one(SCATTER, "mask of the best two", _masked_best, ROW, *ROWS),
        one(SCATTER, "written into zeros", _row_written, LINE, *LINES),
        one(SCATTER, "every other written", _halves_written, LINE, *LINES),
        one(SCATTER, "histogram", _histogram, ROW, *ROWS),
        one(SCATTER, "index fill", lambda x: x.index_fill(1, torch.tensor([0]), 0.5), LINE, *LINES),
        one(SCATTER, "index copy", lambda x: x.index_copy(1, torch.tensor([1, 0]), x[:, :2]), LINE, *LINES),
        one(SCATTER, "select scatter", lambda x: x.select_scatter(x[:, 0] * 2, 1, 1), LINE, *LINES),
        one(SCATTER, "slice scatter", lambda x: x.slice_scatter(x[:, :-1], 1, 1), LINE, *LINES),
        one(SCATTER, "diagonal written", lambda x: (x @ x.mT).diagonal_scatter(x[..., 0], 0, 1, 2), LINE, *LINES),
    ]
