from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from guarddiff.replay.isolate import Cut, CutInput, NotIsolable, cut


def size_text(size: Any) -> int | str:
    return int(size) if isinstance(size, int) else str(size.node.expr)


def captured(function: Any, *args: torch.Tensor, module: nn.Module | None = None) -> Any:
    """The captured program with every dimension dynamic where it can be."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = module
            self.register_buffer("table", torch.arange(12.0).reshape(3, 4))

        def forward(self, *args: torch.Tensor) -> Any:
            return function(self, *args)

    shapes = (dict.fromkeys(range(a.dim()), Dim.AUTO) for a in args)
    return torch.export.export(Model().eval(), args, dynamic_shapes=((*shapes,),))


def node_of(program: Any, word: str) -> str:
    found = [node.name for node in program.graph.nodes if node.op == "call_function" and word in str(node.target)]
    assert found, f"no {word} in {[str(n.target) for n in program.graph.nodes]}"
    return str(found[0])


def taken(program: Any, word: str) -> Cut:
    return cut(program, node_of(program, word), size_text)


def point(made: Cut, *sizes: int) -> dict[str, int]:
    """The variables of the inputs' shapes, in order, with these sizes."""
    names = list(dict.fromkeys(s for spec in made.inputs for s in spec.shape if isinstance(s, str)))
    assert len(names) == len(sizes)
    return dict(zip(names, sizes))


def test_adaptive_pooling() -> None:
    program = captured(lambda m, x: F.adaptive_avg_pool2d(F.relu(x), (2, 3)) + 1, torch.randn(1, 2, 6, 6))
    made = taken(program, "adaptive_avg_pool2d")
    assert made.op == "aten.adaptive_avg_pool2d.default"
    (spec,) = made.inputs
    assert (spec.source, spec.dtype, len(spec.shape)) == (None, torch.float32, 4)
    assert [isinstance(size, str) for size in spec.shape[1:]] == [True, True, True]
    assert spec.at({str(size): 9 for size in spec.shape if isinstance(size, str)})[1:] == (9, 9, 9)
    x = torch.randn(1, 2, 12, 9)
    assert torch.equal(made.module(x), F.adaptive_avg_pool2d(x, (2, 3)))


def test_an_input_of_the_model_is_known_as_such() -> None:
    program = captured(lambda m, x: F.adaptive_avg_pool2d(x, (2, 3)), torch.randn(2, 2, 6, 6))
    (spec,) = taken(program, "adaptive_avg_pool2d").inputs
    placeholder = [node.name for node in program.graph.nodes if node.op == "placeholder"][-1]
    assert spec.source == placeholder


def test_kron_takes_two_inputs_in_order() -> None:
    program = captured(lambda m, a, b: torch.kron(a, b), torch.randn(2, 3), torch.randn(4, 5))
    made = taken(program, "kron")
    assert made.op == "aten.kron.default"
    a, b = torch.randn(3, 2), torch.randn(5, 7)
    assert torch.equal(made.module(a, b), torch.kron(a, b))
    assert [spec.source for spec in made.inputs] == [
        node.name for node in program.graph.nodes if node.op == "placeholder"
    ][-2:]


def test_bucketize_keeps_the_dtypes() -> None:
    program = captured(lambda m, x, b: torch.bucketize(x, b), torch.randn(5).double(), torch.arange(6))
    made = taken(program, "bucketize")
    assert [spec.dtype for spec in made.inputs] == [torch.float64, torch.int64]
    x, edges = torch.tensor([0.5, 7.5]).double(), torch.arange(9)
    assert made.module(x, edges).tolist() == [1, 8]


def test_symbolic_sizes_are_computed_from_the_tensor_they_belong_to() -> None:
    program = captured(lambda m, x, y: (x * 2).expand(y.shape[0], -1), torch.randn(1, 3), torch.randn(4, 2))
    made = taken(program, "expand")
    assert [(len(spec.shape), spec.source) for spec in made.inputs] == [(2, None), (2, "args_1")]
    x = torch.randn(1, 3)
    assert torch.equal(made.module(x, torch.randn(7, 2)), x.expand(7, 3))


