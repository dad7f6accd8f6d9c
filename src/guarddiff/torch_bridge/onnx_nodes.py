"""ONNX nodes with the FX nodes they came from and the whole numbers they carry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from guarddiff.core import graph
from guarddiff.core.evidence import OnnxNodeInfo
from guarddiff.core.origin import Origin
from guarddiff.torch_bridge.origin import captured_name, module_path, node_chain, node_source

FX_NODE = "pkg.torch.onnx.fx_node"
_STACK = "pkg.torch.onnx.stack_trace"
_LARGEST = 16
"""Constants with more elements than this are data, not sizes."""


def read(program: Any, captured: Any) -> tuple[OnnxNodeInfo, ...]:
    """The nodes of an ONNXProgram's main graph that carry whole numbers, traced back to the captured program's."""
    known = roots(program.exported_program, captured)
    found = []
    for node in program.model.graph:
        attributes = tuple((name, numbers) for name, a in node.attributes.items() if (numbers := _integers(a.value)))
        constants = tuple(
            (value.name or "", numbers) for value in node.inputs if value is not None and (numbers := constant(value))
        )
        if not attributes and not constants:
            continue
        fx_name = node.metadata_props.get(FX_NODE, "").split(" ", 1)[0].lstrip("%")
        source = node_source(node.metadata_props.get(_STACK))
        names = (known.get(fx_name, fx_name),) if fx_name else ()
        found.append(
            OnnxNodeInfo(node.name or "", node.op_type, names, str(source) if source else None, attributes, constants)
        )
    return tuple(found)


def graph_digest(program: Any) -> str:
    """``core.graph.digest`` of the program's model."""
    graph_ = program.model.graph
    return graph.digest(
        ((node.domain, node.op_type, _attributes(node)) for node in graph_),
        [value.name or "" for value in graph_.outputs],
    )


def _attributes(node: Any) -> dict[str, tuple[int, ...]]:
    found = {}
    for name, attribute in node.attributes.items():
        if attribute.type.name in ("INT", "INTS") and not attribute.is_ref():
            value = attribute.value
            found[name] = (int(value),) if attribute.type.name == "INT" else tuple(map(int, value))
    return found


def exits(exported: Any, captured: Any) -> dict[str, str]:
    """Name of a captured FX node → name of the node of the decomposed program that holds its result, as far as known:
    of the nodes that it became, the last one that something else takes. ONNX values have these names too. Left out are
    nodes that write in place (what they became holds the whole tensor, not the view that they give) and those whose
    result has another shape.
    """
    known = roots(exported, captured)
    shapes = {n.name: _rank(n) for n in captured.graph.nodes if not _writes(n)}
    found = {}
    for node in exported.graph.nodes:
        root = known.get(node.name, node.name) if node.op == "call_function" else node.name
        leaves = any(user.op == "output" or known.get(user.name, user.name) != root for user in node.users)
        if node.op == "placeholder" or (node.op == "call_function" and leaves and "val" in node.meta):
            found[root] = node.name
    ranks = {n.name: _rank(n) for n in exported.graph.nodes}
    return {root: name for root, name in found.items() if root in shapes and shapes[root] == ranks[name]}


def _writes(node: Any) -> bool:
    """Whether an FX node changes one of its arguments in place."""
    schema = getattr(node.target, "_schema", None)
    return bool(schema is not None and schema.is_mutable)


def _rank(node: Any) -> tuple[str, int]:
    """What must be alike for two nodes to hold the same: number or tensor, and its rank."""
    value = node.meta.get("val")
    return ("tensor", value.dim()) if isinstance(value, torch.Tensor) else ("number", 0)


def origin_of(node: Any, captured: Any) -> Origin:
    """The origin of a node of the decomposed program: the captured node, its operator, module and source line."""
    known = {n.name: n for n in captured.graph.nodes} if captured is not None else {}
    name = captured_name(node_chain(node.meta.get("from_node")), known) or node.name
    root = known.get(name)
    if root is None or str(root.target) != str(node.target):
        root = _made_anew(node, known) or root
    name = root.name if root is not None else name
    operator = root.target if root is not None and root.op == "call_function" else node.target
    meta = root.meta if root is not None else node.meta
    return Origin(
        op=target_name(operator),
        module_path=module_path(meta),
        source=node_source(meta.get("stack_trace")),
        node=name if root is not None else None,
    )


def _made_anew(node: Any, captured: Mapping[str, Any]) -> Any:
    """The captured view that functionalization made anew as ``node``, which then names the wrong origin or none: the
    only captured node with the same operator and constant arguments of which nothing else came. None where there is
    none, or are several."""

    def call(n: Any) -> tuple[Any, ...]:
        return (n.op, str(n.target), tuple(str(a) for a in n.args if not isinstance(a, torch.fx.Node)))

    if node.op != "call_function":
        return None
    came = {captured_name(node_chain(n.meta.get("from_node")), captured) for n in node.graph.nodes}
    alike = [n for name, n in captured.items() if name not in came and call(n) == call(node)]
    return alike[0] if len(alike) == 1 else None


def target_name(target: Any) -> str:
    """``aten.squeeze.dim``, ``operator.floordiv``."""
    plain = getattr(target, "__module__", "") == "_operator"
    return f"operator.{target.__name__}" if plain else str(target)


def roots(program: Any, captured: Any) -> dict[str, str]:
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


def constant(value: Any) -> tuple[int, ...]:
    """The whole numbers that an ONNX value holds as a constant; empty where it holds none, or too many."""
    tensor = value.const_value
    if tensor is None or tensor.size > _LARGEST or "INT" not in str(tensor.dtype):
        return ()
    return tuple(int(v) for v in tensor.numpy().reshape(-1))
