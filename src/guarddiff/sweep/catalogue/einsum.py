"""Products: einsum, matmul, and their many forms."""

# mypy: disable-error-code="no-untyped-call"
from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from guarddiff.sweep.catalogue.dims import named, strict
from guarddiff.sweep.catalogue.entry import Entry, module, one, two

EINSUM, MATMUL, CHAIN, DISTANCE, TIED = (
    "einsum",
    "matmul",
    "products of several",
    "distances and similarities",
    "matrices tied by size",
)
ROWS, OTHERS = (2, 5, 4), ((2, 8, 4), (3, 3, 4), (1, 7, 4))


def entries() -> list[Entry]:
    """The entries of this shelf."""
    return [*_einsums(), *_einsums_of_two(), *_matmuls(), *_chains(), *_distances(), *_layers(), *_tied()]


def _einsums() -> list[Entry]:
    square, squares = (2, 4, 4), ((2, 6, 6), (3, 3, 3))
    return [
        one(EINSUM, "Gram matrix", lambda x: torch.einsum("bnd,bmd->bnm", x, x), ROWS, *OTHERS),
        one(EINSUM, "diagonal", lambda x: torch.einsum("bii->bi", x), square, *squares),
        one(EINSUM, "trace", lambda x: torch.einsum("bii->b", x), square, *squares),
        one(EINSUM, "transposed", lambda x: torch.einsum("bnd->dbn", x), ROWS, *OTHERS),
        one(EINSUM, "sum of one axis", lambda x: torch.einsum("bnd->bd", x) / x.shape[1], ROWS, *OTHERS),
        one(EINSUM, "dots of rows", lambda x: torch.einsum("...d,...d->...", x, x), ROWS, *OTHERS),
        one(EINSUM, "outer", lambda x: torch.einsum("bi,bj->bij", x, x).flatten(1), (2, 4), (2, 7), (3, 3)),
        one(EINSUM, "quadratic form", lambda x: torch.einsum("bni,bij,bnj->bn", x, x.mT @ x, x) / 10, ROWS, *OTHERS),
        one(
            EINSUM,
            "Gram matrix, named",
            lambda x: torch.einsum("bnd,bmd->bnm", x, x),
            ROWS,
            (2, 8, 4),
            (3, 3, 4),
            dynamic=named(batch=0, rows=1),
        ),
    ]


def _einsums_of_two() -> list[Entry]:
    batches = (((2, 3, 4), (2, 4, 5)), ((2, 6, 4), (2, 4, 3)), ((3, 5, 7), (3, 7, 2)))
    vectors = (((3, 4), (5, 4)), ((6, 4), (2, 4)), ((4, 4), (4, 4)))
    alike = (((4, 3), (4, 3)), ((6, 3), (2, 3)), ((5, 3), (7, 3)))
    maps = (((2, 4, 5, 6), (3, 4)), ((2, 4, 8, 3), (3, 4)), ((1, 4, 7, 7), (5, 4)))
    weighted = (((2, 5, 4), (2, 5)), ((2, 8, 4), (2, 8)), ((3, 3, 4), (3, 3)))
    return [
        two(EINSUM, "batched product", lambda x, y: torch.einsum("bij,bjk->bik", x, y), *batches),
        two(EINSUM, "all pairs", lambda x, y: torch.einsum("nd,md->nm", x, y), *vectors),
        two(EINSUM, "all pairs, example of equal sizes", lambda x, y: torch.einsum("nd,md->nm", x, y), *alike),
        two(EINSUM, "all sums of pairs", lambda x, y: torch.einsum("nd,md->nmd", x, y).sum(-1), *vectors),
        two(EINSUM, "classes of a map", lambda x, y: torch.einsum("bchw,qc->bqhw", x, y), *maps),
        two(EINSUM, "weighted sum", lambda x, y: torch.einsum("bnd,bn->bd", x, y), *weighted),
    ]


