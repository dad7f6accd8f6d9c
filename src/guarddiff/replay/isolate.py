"""Take one operator out of the captured graph as a module of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx

from guarddiff.core import domain


class NotIsolable(Exception):
    """The operator can't stand alone; the message says why."""


@dataclass(frozen=True)
class CutInput:
    """One tensor input of a cut: its shape as sizes or texts over dimension variables, and its dtype.

    ``source`` is the name of the model's input where it is one, None for an intermediate tensor; ``node`` is its name
    in the captured graph.
    """

    shape: tuple[int | str, ...]
    dtype: torch.dtype
    source: str | None
    node: str = ""

    def at(self, point: dict[str, int]) -> tuple[int, ...]:
        """Its shape at a point. Raises NotIsolable when a size can't be worked out."""
        sizes = [size if isinstance(size, int) else domain.value(size, point) for size in self.shape]
        if any(size is None or size < 0 for size in sizes):
            raise NotIsolable(f"its input's shape {self.shape} can't be worked out at {point}")
        return tuple(int(size) for size in sizes if size is not None)


@dataclass(frozen=True)
class Cut:
    """The operator with its constant arguments and weights, as a module that takes ``inputs``.

    ``results`` are the sizes of all its outputs' shapes. ``node`` is its name in the captured graph, None where it
    gives several tensors.
    """

    module: torch.fx.GraphModule
    inputs: tuple[CutInput, ...]
    op: str
    results: tuple[int | str, ...] = ()
    node: str | None = None


def cut(program: Any, name: str, size_text: Callable[[Any], int | str]) -> Cut:
    """The node ``name`` of the captured program, with what computes its symbolic arguments.

    ``size_text`` turns a size of a fake tensor's shape into an int or a text. Weights are shared, not copied.
    Raises NotIsolable.
    """
    nodes = {node.name: node for node in program.graph.nodes}
    node = nodes.get(name)
    if node is None or node.op != "call_function":
        raise NotIsolable(f"the captured graph has no operator {name!r}")
    if not node.users:
        raise NotIsolable("nothing uses its result")
    return _Cutter(program, size_text).cut(node)


class _Cutter:
    def __init__(self, program: Any, size_text: Callable[[Any], int | str]) -> None:
        signature = program.graph_signature
        self._program = program
        self._size_text = size_text
        self._user_inputs = set(signature.user_inputs)
        self._weights = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
        self._constants = dict(signature.inputs_to_lifted_tensor_constants)
        self._graph = torch.fx.Graph()
        self._root: dict[str, Any] = {}
        self._made: dict[torch.fx.Node, torch.fx.Node] = {}
        self._inputs: list[tuple[torch.fx.Node, CutInput]] = []

    def cut(self, node: torch.fx.Node) -> Cut:
        for argument in node.all_input_nodes:
            self._need(argument)
        if not self._inputs:
            raise NotIsolable("it takes no tensor")
        result = self._graph.node_copy(node, lambda n: self._made[n])
        value = node.meta.get("val")
        if isinstance(value, (list, tuple)):
            parts = [i for i, part in enumerate(value) if isinstance(part, torch.Tensor)]
            outputs: Any = tuple(self._graph.call_function(_item, (result, i)) for i in parts)
        elif isinstance(value, torch.Tensor):
            outputs = result
        else:
            raise NotIsolable("it gives no tensor")
        self._graph.output(outputs)
        module = torch.fx.GraphModule(self._root, self._graph).eval()
        tensors = value if isinstance(value, (list, tuple)) else [value]
        sizes = tuple(
            self._size_text(s) for tensor in tensors if isinstance(tensor, torch.Tensor) for s in tensor.shape
        )
        single = node.name if isinstance(value, torch.Tensor) else None
        return Cut(module, tuple(spec for _, spec in self._inputs), str(node.target), sizes, single)

    def _need(self, node: torch.fx.Node) -> None:
        """Make ``node`` available: a weight, an input of the cut, or a size computed from such."""
        if node in self._made:
            return
        value = node.meta.get("val")
        if node.op == "get_attr":
            raise NotIsolable("it contains a graph of its own")
        if isinstance(value, torch.Tensor) and not self._is_constant(node):
            self._made[node] = self._tensor(node, value)
        elif node.op == "call_function" and not isinstance(value, (list, tuple)):
            for argument in node.all_input_nodes:
                self._need(argument)
            self._made[node] = self._graph.node_copy(node, lambda n: self._made[n])
        else:
            raise NotIsolable(f"its argument {node.name} is no tensor or size")

    def _is_constant(self, node: torch.fx.Node) -> bool:
        """Whether it is computed from weights and constants alone, by nothing random."""
        if node.op != "call_function" or "rand" in str(node.target) or not node.all_input_nodes:
            return False
        return all(
            (argument.op == "placeholder" and argument.name not in self._user_inputs) or self._is_constant(argument)
            for argument in node.all_input_nodes
        )

    def _tensor(self, node: torch.fx.Node, value: torch.Tensor) -> torch.fx.Node:
        if node.op == "placeholder" and node.name not in self._user_inputs:
            return self._weight(node)
        shape = tuple(self._size_text(size) for size in value.shape)
        made = self._graph_input(f"in_{len(self._inputs)}")
        source = node.name if node.op == "placeholder" else None
        self._inputs.append((made, CutInput(shape, value.dtype, source, node.name)))
        return made

    def _graph_input(self, name: str) -> torch.fx.Node:
        """A placeholder, kept before everything else."""
        last = self._inputs[-1][0] if self._inputs else None
        first = next(iter(self._graph.nodes), None)
        if last is not None:
            with self._graph.inserting_after(last):
                return self._graph.placeholder(name)
        if first is not None:
            with self._graph.inserting_before(first):
                return self._graph.placeholder(name)
        return self._graph.placeholder(name)

    def _weight(self, node: torch.fx.Node) -> torch.fx.Node:
        if node.name in self._weights:
            path = self._weights[node.name]
            tensor = self._program.state_dict.get(path, self._program.constants.get(path))
        else:
            tensor = self._program.constants.get(self._constants.get(node.name, ""))
        if not isinstance(tensor, torch.Tensor):
            raise NotIsolable(f"the weight {node.name} is not at hand")
        attribute = f"weight_{len(self._root)}"
        floating = tensor.is_floating_point() or tensor.is_complex()
        self._root[attribute] = (
            torch.nn.Parameter(tensor.detach(), requires_grad=False) if floating else torch.nn.Buffer(tensor.detach())
        )
        return self._graph.get_attr(attribute)


def _item(values: Any, index: int) -> Any:
    return values[index]
