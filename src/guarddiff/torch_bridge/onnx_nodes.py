"""ONNX nodes with the FX nodes they came from and the whole numbers they carry."""

from __future__ import annotations

from typing import Any

from guarddiff.core.evidence import OnnxNodeInfo
from guarddiff.torch_bridge.origin import captured_name, node_chain, node_source

_FX_NODE = "pkg.torch.onnx.fx_node"
_STACK = "pkg.torch.onnx.stack_trace"
_LARGEST = 16
"""Constants with more elements than this are data, not sizes."""


def read(program: Any, captured: Any) -> tuple[OnnxNodeInfo, ...]:
    """The nodes of an ONNXProgram's main graph that carry whole numbers, traced back to the captured program's."""
    roots = _roots(program.exported_program, captured)
    found = []
    for node in program.model.graph:
        attributes = tuple((name, numbers) for name, a in node.attributes.items() if (numbers := _integers(a.value)))
        constants = tuple(
            (value.name or "", numbers) for value in node.inputs if value is not None and (numbers := _constant(value))
        )
        if not attributes and not constants:
            continue
        fx_name = node.metadata_props.get(_FX_NODE, "").split(" ", 1)[0].lstrip("%")
        source = node_source(node.metadata_props.get(_STACK))
        names = (roots.get(fx_name, fx_name),) if fx_name else ()
        found.append(
            OnnxNodeInfo(node.name or "", node.op_type, names, str(source) if source else None, attributes, constants)
        )
    return tuple(found)


def value_names(program: Any, captured: Any) -> dict[str, str]:
    """Name of a captured FX node with a tensor as its result → name of the ONNX value that holds it, as far as known.

    The exporter names values after the decomposed FX nodes; of the nodes that one captured node became, the last one
    that something else takes holds its result.
    """
    exported = program.exported_program
    roots = _roots(exported, captured)
    found = {}
    for node in exported.graph.nodes:
        root = roots.get(node.name, node.name) if node.op == "call_function" else node.name
        leaves = any(user.op == "output" or roots.get(user.name, user.name) != root for user in node.users)
        if node.op == "placeholder" or (node.op == "call_function" and leaves and "val" in node.meta):
            found[root] = node.name
    return found


def _roots(program: Any, captured: Any) -> dict[str, str]:
    """Name of a decomposed FX node → name of the captured node it came from."""
    if program is None or captured is None:
        return {}
    known = {node.name for node in captured.graph.nodes}
    return {n.name: captured_name(node_chain(n.meta.get("from_node")), known) or n.name for n in program.graph.nodes}


def _integers(value: Any) -> tuple[int, ...]:
    if isinstance(value, bool):
        return ()
    if isinstance(value, int):
        return (value,)
    if isinstance(value, (list, tuple)) and value and all(isinstance(v, int) for v in value):
        return tuple(value)
    return ()


def _constant(value: Any) -> tuple[int, ...]:
    tensor = value.const_value
    if tensor is None or tensor.size > _LARGEST or "INT" not in str(tensor.dtype):
        return ()
    return tuple(int(v) for v in tensor.numpy().reshape(-1))
