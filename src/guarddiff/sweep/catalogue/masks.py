"""Masks made by size, by lengths or by content, and what is done with them."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from guarddiff.sweep.catalogue.dims import named, strict
from guarddiff.sweep.catalogue.entry import Entry, module, one, two

TRIANGLE, LENGTHS, CONTENT, BLOCK, HOT = (
    "triangles",
    "masks by lengths",
    "masks by content",
    "masks of blocks and bands",
    "one hot by size",
)
SCORES, OTHERS = (2, 5, 5), ((2, 9, 9), (3, 3, 3), (1, 7, 7))
LINE, LINES = (2, 5, 3), ((2, 9, 3), (3, 4, 3), (1, 7, 3))


def entries() -> list[Entry]:
    """The entries of this shelf."""
    return [*_triangles(), *_cropped(), *_lengths(), *_content(), *_blocks(), *_hot()]


def _indices(x: torch.Tensor) -> Any:
    rows, columns = torch.triu_indices(x.shape[1], x.shape[2], 1)
    return x[:, rows, columns]


def _filled(x: torch.Tensor) -> Any:
    """A triangle by comparing two ranges."""
    n = x.shape[-1]
    places = torch.arange(n)
    return x.masked_fill(places[None, :] > places[:, None], float("-inf")).softmax(-1)


def _hf(x: torch.Tensor) -> Any:
    """transformers' way: filled with the least number, a triangle by a view of places, spread over the batch."""
    b, n, _ = x.shape
    mask = torch.full((n, n), torch.finfo(x.dtype).min)
    places = torch.arange(mask.size(-1))
    mask.masked_fill_(places < (places + 1).view(mask.size(-1), 1), 0)
    return (x[:, None] + mask[None, None].expand(b, 1, n, n)).softmax(-1)


def _cumulative(x: torch.Tensor) -> Any:
    return (torch.ones(x.shape[-2:]).cumsum(0) > torch.arange(x.shape[-1])) * x


