"""At which stage a fault arises that leaves no guard: run each stage's program at the same sizes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch

from guarddiff.core.log import say
from guarddiff.core.stage import Stage
from guarddiff.replay import compare
from guarddiff.replay.compare import Result
from guarddiff.replay.inputs import Example
from guarddiff.replay.run import Eager, Pair, Session, undisturbed


def first_wrong_stage(
    expected: Sequence[Result],
    example: Example,
    leaves: Sequence[Any],
    captured: Any,
    decomposed: Any,
    unoptimized: Callable[[], Any],
    eager: Eager,
) -> Stage:
    """The first stage whose program differs from ``expected`` (eager's results) or raises at these inputs.

    The last one is ``optimize``; a rung that can't be run is passed over, so that ``translate`` is said where
    only it or the optimizer is left and the unoptimized program could not be made.
    """
    rungs: tuple[tuple[Stage, Any], ...] = (("capture", captured), ("decompose", decomposed))
    for stage, program in rungs:
        if program is None:
            continue
        got = _run_graph(program, example, leaves)
        if got is not None and compare.difference(list(expected), got) is not None:
            return stage
    try:
        pair = Pair(eager, lambda: Session(unoptimized()), example)
        outcome = pair.attempt({n: tuple(x.shape) for n, x in zip(example.names, leaves) if n and hasattr(x, "shape")})
    except Exception as error:
        say(logging.DEBUG, "the program without optimization could not be run", error)
        return "translate"
    return "optimize" if outcome.state == "agrees" else "translate"


def _run_graph(program: Any, example: Example, leaves: Sequence[Any]) -> list[Any] | None:
    """Outputs of a program's graph at these inputs; an empty list where it raises, None where it can't be called."""
    signature = program.graph_signature
    by_input = {name: leaf for name, leaf in zip(example.names, leaves) if name is not None}
    weights = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    constants = signature.inputs_to_lifted_tensor_constants
    users = iter(by_input.values())
    values = []
    try:
        for spec in signature.input_specs:
            name = getattr(spec.arg, "name", None)
            if spec.kind.name == "USER_INPUT":
                values.append(spec.arg.value if type(spec.arg).__name__ == "ConstantArgument" else next(users))
            elif name in weights:
                tensor = program.state_dict.get(weights[name], program.constants.get(weights[name]))
                values.append(tensor.clone() if spec.kind.name == "BUFFER" else tensor)
            else:
                values.append(program.constants[constants[name]])
    except (StopIteration, KeyError, AttributeError):
        return None
    try:
        with undisturbed(0):
            outputs = program.graph_module(*values)
    except Exception:
        return []
    wanted = [
        value
        for spec, value in zip(signature.output_specs, outputs)
        if spec.kind.name == "USER_OUTPUT" and type(spec.arg).__name__ != "ConstantArgument"
    ]
    return [r.array for r in compare.results([v for v in wanted if isinstance(v, (torch.Tensor, int, float))])]
