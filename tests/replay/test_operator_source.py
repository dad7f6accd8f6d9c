"""One operator of a captured graph as a sketch."""

from __future__ import annotations

import ast
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from guarddiff.replay import isolate, operator_source
from guarddiff.replay.isolate import NotIsolable
from guarddiff.replay.script import Sketch, render


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.register_buffer("index", torch.tensor([0, 1]))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        z = F.interpolate(self.conv(x), size=(y.shape[2] * 2, y.shape[3]), mode="nearest")
        return z.index_select(0, self.index), torch.masked_fill(y, y > 0, float("-inf"))


def sketch_of(word: str, **own: Any) -> Sketch:
    args = (torch.randn(2, 3, 6, 6), torch.randn(2, 4, 5, 7))
    program = torch.export.export(Model(), args, dynamic_shapes=({2: Dim.AUTO}, {2: Dim.AUTO}))
    node = next(n.name for n in program.graph.nodes if word in str(n.target))

    def size(value: Any) -> int | str:
        return int(value) if isinstance(value, int) else str(value)

    sizes = {str(s.node.expr): int(s.node.hint) for n in program.graph.nodes for s in shape_of(n) if not is_int(s)}
    cut = isolate.cut(program, node, size)
    doubled = {name: 2 * value for name, value in sizes.items()}
    return operator_source.sketch(cut, sizes, doubled, lambda text: f'"{text}"', own)


def shape_of(node: torch.fx.Node) -> tuple[Any, ...]:
    return tuple(node.meta["val"].shape) if isinstance(node.meta.get("val"), torch.Tensor) else ()


def is_int(size: Any) -> bool:
    return isinstance(size, int)


def run(sketch: Sketch) -> Any:
    text = render(sketch).split("program = ")[0].replace("import onnxruntime\n", "")
    space: dict[str, Any] = {}
    exec(text, space)
    return space["model"](*space["example"])


def test_weights_are_drawn_at_random_and_kept_in_shape() -> None:
    sketch = sketch_of("conv2d")
    text = ast.unparse(sketch.definitions)
    assert "torch.nn.Parameter(torch.randn(4, 3, 3, 3))" in text
    assert run(sketch).shape == (2, 4, 4, 4)


def test_sizes_are_worked_out_in_the_script() -> None:
    sketch = sketch_of("upsample_nearest2d")
    text = ast.unparse(sketch.definitions)
    assert ".shape[2]" in text
    assert "* 2" in text or "2 *" in text
    assert run(sketch).shape[2] == 10


def test_only_symbolic_sizes_are_declared() -> None:
    leaves = sketch_of("masked_fill").leaves
    assert [sorted(leaf.axes) for leaf in leaves] == [[2], [2]]
    assert leaves[0].shapes[1][2] == 2 * leaves[0].shapes[0][2]


def test_infinite_numbers_and_integer_weights() -> None:
    assert "float('-inf')" in ast.unparse(sketch_of("masked_fill").definitions)
    assert "torch.nn.Buffer(torch.arange(2))" in ast.unparse(sketch_of("index_select").definitions)


def test_a_call_that_can_not_be_written_is_refused() -> None:
    class Odd:
        pass

    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(torch.ops.aten.relu.default, (x,)))
    cut = isolate.Cut(torch.fx.GraphModule(nn.Module(), graph), (), "aten.relu.default")
    writer = operator_source._Writer(cut)
    with pytest.raises(NotIsolable, match="Odd"):
        writer._argument(Odd())
