"""squeeze(dim) of a dynamic dimension: eager PyTorch removes the dimension where its size is 1 and leaves it elsewhere;
the export removes it always, which fails at every other size."""

from __future__ import annotations

from typing import Any

from onnxscript import opset18

from guarddiff.repair.registry import Refusal, Repair

op: Any = opset18  # its type hints leave out numbers and lists


def squeeze_dim(self: Any, dim: int) -> Any:
    """squeeze.dim(Tensor(a) self, int dim): the rank of the result depends on the size, as in eager PyTorch."""
    rank = len(self.shape)
    if rank == 0:
        return op.Identity(self)
    dim %= rank
    size = self.shape[dim]
    if isinstance(size, int):
        return op.Squeeze(self, [dim]) if size == 1 else op.Identity(self)
    # No axes at all would mean every axis of size 1: an axis more, which always goes, keeps them from being none.
    single = op.Equal(op.Shape(self, start=dim, end=dim + 1), [1])
    first, own = op.Constant(value_ints=[0]), op.Constant(value_ints=[dim + 1])
    axes = op.Concat(first, op.Compress(own, single, axis=0), axis=0)
    return op.Squeeze(op.Unsqueeze(self, [0]), axes)


OPS = ("aten.squeeze.dim", "aten.squeeze_copy.dim")

REPAIRS = (
    Repair(
        name="squeeze of a dynamic dimension",
        ops=OPS,
        way=(
            "removes the dimension at run time only where its size is 1; right at size 1 as well where what follows "
            "takes either number of dimensions, which only a run can tell"
        ),
        translations={"aten.squeeze.dim": squeeze_dim},
    ),
)

REFUSALS = (
    Refusal(
        ops=(*OPS, "aten.squeeze.default", "aten.squeeze.dims"),
        why="the number of dimensions of the result depends on the size, and the nodes that follow are written for one",
        way_out=(
            "declare the dimension from 2 up, or leave it static at 1; in the model, index ([:, 0]) where a dimension "
            "of size 1 is meant"
        ),
    ),
)
