"""The stage ladder: each stage's program at the same sizes, and the first that is wrong."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from guarddiff.core.log import say
from guarddiff.core.origin import Origin
from guarddiff.core.proof import DifferingNode, Ladder, Rung, RungName, RungState
from guarddiff.core.stage import Stage
from guarddiff.replay import compare, graph_run, onnx_values
from guarddiff.replay.compare import Difference, Result
from guarddiff.replay.graph_run import GraphRun
from guarddiff.replay.inputs import Example
from guarddiff.replay.onnx_values import OnnxRun
from guarddiff.replay.run import Pair, Unavailable, feeds

STAGE_OF: dict[RungName, Stage] = {
    "captured": "capture",
    "decomposed": "decompose",
    "onnx": "translate",
    "optimized": "optimize",
}
"""The stage that made a rung's program."""


@dataclass
class Programs:
    """What the stages made.

    Attributes:
        captured: The captured program; None when it is not known.
        decomposed: The program after decomposition, as it was translated; None when it is not known.
        unoptimized: → the ONNX program before the optimizer, None where the optimizer was not run. Made when needed.
        optimized: The ONNX program; None when the export raised.
        exits: (program) → captured FX node to the node of ``program`` that holds its result.
        origin_of: (FX node of the decomposed program) → its origin: captured node, operator, module, source.
        mutated: Parameters that forward changes.
    """

    captured: Any
    decomposed: Any
    unoptimized: Callable[[], Any]
    optimized: Any
    exits: Callable[[Any], Mapping[str, str]]
    origin_of: Callable[[Any], Origin]
    mutated: frozenset[str] = frozenset()


def climb(
    programs: Programs, pair: Pair, example: Example, leaves: Sequence[Any], expected: Sequence[Result]
) -> Ladder:
    """Run every rung at ``leaves``; ``expected`` is what eager PyTorch gave there.

    ``pair`` is eager PyTorch and the optimized ONNX program. A rung that can't be run is ``skipped`` and told so.
    """
    return _Climb(programs, pair, example, leaves, list(expected)).ladder()


def right_until_translation(
    programs: Programs, example: Example, leaves: Sequence[Any], expected: Sequence[Result]
) -> bool:
    """Whether the decomposed program, which holds all that was lost until then, agrees with ``expected`` (eager's
    results) at ``leaves``. False where it can't be run."""
    if programs.decomposed is None:
        return False
    try:
        done = graph_run.run(programs.decomposed, example, leaves, mutated=programs.mutated)
    except graph_run.NotCallable:
        return False
    if done.raised or done.fixed or done.outputs is None:
        return False
    got = compare.results([v for v in done.outputs if isinstance(v, (torch.Tensor, int, float))])
    return compare.difference(compare.align(list(expected), len(got)), [result.array for result in got]) is None


