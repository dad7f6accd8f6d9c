"""Values inside an ONNX model at given inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from guarddiff.core.child import Died
from guarddiff.replay import onnx_cut
from guarddiff.replay.isolate import NotIsolable
from guarddiff.replay.run import Session, Unavailable, one_line

_FX_NODE = "pkg.torch.onnx.fx_node"


@dataclass
class OnnxRun:
    """Values by name in the order of the graph, up to the first that can't be computed.

    ``failed`` is that value's name and ``raised`` what ONNX Runtime said; None and empty where all were computed.
    """

    values: dict[str, Any] = field(default_factory=dict)
    failed: str | None = None
    raised: str = ""


def names(model: Any) -> list[str]:
    """Names of all values that the nodes of the main graph compute, in order."""
    return [str(value.name) for node in model.graph for value in node.outputs if value.name]


def producer(model: Any, name: str) -> Any:
    """The node that computes a value; None where it is an input, an initializer, or not there."""
    return next((node for node in model.graph if any(value.name == name for value in node.outputs)), None)


def fx_name(node: Any) -> str:
    """Name of the decomposed FX node that an ONNX node was translated from; empty when it doesn't say."""
    return str(node.metadata_props.get(_FX_NODE, "")).split(" ", 1)[0].lstrip("%")


def run(model: Any, wanted: Sequence[str], feeds: Mapping[str, Any]) -> OnnxRun:
    """The ``wanted`` values (names, in the graph's order) at ``feeds``.

    Where ONNX Runtime raises, the longest part before the node that does is run instead, found by halving. Raises
    Died where it ends its process.
    """
    if not wanted:
        return OnnxRun()
    try:
        return OnnxRun(_values(model, wanted, feeds))
    except Died:
        raise
    except Exception as error:
        raised = error
    right, wrong = 0, len(wanted)  # the first `right` values can be computed, the first `wrong` can't
    values: dict[str, Any] = {}
    while wrong - right > 1:
        middle = (right + wrong) // 2
        try:
            values = _values(model, wanted[:middle], feeds)
            right = middle
        except Died:
            raise
        except Exception as error:
            raised, wrong = error, middle
    return OnnxRun(values, wanted[wrong - 1], one_line(raised))


def _values(model: Any, wanted: Sequence[str], feeds: Mapping[str, Any]) -> dict[str, Any]:
    inputs = [value.name for value in model.graph.inputs if value.name in feeds]
    try:
        piece = onnx_cut.between(model, inputs, list(wanted), forget=False)
    except NotIsolable as error:
        raise Unavailable(str(error)) from error
    session = Session(piece)
    return {name: np.asarray(value) for name, value in zip(wanted, session.run(dict(feeds))) if value is not None}
