"""Parts of the user's functions around a marked line, each as a sketch of a script."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from guarddiff.replay import python_source, samples
from guarddiff.replay.frames import Frame, Seen
from guarddiff.replay.module_source import Parts
from guarddiff.replay.python_source import Unwritable
from guarddiff.replay.script import Given, Sketch, TensorLeaf

Declare = Callable[[tuple[int, int]], str]
"""(size in the example, size in the other inputs) → Python text that declares such a dimension."""


class Varying(Exception):
    """A variable that is no tensor differs between the two runs, so it can't be an input; ``name`` is the variable."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} differs between the sizes and is no tensor")
        self.name = name


@dataclass(frozen=True)
class Pair:
    """The same call in the run on the example and in the run at the other sizes; ``line`` is where it was."""

    one: Frame
    two: Frame
    line: int

    @property
    def owner(self) -> Any:
        return self.one.owner


class Slicer:
    """Makes sketches of one function. ``original`` gives the untouched module for one that was run."""

    def __init__(self, pair: Pair, original: Callable[[Any], Any], declare: Declare, scope: str) -> None:
        self._pair = pair
        self._original = original
        self._declare = declare
        self._scope = scope
        self._tree = python_source.function_tree(pair.one.code)
        self._body = self._tree.body

    def sketches(self) -> Iterator[Sketch]:
        """Sketches that hold the marked statement, the shortest first.

        What stands before it becomes an input where it can, what stands after it is left out. Raises Unwritable where
        the function can't be written at all.
        """
        mark = self._marked()
        last = len(self._body) - 1
        ends = [end for end in range(mark, last + 1) if end == last or self._results(end)]
        first_error: Exception | None = None
        for end in [*ends[:3], *ends[-1:]] if len(ends) > 4 else ends:
            try:
                yield self._from(mark, end)
            except (Unwritable, Varying) as error:
                first_error = first_error or error
        if first_error is not None:
            raise Unwritable(str(first_error))

    def whole(self) -> Sketch:
        """The whole function."""
        return self._sketch(0, len(self._body) - 1)

    def _marked(self) -> int:
        line = self._pair.line
        for index, statement in enumerate(self._body):
            if statement.lineno <= line <= (statement.end_lineno or statement.lineno):
                return index
        return len(self._body) - 1

    def _from(self, start: int, end: int) -> Sketch:
        """The statements up to ``end``, begun at ``start`` or as far before it as it takes."""
        while True:
            try:
                return self._sketch(start, end)
            except Varying as error:
                earlier = [i for i in range(start) if error.name in python_source.stored(self._body[i])]
                if not earlier:
                    raise
                start = earlier[-1]

    def _sketch(self, start: int, end: int) -> Sketch:
        statements = self._body[start : end + 1]
        one, two = self._at(self._pair.one, start), self._at(self._pair.two, start)
        given: list[Given] = []
        constants: list[ast.stmt] = []
        held: dict[str, Any] = {}
        changed = {name for statement in statements for name in python_source.stored(statement)}
        parts = Parts()
        has_self = False
        for name in _needed(statements, set(one)):
            if name == "self" and isinstance(self._pair.owner, torch.nn.Module):
                has_self = True
                continue
            value = self._given(name, one[name], two.get(name))
            if value is not None:
                given.append(Given(name, value))
            elif name in changed or isinstance(one[name], (list, dict, set)):
                constants.append(_assign(name, parts.names.value(self._as_it_was(one[name]))))
            else:
                held[name] = self._as_it_was(one[name])
        if not given:
            raise Unwritable("it takes no tensor")
        marked = statements if self._scope != "model" else []
        body = [*constants, *copy.deepcopy(statements)]
        for index, statement in enumerate(marked):
            if statement.lineno <= self._pair.line <= (statement.end_lineno or statement.lineno):
                python_source.mark(body[len(constants) + index])
        if not isinstance(statements[-1], ast.Return):
            results = self._results(end)
            if not results:
                raise Unwritable("it gives no tensor")
            body.append(_returned(results))
        whole = start == 0 and end == len(self._body) - 1
        return self._made(body, given, parts, has_self, whole, held)

    def _made(
        self,
        body: list[ast.stmt],
        given: list[Given],
        parts: Parts,
        has_self: bool,
        whole: bool,
        held: Mapping[str, Any],
    ) -> Sketch:
        names = ["self", *(g.name for g in given)]
        forward = ast.FunctionDef("forward", _parameters(names), body, [])
        ast.fix_missing_locations(forward)
        owner = self._original(self._pair.owner) if has_self else None
        space = {"globals": self._pair.one.globals, "free": {**self._pair.one.free(), **held}}
        parts.model(forward, owner, space)
        training = isinstance(owner, torch.nn.Module) and owner.training
        leaves = [leaf for g in given for leaf in _flat(g.value)]
        half = any("float16" in leaf.make and "bfloat16" not in leaf.make for leaf in leaves)
        scope = self._scope if whole else "statement"
        return Sketch(parts.definitions(), parts.names.imports, tuple(given), scope, training=training, half=half)

    def _as_it_was(self, value: Any) -> Any:
        return self._original(value) if isinstance(value, torch.nn.Module) else value

    def _given(self, name: str, one: Any, two: Any) -> Any:
        """The variable as an input; None where it is a constant. Raises Varying."""
        if isinstance(one, Seen) and isinstance(two, Seen):
            if len(one.shape) != len(two.shape):
                raise Varying(name)
            return _leaf(one, two, self._declare)
        if type(one) in (list, tuple, dict) and type(one) is type(two) and any(True for _ in _flat_seen(one)):
            if len(one) != len(two):
                raise Varying(name)
            if isinstance(one, dict):
                return {key: self._part(name, one[key], two.get(key)) for key in one}
            return type(one)(self._part(name, a, b) for a, b in zip(one, two))
        if isinstance(one, Seen) or isinstance(two, Seen) or not _same(one, two):
            raise Varying(name)
        return None

    def _part(self, name: str, one: Any, two: Any) -> Any:
        found = self._given(name, one, two)
        if found is None and one is not None:
            raise Unwritable(f"{name} holds something that is no tensor")
        return found

    def _at(self, frame: Frame, index: int) -> dict[str, Any]:
        """The variables before a statement was run for the first time. Raises Unwritable where it never was."""
        if index == 0:
            return frame.arguments
        statement = self._body[index]
        span = range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
        line = next((line for line in frame.order if line in span), None)
        if line is None:
            raise Unwritable(f"line {statement.lineno} is not reached at both sizes")
        return frame.lines[line]

    def _results(self, end: int) -> list[str]:
        """Tensors that the statement gives names to; what a ``return`` gives is told by ``result``."""
        statement = self._body[end]
        if isinstance(statement, ast.Return):
            return ["return"]
        if any(isinstance(part, ast.Return) for part in ast.walk(statement)):
            return []
        try:
            before, after = self._at(self._pair.one, end), self._at(self._pair.one, end + 1)
        except (Unwritable, IndexError):
            return []
        later = {name for part in self._body[end + 1 :] for name in python_source.loaded(part)}
        writes = python_source.stored(statement)
        return [
            name
            for name in dict.fromkeys(_in_order(statement))
            if name in later
            and any(True for _ in _flat_seen(after.get(name)))
            and (name in writes or not isinstance(before.get(name), Seen))
        ]


