"""The ONNX nodes that one operator became, as a model of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from guarddiff.replay.isolate import Cut, NotIsolable


@dataclass(frozen=True)
class Piece:
    """A part of an ONNX model: what a session needs of an ``ONNXProgram``."""

    model: ir.Model

    @property
    def model_proto(self) -> Any:
        """The part as a protobuf model."""
        return ir.to_proto(self.model)


def piece(program: Any, cut: Cut, values: Mapping[str, str]) -> Piece:
    """The nodes between the ONNX values of the cut's inputs and of its result.

    ``values`` maps captured FX nodes to the ONNX values that hold their results. Ranks of inputs and results are kept
    and their sizes forgotten; weights are shared, not copied. Raises NotIsolable where the values are not there any
    more, or where something else than the cut's inputs goes in.
    """
    if cut.node is None:
        raise NotIsolable("it has several results")
    names = [values.get(name) for name in (*(spec.node for spec in cut.inputs), cut.node)]
    if None in names or len(set(names)) != len(names):
        raise NotIsolable("the ONNX model has no value for one of its arguments or its result")
    return between(program.model, [str(name) for name in names[:-1]], [str(names[-1])])


def between(model: ir.Model, inputs: Sequence[str], outputs: Sequence[str], forget: bool = True) -> Piece:
    """The nodes of ``model`` between these values; ``forget`` the sizes of inputs and outputs, but not their ranks.

    Raises NotIsolable where they do not bound a part of the graph.
    """
    try:
        graph = ir.convenience.extract(model.graph, inputs, outputs)
    except ValueError as error:
        raise NotIsolable(str(error)) from error
    for value in (*graph.inputs, *graph.outputs):
        if forget and value.shape is not None:
            value.shape = ir.Shape([None] * len(value.shape))
    functions = list(model.functions.values())
    return Piece(ir.Model(graph, ir_version=model.ir_version, functions=functions))
