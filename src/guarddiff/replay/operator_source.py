"""One operator of the captured graph as a sketch of a script."""

from __future__ import annotations

import ast
import keyword
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.fx

from guarddiff.replay import samples
from guarddiff.replay.isolate import Cut, NotIsolable
from guarddiff.replay.script import Given, Sketch, TensorLeaf

_INFIX = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "floordiv": "//",
    "truediv": "/",
    "mod": "%",
    "pow": "**",
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "and_": "&",
    "or_": "|",
}
Declare = Callable[[int | str], str]


def sketch(
    cut: Cut,
    example: Mapping[str, int],
    other: Mapping[str, int],
    declare: Declare,
    own: Mapping[str, tuple[torch.Tensor, torch.Tensor]],
) -> Sketch:
    """The operator with its constant arguments as ``forward``; weights are drawn at random.

    ``declare`` gives the Python text that declares a dimension of this size text; ``own`` holds the model's inputs at
    both sizes. Raises NotIsolable.
    """
    writer = _Writer(cut)
    body, names = writer.body()
    given = []
    for name, spec in zip(names, cut.inputs):
        shapes = (spec.at(dict(example)), spec.at(dict(other)))
        axes = {i: declare(size) for i, size in enumerate(spec.shape) if isinstance(size, str)}
        make = (
            samples.recipe(*own[spec.source])
            if spec.source is not None and spec.source in own
            else samples.of_dtype(spec.dtype)
        )
        given.append(Given(name, TensorLeaf(make, shapes, axes)))
    lines = ["class Model(torch.nn.Module):"]
    if writer.weights:
        lines += ["    def __init__(self):", "        super().__init__()"]
        lines += [f"        self.{name} = {text}" for name, text in writer.weights.items()]
    lines += [f"    def forward({', '.join(['self', *names])}):", *(f"        {line}" for line in body)]
    try:
        tree = ast.parse("\n".join(lines))
    except SyntaxError as error:
        raise NotIsolable(f"its arguments can't be written as Python text ({error.msg})") from error
    half = any(spec.dtype == torch.float16 for spec in cut.inputs)
    return Sketch(tree, {"operator": "import operator", "math": "import math"}, tuple(given), "operator", half=half)


class _Writer:
    """Writes a graph as statements; what is used once is written in place."""

    def __init__(self, cut: Cut) -> None:
        self._module = cut.module
        self.weights: dict[str, str] = {}
        self._text: dict[torch.fx.Node, str] = {}

    def body(self) -> tuple[list[str], list[str]]:
        """The statements of ``forward`` and the names of its parameters."""
        lines: list[str] = []
        inputs = [node for node in self._module.graph.nodes if node.op == "placeholder"]
        letters = ["x"] if len(inputs) == 1 else [f"x{i}" for i in range(len(inputs))]
        self._text.update(zip(inputs, letters))
        for node in self._module.graph.nodes:
            if node.op == "get_attr":
                self._text[node] = f"self.{self._weight(str(node.target))}"
            elif node.op == "call_function":
                text = self._call(node)
                if len(node.users) > 1 and not text.startswith(tuple(f"{x}.shape[" for x in letters)):
                    name = _safe(node.name)
                    lines.append(f"{name} = {text}")
                    text = name
                self._text[node] = text
            elif node.op == "output":
                lines.append(f"return {self._argument(node.args[0])}")
        return lines, letters

    def _weight(self, target: str) -> str:
        tensor = getattr(self._module, target)
        text = samples.constant(tensor)
        kind = "Parameter" if isinstance(tensor, torch.nn.Parameter) else "Buffer"
        self.weights[target] = f"torch.nn.{kind}({text})"
        return target

    def _call(self, node: torch.fx.Node) -> str:
        target: Any = node.target
        name = getattr(target, "__name__", "")
        module = getattr(target, "__module__", "")
        args = [self._argument(arg) for arg in node.args]
        args += [f"{key}={self._argument(value)}" for key, value in node.kwargs.items()]
        packet = str(target)
        if packet.startswith("aten.sym_size.int"):
            return f"{args[0]}.shape[{args[1]}]"
        if type(target).__name__ == "OpOverload":
            return f"torch.ops.{packet}({', '.join(args)})"
        if module in ("_operator", "operator"):
            if name in _INFIX and len(args) == 2:
                return f"({args[0]} {_INFIX[name]} {args[1]})"
            if name == "getitem":
                return f"{args[0]}[{args[1]}]"
            return f"operator.{name}({', '.join(args)})"
        if name == "_item":
            return f"{args[0]}[{args[1]}]"
        if module in ("torch", "math"):
            return f"{module}.{name}({', '.join(args)})"
        raise NotIsolable(f"{packet} can't be written as Python text")

    def _argument(self, value: Any) -> str:
        if isinstance(value, torch.fx.Node):
            return self._text[value]
        if isinstance(value, (list, torch.fx.immutable_collections.immutable_list)):
            return "[" + ", ".join(self._argument(part) for part in value) + "]"
        if isinstance(value, tuple):
            return "(" + ", ".join(self._argument(part) for part in value) + ("," if len(value) == 1 else "") + ")"
        if isinstance(value, float) and value in (float("inf"), float("-inf")):
            return f"float('{value}')"
        if isinstance(value, torch.device):
            return "torch.device('cpu')"
        if value is None or isinstance(value, (bool, int, float, str)):
            return repr(value)
        if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
            return str(value)
        raise NotIsolable(f"an argument of type {type(value).__name__} can't be written as Python text")


def _safe(name: str) -> str:
    return name + "_" if keyword.iskeyword(name) or name in ("torch", "self", "operator", "math") else name
