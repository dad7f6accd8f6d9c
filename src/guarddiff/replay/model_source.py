"""Candidates made from the model's own code: from the function that holds the line outwards, last the whole model."""

from __future__ import annotations

import ast
import inspect
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from guarddiff.core.finding import Finding
from guarddiff.replay import declaring, frames, samples
from guarddiff.replay.frames import Frame, Hit, Mark
from guarddiff.replay.prove import Prover
from guarddiff.replay.python_source import Unwritable
from guarddiff.replay.run import undisturbed
from guarddiff.replay.script import Given, Sketch, TensorLeaf, mapped
from guarddiff.replay.slices import Pair, Slicer

_MOST_PLACES = 4


class Model:
    """The user's model, run at both sizes to see what its functions are given."""

    def __init__(self, finding: Finding, prover: Prover) -> None:
        if not isinstance(prover.model, torch.nn.Module) or finding.counterexample is None:
            raise Unwritable("the model is no module with code of its own")
        self._finding = finding
        self._prover = prover
        shapes = dict(finding.counterexample.sizes)
        self.leaves = (prover.example.at(prover.example.shapes), prover.example.at(shapes))
        self._originals: dict[str, torch.nn.Module] = dict(prover.eager.copied().named_modules())
        self._paths: dict[int, str] = {}
        self._kept: list[Any] = []
        self._executed: frames.Executed = {}
        self.name = declaring.namer(finding, prover)

    def original(self, value: Any) -> Any:
        """The untouched copy of a module that was run; other objects as they are."""
        return self._originals.get(self._paths.get(id(value), "?"), value)

    def sketches(self, style: declaring.Style) -> Iterator[Sketch]:
        """Sketches of the functions that run when the marked line is reached, innermost first."""
        pairs = self._pairs()
        problems: list[str] = []
        for level in _levels(pairs):
            for pair, scope in level:
                try:
                    declare = partial(self._declared, style)
                    slicer = Slicer(pair, self.original, declare, scope, self._executed)
                    yield from slicer.sketches()
                except Unwritable as error:
                    problems.append(str(error))
        if problems:
            raise Unwritable(problems[0])

    def _declared(self, style: declaring.Style, pair: tuple[int, int]) -> str:
        return style(self.name(pair))

    def whole(self, declaration: str) -> Iterator[Sketch]:
        """The whole model with the user's own declaration. Raises Unwritable."""
        given = self.given()
        pair = self._outermost()
        sketch = Slicer(pair, self.original, lambda _: "None", "model", self._executed).whole()
        yield replace(sketch, given=_ordered(sketch, given), declaration=declaration, scope="model")

    def bare(self, declaration: str) -> Iterator[Sketch]:
        """A module that takes the model's inputs and gives them back, with the user's own declaration: for faults that
        lie in the declaration alone. Raises Unwritable."""
        given = self.given()
        names = [g.name for g in given]
        leaves = [f"{g.name}.clone()" for g in given if isinstance(g.value, TensorLeaf)]
        if len(leaves) != len(given):
            leaves = [f"*[t.clone() for t in tensors([{', '.join(names)}])]"]
        result = leaves[0] if len(leaves) == 1 and not leaves[0].startswith("*") else f"({', '.join(leaves)},)"
        text = f"class Model(torch.nn.Module):\n    def forward(self, {', '.join(names)}):\n        return {result}"
        yield Sketch(ast.parse(text), {}, tuple(given), "statement", declaration=declaration)

    def given(self) -> list[Given]:
        """The model's arguments at both sizes. Raises Unwritable."""
        example = self._prover.example
        (args, kwargs), (other_args, other_kwargs) = (example.call(leaves) for leaves in self.leaves)
        names = _parameters(self._prover.model)
        found = [
            Given(names[index] if index < len(names) else f"arg{index}", _nested(one, two))
            for index, (one, two) in enumerate(zip(args, other_args))
        ]
        return found + [Given(name, _nested(kwargs[name], other_kwargs[name]), True) for name in kwargs]

    def _run(self, which: int, mark: Mark | None) -> list[Hit]:
        module = self._prover.eager.copied()
        self._kept.append(module)
        self._paths.update((id(part), path) for path, part in module.named_modules())
        leaves = [x.clone() if isinstance(x, torch.Tensor) else x for x in self.leaves[which]]
        args, kwargs = self._prover.example.call(leaves)
        with undisturbed(0):
            return frames.watch(lambda: module(*args, **kwargs), mark, self._executed)

    def _pairs(self) -> list[list[Pair]]:
        """For each time the line was reached in both runs: the calls, outermost first."""
        source = self._finding.origin.source
        if source is None:
            return [[self._outermost()]]
        mark = Mark(os.path.basename(source.file), source.line, source.text)
        ones, twos = (self._at_path(self._run(which, mark)) for which in (0, 1))
        found: list[list[Pair]] = []
        seen: set[str] = set()
        for one, two in zip(ones, twos):
            if [f.code for f, _ in one] != [f.code for f, _ in two]:
                continue
            pairs = [Pair(a, b, line) for (a, line), (b, _) in zip(one, two)]
            key = repr([(p.one.code.co_name, _shapes(p.one), _shapes(p.two)) for p in pairs])
            if key not in seen:
                seen.add(key)
                found.append(pairs)
        if not found:
            raise Unwritable("the line is not reached at both sizes")
        return found[:_MOST_PLACES]

    def _at_path(self, hits: Sequence[Hit]) -> list[Hit]:
        """The times that it was reached in the module that the finding names; all, where none was."""
        path = self._finding.origin.module_path
        own = [
            hit for hit in hits if path is not None and any(self._paths.get(id(f.owner), "?") == path for f, _ in hit)
        ]
        return own or list(hits)

    def _outermost(self) -> Pair:
        ones, twos = (self._run(which, None) for which in (0, 1))
        if not ones or not twos:
            raise Unwritable("the model has no code of its own")
        (one, _), (two, _) = ones[0][0], twos[0][0]
        return Pair(one, two, one.code.co_firstlineno)


