"""The stage ladder on real exports, and on exports of which one stage is spoilt by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_ir as ir
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from guarddiff.core.proof import Ladder
from guarddiff.options import Options
from guarddiff.pipeline import Pipeline
from guarddiff.replay import ladder
from guarddiff.replay.inputs import Example
from guarddiff.replay.onnx_cut import Piece
from guarddiff.replay.run import Eager, Pair, Session
from guarddiff.torch_bridge import hooks, onnx_nodes
from guarddiff.torch_bridge.record import Recording


class Model(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.function = function
        self.scale = nn.Parameter(torch.tensor(2.0))
        self.register_buffer("shift", torch.tensor(1.0))

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x * self.scale) + self.shift + torch.tensor(0.5)


def recorded(function: Callable[[torch.Tensor], Any], x: torch.Tensor, shapes: Any, optimize: bool = True) -> Recording:
    pipeline = Pipeline(Options(replay="off", on_finding="ignore"))
    pipeline.recording.keep_unoptimized = True
    with hooks.recording(pipeline.recording):
        torch.onnx.export(
            Model(function).eval(), (x,), dynamic_shapes=shapes, verbose=False, dynamo=True, optimize=optimize
        )
    return pipeline.recording


@pytest.fixture(scope="module")
def pooling() -> Recording:
    """Wrong since the decomposition."""
    return recorded(
        lambda x: F.adaptive_avg_pool2d(torch.relu(x), (2, 3)), torch.randn(1, 2, 6, 6), ({2: "h", 3: "w"},)
    )


@pytest.fixture(scope="module")
def branch() -> Recording:
    """Wrong since the capture."""
    return recorded(lambda x: x * 2 if x.shape[0] > 7 else x * 3, torch.randn(5, 3), ({0: "n"},))


@pytest.fixture(scope="module")
def squeezed() -> Recording:
    """Wrong since the translation: ONNX Runtime raises."""
    return recorded(lambda x: torch.relu(x).squeeze(1), torch.randn(3, 1, 4), ({1: "k"},))


@pytest.fixture(scope="module")
def floored() -> Recording:
    """Wrong since the translation: a whole number is rounded towards zero there."""

    def function(x: torch.Tensor) -> torch.Tensor:
        missing = 8 - x.shape[1]
        return F.pad(x, (missing // 2, missing - missing // 2))

    return recorded(function, torch.randn(2, 4), ({1: "k"},))


def programs(recording: Recording, optimized: Any = None) -> ladder.Programs:
    return ladder.Programs(
        captured=recording.captured,
        decomposed=recording.program.exported_program,
        unoptimized=lambda: Piece(recording.unoptimized) if recording.optimize else None,
        optimized=optimized or recording.program,
        exits=lambda program: onnx_nodes.exits(program, recording.captured),
        origin_of=lambda node: onnx_nodes.origin_of(node, recording.captured),
    )


def climb(recording: Recording, x: torch.Tensor, made: ladder.Programs | None = None) -> Ladder:
    made = made or programs(recording)
    eager = Eager(recording.model, lambda value: [value])
    example = Example(recording.args, ("x",), None, lambda leaves, _: (leaves, {}))
    pair = Pair(eager, lambda: Session(made.optimized), example)
    return ladder.climb(made, pair, example, [x], eager.run(example, [x]))


def states(found: Ladder) -> dict[str, str]:
    return {rung.name: rung.state for rung in found.rungs}


def test_all_agree_at_the_example(pooling: Recording) -> None:
    found = climb(pooling, torch.randn(1, 2, 6, 6))
    assert states(found) == dict.fromkeys(("eager", "captured", "decomposed", "onnx", "optimized"), "agrees")
    assert (found.stage, found.node, found.sizes) == (None, None, {"x": (1, 2, 6, 6)})


def test_capture(branch: Recording) -> None:
    found = climb(branch, torch.randn(9, 3))
    assert states(found)["captured"] == "differs"
    assert found.stage == "capture"
    assert "elements differ" in found.rungs[1].text


def test_decompose(pooling: Recording) -> None:
    found = climb(pooling, torch.randn(1, 2, 12, 12))
    assert states(found) == {
        "eager": "agrees",
        "captured": "agrees",
        "decomposed": "differs",
        "onnx": "differs",
        "optimized": "differs",
    }
    assert found.stage == "decompose"
    node = found.node
    assert node is not None
    assert (node.graph, node.op, node.fx_node) == ("fx", "aten.avg_pool2d.default", "adaptive_avg_pool2d")
    assert (node.expected, node.got) == ("(1, 2, 2, 3)", "(1, 2, 4, 6)")
    assert node.source is not None
    assert "test_ladder.py" in node.source.file


def test_translate_where_onnx_runtime_raises(squeezed: Recording) -> None:
    found = climb(squeezed, torch.randn(3, 2, 4))
    assert [states(found)[name] for name in ("captured", "decomposed", "onnx", "optimized")] == [
        "agrees",
        "agrees",
        "raises",
        "raises",
    ]
    assert found.stage == "translate"
    assert found.node is not None
    assert (found.node.graph, found.node.op, found.node.fx_node) == ("onnx", "Squeeze", "squeeze")
    assert "Squeeze node" in found.node.got


def test_translate_where_a_size_is_wrong(floored: Recording) -> None:
    assert states(climb(floored, torch.randn(2, 5)))["onnx"] == "agrees"
    found = climb(floored, torch.randn(2, 11))
    assert found.stage == "translate"
    assert found.node is not None
    assert (found.node.graph, found.node.op, found.node.expected) == ("onnx", "Div", "a number")
    assert (found.node.fx_node or "").startswith("floordiv")


def test_without_the_optimizer_there_is_one_onnx_rung() -> None:
    recording = recorded(lambda x: x.squeeze(1), torch.randn(3, 1, 4), ({1: "k"},), optimize=False)
    found = climb(recording, torch.randn(3, 2, 4))
    assert found.stage == "translate"
    assert states(found)["onnx"] == "raises"
    assert states(found)["optimized"] == "skipped"
    assert found.node is not None
    assert found.node.op == "Squeeze"


def spoilt(recording: Recording, op_type: str, change: Callable[[ir.Node], None]) -> Any:
    """The optimized program with one node changed, as a faulty optimizer would."""
    model = recording.program.model.clone()
    change(next(node for node in model.graph if node.op_type == op_type))
    return Piece(model)


def test_optimize_where_values_are_wrong(branch: Recording) -> None:
    def change(node: ir.Node) -> None:
        node.op_type = "Sub"

    found = climb(branch, torch.randn(4, 3), programs(branch, spoilt(branch, "Add", change)))
    assert found.stage == "optimize"
    assert states(found)["onnx"] == "agrees"
    assert states(found)["optimized"] == "differs"
    assert found.node is not None
    assert (found.node.graph, found.node.op) == ("onnx", "Sub")
    assert found.node.fx_node is not None


def test_optimize_where_it_raises(squeezed: Recording) -> None:
    def change(node: ir.Node) -> None:
        node.attributes["axis"] = ir.AttrInt64("axis", 7)
        node.op_type = "Softmax"

    found = climb(squeezed, torch.randn(3, 1, 4), programs(squeezed, spoilt(squeezed, "Relu", change)))
    assert found.stage == "optimize"
    assert states(found)["optimized"] == "raises"
    assert found.node is not None
    assert found.node.op == "Softmax"
    assert found.node.got.startswith("raises")


def test_a_size_that_the_captured_program_has_fixed_is_refused() -> None:
    recording = recorded(lambda x: x + 1, torch.randn(5, 3), ({0: "n"},))
    found = climb(recording, torch.randn(5, 4))
    assert states(found) == {
        "eager": "agrees",
        "captured": "refuses",
        "decomposed": "refuses",
        "onnx": "refuses",
        "optimized": "refuses",
    }
    assert found.rungs[1].text == "x[1] is fixed at 3"


def test_what_is_not_there_is_skipped(squeezed: Recording) -> None:
    def fail() -> Any:
        raise RuntimeError("no")

    made = programs(squeezed)
    made.captured, made.unoptimized = None, fail
    found = climb(squeezed, torch.randn(3, 2, 4), made)
    assert states(found) == {
        "eager": "agrees",
        "captured": "skipped",
        "decomposed": "agrees",
        "onnx": "skipped",
        "optimized": "skipped",
    }
    assert found.stage is None


def test_assertions_do_not_stop_a_right_program() -> None:
    """`torch._check` becomes an assertion; where it fails the results still are compared."""

    def function(x: torch.Tensor) -> torch.Tensor:
        torch._check(x.shape[0] < 100)
        return x * 2

    recording = recorded(function, torch.randn(5, 3), ({0: "n"},))
    made = programs(recording)
    made.decomposed = recording.decomposed
    eager = Eager(Model(lambda x: x * 2), lambda value: [value])
    example = Example(recording.args, ("x",), None, lambda leaves, _: (leaves, {}))
    x = torch.randn(200, 3)
    found = ladder.climb(
        made, Pair(eager, lambda: Session(made.optimized), example), example, [x], eager.run(example, [x])
    )
    assert states(found)["captured"] == "agrees"
    assert states(found)["decomposed"] == "agrees"
    assert "without its assertion" in found.rungs[1].text + found.rungs[2].text


def test_a_view_that_is_written_to_is_not_blamed() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[..., :1].mul_(2)
        y[:, :, 0] = 0
        return F.adaptive_avg_pool1d(y, 2)

    found = climb(recorded(function, torch.randn(2, 3, 8), ({2: "n"},)), torch.randn(2, 3, 16))
    assert found.stage == "decompose"
    assert found.node is not None
    assert found.node.fx_node == "adaptive_avg_pool1d"
    assert found.node.source is not None
    assert found.node.source.file.endswith("test_ladder.py")


def test_a_view_that_is_made_anew_is_traced_to_the_models_line() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y.add_(1)
        return y.squeeze(1)

    found = climb(recorded(function, torch.randn(3, 1, 4), ({1: "k"},)), torch.randn(3, 2, 4))
    assert found.stage == "translate"
    assert found.node is not None
    assert (found.node.fx_node, found.node.fx_op) == ("squeeze", "aten.squeeze.dim")
    assert found.node.source is not None
    assert found.node.source.file.endswith("test_ladder.py")
