from __future__ import annotations

import pytest
import torch
from torch import nn

from guarddiff.replay import graph_run
from guarddiff.replay.inputs import Example


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, int]:
        self.count.add_(1)
        return x * self.scale + self.count + torch.tensor(0.5), x.shape[0]


def example(x: torch.Tensor, name: str | None = "x") -> Example:
    return Example((x,), (name,), None, lambda leaves, _: (tuple(leaves), {}))


@pytest.fixture(scope="module")
def program() -> torch.export.ExportedProgram:
    return torch.export.export(Model(), (torch.zeros(3, 2),), dynamic_shapes=({0: torch.export.Dim.AUTO},))


def test_outputs_with_weights_buffers_constants_and_numbers(program: torch.export.ExportedProgram) -> None:
    x = torch.randn(4, 2)
    done = graph_run.run(program, example(x), [x])
    assert done.outputs is not None
    torch.testing.assert_close(done.outputs[0], x * 2 + 1.5)
    assert done.outputs[1] == 4
    assert (done.fixed, done.refused, done.raised, done.values) == ("", "", "", {})


def test_runs_leave_buffers_and_inputs_as_they_were(program: torch.export.ExportedProgram) -> None:
    x = torch.zeros(3, 2)
    for _ in range(2):
        outputs = graph_run.run(program, example(x), [x]).outputs
        assert outputs is not None
        assert outputs[0].tolist() == [[1.5, 1.5]] * 3
    assert program.state_dict["count"].tolist() == [0.0]


def test_values_of_nodes_are_those_of_their_moment() -> None:
    class InPlace(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x * 2
            y.add_(1)
            return y

    captured = torch.export.export(InPlace(), (torch.zeros(3),))
    done = graph_run.run(captured, example(torch.zeros(3)), [torch.ones(3)], keep=True)
    assert done.values["mul"].tolist() == [2.0] * 3
    assert done.values["add_"].tolist() == [3.0] * 3


def test_values_beyond_the_budget_are_not_kept(
    program: torch.export.ExportedProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph_run, "MOST_BYTES", 20)
    done = graph_run.run(program, example(torch.zeros(3, 2)), [torch.zeros(3, 2)], keep=True)
    assert done.values == {}
    assert done.outputs is not None


def test_the_node_that_raises_is_named(program: torch.export.ExportedProgram) -> None:
    class Viewed(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x + 1).view(2, 3)

    captured = torch.export.export(Viewed(), (torch.zeros(6),))
    done = graph_run.run(captured, example(torch.zeros(6)), [torch.zeros(8)])
    assert done.outputs is None
    assert done.failed == "view"
    assert done.raised.startswith("RuntimeError: shape '[2, 3]' is invalid")
    assert done.fixed == "x[0] is fixed at 6"


def test_failing_assertions_are_noted_and_passed_over() -> None:
    class Checked(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            torch._check(x.shape[0] < 100)
            return x * 2

    captured = torch.export.export(
        Checked(),
        (torch.zeros(6),),
        dynamic_shapes=({0: torch.export.Dim.AUTO},),
        prefer_deferred_runtime_asserts_over_guards=True,
    )
    done = graph_run.run(captured, example(torch.zeros(6)), [torch.zeros(200)])
    assert done.outputs is not None
    assert done.outputs[0].shape == (200,)
    assert "Runtime assertion failed" in done.refused


def test_missing_inputs_make_it_not_callable(program: torch.export.ExportedProgram) -> None:
    with pytest.raises(graph_run.NotCallable, match="not at hand"):
        graph_run.run(program, example(torch.zeros(3, 2), None), [torch.zeros(3, 2)])