def _matmuls() -> list[Entry]:
    batches = (((2, 3, 4), (2, 4, 5)), ((2, 6, 4), (2, 4, 3)), ((3, 5, 7), (3, 7, 2)))
    plain = (((3, 4), (4, 5)), ((6, 4), (4, 3)), ((5, 7), (7, 2)))
    spread = (((2, 1, 3, 4), (5, 4, 3)), ((3, 1, 6, 4), (2, 4, 7)), ((1, 1, 3, 2), (4, 2, 3)))
    vector = (((3, 4), (4,)), ((6, 4), (4,)), ((5, 7), (7,)))
    rank = (((2, 3, 4), (4, 5)), ((3, 6, 4), (4, 2)), ((1, 3, 8), (8, 5)))
    return [
        two(MATMUL, "matrices", lambda x, y: x @ y, *plain),
        two(MATMUL, "batched", torch.bmm, *batches),
        two(MATMUL, "baddbmm", lambda x, y: torch.baddbmm(x[:, :, :1], x, y, alpha=0.5), *batches),
        two(MATMUL, "addmm", lambda x, y: torch.addmm(x[:, :1], x, y), *plain),
        two(MATMUL, "spread over two batches", torch.matmul, *spread),
        two(MATMUL, "matrix and vector", lambda x, y: torch.mv(x, y) + x @ y, *vector),
        two(MATMUL, "batch and matrix", torch.matmul, *rank),
        two(MATMUL, "linear with a given weight", lambda x, y: F.linear(x, y.t()), *rank),
        one(MATMUL, "with itself", lambda x: x @ x.mT / x.shape[-1], ROWS, *OTHERS),
        one(MATMUL, "power", lambda x: torch.linalg.matrix_power(x / 2, 3), (2, 4, 4), (2, 6, 6), (3, 3, 3)),
        one(MATMUL, "covariance", _covariance, (6, 4), (9, 4), (4, 4)),
        one(MATMUL, "torch.cov", lambda x: torch.cov(x), (4, 6), (4, 9), (3, 5)),
        two(MATMUL, "batched, named", torch.bmm, *batches, dynamic=_bmm_names()),
        one(MATMUL, "with itself, strict", lambda x: x @ x.mT, ROWS, (2, 8, 4), (3, 3, 4), dynamic=strict(1, 0, 1)),
    ]


def _covariance(x: torch.Tensor) -> Any:
    centred = x - x.mean(0, keepdim=True)
    return centred.t() @ centred / (x.shape[0] - 1)


def _bmm_names() -> list[dict[int, Any]]:
    batch, rows, inner, columns = (torch.export.Dim(name) for name in ("batch", "rows", "inner", "columns"))
    return [{0: batch, 1: rows, 2: inner}, {0: batch, 1: inner, 2: columns}]


def _normal_equations(x: torch.Tensor) -> Any:
    return torch.linalg.multi_dot([x.t(), x, x.t(), x[:, 0]]) / 10


def _chains() -> list[Entry]:
    pair, pairs = ((2, 3), (3, 2)), (((4, 5), (5, 4)), ((6, 2), (2, 6)))
    krons = (((2, 3), (4, 5)), ((4, 6), (8, 10)), ((1, 3), (2, 2)))
    bases = (((2, 4, 3), (4, 5, 3)), ((2, 6, 3), (6, 2, 3)), ((3, 2, 3), (2, 7, 3)))
    lines = (((4,), (5,)), ((6,), (3,)), ((5,), (5,)))
    return [
        two(CHAIN, "multidot", lambda x, y: torch.linalg.multi_dot([x, y, x]), pair, *pairs),
        two(CHAIN, "chain of matmul", lambda x, y: torch.chain_matmul(x, y, x), pair, *pairs),
        one(CHAIN, "multidot with a vector", _normal_equations, (6, 4), (9, 4), (3, 5)),
        two(CHAIN, "kron", torch.kron, *krons),
        one(CHAIN, "kron with a constant", lambda x: torch.kron(x, torch.ones(2, 2)), (2, 3), (4, 5), (3, 2)),
        two(CHAIN, "tensordot", lambda x, y: torch.tensordot(x, y, dims=([1], [0])).mean((1, 3)), *bases),
        two(CHAIN, "tensordot over one", lambda x, y: torch.tensordot(x.mT, y, dims=1), *bases),
        two(CHAIN, "outer", torch.outer, *lines),
        two(CHAIN, "all combinations", lambda x, y: torch.cartesian_prod(x, y), *lines),
        two(CHAIN, "inner", torch.inner, ((3, 4), (5, 4)), ((6, 4), (2, 4)), ((4, 3), (7, 3))),
        two(CHAIN, "vdot", lambda x, y: torch.dot(x, y).reshape(1), ((4,), (4,)), ((7,), (7,)), ((3,), (3,))),
        one(CHAIN, "block diagonal", lambda x: torch.block_diag(x, x.t()), (2, 3), (4, 5), (3, 2)),
    ]