def _triangles() -> list[Entry]:
    return [
        one(TRIANGLE, "tril of the scores", torch.tril, SCORES, *OTHERS),
        one(TRIANGLE, "triu of the scores", lambda x: x.triu(1), SCORES, *OTHERS),
        one(TRIANGLE, "tril, diagonal below", lambda x: x.tril(-1), SCORES, *OTHERS),
        one(TRIANGLE, "triu, diagonal by the size", lambda x: x.triu(x.shape[1] // 2), SCORES, *OTHERS),
        one(TRIANGLE, "ones", lambda x: x * torch.ones(x.shape[1], x.shape[1]).tril(), SCORES, *OTHERS),
        one(TRIANGLE, "ones like", lambda x: x * torch.tril(torch.ones_like(x[0])), SCORES, *OTHERS),
        one(TRIANGLE, "filled by two ranges", _filled, SCORES, *OTHERS),
        one(TRIANGLE, "filled with the least number", _hf, SCORES, *OTHERS),
        one(TRIANGLE, "by a running sum", _cumulative, SCORES, *OTHERS),
        one(TRIANGLE, "indices", _indices, SCORES, *OTHERS),
        one(TRIANGLE, "indices, batch alone", _indices, SCORES, (3, 5, 5), (5, 5, 5)),
        one(
            TRIANGLE,
            "indices of the lower",
            lambda x: torch.tril_indices(x.shape[0], x.shape[0]),
            (4, 4),
            (6, 6),
            (3, 3),
        ),
        one(TRIANGLE, "filled by two ranges, named", _filled, SCORES, (2, 9, 9), (3, 3, 3), dynamic=_square_names()),
    ]


def _square_names() -> list[dict[int, Any]]:
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length")
    return [{0: batch, 1: length, 2: length}]


class Cropped(nn.Module):
    """A causal mask kept for 16 steps and cropped to the length (GPT-2, nanoGPT); ``ahead`` queries only."""

    mask: torch.Tensor

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.register_buffer("mask", torch.tril(torch.ones(16, 16)).view(1, 16, 16))

    def forward(self, x: torch.Tensor) -> Any:
        n = x.size(1)
        scores = x @ x.transpose(1, 2)
        if self.how == "last":
            return (scores[:, -1:] * self.mask[:, n - 1 : n, :n]).softmax(-1)
        mask = self.mask[:, :n, :n]
        if self.how == "bool":
            return torch.where(mask.bool(), scores, torch.full([], -1e4, dtype=x.dtype)).softmax(-1)
        return scores.masked_fill(mask == 0, float("-inf")).softmax(-1)


class Grown(nn.Module):
    """A mask made anew where the length is not that of the kept one."""

    mask: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", torch.ones(5, 5).tril())

    def forward(self, x: torch.Tensor) -> Any:
        mask = self.mask
        if x.size(1) != mask.size(0):
            mask = torch.ones(x.size(1), x.size(1)).tril()
        return (x @ x.transpose(1, 2)) * mask


def _cropped() -> list[Entry]:
    return [
        module(TRIANGLE, "cropped from a buffer", lambda: Cropped("float"), LINE, *LINES),
        module(TRIANGLE, "cropped from a buffer, where", lambda: Cropped("bool"), LINE, *LINES),
        module(TRIANGLE, "cropped from a buffer, last row", lambda: Cropped("last"), LINE, *LINES),
        module(TRIANGLE, "cropped from a buffer, whole in the example", lambda: Cropped("float"), (2, 16, 3), *LINES),
        module(TRIANGLE, "made anew unless it fits", Grown, LINE, *LINES),
        module(TRIANGLE, "made anew unless it fits, longer example", Grown, (2, 7, 3), *LINES[:2], LINE),
        module(
            TRIANGLE,
            "cropped from a buffer, strict",
            lambda: Cropped("float"),
            LINE,
            (2, 9, 3),
            (3, 4, 3),
            dynamic=strict(1, 0, 1),
        ),
    ]


def lengths(place: int, shape: tuple[int, ...]) -> torch.Tensor:
    """Normal numbers first, then lengths of 2 to 4 steps."""
    return torch.arange(shape[0]) % 3 + 2 if place else torch.randn(shape)


def valid(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """True where the place lies within the length."""
    return torch.arange(x.shape[1])[None, :] < y[:, None]


def _masked_mean(x: torch.Tensor, y: torch.Tensor) -> Any:
    mask = valid(x, y).unsqueeze(-1)
    return (x * mask).sum(1) / mask.sum(1).clamp(min=1)


def _masked_max(x: torch.Tensor, y: torch.Tensor) -> Any:
    return x.masked_fill(~valid(x, y).unsqueeze(-1), float("-inf")).max(1).values


def _masked_softmax(x: torch.Tensor, y: torch.Tensor) -> Any:
    scores = x.sum(-1).masked_fill(~valid(x, y), -1e9)
    return torch.bmm(scores.softmax(-1).unsqueeze(1), x).squeeze(1)


def _masked_variance(x: torch.Tensor, y: torch.Tensor) -> Any:
    mask = valid(x, y).unsqueeze(-1).to(x.dtype)
    count = mask.sum(1, keepdim=True)
    mean = (x * mask).sum(1, keepdim=True) / count
    return torch.cat([mean, (((x - mean) * mask) ** 2).sum(1, keepdim=True) / count], -1)


def _pair_mask(x: torch.Tensor, y: torch.Tensor) -> Any:
    mask = valid(x, y)
    both = mask.unsqueeze(1) & mask.unsqueeze(2)
    return (x @ x.transpose(1, 2)).masked_fill(~both, 0.0)


def _padding_and_triangle(x: torch.Tensor, y: torch.Tensor) -> Any:
    n = x.shape[1]
    mask = valid(x, y)[:, None, :] & torch.ones(n, n, dtype=torch.bool).tril()
    return F.scaled_dot_product_attention(x, x, x, attn_mask=mask)


def _by_running_sum(x: torch.Tensor, y: torch.Tensor) -> Any:
    """ESPnet's way: ranges expanded to both sizes."""
    places = torch.arange(0, x.size(1), dtype=torch.long).unsqueeze(0).expand(y.size(0), x.size(1))
    return x * (places < y.unsqueeze(-1).expand(places.shape)).unsqueeze(-1)


def _halved_lengths(x: torch.Tensor, y: torch.Tensor) -> Any:
    """Frames halved, and their lengths by the same rule."""
    half = F.avg_pool1d(x.transpose(1, 2), 2, 2).transpose(1, 2)
    return half * (torch.arange(half.shape[1])[None] < (y // 2)[:, None]).unsqueeze(-1)


def _counted(x: torch.Tensor, y: torch.Tensor) -> Any:
    """How many steps are valid, in all and up to each."""
    return valid(x, y).sum(1), valid(x, y).float().cumsum(1)


def _lengths() -> list[Entry]:
    rows, others = ((3, 5, 3), (3,)), (((2, 9, 3), (2,)), ((4, 4, 3), (4,)))
    functions = {
        "mean": _masked_mean,
        "maximum": _masked_max,
        "softmax": _masked_softmax,
        "variance": _masked_variance,
        "pairs": _pair_mask,
        "padding and triangle": _padding_and_triangle,
        "range expanded": _by_running_sum,
        "halved": _halved_lengths,
        "counted": _counted,
    }
    batch, steps = torch.export.Dim("batch"), torch.export.Dim("steps")
    return [
        *(two(LENGTHS, name, function, rows, *others, fill=lengths) for name, function in functions.items()),
        two(
            LENGTHS,
            "mean, named",
            _masked_mean,
            rows,
            *others,
            fill=lengths,
            dynamic=[{0: batch, 1: steps}, {0: batch}],
        ),
        two(LENGTHS, "mean, batch of one", _masked_mean, ((1, 5, 3), (1,)), *others, fill=lengths),
    ]


def _positive_mean(x: torch.Tensor) -> Any:
    mask = (x > 0).float()
    return (x * mask).sum(1) / (mask.sum(1) + 1e-6)


def _token_mask(x: torch.Tensor) -> Any:
    """BERT's way: zeros of the ids are padding, the mask spread by two axes and turned round."""
    mask = (1.0 - (x != 0).float()[:, None, None, :]) * -10000.0
    scores = (x[:, :, None] - x[:, None, :]).abs().float().unsqueeze(1) / 10
    return (scores + mask).softmax(-1)


def ids(place: int, shape: tuple[int, ...]) -> torch.Tensor:
    """Token ids from 0 to 6."""
    del place
    return torch.randint(0, 7, shape)


def _positions(x: torch.Tensor) -> Any:
    """RoBERTa's positions: counted over what is no padding."""
    mask = x.ne(1).int()
    return torch.cumsum(mask, dim=1) * mask + 1


def _first_zero(x: torch.Tensor) -> Any:
    """All that stands after the first 0 is left out."""
    return x * ((x == 0).long().cumsum(1) == 0)


def _content() -> list[Entry]:
    tokens, more = (2, 6), ((2, 10), (3, 4), (1, 7))
    return [
        one(CONTENT, "mean of what is positive", _positive_mean, LINE, *LINES),
        one(CONTENT, "where", lambda x: torch.where(x > 0, x, torch.zeros_like(x)), LINE, *LINES),
        one(CONTENT, "masked fill", lambda x: x.masked_fill(x < 0, -1.0).cumsum(1), LINE, *LINES),
        one(CONTENT, "assigned by a mask", _assigned, LINE, *LINES),
        one(CONTENT, "padding of ids", _token_mask, tokens, *more, fill=ids),
        one(CONTENT, "places of RoBERTa", _positions, tokens, *more, fill=ids),
        one(CONTENT, "up to the first zero", _first_zero, tokens, *more, fill=ids),
        one(CONTENT, "equal ids", lambda x: (x[:, :, None] == x[:, None, :]).float().mean(-1), tokens, *more, fill=ids),
        two(
            CONTENT,
            "masked scatter of a row",
            lambda x, y: torch.where(y.sigmoid() > 0.5, x, x.mean(0, keepdim=True)),
            ((2, 5), (2, 5)),
            ((2, 9), (2, 9)),
            ((4, 3), (4, 3)),
        ),
    ]


def _assigned(x: torch.Tensor) -> Any:
    result = x.clone()
    result[result < 0] = 0.25
    return result


def _block_diagonal(x: torch.Tensor) -> Any:
    groups = torch.arange(x.shape[1]) // 3
    return x * (groups[:, None] == groups[None, :])


def _kron_blocks(x: torch.Tensor) -> Any:
    return x * torch.kron(torch.eye(x.shape[1] // 2), torch.ones(2, 2))


def _repeated_blocks(x: torch.Tensor) -> Any:
    eye = torch.eye(x.shape[1] // 2).repeat_interleave(2, 0).repeat_interleave(2, 1)
    return x * eye


def _chunk_mask(x: torch.Tensor) -> Any:
    """Streaming: each step sees its own chunk of 4 and all before."""
    n = x.shape[1]
    ends = (torch.arange(n) // 4 + 1) * 4
    return x.masked_fill(torch.arange(n)[None] >= ends[:, None].clamp(max=n), -1e4).softmax(-1)


def _chunk_loop(x: torch.Tensor) -> Any:
    """WeNet's way: the same by a loop over rows."""
    n = x.shape[1]
    mask = torch.zeros(n, n, dtype=torch.bool)
    for i in range(n):
        mask[i, : min((i // 4 + 1) * 4, n)] = True
    return x.masked_fill(~mask, -1e4).softmax(-1)


def _no_self(x: torch.Tensor) -> Any:
    return x.masked_fill(torch.eye(x.shape[1], dtype=torch.bool), float("-inf")).softmax(-1)


def _prefix(x: torch.Tensor) -> Any:
    """The first three see one another, the others what came before."""
    n = x.shape[1]
    seen = torch.ones(n, n, dtype=torch.bool).tril() | (torch.arange(n) < 3)
    return torch.where(seen, x, -1e4).softmax(-1)


def _blocks() -> list[Entry]:
    even, evens = (2, 6, 6), ((2, 8, 8), (1, 4, 4))
    return [
        one(BLOCK, "blocks by floor", _block_diagonal, SCORES, *OTHERS),
        one(BLOCK, "blocks by kron", _kron_blocks, even, *evens),
        one(BLOCK, "blocks by repeating", _repeated_blocks, even, *evens),
        one(BLOCK, "chunks and all before", _chunk_mask, SCORES, *OTHERS),
        one(BLOCK, "chunks and all before by a loop", _chunk_loop, SCORES, *OTHERS),
        one(BLOCK, "band", lambda x: x.tril(2).triu(-2), SCORES, *OTHERS),
        one(BLOCK, "without the diagonal", _no_self, SCORES, *OTHERS),
        one(BLOCK, "prefix and triangle", _prefix, SCORES, *OTHERS),
    ]


def _whole(place: int, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.randint(0, 3, shape) if place else torch.randn(shape)


def _hot() -> list[Entry]:
    pair, pairs = ((2, 4), (3,)), (((2, 8), (5,)), ((3, 6), (2,)))
    return [
        two(HOT, "one hot", lambda x, y: F.one_hot(y, x.shape[1]), pair, *pairs, fill=_whole),
        two(
            HOT,
            "by comparing",
            lambda x, y: (y[:, None] == torch.arange(x.shape[1])).float(),
            pair,
            *pairs,
            fill=_whole,
        ),
        two(HOT, "by rows of eye", lambda x, y: torch.eye(x.shape[1])[y], pair, *pairs, fill=_whole),
        one(HOT, "of the greatest", lambda x: F.one_hot(x.argmax(-1), x.shape[-1]) * x, (2, 5), (2, 9), (3, 4)),
        one(HOT, "of the greatest, batch alone", lambda x: F.one_hot(x.argmax(-1), 5), (2, 5), (3, 5), (7, 5)),
        one(
            HOT,
            "of the greatest, named",
            lambda x: F.one_hot(x.argmax(-1), x.shape[-1]) * x,
            (2, 5),
            (2, 9),
            (3, 4),
            dynamic=named(rows=0, classes=1),
        ),
        one(
            HOT,
            "scattered",
            lambda x: torch.zeros_like(x).scatter(1, x.argmax(1, keepdim=True), 1.0),
            (2, 5),
            (2, 9),
            (3, 4),
        ),
    ]
