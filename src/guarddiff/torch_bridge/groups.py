"""Events → groups by root cause, and the place that fixed a dimension."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from guarddiff.core import diff
from guarddiff.core.evidence import Group, StaticDimension
from guarddiff.core.origin import Origin
from guarddiff.torch_bridge import intent, shape_env
from guarddiff.torch_bridge.intent import Leaf
from guarddiff.torch_bridge.origin import captured_name, module_path, node_source
from guarddiff.torch_bridge.record import Event, Recording

_QUESTIONS = {"aten.size.default", "aten.sym_size.int", "aten.sym_size.default", "aten.numel.default"}
"""Operators that only ask for sizes: never the root cause themselves."""


@dataclass
class Placeholder:
    """One user input of the captured program: its leaf of the example inputs and its ONNX input.

    ``onnx`` is None for inputs that are no ONNX inputs (None, Python constants).
    """

    name: str
    value: Any
    leaf: Leaf | None
    onnx: str | None = None
    static: tuple[int | str | None, ...] = ()


def module_paths(model: Any) -> dict[int, str]:
    if not isinstance(model, torch.nn.Module):
        return {}
    return {id(module): path for path, module in model.named_modules()}


def by_root_cause(recording: Recording, namer: shape_env.Namer, paths: dict[int, str]) -> list[Group]:
    """Events of the program's own ShapeEnv, grouped by root cause in the order in which they came."""
    grouped: dict[tuple[Any, ...], list[Event]] = {}
    known = {node.name for node in recording.captured.graph.nodes} if recording.captured is not None else set()
    for event in recording.events:
        if event.env is recording.env:
            if event.moment.chain:
                event.moment.node = captured_name(event.moment.chain, known)
            grouped.setdefault((event.stage, *event.moment.key()), []).append(event)
    groups = []
    for (stage, *_), events in grouped.items():
        origin = _complete(_best(events, paths).moment.origin(paths), recording)
        guards = diff.unique(namer.guard(e.expression, "guard", origin=e.moment.origin(paths)) for e in events)
        groups.append(Group(stage, origin, tuple(guards), _upstream(recording, origin.node)))
    return groups


def _upstream(recording: Recording, name: str | None) -> frozenset[str]:
    """Names of all nodes of the captured graph that the node depends on."""
    nodes = recording.captured.graph.nodes if recording.captured is not None and name is not None else ()
    waiting = [node for node in nodes if node.name == name]
    found: set[str] = set()
    while waiting:
        for argument in waiting.pop().all_input_nodes:
            if argument.name not in found:
                found.add(argument.name)
                waiting.append(argument)
    return frozenset(found)


def _best(events: list[Event], paths: dict[int, str]) -> Event:
    """The event whose place says most: a branch of the model's own code, else the first whose operator is known (a
    check that a layer of torch makes of its input comes before its operator), else the first."""
    branch = next((event for event in events if event.moment.branch), None)
    known = (event for event in events if event.moment.origin(paths).op is not None)
    return branch or next(known, events[0])


def _complete(origin: Origin, recording: Recording) -> Origin:
    """Add what the captured graph knows: at decomposition the user's line of the node, at capture the node."""
    nodes = recording.captured.graph.nodes if recording.captured is not None else ()
    if origin.node is None:
        return _find_node(origin, nodes)
    node = next((n for n in nodes if n.name == origin.node), None)
    if node is None:
        return origin
    path = origin.module_path if origin.module_path is not None else module_path(node.meta)
    source = node_source(node.meta.get("stack_trace")) or origin.source
    return replace(origin, op=origin.op or str(node.target), source=source, module_path=path)


def _find_node(origin: Origin, nodes: Iterable[Any]) -> Origin:
    """The one node of the captured graph that the operator at this source line became; where the operator is not
    known (a composite that runs in C++ below dynamo shows only what it asks), the one operator of that line."""
    if origin.source is None or origin.branch:
        return origin
    here = [
        n
        for n in nodes
        if n.op == "call_function"
        and isinstance(n.meta.get("val"), (torch.Tensor, list, tuple))
        and (line := node_source(n.meta.get("stack_trace"))) is not None
        and (line.file, line.line) == (origin.source.file, origin.source.line)
        and (origin.module_path is None or module_path(n.meta) in (origin.module_path, None))
    ]
    op = None if origin.op is None or origin.op in _QUESTIONS else origin.op
    base = op.split(".")[1] if op and "." in op else op
    named = [n for n in here if base is not None and base in str(n.target)]
    found = named if len(named) == 1 or op else here
    if len(found) != 1:
        return origin
    return replace(origin, node=found[0].name, op=op or str(found[0].target))


def with_origins(
    recording: Recording, statics: Sequence[StaticDimension], placeholders: Sequence[Placeholder], paths: dict[int, str]
) -> list[StaticDimension]:
    """Static dimensions with the stage at which they became so, and the place that asked for the number.

    What torch took as dynamic is read from the shapes that reached the capture: there positions count, and
    negative axes mean nothing. The place is found among the events of attempts that were given up.
    """
    if not statics:
        return []
    applied = _applied(recording)
    extra = tuple(sorted(
        f"{p.onnx}[{axis}]" for p in placeholders if p.leaf and p.onnx
        for axis in applied.get(p.leaf.index, ()) if axis not in p.leaf.declared
    ))  # fmt: skip
    found = []
    for static in statics:
        leaf = next(p.leaf for p in placeholders if p.onnx == static.dim.input)
        taken = leaf is not None and static.dim.axis in applied.get(leaf.index, ())
        if taken and leaf is not None:
            origin = _abandoned(recording, leaf, static, paths)
            found.append(replace(static, origin=_complete(origin, recording)))
        else:
            found.append(replace(static, stage="declare", instead=extra))
    return found


def _applied(recording: Recording) -> dict[int, set[int]]:
    """Leaf index → axes that torch.export was asked to keep dynamic."""
    arguments = intent.bind(recording.model, recording.args, recording.kwargs)
    leaves = intent.leaves_of(arguments)
    intent.declare(leaves, arguments, recording.applied_shapes, literal=True)
    return {leaf.index: set(leaf.declared) for leaf in leaves}


def _abandoned(recording: Recording, leaf: Leaf, static: StaticDimension, paths: dict[int, str]) -> Origin:
    """The place that fixed a dimension in an attempt at capture that was given up: the guard that leaves only its
    size, else the first one that excludes twice its size."""
    loose: Origin | None = None
    for event in recording.events:
        if event.stage != "capture" or event.env is recording.env:
            continue
        sources = shape_env.size_sources(event.env)
        symbols = {symbol for symbol, place in sources.items() if place == (leaf.path, static.dim.axis)}
        if not symbols & event.expression.free_symbols or event.expression.free_symbols - symbols:
            continue
        excluded = _excluded(event, symbols, static.size)
        if len(excluded) == 4 * static.size + 6:
            return event.moment.origin(paths)
        if loose is None and 2 * static.size in excluded:
            loose = event.moment.origin(paths)
    return loose or Origin()


def _excluded(event: Event, symbols: set[Any], size: int) -> set[int]:
    """Sizes up to about four times the example's that a guard excludes."""
    symbol = next(iter(symbols & event.expression.free_symbols))
    tried = [n for n in range(1, 4 * size + 8) if n != size]
    return {n for n in tried if not bool(event.expression.xreplace({symbol: n}))}