def _levels(pairs: Sequence[Sequence[Pair]]) -> Iterator[list[tuple[Pair, str]]]:
    """The innermost functions of all places, then those that called them, and so on."""
    named = [[pair for pair in row if not pair.one.code.co_name.startswith("<")] for row in pairs]
    for depth in range(max((len(row) for row in named), default=0)):
        level = []
        for row in named:
            if depth < len(row):
                pair = row[-1 - depth]
                level.append((pair, "model" if depth == len(row) - 1 else _scope(pair)))
        yield level


def _scope(pair: Pair) -> str:
    return "module" if pair.one.code.co_name == "forward" else "statement"


def _shapes(frame: Frame) -> list[Any]:
    return [getattr(value, "shape", None) for value in frame.arguments.values()]


def _parameters(model: Any) -> list[str]:
    try:
        return list(inspect.signature(model.forward).parameters)
    except (TypeError, ValueError):
        return []


def _nested(one: Any, two: Any) -> Any:
    if isinstance(one, torch.Tensor) and isinstance(two, torch.Tensor):
        return samples.like(one, two)
    if type(one) in (list, tuple):
        return type(one)(_nested(a, b) for a, b in zip(one, two))
    if type(one) is dict:
        return {key: _nested(part, two[key]) for key, part in one.items()}
    if one is None or isinstance(one, (bool, int, float, str)):
        return repr(one)
    raise Unwritable(f"an input of type {type(one).__name__} can't be written")


def _ordered(sketch: Sketch, given: Sequence[Given]) -> tuple[Given, ...]:
    """The model's arguments; ``forward`` must take them all, in its own order."""
    forward = next(
        part
        for node in sketch.definitions.body
        if isinstance(node, ast.ClassDef) and node.name == "Model"
        for part in node.body
        if isinstance(part, ast.FunctionDef) and part.name == "forward"
    )
    forward.args.args = [ast.arg(name) for name in ("self", *(g.name for g in given))]
    return tuple(Given(g.name, mapped(g.value, lambda leaf: leaf), g.keyword) for g in given)
