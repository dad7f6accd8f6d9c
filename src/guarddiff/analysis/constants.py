"""Which ONNX node, attribute or initializer carries the baked size of a finding."""

from __future__ import annotations

import re
from collections.abc import Sequence

from guarddiff.core.evidence import OnnxNodeInfo
from guarddiff.core.finding import Finding, OnnxNode

_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")
_MOST = 12
_IS_ONE = re.compile(r"[/%*+-].*== 1$")
_SIZE_ATTRIBUTES = {"kernel_shape", "strides"}


def carriers(finding: Finding, nodes: Sequence[OnnxNodeInfo]) -> tuple[OnnxNode, ...]:
    """ONNX nodes of the finding's FX node (or source line, where it has none) that hold one of its numbers.

    Its numbers are the example sizes of its dimensions, their products, and the constants of its guards; 0 and
    1 tell nothing, unless a guard says that something is 1 (a kernel of 1×1 is baked as well). At most twelve nodes
    are named.
    """
    baked = numbers(finding)
    ones = finding.origin.node is not None and any(_IS_ONE.search(guard) for guard in finding.guards)
    found = []
    for node in nodes:
        if not _belongs(finding, node):
            continue
        places = [
            f"{kind} {name} = {list(values)}"
            for kind, rows in (("attribute", node.attributes), ("initializer", node.constants))
            for name, values in rows
            if baked.intersection(values) or (ones and name in _SIZE_ATTRIBUTES and set(values) == {1})
        ]
        if places:
            found.append(OnnxNode(node.name, node.op_type, "; ".join(places)))
    return tuple(found[:_MOST])


def numbers(finding: Finding) -> set[int]:
    """Numbers that a node must carry to be baked: sizes, their products, and constants of the guards; not 0 and 1."""
    sizes = [dim.example for dim in finding.dims]
    found = set(sizes) | {a * b for a in sizes for b in sizes}
    for guard in finding.guards:
        found.update(int(text) for text in _NUMBER.findall(re.sub(r"\[\d+\]", "", guard)) if len(text) < 10)
    return found - {0, 1}


def _belongs(finding: Finding, node: OnnxNodeInfo) -> bool:
    if finding.origin.node is not None:
        return finding.origin.node in node.roots
    return finding.origin.source is not None and str(finding.origin.source) == node.source
