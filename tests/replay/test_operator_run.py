"""Operators exported alone; those taken out of a model's nodes are in test_prove.py and test_onnx_cut.py."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.replay.test_isolate import captured, node_of, size_text
from tests.torch_bridge.exports import onnx_export

from guarddiff.replay.inputs import Example
from guarddiff.replay.isolate import NotIsolable, cut
from guarddiff.replay.operator_run import OperatorRun
from guarddiff.replay.tools import Tools
from guarddiff.torch_bridge import replaying

IMAGE = torch.randn(3, 2, 6, 6, generator=torch.Generator().manual_seed(0))


def run_of(function: Any, word: str, *args: torch.Tensor, names: tuple[str, ...] = ()) -> tuple[OperatorRun, list[str]]:
    """The operator ``word`` of a captured function, and the variables of its inputs' shapes."""
    program = captured(function, *args)
    made = cut(program, node_of(program, word), size_text)
    tools = Tools(
        program=None,
        captured=program,
        size_text=size_text,
        export_operator=lambda module, args, shapes: onnx_export(module, args, dynamic_shapes=shapes),
        fake_accepts=replaying.fake_accepts,
        flatten=replaying.flatten,
    )
    variables = list(dict.fromkeys(size for spec in made.inputs for size in spec.shape if isinstance(size, str)))
    own = [size for spec in made.inputs for size in spec.shape]
    at = [size for arg in args for size in arg.shape]
    example = Example(args, names or (None,) * len(args), None, lambda values, _: (tuple(values), {}))
    return OperatorRun(made, tools, example, {str(own[i]): at[i] for i in range(len(own))}), variables


def test_it_is_wrong_by_itself_where_the_model_is() -> None:
    run, (_, _, h, w) = run_of(lambda m, x: F.adaptive_avg_pool2d(x, (2, 3)), "adaptive_avg_pool2d", IMAGE)
    assert not run.take_nodes()  # there is no model to take them from
    assert run.export()
    assert run.how == ""
    point = {**run._sizes, h: 12, w: 12}
    assert run.shapes(point) == ((3, 2, 12, 12),)
    outcome = run.attempt(point)
    assert outcome.state == "differs"
    assert outcome.difference is not None
    assert (outcome.difference.expected, outcome.difference.got) == (
        "output 0: (3, 2, 2, 3)",
        "output 0: (3, 2, 4, 6)",
    )
    assert run.attempt({**run._sizes, h: 6, w: 6}).state == "agrees"


def test_it_is_right_by_itself_where_it_is() -> None:
    run, (_, _, h, w) = run_of(lambda m, x: F.max_pool2d(x, 2), "max_pool2d", IMAGE)
    assert run.export()
    assert run.attempt({**run._sizes, h: 13, w: 9}).state == "agrees"


def test_the_models_own_input_is_its_input_where_it_is_the_same() -> None:
    """Positions are the model's: random ones might be none."""
    table, positions = torch.randn(7, 2), torch.tensor([6, 0, 3])
    run, _ = run_of(lambda m, t, p: t[p], "index", table, positions, names=("args_0", "args_1"))
    assert [torch.equal(leaf, given) for leaf, given in zip(run._leaves, (table, positions))] == [True, True]
    other, _ = run_of(lambda m, t, p: (t * 2)[p], "index", table, positions, names=("args_0", "args_1"))
    assert not torch.equal(other._leaves[0], table * 2)
    assert torch.equal(other._leaves[1], positions)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int32, torch.bool, torch.complex64])
def test_other_inputs_have_values_of_their_dtype(dtype: torch.dtype) -> None:
    run, _ = run_of(lambda m, x: (x + x).flip(0) if dtype != torch.bool else (~x).flip(0), "flip", IMAGE[0].to(dtype))
    (leaf,) = run._leaves
    assert (leaf.dtype, tuple(leaf.shape)) == (dtype, (2, 6, 6))
    assert len(set(leaf.flatten().tolist())) > 1


def test_a_size_that_cannot_be_worked_out() -> None:
    run, (_, _, h, _) = run_of(lambda m, x: F.max_pool2d(x, 2), "max_pool2d", IMAGE)
    with pytest.raises(NotIsolable, match="can't be worked out"):
        run.shapes({h: 3})
