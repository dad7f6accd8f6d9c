"""The windows of adaptive pooling as ONNX nodes: window i of n cells spans floor(i·n/o) to ceil((i+1)·n/o).

Everything is worked out when the model runs, from the size that the input has then.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from onnxscript import evaluator, ir
from onnxscript.onnx_opset import opset18

# The nodes; the types that onnxscript declares for them are narrower than what the exporter takes.
op: Any = opset18
# A value of the ONNX graph. The number of windows along an axis: known at export, or a whole number of the graph.
Value = Any
Size = int | Value


_branches = itertools.count(1)


@dataclass(frozen=True)
class Windows:
    """The windows along one axis, as lists of equal length.

    Attributes:
        cells: Cells of each window, in order; windows shorter than the longest repeat their last cell.
        first: First cell of each window, with a last axis of 1; so are the others below.
        last: Last cell of each window.
        steps: 0, 1, … up to the longest window; one axis.
    """

    cells: Value
    first: Value
    last: Value
    steps: Value


def length(x: Value, axis: int) -> Value:
    """Size of ``axis`` (negative) when the model runs, as a list of one number."""
    return op.Shape(x, start=axis) if axis == -1 else op.Shape(x, start=axis, end=axis + 1)


def numbers(size: Size) -> Value:
    """0, 1, … below ``size``."""
    if isinstance(size, int):
        return op.Constant(value_ints=list(range(size)))
    return op.Range(0, op.Squeeze(size), 1)


def windows(x: Value, axis: int, size: Size) -> Windows:
    """The ``size`` windows along ``axis`` (negative) of ``x``."""
    n = length(x, axis)
    begins = op.Mul(numbers(size), n)
    some = size if isinstance(size, int) else op.Max(size, op.Constant(value_int=1))  # none divide nothing
    first = op.Unsqueeze(op.Div(begins, some), [1])
    last = op.Unsqueeze(op.Div(op.Add(begins, op.Sub(n, 1)), some), [1])
    counts = op.Add(op.Sub(last, first), 1)
    if not isinstance(size, int):  # of no windows there is no longest one
        counts = op.Concat(counts, op.Constant(value=ir.tensor([[1]])), axis=0)
    longest = op.ReduceMax(counts, keepdims=0)
    steps = op.Range(0, longest, 1)
    return Windows(op.Min(op.Add(first, steps), last), first, last, steps)


def membership(x: Value, axis: int, size: Size, *, cells_first: bool) -> Value:
    """Whether a cell lies in a window: windows × cells, or cells × windows with ``cells_first``.

    Cell j is in window i where j·o to (j+1)·o and i·n to (i+1)·n overlap.
    """
    n = length(x, axis)
    begins = op.Mul(numbers(size), n)
    cells = op.Mul(op.Range(0, op.Squeeze(n), 1), size)
    offset = op.Sub(op.Unsqueeze(cells, [1]), begins) if cells_first else op.Sub(cells, op.Unsqueeze(begins, [1]))
    before = -size if isinstance(size, int) else op.Neg(size)
    return op.And(op.Greater(offset, before), op.Less(offset, n))


def known(x: Value, axis: int) -> int | None:
    """Size of ``axis`` where it is fixed in the exported model; None otherwise."""
    size = x.shape[axis] if x.shape is not None else None
    return size if isinstance(size, int) else None


def same(x: Value, axis: int, size: Size) -> bool:
    """Whether ``size`` is the size that ``axis`` has anyway, as far as the export knows (``None`` in output_size)."""
    if isinstance(size, int):
        return size == known(x, axis)
    expression = _expression(size)
    return expression is not None and x.shape is not None and expression == str(getattr(x.shape[axis], "value", ""))


def _expression(size: Value) -> str | None:
    """The size over the export's symbols as text (``s53``); None where it can't be told."""
    producer = size.producer()
    node = (producer if producer is not None else size).meta.get("node")
    value = getattr(node, "meta", {}).get("val")
    return None if value is None else str(value)


def sizes_of(output_size: int | Size | Sequence[Size], axes: int) -> list[Size]:
    """One size for each of the last ``axes`` axes; one number stands for all."""
    if not isinstance(output_size, Sequence):
        return [output_size] * axes
    return list(output_size) * axes if len(output_size) == 1 else list(output_size)


def as_list(size: Size) -> Value:
    """``size`` as a list of one number."""
    return op.Constant(value_ints=[size]) if isinstance(size, int) else op.Reshape(size, [1])


def branch(make: Callable[[], Value]) -> ir.Graph:
    """The nodes that ``make`` adds, as a graph by itself: a branch of ``If``, which may use values from outside."""
    recorder: Any = evaluator.default()
    inside = type(recorder)(recorder.opset, {})
    with evaluator.default_as(inside):
        result = make()
    name = f"pooling_{next(_branches)}"
    values = [value for node in inside.nodes for value in node.outputs]
    for number, value in enumerate(values):
        value.name = f"{name}_{number}"  # unlike any outside: a branch may not hide a name
    return ir.Graph([], [result], nodes=inside.nodes, name=name)