def _infonce(x: torch.Tensor, y: torch.Tensor) -> Any:
    """CLIP: scores of every pair, both ways."""
    scores = F.normalize(x, dim=-1) @ F.normalize(y, dim=-1).t() / 0.5
    return scores, scores.t()


def _nearest(x: torch.Tensor, y: torch.Tensor) -> Any:
    """The nearest row of a codebook (VQ-VAE)."""
    distance = x.pow(2).sum(1, keepdim=True) - 2 * x @ y.t() + y.pow(2).sum(1)
    index = distance.argmin(1)
    return y[index], index


def _neighbours(x: torch.Tensor) -> Any:
    """Point clouds: the three nearest points of each, and their means."""
    distance = torch.cdist(x, x)
    index = distance.topk(3, dim=-1, largest=False).indices
    rows = torch.arange(x.shape[0]).view(-1, 1, 1)
    return x[rows, index].mean(2)


def _factorized(x: torch.Tensor) -> Any:
    """Factorization machine: all pairs of fields by sums."""
    return 0.5 * (x.sum(1) ** 2 - (x**2).sum(1)).sum(1, keepdim=True)


def _interactions(x: torch.Tensor) -> Any:
    """DLRM: dots of all pairs of fields, below the diagonal."""
    n = x.shape[1]
    rows, columns = torch.tril_indices(n, n, offset=-1)
    return torch.bmm(x, x.transpose(1, 2))[:, rows, columns]


def _pairs(x: torch.Tensor) -> Any:
    """Products of all pairs of fields, by a loop in Python."""
    n = x.shape[1]
    return torch.stack([x[:, i] * x[:, j] for i in range(n) for j in range(i + 1, n)], 1)


def _distances() -> list[Entry]:
    pair, pairs = ((4, 3), (6, 3)), (((7, 3), (5, 3)), ((3, 3), (9, 3)))
    alike, others = ((4, 3), (4, 3)), (((7, 3), (5, 3)), ((3, 3), (9, 3)))
    fields = (2, 4, 3), (3, 4, 3), (2, 6, 3)
    batches = ((2, 4, 3), (2, 6, 3)), ((2, 7, 3), (2, 5, 3)), ((3, 3, 3), (3, 9, 3))
    return [
        two(DISTANCE, "cdist", torch.cdist, pair, *pairs),
        two(DISTANCE, "cdist, batched", lambda x, y: torch.cdist(x, y, p=1.0), *batches),
        two(DISTANCE, "cdist, example of equal sizes", torch.cdist, alike, *others),
        two(DISTANCE, "by broadcasting", lambda x, y: (x[:, None] - y[None]).pow(2).sum(-1), pair, *pairs),
        two(DISTANCE, "CLIP", _infonce, pair, *pairs),
        two(DISTANCE, "CLIP, example of equal sizes", _infonce, alike, *others),
        two(DISTANCE, "nearest of a codebook", _nearest, pair, *pairs),
        one(DISTANCE, "three nearest points", _neighbours, (2, 6, 3), (2, 9, 3), (1, 5, 3)),
        one(DISTANCE, "factorization machine", _factorized, *fields),
        one(DISTANCE, "pairs of fields, batch alone", _interactions, (2, 4, 3), (3, 4, 3), (5, 4, 3)),
        one(DISTANCE, "pairs of fields", _interactions, *fields),
        one(DISTANCE, "pairs of fields by a loop", _pairs, *fields),
    ]


