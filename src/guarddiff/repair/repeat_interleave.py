"""repeat_interleave by a count that is a size: torchlib expands the dimension itself, not a new one beside it."""

from __future__ import annotations

from typing import Any

from onnxscript import opset18

from guarddiff.repair.registry import Repair

op: Any = opset18  # its type hints leave out numbers and lists


def repeat_interleave(self: Any, repeats: Any, dim: int | None = None, output_size: Any = None) -> Any:
    """repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, SymInt? output_size=None)."""
    del output_size
    if dim is None or len(self.shape) == 0:
        self, dim = op.Reshape(self, [-1]), 0
        rank = 1
    else:
        rank = len(self.shape)
        dim %= rank
    count = op.Reshape(op.Constant(value_int=repeats) if isinstance(repeats, int) else repeats, [1])
    before, after = op.Shape(self, start=0, end=dim), op.Shape(self, start=dim + 1, end=rank)
    size = op.Shape(self, start=dim, end=dim + 1)
    beside = op.Expand(op.Unsqueeze(self, [dim + 1]), op.Concat(before, size, count, after, axis=0))
    return op.Reshape(beside, op.Concat(before, op.Mul(size, count), after, axis=0), allowzero=1)


REPAIRS = (
    Repair(
        name="repeat_interleave by a size",
        ops=("aten.repeat_interleave.self_int", "aten.repeat_interleave.*"),
        way="a new dimension beside the one that is repeated is expanded, then both become one",
        translations={"aten.repeat_interleave.self_int": repeat_interleave},
    ),
)
