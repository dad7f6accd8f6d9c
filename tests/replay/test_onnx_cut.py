"""Parts of real ONNX models, run by themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_ir as ir
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from guarddiff.options import Options
from guarddiff.pipeline import Pipeline
from guarddiff.replay import onnx_cut
from guarddiff.replay.isolate import Cut, NotIsolable, cut
from guarddiff.replay.run import Session
from guarddiff.torch_bridge import hooks, onnx_nodes
from guarddiff.torch_bridge.record import Recording


class Model(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(self, x)


def recorded(function: Callable[..., Any], x: torch.Tensor) -> Recording:
    pipeline = Pipeline(Options(replay="off", on_finding="ignore"))
    with hooks.recording(pipeline.recording):
        torch.onnx.export(
            Model(function).eval(),
            (x,),
            dynamic_shapes=(dict.fromkeys(range(x.dim()), Dim.AUTO),),
            verbose=False,
            dynamo=True,
        )
    return pipeline.recording


def taken(recording: Recording, word: str) -> tuple[Cut, onnx_cut.Piece]:
    node = next(n.name for n in recording.captured.graph.nodes if n.op == "call_function" and word in str(n.target))
    made = cut(recording.captured, node, str)
    values = onnx_nodes.exits(recording.program.exported_program, recording.captured)
    return made, onnx_cut.piece(recording.program, made, values)


@pytest.fixture(scope="module")
def pooling() -> Recording:
    return recorded(
        lambda m, x: m.linear(F.adaptive_avg_pool2d(torch.relu(x) + 1, (2, 4))).sum(-1), torch.rand(1, 2, 6, 8)
    )


def test_the_nodes_of_a_pooling_between_other_operators(pooling: Recording) -> None:
    made, piece = taken(pooling, "adaptive_avg_pool2d")
    operators = [node.op_type for node in piece.model.graph]
    assert "AveragePool" in operators
    assert not {"Relu", "Add", "MatMul", "Gemm", "ReduceSum"} & set(operators)
    session = Session(piece)
    x = torch.randn(1, 2, 6, 8)
    (got,) = session.run({session.names[0]: x.numpy()})
    assert torch.allclose(torch.from_numpy(got), made.module(x))
    (other,) = session.run({session.names[0]: torch.randn(1, 2, 12, 8).numpy()})
    assert other.shape == (1, 2, 4, 4)  # the fault is in it


def test_ranks_are_kept_and_sizes_forgotten(pooling: Recording) -> None:
    _, piece = taken(pooling, "adaptive_avg_pool2d")
    for value in (*piece.model.graph.inputs, *piece.model.graph.outputs):
        assert value.shape is not None
        assert [size.value for size in value.shape] == [None] * 4  # type: ignore[union-attr]


def test_weights_come_along(pooling: Recording) -> None:
    made, piece = taken(pooling, "linear")
    session = Session(piece)
    assert len(session.names) == 1
    x = torch.randn(1, 2, 3, 4)
    assert torch.allclose(torch.from_numpy(session.run({session.names[0]: x.numpy()})[0]), made.module(x), atol=1e-6)


def test_the_exported_model_stays_as_it_was(pooling: Recording) -> None:
    before = pooling.program.model_proto.SerializeToString()
    taken(pooling, "adaptive_avg_pool2d")
    assert pooling.program.model_proto.SerializeToString() == before


def test_several_results_are_refused() -> None:
    recording = recorded(lambda m, x: sum(x.split(2, 0)), torch.rand(4, 4))
    with pytest.raises(NotIsolable, match="several results"):
        taken(recording, "split")


def test_what_needs_more_than_the_inputs_is_refused(pooling: Recording) -> None:
    with pytest.raises(NotIsolable, match="not properly bounded"):
        onnx_cut.between(pooling.program.model, [], [pooling.program.model.graph.outputs[0].name])
    made = cut(pooling.captured, next(n.name for n in pooling.captured.graph.nodes if "relu" in str(n.target)), str)
    with pytest.raises(NotIsolable, match="no value for"):
        onnx_cut.piece(pooling.program, made, {})


def test_functions_of_the_model_come_along() -> None:
    x, y = ir.Value(name="x"), ir.Value(name="y")
    node = ir.Node("own", "Twice", [x], outputs=[y], version=1)
    graph = ir.Graph([x], [y], nodes=[node], opset_imports={"": 18, "own": 1})
    a, b = ir.Value(name="a"), ir.Value(name="b")
    inner = ir.Graph([a], [b], nodes=[ir.Node("", "Add", [a, a], outputs=[b])], opset_imports={"": 18})
    x.dtype = y.dtype = ir.DataType.FLOAT
    x.shape, y.shape = ir.Shape([2]), ir.Shape([2])
    function = ir.Function("own", "Twice", graph=inner, attributes=[])
    piece = onnx_cut.between(ir.Model(graph, ir_version=10, functions=[function]), ["x"], ["y"])
    (got,) = Session(piece).run({"x": torch.ones(5).numpy()})
    assert got.tolist() == [2.0] * 5
