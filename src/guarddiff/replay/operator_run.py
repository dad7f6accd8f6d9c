"""Run one operator by itself, in eager PyTorch and in ONNX Runtime."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any

import torch

from guarddiff.core.forked import step
from guarddiff.core.log import say
from guarddiff.replay import isolate, onnx_cut
from guarddiff.replay.inputs import Example
from guarddiff.replay.run import Eager, Outcome, Pair, Session, Unavailable
from guarddiff.replay.sizes import Point
from guarddiff.replay.tools import Tools

_UNBACKED = re.compile(r"\bu\d+\b")


class OperatorRun:
    """One operator by itself: the ONNX nodes that it became, or exported alone with the same symbols.

    ``how`` says which, for the reason. ``take_nodes`` or ``export`` comes before ``attempt``.
    """

    how = ""

    def __init__(self, cut: isolate.Cut, tools: Tools, example: Example, sizes: Mapping[str, int]) -> None:
        self.cut = cut
        self._tools = tools
        self._sizes = dict(sizes)
        named = {n: leaf for n, leaf in zip(example.names, example.leaves) if n and isinstance(leaf, torch.Tensor)}
        self._leaves = tuple(_starting(spec, self._sizes, named) for spec in cut.inputs)

    def take_nodes(self) -> bool:
        """Take its nodes out of the ONNX model; whether they agree with eager PyTorch at the example's sizes."""
        if self._tools.program is None or self._tools.programs is None:
            return False
        try:
            values = self._tools.programs.exits(self._tools.program.exported_program)
            piece = onnx_cut.piece(self._tools.program, self.cut, values)
            self.how = " (the nodes that it became)"
            return self._agrees(piece)
        except (isolate.NotIsolable, Unavailable):
            return False
        except Exception as error:
            say(logging.DEBUG, f"the ONNX nodes of {self.cut.op} could not be taken out", error)
            return False

    def export(self) -> bool:
        """Export it alone; whether the result agrees with eager PyTorch at the example's sizes."""
        shapes = tuple(
            {axis: torch.export.Dim.AUTO for axis, size in enumerate(spec.shape) if isinstance(size, str)}
            for spec in self.cut.inputs
        )
        self.how = ""
        with step():
            program = self._tools.export_operator(self.cut.module, self._leaves, shapes)
        return self._agrees(program)

    def _agrees(self, program: Any) -> bool:
        found = [value.name for value in program.model.graph.inputs]
        names = tuple(found) if len(found) == len(self._leaves) else tuple(f"in_{i}" for i in range(len(self._leaves)))
        example = Example(self._leaves, names, None, lambda values, _: (tuple(values), {}))
        steady = not any(isinstance(size, str) and _UNBACKED.search(size) for size in self.cut.results)
        self._names = names
        self._pair = Pair(Eager(self.cut.module, self._tools.flatten), lambda: Session(program), example, steady)
        return self.attempt(self._sizes).state == "agrees"

    def shapes(self, point: Point) -> tuple[tuple[int, ...], ...]:
        """Shapes of its own inputs."""
        return tuple(spec.at(point) for spec in self.cut.inputs)

    def attempt(self, point: Point) -> Outcome:
        return self._pair.attempt(dict(zip(self._names, self.shapes(point))))


def _starting(spec: isolate.CutInput, point: Point, named: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """The operator's example input: the model's own where it is one, random values otherwise."""
    own = named.get(spec.source or "")
    if own is not None and tuple(own.shape) == spec.at(point):
        return own.detach()
    generator = torch.Generator().manual_seed(0)
    shape = spec.at(point)
    if spec.dtype.is_floating_point or spec.dtype.is_complex:
        return torch.randn(shape, generator=generator, dtype=torch.float32).to(spec.dtype)
    return torch.randint(0, 2, shape, generator=generator).to(spec.dtype)