def _leaf(one: Seen, two: Seen, declare: Declare) -> TensorLeaf:
    if one.tensor is not None and two.tensor is not None:
        make = samples.recipe(one.tensor, two.tensor)
    else:
        make = samples.of_dtype(one.dtype)
    axes = {axis: declare(pair) for axis, pair in enumerate(zip(one.shape, two.shape)) if pair[0] != pair[1]}
    return TensorLeaf(make, (one.shape, two.shape), axes)


def _flat(value: Any) -> Iterator[TensorLeaf]:
    if isinstance(value, TensorLeaf):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _flat(part)
    elif isinstance(value, dict):
        yield from _flat(list(value.values()))


def _flat_seen(value: Any) -> Iterator[Seen]:
    if isinstance(value, Seen):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _flat_seen(part)
    elif isinstance(value, dict):
        yield from _flat_seen(list(value.values()))


def _same(one: Any, two: Any) -> bool:
    """Whether a variable held the same in both runs; objects that compare by identity count by their type."""
    if one is two:
        return True
    if type(one) is not type(two):
        return False
    if isinstance(one, (list, tuple)):
        return len(one) == len(two) and all(map(_same, one, two))
    if isinstance(one, torch.Tensor):
        return bool(one.shape == two.shape)
    plain = isinstance(one, (int, float, str, bool, dict, set, range, slice, torch.dtype, torch.device))
    try:
        return bool(one == two) if plain else True
    except Exception:
        return False


def _needed(statements: list[ast.stmt], known: set[str]) -> list[str]:
    """Variables that the statements read before they are sure to have set them."""
    needed: list[str] = []
    defined: set[str] = set()
    for statement in statements:
        reads = python_source.loaded(statement)
        writes = python_source.stored(statement)
        simple = isinstance(statement, (ast.Assign, ast.AugAssign, ast.Expr, ast.Return))
        for name in _in_order(statement):
            if name in known and name not in defined and (name in reads or (not simple and name in writes)):
                needed.append(name)
        defined |= writes
    return list(dict.fromkeys(needed))


def _in_order(node: ast.AST) -> list[str]:
    return [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]


def _assign(name: str, value: ast.expr) -> ast.stmt:
    return ast.fix_missing_locations(ast.Assign([ast.Name(name, ast.Store())], value))


def _returned(names: list[str]) -> ast.stmt:
    loads: list[ast.expr] = [ast.Name(name, ast.Load()) for name in names]
    return ast.fix_missing_locations(ast.Return(loads[0] if len(loads) == 1 else ast.Tuple(loads, ast.Load())))


def _parameters(names: list[str]) -> ast.arguments:
    return ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])