class Bilinear(nn.Module):
    """Two inputs into torch's bilinear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Bilinear(3, 4, 2)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        return self.layer(x, y)


class Biaffine(nn.Module):
    """A parser's scores of every word as the head of every other."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2, 5, 5) / 4)

    def forward(self, x: torch.Tensor) -> Any:
        x = torch.cat([x, x.new_ones(x.shape[0], x.shape[1], 1)], -1)
        return torch.einsum("bxi,oij,byj->boxy", x, self.weight, x).permute(0, 2, 3, 1)


class Experts(nn.Module):
    """A mixture of experts, all of them run and weighed."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.weight = nn.Linear(4, 3), nn.Parameter(torch.randn(3, 4, 4) / 2)

    def forward(self, x: torch.Tensor) -> Any:
        return torch.einsum("bne,ned->bnd", self.gate(x).softmax(-1), self._means(x))

    def _means(self, x: torch.Tensor) -> torch.Tensor:
        return torch.einsum("bnd,edf->nef", x, self.weight) / x.shape[0]


class Graph(nn.Module):
    """A graph convolution over a normalized adjacency."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        linked = y.sigmoid() + torch.eye(y.shape[-1])
        scale = linked.sum(-1).rsqrt()
        return self.layer(scale.unsqueeze(-1) * linked * scale.unsqueeze(-2) @ x).relu()


class Mixer(nn.Module):
    """MLP-Mixer over patches of a map; the number of patches is fixed by its weights, the batch is not."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.channels = nn.Linear(6, 6), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> Any:
        x = x + self.tokens(x.mT).mT
        return x + self.channels(x)


def _layers() -> list[Entry]:
    return [
        Entry(MATMUL, "bilinear", Bilinear, ((2, 3), (2, 4)), (((5, 3), (5, 4)), ((3, 3), (3, 4)))),
        Entry(
            MATMUL,
            "bilinear of sequences",
            Bilinear,
            ((2, 5, 3), (2, 5, 4)),
            (((2, 8, 3), (2, 8, 4)), ((3, 3, 3), (3, 3, 4))),
        ),
        module(EINSUM, "biaffine", Biaffine, ROWS, *OTHERS),
        module(EINSUM, "experts", Experts, ROWS, *OTHERS),
        module(MATMUL, "mixer", Mixer, (2, 6, 4), (3, 6, 4), (5, 6, 4)),
        Entry(
            MATMUL, "graph convolution", Graph, ((2, 5, 4), (2, 5, 5)), (((2, 8, 4), (2, 8, 8)), ((3, 3, 4), (3, 3, 3)))
        ),
        Entry(
            MATMUL,
            "graph convolution, one graph for all",
            Graph,
            ((2, 5, 4), (5, 5)),
            (((3, 8, 4), (8, 8)), ((4, 3, 4), (3, 3))),
        ),
    ]


def _tied() -> list[Entry]:
    tied = ((2, 3), (3, 2)), ((4, 5), (5, 4)), ((6, 2), (2, 6))
    same = ((3, 4), (3, 4)), ((6, 5), (6, 5)), ((2, 7), (2, 7))
    joined = ((2, 3), (2, 5)), ((2, 6), (2, 4)), ((4, 3), (4, 3))
    equal = ((2, 3), (2, 3)), ((2, 6), (2, 4)), ((4, 3), (4, 5))
    return [
        two(TIED, "both ways", lambda x, y: (x @ y, y @ x), *tied),
        two(TIED, "sum and product", lambda x, y: (x + y) @ y.t(), *same),
        two(TIED, "cat and its Gram matrix", lambda x, y: torch.cat([x, y], 1) @ torch.cat([x, y], 1).t(), *joined),
        two(TIED, "cat, example of equal sizes", lambda x, y: torch.cat([x, y], 1) * x.shape[1], *equal),
        two(TIED, "square only where tied", lambda x, y: (x @ y).diagonal() / math.sqrt(y.shape[1]), *tied),
    ]
