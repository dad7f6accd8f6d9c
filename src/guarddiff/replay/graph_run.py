"""Run the graph of an exported program node by node, and keep what its nodes give."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.fx

from guarddiff.core.child import Died
from guarddiff.core.forked import step
from guarddiff.replay.inputs import Example
from guarddiff.replay.run import one_line, undisturbed

MOST_BYTES = 1_000_000_000
"""Values of nodes are kept up to this many bytes; those of larger runs are not compared node by node."""
_ASSERTIONS = ("_assert_scalar", "_assert_async", "_assert_tensor_metadata", "sym_constrain_range", "_check")


class NotCallable(Exception):
    """The program's graph can't be called with these inputs; the message says why."""


@dataclass
class GraphRun:
    """What a program's graph did at some inputs.

    Attributes:
        outputs: The user's outputs: tensors and numbers; None where it raised.
        values: Node name to what it computed, tensors and numbers only, in order, no inputs and no weights; empty
            where that was not asked or is too much to keep.
        fixed: Which input has another size than the graph was captured for; empty where all fit.
        refused: What the first assertion of the graph that failed said; empty where none failed.
        raised: What a node raised; empty where none did.
        failed: Name of the node that raised.
    """

    outputs: list[Any] | None = None
    values: dict[str, Any] = field(default_factory=dict)
    fixed: str = ""
    refused: str = ""
    raised: str = ""
    failed: str | None = None


def run(
    program: Any, example: Example, leaves: Sequence[Any], keep: bool = False, mutated: Container[str] = frozenset()
) -> GraphRun:
    """The graph of ``program`` (an ExportedProgram) at these inputs, without its assertions: what they say is noted.

    ``keep``: keep the values of nodes too. ``mutated``: parameters that it changes; of those it gets copies. Raises
    NotCallable.
    """
    values = _arguments(program, example, leaves, mutated)
    done = GraphRun(fixed=_fixed(program, values))
    runner = _Runner(program.graph_module, done, keep)
    try:
        with undisturbed(0), step():
            outputs = runner.run(*values)
    except Died as death:
        raise NotCallable(f"it {death}") from death
    except Exception as error:
        done.raised = one_line(error.__cause__ or error) if runner.failed is None else runner.failed[1]
        done.failed = runner.failed[0] if runner.failed is not None else None
        return done
    done.outputs = [
        value
        for spec, value in zip(program.graph_signature.output_specs, outputs)
        if spec.kind.name == "USER_OUTPUT" and type(spec.arg).__name__ != "ConstantArgument"
    ]
    return done


class _Runner(torch.fx.Interpreter):
    def __init__(self, module: torch.fx.GraphModule, done: GraphRun, keep: bool) -> None:
        super().__init__(module)
        self.extra_traceback = False
        self._done = done
        self._keep = keep
        self._left = MOST_BYTES
        self.failed: tuple[str, str] | None = None

    def run_node(self, n: torch.fx.Node) -> Any:
        asserts = n.op == "call_function" and any(word in str(n.target) for word in _ASSERTIONS)
        try:
            value = super().run_node(n)
        except Exception as error:
            if asserts:
                self._done.refused = self._done.refused or one_line(error)
                return None
            self.failed = self.failed or (n.name, one_line(error))
            raise
        given = n.op in ("placeholder", "get_attr")
        if self._keep and not given and isinstance(value, (torch.Tensor, bool, int, float)):
            self._note(n.name, value)
        return value

    def _note(self, name: str, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            self._left -= value.nbytes
            if self._left < 0:
                self._keep = False
                self._done.values.clear()
                return
            value = value.detach().clone()  # a later node may change it in place
        self._done.values[name] = value


def _arguments(program: Any, example: Example, leaves: Sequence[Any], mutated: Container[str]) -> list[Any]:
    """Values of the graph's placeholders: weights, buffers (copies), constants and the user's inputs (copies)."""
    signature = program.graph_signature
    given = {name: leaf for name, leaf in zip(example.names, leaves) if name is not None}
    users = iter([leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in given.values()])
    weights = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    constants = signature.inputs_to_lifted_tensor_constants
    values: list[Any] = []
    try:
        for spec in signature.input_specs:
            name = getattr(spec.arg, "name", None)
            if spec.kind.name == "USER_INPUT":
                values.append(spec.arg.value if type(spec.arg).__name__ == "ConstantArgument" else next(users))
            elif name in weights:
                tensor = program.state_dict.get(weights[name], program.constants.get(weights[name]))
                own = spec.kind.name == "BUFFER" or weights[name] in mutated
                values.append(tensor.clone() if own else tensor)
            else:
                values.append(program.constants[constants[name]])
    except (StopIteration, KeyError, AttributeError) as error:
        raise NotCallable("an input of its graph is not at hand") from error
    return values


def _fixed(program: Any, values: Sequence[Any]) -> str:
    """Which tensor input has another size than the graph was captured for; empty where all fit."""
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    for node, value in zip(placeholders, values):
        expected = node.meta.get("val")
        if not isinstance(expected, torch.Tensor) or not isinstance(value, torch.Tensor):
            continue
        for axis, (size, given) in enumerate(zip(expected.shape, value.shape)):
            if isinstance(size, int) and size != given:
                return f"{node.name}[{axis}] is fixed at {size}"
    return ""