def test_arithmetic_on_sizes_comes_along() -> None:
    program = captured(lambda m, x: x.view(x.shape[0] * 2, x.shape[1] // 2), torch.randn(4, 6))
    made = taken(program, "view")
    assert len(made.inputs) == 1
    assert made.module(torch.randn(3, 10)).shape == (6, 5)
    assert made.inputs[0].at(point(made, 5, 8)) == (5, 8)


def test_weights_are_shared() -> None:
    conv = nn.Conv2d(3, 4, 3)
    program = captured(lambda m, x: F.relu(m.inner(x)), torch.randn(2, 3, 8, 8), module=conv)
    made = taken(program, "conv2d")
    weights = dict(made.module.named_parameters())
    assert sorted(p.data_ptr() for p in weights.values()) == sorted([conv.weight.data_ptr(), conv.bias.data_ptr()])
    assert len(made.inputs) == 1
    assert not any(parameter.requires_grad for parameter in weights.values())
    assert conv.weight.requires_grad
    x = torch.randn(1, 3, 5, 9)
    assert torch.equal(made.module(x), conv(x).detach())


def test_buffers_and_constants_are_shared() -> None:
    constant = torch.arange(4)
    program = captured(lambda m, x: m.table.index_select(1, constant) * x, torch.randn(3, 4))
    made = taken(program, "mul")
    assert len(made.inputs) == 1  # the selected rows come from constants alone, and come along
    program = captured(lambda m, x: m.table * x, torch.randn(5, 3, 4))
    made = taken(program, "mul")
    assert len(made.inputs) == 1
    (shared,) = (*made.module.parameters(), *made.module.buffers())
    assert shared.data_ptr() == program.state_dict["table"].data_ptr()
    assert made.module(torch.ones(2, 3, 4)).shape == (2, 3, 4)


def test_lifted_constants_come_along() -> None:
    program = captured(lambda m, x: x + torch.tensor([1, 2, 3, 4]), torch.zeros(3, 4))
    made = taken(program, "add")
    assert made.module(torch.zeros(1, 4)).tolist() == [[1.0, 2.0, 3.0, 4.0]]


def test_a_list_result_becomes_several_outputs() -> None:
    program = captured(lambda m, x: torch.cat(x.split(2)[::-1]), torch.randn(6, 3))
    made = taken(program, "split")
    assert made.op == "aten.split.Tensor"
    x = torch.randn(6, 3)
    parts = made.module(x)
    assert [part.shape for part in parts] == [(2, 3)] * 3
    assert torch.equal(torch.cat(parts), x)


def test_several_results() -> None:
    program = captured(lambda m, x: x.max(1).values, torch.randn(3, 5))
    parts = taken(program, "max").module(torch.tensor([[1.0, 4.0, 2.0]]))
    assert [part.tolist() for part in parts] == [[4.0], [1]]


def test_the_captured_program_is_left_as_it_was() -> None:
    program = captured(lambda m, x: F.adaptive_avg_pool2d(x, (2, 3)), torch.randn(2, 2, 6, 6))
    before = str(program.graph)
    taken(program, "adaptive_avg_pool2d")
    assert str(program.graph) == before


@pytest.fixture(scope="module")
def odd() -> Any:
    """A program with nodes that can't stand alone."""

    def function(model: Any, x: torch.Tensor) -> Any:
        fresh = torch.ones(3)
        chosen = torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))
        return chosen, fresh, x.new_zeros(x.shape[0])

    return captured(function, torch.randn(4, 3))


def test_no_such_node(odd: Any) -> None:
    with pytest.raises(NotIsolable, match="the captured graph has no operator 'nowhere'"):
        cut(odd, "nowhere", size_text)


def test_an_input_is_no_operator(odd: Any) -> None:
    name = [node.name for node in odd.graph.nodes if node.op == "placeholder"][-1]
    with pytest.raises(NotIsolable, match=f"the captured graph has no operator '{name}'"):
        cut(odd, name, size_text)


def test_it_takes_no_tensor(odd: Any) -> None:
    with pytest.raises(NotIsolable, match="it takes no tensor"):
        taken(odd, "aten.ones")


def test_it_contains_a_graph(odd: Any) -> None:
    with pytest.raises(NotIsolable, match="it contains a graph of its own"):
        taken(odd, "cond")


def test_it_gives_no_tensor(odd: Any) -> None:
    with pytest.raises(NotIsolable, match="it gives no tensor"):
        taken(odd, "sym_size")


def test_nothing_uses_it() -> None:
    program = captured(lambda m, x: x + 1, torch.randn(4, 3))
    add = next(node for node in program.graph.nodes if node.op == "call_function")
    with program.graph.inserting_after(add):
        idle = program.graph.call_function(torch.ops.aten.relu.default, (add,))
    with pytest.raises(NotIsolable, match="nothing uses its result"):
        cut(program, idle.name, size_text)


def test_a_list_as_an_argument() -> None:
    program = captured(lambda m, x: x.split(2)[0] + 1, torch.randn(6, 3))
    with pytest.raises(NotIsolable, match=r"its argument split.* is no tensor or size"):
        taken(program, "getitem")


def test_sizes_of_an_input_at_a_point() -> None:
    spec = CutInput((2, "h//2", "w"), torch.float32, None)
    assert spec.at({"h": 9, "w": 5}) == (2, 4, 5)


@pytest.mark.parametrize("shape", [(2, "u0"), (2, "w - 9"), (2, "w ?? 3")])
def test_sizes_that_cannot_be_worked_out(shape: tuple[int | str, ...]) -> None:
    with pytest.raises(NotIsolable, match="can't be worked out"):
        CutInput(shape, torch.float32, None).at({"w": 5})