@dataclass
class _Climb:
    programs: Programs
    pair: Pair
    example: Example
    leaves: Sequence[Any]
    expected: list[Result]
    rungs: list[Rung] = field(default_factory=list)

    def ladder(self) -> Ladder:
        shown = ", ".join(_shape(result) for result in self.expected) or "nothing"
        self.rungs.append(Rung("eager", "agrees", f"gives {shown}"))
        for name, program in (("captured", self.programs.captured), ("decomposed", self.programs.decomposed)):
            self.rungs.append(self._graph(name, program))  # type: ignore[arg-type]
        self.rungs.append(self._onnx("onnx"))
        self.rungs.append(self._onnx("optimized"))
        first = next((rung for rung in self.rungs if rung.state in ("differs", "raises", "refuses")), None)
        node = self._node(first.name) if first is not None else None
        sizes = {
            name: tuple(leaf.shape)
            for name, leaf in zip(self.example.names, self.leaves)
            if name is not None and isinstance(leaf, torch.Tensor)
        }
        return Ladder(sizes, tuple(self.rungs), STAGE_OF[first.name] if first is not None else None, node)

    def _graph(self, name: RungName, program: Any) -> Rung:
        if program is None:
            return Rung(name, "skipped", "there is no such program")
        try:
            done = self._run(program)
        except graph_run.NotCallable as error:
            return Rung(name, "skipped", str(error))
        except Exception as error:
            say(logging.DEBUG, f"the {name} program could not be run", error)
            return Rung(name, "skipped", "it could not be run by itself")
        if done.raised:
            return Rung(name, "refuses" if done.fixed else "raises", done.fixed or done.raised)
        got = compare.results([v for v in done.outputs or () if isinstance(v, (torch.Tensor, int, float))])
        aligned = compare.align(self.expected, len(got))
        found = compare.difference(aligned, [result.array for result in got])
        if found is not None:
            return Rung(name, "differs", "; ".join(filter(None, (found.got, done.fixed or done.refused))))
        if done.fixed:
            return Rung(name, "refuses", done.fixed)
        return Rung(name, "agrees", f"without its assertion ({done.refused})" if done.refused else "")

    def _run(self, program: Any, keep: bool = False) -> GraphRun:
        return graph_run.run(program, self.example, self.leaves, keep, self.programs.mutated)

    def _onnx(self, name: RungName) -> Rung:
        try:
            pair = self._pair(name)
            if pair is None:
                return Rung(name, "skipped", "the optimizer was not run" if name == "optimized" else "it was not kept")
            found = pair.compared(self.expected, self.leaves)
        except Unavailable as error:
            return Rung(name, "raises" if "load the model" in str(error) else "skipped", str(error))
        except Exception as error:
            say(logging.DEBUG, f"the {name} program could not be run", error)
            return Rung(name, "skipped", "it could not be made again")
        if found is None:
            return Rung(name, "agrees")
        states: dict[str, RungState] = {"runtime_error": "raises", "rejected_input": "refuses"}
        return Rung(name, states.get(found.kind, "differs"), found.got)

    def _pair(self, name: RungName) -> Pair | None:
        """Eager PyTorch and the ONNX program of a rung; where the optimizer was not run that is the first rung."""
        unoptimized = self.programs.unoptimized()
        if name == "onnx":
            return self.pair if unoptimized is None else Pair.of(self.pair, unoptimized)
        return None if unoptimized is None else self.pair

    def _node(self, name: RungName) -> DifferingNode | None:
        """The first node of the rung that differs from the rung before; None where that can't be told."""
        try:
            if name == "captured":
                return self._raising_node()
            if name == "decomposed":
                return self._decomposed_node()
            return self._onnx_node(name)
        except Exception as error:
            say(logging.DEBUG, "the first node that differs could not be told", error)
            return None

    def _raising_node(self) -> DifferingNode | None:
        program = self.programs.captured
        done = self._run(program)
        return self._fx_node(program, done.failed, "a result", f"raises {done.raised}") if done.failed else None

    def _decomposed_node(self) -> DifferingNode | None:
        """Compare the result of each captured node with that of the nodes it became."""
        decomposed = self.programs.decomposed
        right, wrong = self._run(self.programs.captured, keep=True), self._run(decomposed, keep=True)
        exits = self.programs.exits(decomposed)
        same_at_example: Callable[[str, str], bool] | None = None
        for captured, value in right.values.items():
            name = exits.get(captured)
            if name not in wrong.values:
                continue
            found = _unlike(value, _array(wrong.values[name]))
            if found is None:
                continue
            same_at_example = same_at_example or self._same_at_example()
            if same_at_example(captured, name):
                return self._fx_node(decomposed, name, found.expected, found.got)
        return self._fx_node(decomposed, wrong.failed, "a result", f"raises {wrong.raised}") if wrong.failed else None

    def _same_at_example(self) -> Callable[[str, str], bool]:
        """(captured node, decomposed node) → whether they hold the same at the example's sizes: a view of a tensor that
        is written to in place has other contents before and after, and the decomposed graph may hold the later."""
        programs, leaves, mutated = self.programs, self.example.leaves, self.programs.mutated
        one = graph_run.run(programs.captured, self.example, leaves, True, mutated).values
        two = graph_run.run(programs.decomposed, self.example, leaves, True, mutated).values
        return lambda captured, name: (
            captured in one and name in two and _unlike(one[captured], _array(two[name])) is None
        )

    def _fx_node(self, program: Any, name: str | None, expected: str, got: str) -> DifferingNode | None:
        node = next((node for node in program.graph.nodes if node.name == name), None)
        if node is None:
            return None
        origin = self.programs.origin_of(node)
        return _differing("fx", node.name, str(node.target), origin, expected, got)

    def _onnx_node(self, name: RungName) -> DifferingNode | None:
        """Compare the ONNX values with those of the decomposed program's nodes, whose names they have; for the
        optimizer with those of the ONNX program before it."""
        decomposed = self.programs.decomposed
        done = self._run(decomposed, keep=True)
        unoptimized = self.programs.unoptimized()
        first = self.programs.optimized if unoptimized is None else unoptimized
        given = feeds(self.example, self.leaves)
        reference = {name: _array(value) for name, value in done.values.items()}
        if name == "optimized":
            names = onnx_values.names(first.model)
            reference = onnx_values.run(first.model, names, given).values
            first = self.programs.optimized
        got = onnx_values.run(first.model, [n for n in onnx_values.names(first.model) if n in reference], given)
        for value, array in got.values.items():
            found = _unlike(done.values.get(value, reference[value]), array)
            if found is not None:
                return self._traced(first.model, value, found.expected, found.got)
        return self._failing(first.model, got)

    def _failing(self, model: Any, got: OnnxRun) -> DifferingNode | None:
        return self._traced(model, got.failed, "a result", f"raises {got.raised}") if got.failed else None

    def _traced(self, model: Any, value: str, expected: str, got: str) -> DifferingNode | None:
        node = onnx_values.producer(model, value)
        if node is None:
            return None
        fx_name = onnx_values.fx_name(node) or value
        fx_node = next((n for n in self.programs.decomposed.graph.nodes if n.name == fx_name), None)
        origin = self.programs.origin_of(fx_node) if fx_node is not None else Origin()
        return _differing("onnx", node.name or value, node.op_type, origin, expected, got)


def _differing(
    graph: Literal["fx", "onnx"], name: str, op: str, origin: Origin, expected: str, got: str
) -> DifferingNode:
    path, source = origin.module_path, origin.source
    return DifferingNode(graph, name, op, origin.node, origin.op, path, source, expected, got)


def _array(value: Any) -> Any:
    return compare.results([value])[0].array


def _unlike(value: Any, array: Any) -> Difference | None:
    """How the value of an FX node (or of an ONNX model) differs from an array; a number may come with one axis."""
    of_graph = isinstance(value, (torch.Tensor, bool, int, float))
    reference = compare.results([value])[0] if of_graph else Result(value, "")
    if not reference.is_tensor and array.size == 1:
        array = array.reshape(())
    if reference.array.shape != array.shape:
        return Difference("shape", str(reference.array.shape), str(tuple(array.shape)))
    text = compare.unequal(reference, compare.plain(array))
    return Difference("values", _shape(reference), f"{tuple(array.shape)}, {text}") if text else None


def _shape(result: Result) -> str:
    return str(tuple(result.array.shape)) if result.is_tensor else "a number"
