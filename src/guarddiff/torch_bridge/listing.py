"""An operator before and after a stage, as lines of text."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
import torch.fx

from guarddiff.core.proof import Decomposition, GraphLine
from guarddiff.core.stage import Stage
from guarddiff.torch_bridge.onnx_nodes import FX_NODE, constant, roots, target_name
from guarddiff.torch_bridge.record import Recording

MOST = 40
"""Longer lists are cut after so many nodes."""


def decomposition(
    recording: Recording,
    size_text: Callable[[Any], int | str],
    name: str,
    stage: Stage,
    numbers: Collection[int],
) -> Decomposition | None:
    """The captured node ``name`` with what goes into it, and the nodes that it became.

    For a fault of translation or optimization these are ONNX nodes. Nodes that carry one of ``numbers`` as a constant
    are marked; where none does, all of an operator's own are. None where the node is not in the captured program, or
    where nothing came of it.
    """
    captured, program = recording.captured, recording.program
    node = next((n for n in captured.graph.nodes if n.name == name), None) if captured is not None else None
    if node is None:
        return None
    into = [n for n in node.all_input_nodes if n.op != "get_attr"]
    before = [GraphLine(_fx_line(n, size_text)) for n in into] + [GraphLine(_fx_line(node, size_text), True)]
    decomposed = program.exported_program if program is not None else recording.decomposed
    if decomposed is None:
        return None
    origin = roots(decomposed, captured)
    became = [n for n in decomposed.graph.nodes if n.op == "call_function" and origin.get(n.name) == name]
    if stage in ("translate", "optimize") and program is not None:
        names = {n.name for n in became}
        nodes = [n for n in program.model.graph if _fx_name(n) in names]
        after = _marked([(_onnx_line(n), _onnx_numbers(n)) for n in nodes], numbers)
    else:
        after = _marked([(_fx_line(n, size_text), _fx_numbers(n)) for n in became], numbers)
    return Decomposition(tuple(before[-MOST:]), tuple(after[:MOST])) if after else None


def _marked(lines: Sequence[tuple[str, set[int]]], numbers: Collection[int]) -> list[GraphLine]:
    found = [GraphLine(text, not own.isdisjoint(numbers)) for text, own in lines]
    return found if any(line.marked for line in found) else [GraphLine(line.text, True) for line in found]


def _fx_line(node: torch.fx.Node, size_text: Callable[[Any], int | str]) -> str:
    """``%relu: float32(1, 2, h, w) = aten.relu.default(%x)``."""
    if node.op == "placeholder":
        return f"%{node.name}{_meaning(node, size_text)} (input)"
    arguments = [_argument(a) for a in node.args] + [f"{key}={_argument(a)}" for key, a in node.kwargs.items()]
    return f"%{node.name}{_meaning(node, size_text)} = {target_name(node.target)}({', '.join(arguments)})"


def _meaning(node: torch.fx.Node, size_text: Callable[[Any], int | str]) -> str:
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor):
        sizes = ", ".join(str(size_text(size)) for size in value.shape)
        return f": {str(value.dtype).removeprefix('torch.')}({sizes})"
    if isinstance(value, torch.SymInt):
        return f": {size_text(value)}"
    return ""


def _argument(value: Any) -> str:
    if isinstance(value, torch.fx.Node):
        return f"%{value.name}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_argument(part) for part in value)}]"
    return str(value).removeprefix("torch.")


def _fx_numbers(node: torch.fx.Node) -> set[int]:
    found: set[int] = set()

    def note(value: Any) -> Any:
        found.update([value] if _is_number(value) else [])
        return value

    torch.fx.node.map_aggregate((node.args, node.kwargs), note)
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _fx_name(node: Any) -> str:
    return str(node.metadata_props.get(FX_NODE, "")).split(" ", 1)[0].lstrip("%")


def _onnx_line(node: Any) -> str:
    """``%view: (2, ?, 4) = Reshape(%x, %val_3 = [2, -1, 4], allowzero=1)``."""
    inputs = [_onnx_input(value) for value in node.inputs]
    attributes = [f"{name}={_attribute(a)}" for name, a in node.attributes.items()]
    outputs = ", ".join(f"%{value.name}{_onnx_shape(value)}" for value in node.outputs)
    return f"{outputs} = {node.op_type}({', '.join(inputs + attributes)})"


def _onnx_input(value: Any) -> str:
    if value is None:
        return ""
    held = constant(value)
    return f"%{value.name} = {list(held)}" if held else f"%{value.name}"


def _onnx_shape(value: Any) -> str:
    if value.shape is None:
        return ""
    return f": ({', '.join(str(getattr(size, 'value', size) or '?') for size in value.shape)})"


def _attribute(attribute: Any) -> str:
    text = str(attribute.value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _onnx_numbers(node: Any) -> set[int]:
    found = {n for value in node.inputs if value is not None for n in constant(value)}
    for attribute in node.attributes.values():
        values = attribute.value if isinstance(attribute.value, (list, tuple)) else [attribute.value]
        found |= {value for value in values if _is_number(value)}
    return found
