"""Parts of the user's functions around a marked line, each as a sketch of a script."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from guarddiff.replay import python_source, samples
from guarddiff.replay.frames import Executed, Frame, Seen
from guarddiff.replay.module_source import Parts
from guarddiff.replay.python_source import Unwritable
from guarddiff.replay.script import Given, Sketch, TensorLeaf

Declare = Callable[[tuple[int, int]], str]
"""(size in the example, size in the other inputs) → Python text that declares such a dimension."""


class Varying(Exception):
    """A variable that is no tensor differs between the two runs, so it can't be an input.

    ``name`` is the variable, ``index`` the statement that reads it.
    """

    def __init__(self, name: str, index: int = 0) -> None:
        super().__init__(f"{name} differs between the sizes and is no tensor")
        self.name = name
        self.index = index


class _Rebound(Unwritable):
    """A variable is one thing where it is first needed and another one later."""


@dataclass
class _Taken:
    """What the statements of a slice need: inputs, constants to set first, constants to write in place; ``spans`` are
    the first and the last statement that read a variable from outside."""

    parts: Parts
    given: list[Given] = field(default_factory=list)
    constants: list[ast.stmt] = field(default_factory=list)
    held: dict[str, Any] = field(default_factory=dict)
    spans: dict[str, tuple[int, int]] = field(default_factory=dict)
    has_self: bool = False


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

    def __init__(
        self,
        pair: Pair,
        original: Callable[[Any], Any],
        declare: Declare,
        scope: str,
        executed: Executed | None = None,
    ) -> None:
        self._pair = pair
        self._original = original
        self._declare = declare
        self._scope = scope
        self._executed = executed if executed is not None else {}
        tree = python_source.function_tree(pair.one.code)
        lines = self._executed.get(pair.one.code.co_filename, set())
        self._body = python_source.only_executed(tree, lines).body

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
        return self._sketch(range(len(self._body)))

    def _marked(self) -> int:
        line = self._pair.line
        for index, statement in enumerate(self._body):
            if statement.lineno <= line <= (statement.end_lineno or statement.lineno):
                return index
        return len(self._body) - 1

    def _from(self, mark: int, end: int) -> Sketch:
        """The statements from the marked one to ``end``, with those before it that give a value to a variable which is
        no tensor and differs between the sizes; where that can't be, all statements from there on."""
        chosen = set(range(mark, end + 1))
        while True:
            try:
                return self._sketch(sorted(chosen))
            except Varying as error:
                earlier = [i for i in range(end) if error.name in python_source.stored(self._body[i])]
                earlier = [i for i in earlier if i < error.index and i not in chosen]
                if not earlier:
                    raise
                chosen.add(earlier[-1])
            except _Rebound:
                whole = set(range(min(chosen), end + 1))
                if whole == chosen:
                    raise
                chosen = whole

    def _sketch(self, chosen: Sequence[int]) -> Sketch:
        """These statements as ``forward``. Raises Varying and Unwritable."""
        statements = [self._body[index] for index in chosen]
        changed = {name for statement in statements for name in python_source.stored(statement)}
        taken = _Taken(Parts(self._executed))
        defined: set[str] = set()
        for index, statement in zip(chosen, statements):
            one, two = self._known(self._pair.one, index), self._known(self._pair.two, index)
            for name in _needed([statement], set(one) | set(two)):
                if name not in defined:
                    if name not in one or name not in two:
                        raise Unwritable(f"line {statement.lineno} is not reached at both sizes")
                    self._take(taken, name, one[name], two[name], index, name in changed)
            defined |= python_source.stored(statement)
        for name, (first, last) in taken.spans.items():
            if any(name in python_source.stored(self._body[i]) for i in range(first, last) if i not in chosen):
                raise _Rebound(f"{name} is given another value in between")
        if not taken.given:
            raise Unwritable("it takes no tensor")
        body = [*taken.constants, *copy.deepcopy(statements)]
        python_source.mark_line(body[len(taken.constants) :], self._pair.line)
        if not isinstance(statements[-1], ast.Return):
            results = self._results(chosen[-1])
            if not results:
                raise Unwritable("it gives no tensor")
            body.append(_returned(results))
        return self._made(body, taken, len(chosen) == len(self._body))

    def _take(self, taken: _Taken, name: str, one: Any, two: Any, index: int, changed: bool) -> None:
        """Make a variable available to the statement at ``index``: an input, a constant, or ``self``."""
        if name in taken.spans:
            taken.spans[name] = (taken.spans[name][0], index)
            return
        taken.spans[name] = (index, index)
        if name == "self" and isinstance(self._pair.owner, torch.nn.Module):
            taken.has_self = True
            return
        try:
            value = self._given(name, one, two)
        except Varying:
            raise Varying(name, index) from None
        if value is not None:
            taken.given.append(Given(name, value))
        elif changed or isinstance(one, (list, dict, set)):
            taken.constants.append(_assign(name, taken.parts.names.value(self._as_it_was(one))))
        else:
            taken.held[name] = self._as_it_was(one)

    def _made(self, body: list[ast.stmt], taken: _Taken, whole: bool) -> Sketch:
        parts, given = taken.parts, taken.given
        forward = ast.FunctionDef("forward", _parameters(["self", *(g.name for g in given)]), body, [])
        ast.fix_missing_locations(forward)
        owner = self._original(self._pair.owner) if taken.has_self else None
        space = {"globals": self._pair.one.globals, "free": {**self._pair.one.free(), **taken.held}}
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

    def _known(self, frame: Frame, index: int) -> dict[str, Any]:
        """As ``_at``; before a statement that was never run, the arguments that nothing has changed."""
        try:
            return self._at(frame, index)
        except Unwritable:
            stored = {name for part in self._body[:index] for name in python_source.stored(part)}
            return {name: value for name, value in frame.arguments.items() if name not in stored}

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
