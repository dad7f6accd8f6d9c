from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from guarddiff.options import Options
from guarddiff.pipeline import Pipeline
from guarddiff.replay import compare, ladder
from guarddiff.replay.inputs import Example
from guarddiff.replay.run import Eager
from guarddiff.torch_bridge import hooks
from guarddiff.torch_bridge.record import Recording


class Model(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function
        self.scale = nn.Parameter(torch.tensor(2.0))
        self.register_buffer("shift", torch.tensor(1.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x) * self.scale + self.shift + torch.tensor(0.5)


def recorded(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, shapes: Any) -> Recording:
    """A recorded export, with what its stages made."""
    pipeline = Pipeline(Options(replay="off", on_finding="ignore"))
    with hooks.recording(pipeline.recording):
        torch.onnx.export(Model(function).eval(), (x,), dynamic_shapes=shapes, verbose=False, dynamo=True)
    return pipeline.recording


@pytest.fixture(scope="module")
def pooling() -> Recording:
    """Wrong since the decomposition."""
    return recorded(lambda x: F.adaptive_avg_pool2d(x, (2, 3)), torch.randn(1, 2, 6, 6), ({2: "h", 3: "w"},))


@pytest.fixture(scope="module")
def branch() -> Recording:
    """Wrong since the capture."""
    return recorded(lambda x: x * 2 if x.shape[0] > 7 else x * 3, torch.randn(5, 3), ({0: "n"},))


@pytest.fixture(scope="module")
def squeezed() -> Recording:
    """Wrong since the translation."""
    return recorded(lambda x: x.squeeze(1), torch.randn(3, 1, 4), ({1: "k"},))


def stage_of(recording: Recording, x: torch.Tensor, unoptimized: Callable[[], Any]) -> str:
    eager = Eager(recording.model, lambda value: [value])
    given = Example(recording.args, ("x",), None, lambda leaves, _: (leaves, {}))
    expected = eager.run(given, [x])
    return ladder.first_wrong_stage(expected, given, [x], recording.captured, recording.decomposed, unoptimized, eager)


def forbidden() -> Any:
    raise AssertionError("an earlier stage was to be found")


def test_capture(branch: Recording) -> None:
    assert stage_of(branch, torch.randn(9, 3), forbidden) == "capture"


def test_decompose(pooling: Recording) -> None:
    assert stage_of(pooling, torch.randn(1, 2, 12, 12), forbidden) == "decompose"


def test_translate(squeezed: Recording) -> None:
    assert stage_of(squeezed, torch.randn(3, 2, 4), lambda: squeezed.program) == "translate"


def test_optimize_where_the_program_without_optimization_is_right(branch: Recording) -> None:
    assert stage_of(branch, torch.randn(4, 3), lambda: branch.program) == "optimize"


def test_translate_where_the_program_without_optimization_cannot_be_made(squeezed: Recording) -> None:
    def fail() -> Any:
        raise RuntimeError("no")

    assert stage_of(squeezed, torch.randn(3, 2, 4), fail) == "translate"


def test_a_program_that_cannot_be_called_is_passed_over(squeezed: Recording) -> None:
    x = torch.randn(3, 2, 4)
    given = Example((x,), (None,), None, lambda leaves, _: (leaves, {}))
    assert ladder._run_graph(squeezed.captured, given, [x]) is None


def test_a_program_that_raises_gives_nothing(pooling: Recording) -> None:
    given = Example(pooling.args, ("x",), None, lambda leaves, _: (leaves, {}))
    assert ladder._run_graph(pooling.captured, given, [torch.randn(5)]) == []


@pytest.mark.parametrize("which", ["captured", "decomposed"])
def test_a_run_gives_what_the_program_gives_with_weights_buffers_and_constants(branch: Recording, which: str) -> None:
    x = torch.randn(4, 3)
    given = Example(branch.args, ("x",), None, lambda leaves, _: (leaves, {}))
    got = ladder._run_graph(getattr(branch, which), given, [x])
    assert got is not None
    assert compare.difference(compare.results([x * 3 * 2 + 1.5]), got) is None


def test_runs_leave_the_buffers_as_they_were() -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count.add_(1)
            return x + self.count

    program = torch.export.export(Counts(), (torch.zeros(3),))
    given = Example((torch.zeros(3),), ("x",), None, lambda leaves, _: (leaves, {}))
    for _ in range(2):
        assert [a.tolist() for a in ladder._run_graph(program, given, [torch.zeros(3)]) or []] == [[1.0, 1.0, 1.0]]
    assert program.state_dict["count"].tolist() == [0.0]
