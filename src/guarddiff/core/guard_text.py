"""Guard text over dimension names: parsed once from Python text, evaluated for many sizes at once.

The text is never executed: it is parsed to a syntax tree, and only the nodes and functions listed here are
admitted.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from functools import lru_cache, reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from guarddiff.core.cells import (
    BINARY,
    COMPARE,
    YES,
    Cell,
    all_of,
    any_of,
    as_integer,
    bounded,
    choose,
    compare,
    elementwise,
    function,
    negation,
    negative,
)

MAX_LENGTH = 20_000
MAX_DEPTH = 150

_Array = NDArray[Any]


class GuardTextError(ValueError):
    """The text is no guard of the admitted grammar; the message names the offending part."""


_Run = Callable[[Mapping[str, Cell]], Cell]


class _Node(NamedTuple):
    kind: str  # "b", "i" or "f", as numpy's dtype.kind
    run: _Run
    constant: Any = None  # the number, where the node is one


_MATH_CONSTANTS = {"inf": math.inf, "pi": math.pi, "e": math.e}
_UNARY_MATH = (
    *("sqrt", "log", "log2", "log10", "exp"),
    *("sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan"),
)
_PLAIN = frozenset({"abs", "min", "max", "int", "float", "bool", "round"})
_MATH = frozenset({"trunc", "floor", "ceil", "pow", *_UNARY_MATH})
_TORCH = {f"sym_{name}": name for name in ("int", "float", "min", "max", "not", "ite")} | {
    f"_sym_{name}": name for name in _UNARY_MATH
}


class _Compiler:
    """Turns an admitted syntax tree into one function over cells, and collects its variables."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.variables: set[str] = set()
        self.constants: set[int] = set()
        self.depth = 0

    def refuse(self, node: ast.AST, why: str) -> GuardTextError:
        part = ast.get_source_segment(self.text, node) or type(node).__name__
        return GuardTextError(f"{why}: {part if len(part) <= 60 else part[:57] + '...'}")

    def node(self, node: ast.AST) -> _Node:
        method = getattr(self, f"on_{type(node).__name__}", None)
        if method is None:
            raise self.refuse(node, f"{type(node).__name__} is not part of a guard")
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise GuardTextError(f"guard text is nested more than {MAX_DEPTH} levels deep")
        done: _Node = method(node)
        self.depth -= 1
        return done

    def on_Constant(self, node: ast.Constant) -> _Node:
        number = node.value
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            if not isinstance(number, bool):
                raise self.refuse(node, "only numbers are constants of a guard")
            return self.number(number, "b", Cell(np.asarray(number), YES))
        if isinstance(number, float):
            return self.number(number, "f", Cell(np.asarray(number), YES))
        self.constants.add(number)
        if number > np.iinfo(np.int64).max:
            return self.number(number, "i", Cell(np.asarray(0, np.int64), np.asarray(False), 0))
        return self.number(number, "i", Cell(np.asarray(number, np.int64), YES, number))

    @staticmethod
    def number(number: Any, kind: str, cell: Cell) -> _Node:
        return _Node(kind, lambda points: cell, number)

    def variable(self, name: str) -> _Node:
        self.variables.add(name)
        return _Node("i", lambda points: points[name])

    def on_Name(self, node: ast.Name) -> _Node:
        return self.variable(node.id)

    def on_Subscript(self, node: ast.Subscript) -> _Node:
        index: ast.AST = node.slice
        sign = ""
        if isinstance(index, ast.UnaryOp) and isinstance(index.op, ast.USub):
            sign, index = "-", index.operand
        if not isinstance(node.value, ast.Name) or not isinstance(index, ast.Constant):
            raise self.refuse(node, "a subscript must be a name with a fixed axis")
        if type(index.value) is not int:
            raise self.refuse(node, "an axis must be an integer")
        return self.variable(f"{node.value.id}[{sign}{index.value}]")

    def on_Attribute(self, node: ast.Attribute) -> _Node:
        if isinstance(node.value, ast.Name) and node.value.id == "math" and node.attr in _MATH_CONSTANTS:
            number = _MATH_CONSTANTS[node.attr]
            return self.number(number, "f", Cell(np.asarray(number), YES))
        raise self.refuse(node, "attributes are not part of a guard")

    def on_UnaryOp(self, node: ast.UnaryOp) -> _Node:
        inner = self.node(node.operand)
        kind = "f" if inner.kind == "f" else "i"
        if isinstance(node.op, ast.Not):
            return _Node("b", lambda points: negation(inner.run(points)))
        if isinstance(node.op, ast.USub):
            constant = None if inner.constant is None else -inner.constant
            return _Node(kind, lambda points: negative(inner.run(points)), constant)
        if isinstance(node.op, ast.UAdd):
            return _Node(kind, lambda points: as_integer(inner.run(points)), inner.constant)
        raise self.refuse(node, "this operator is not part of a guard")

    def on_BinOp(self, node: ast.BinOp) -> _Node:
        left, right = self.node(node.left), self.node(node.right)
        if isinstance(node.op, (ast.BitAnd, ast.BitOr)):
            return self.bits(node, left, right)
        operation = BINARY.get(type(node.op))
        if operation is None:
            raise self.refuse(node, "this operator is not part of a guard")
        floating = "f" in (left.kind, right.kind) or isinstance(node.op, ast.Div)
        if isinstance(node.op, (ast.LShift, ast.RShift)) and floating:
            raise self.refuse(node, "floats can't be shifted")
        if isinstance(node.op, ast.Pow) and not floating and (right.constant or 0) < 0:
            floating, operation = True, elementwise(lambda x, y: x**y)
        chosen = operation
        return _Node("f" if floating else "i", lambda points: chosen(left.run(points), right.run(points)))

    def bits(self, node: ast.BinOp, left: _Node, right: _Node) -> _Node:
        conjunction = isinstance(node.op, ast.BitAnd)
        if left.kind == right.kind == "b":
            both = all_of if conjunction else any_of
            return _Node("b", lambda points: both(left.run(points), right.run(points)))
        if "f" in (left.kind, right.kind):
            raise self.refuse(node, "floats have no bits")
        operation = np.bitwise_and if conjunction else np.bitwise_or

        def run(points: Mapping[str, Cell]) -> Cell:
            a, b = as_integer(left.run(points)), as_integer(right.run(points))
            return bounded(np.asarray(operation(a.value, b.value)), a.valid & b.valid)

        return _Node("i", run)

    def on_BoolOp(self, node: ast.BoolOp) -> _Node:
        parts = [self.node(value) for value in node.values]
        for part, value in zip(parts, node.values, strict=True):
            if part.kind != "b":
                raise self.refuse(value, "'and' and 'or' join conditions only")
        join = all_of if isinstance(node.op, ast.And) else any_of
        return _Node("b", lambda points: reduce(join, (part.run(points) for part in parts)))

    def on_Compare(self, node: ast.Compare) -> _Node:
        parts = [self.node(value) for value in (node.left, *node.comparators)]
        if any(type(op) not in COMPARE for op in node.ops):
            raise self.refuse(node, "this comparison is not part of a guard")
        operations = [COMPARE[type(op)] for op in node.ops]

        def run(points: Mapping[str, Cell]) -> Cell:
            cells = [part.run(points) for part in parts]
            return reduce(all_of, map(compare, operations, cells, cells[1:]))

        return _Node("b", run)

    def on_IfExp(self, node: ast.IfExp) -> _Node:
        return self.choice(*(self.node(part) for part in (node.test, node.body, node.orelse)))

    @staticmethod
    def choice(test: _Node, yes: _Node, no: _Node) -> _Node:
        kind = yes.kind if yes.kind == no.kind else "f" if "f" in (yes.kind, no.kind) else "i"
        return _Node(kind, lambda points: choose(test.run(points), yes.run(points), no.run(points)))

    def on_Call(self, node: ast.Call) -> _Node:
        name = self.function(node.func)
        if name == "round" and (len(node.args) == 2 or node.keywords):
            return self.round_decimal(node)
        if node.keywords:
            raise self.refuse(node, "functions of a guard take no such keywords")
        arguments = [self.node(argument) for argument in node.args]
        least, most = {"min": (2, 99), "max": (2, 99), "pow": (2, 2), "ite": (3, 3)}.get(name, (1, 1))
        if not least <= len(arguments) <= most:
            raise self.refuse(node, "wrong number of arguments")
        if name == "ite":
            return self.choice(*arguments)
        kind, operation = function(name, "f" if any(part.kind == "f" for part in arguments) else "i")
        return _Node(kind, lambda points: operation(*(part.run(points) for part in arguments)))

    def function(self, node: ast.AST) -> str:
        if isinstance(node, ast.Name) and node.id in _PLAIN:
            return node.id
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == "math" and node.attr in _MATH:
                return node.attr
            if node.value.id == "torch" and node.attr in _TORCH:
                return _TORCH[node.attr]
        raise self.refuse(node, "this function is not part of a guard")

    def round_decimal(self, node: ast.Call) -> _Node:
        given = [*node.args[1:], *(word.value for word in node.keywords if word.arg == "ndigits")]
        digits = self.node(given[0]).constant if len(given) == 1 and len(node.args) >= 1 else None
        if type(digits) is not int or not 0 <= digits <= 300 or len(node.args) + len(node.keywords) != 2:
            raise self.refuse(node, "round takes a fixed number of digits")
        number = self.node(node.args[0])
        if number.kind != "f":
            return _Node("i", lambda points: as_integer(number.run(points)))
        operation = elementwise(lambda x: round(x, digits))
        return _Node("f", lambda points: operation(number.run(points)))


# --- the public part ------------------------------------------------------------------------------------


class Expression:
    """A parsed guard or size expression. Make one with ``parse``.

    ``variables`` are canonical names, ``h`` or ``x[2]``; ``constants`` the integers written in the text.
    """

    __slots__ = ("text", "variables", "constants", "kind", "_run")

    def __init__(self, text: str, variables: frozenset[str], constants: frozenset[int], node: _Node) -> None:
        self.text = text
        self.variables = variables
        self.constants = constants
        self.kind = node.kind
        self._run = node.run

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"

    def evaluate(self, sizes: Mapping[str, int | _Array]) -> tuple[_Array, _Array]:
        """Value and validity at every point, as two arrays of the sizes' common shape.

        A point is invalid where the text has no trustworthy value: division by zero, overflow, not a number.
        The value there means nothing.  Raises KeyError when a variable has no size, OverflowError when a size
        does not fit 64 bits.
        """
        points = {}
        for name in self.variables:
            array = np.asarray(sizes[name], dtype=np.int64)
            points[name] = bounded(array, YES)
        with np.errstate(all="ignore"):
            cell = self._run(points)
        shape = np.broadcast_shapes(
            np.shape(cell.value), np.shape(cell.valid), *(point.value.shape for point in points.values())
        )
        return np.broadcast_to(cell.value, shape), np.broadcast_to(cell.valid, shape)


@lru_cache(maxsize=4096)
def parse(text: str) -> Expression:
    """Parse guard text. Raises GuardTextError for anything outside the admitted grammar; executes nothing."""
    if len(text) > MAX_LENGTH:
        raise GuardTextError(f"guard text is longer than {MAX_LENGTH:,} characters: {text[:40]}...")
    stripped = text.strip()
    try:
        tree = ast.parse(stripped, mode="eval")
        compiler = _Compiler(stripped)
        node = compiler.node(tree.body)
    except GuardTextError:
        raise
    except (SyntaxError, ValueError) as error:
        raise GuardTextError(f"guard text can't be read: {stripped[:60]!r} ({error})") from None
    except (RecursionError, MemoryError):
        raise GuardTextError(f"guard text is nested too deeply: {stripped[:40]}...") from None
    return Expression(stripped, frozenset(compiler.variables), frozenset(compiler.constants), node)


def variables(text: str) -> frozenset[str]:
    """The dimensions that ``text`` names; none where it can't be read."""
    try:
        return parse(text).variables
    except GuardTextError:
        return frozenset()


def constants(text: str) -> frozenset[int]:
    """The whole numbers in ``text``; none where it can't be read."""
    try:
        return parse(text).constants
    except GuardTextError:
        return frozenset()


def conjuncts(text: str) -> list[str]:
    """The guards that ``text`` joins by "and", each by itself. Raises GuardTextError as ``parse`` does."""
    parse(text)
    stripped = text.strip()
    waiting, found = [ast.parse(stripped, mode="eval").body], []
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
            waiting.extend(reversed(node.values))
        else:
            found.append(ast.get_source_segment(stripped, node) or stripped)
    return found if len(found) > 1 else [text]


def _at(text: str, sizes: Mapping[str, int]) -> tuple[str, Any] | None:
    try:
        expression = parse(text)
        result, valid = expression.evaluate(sizes)
    except (GuardTextError, KeyError, OverflowError, RecursionError):
        return None
    return (expression.kind, result[()]) if bool(valid) else None


def holds(text: str, sizes: Mapping[str, int]) -> bool | None:
    """Whether the guard holds at these sizes.

    None: unknown, because the text is no guard, a variable has no size, or it has no value at this point.
    """
    result = _at(text, sizes)
    return None if result is None else bool(result[1])


def value(text: str, sizes: Mapping[str, int]) -> int | None:
    """The value of a size expression such as ``2*h + 1`` at these sizes.

    None: unknown as for ``holds``, or the text is a condition or a float and so no size.
    """
    result = _at(text, sizes)
    return int(result[1]) if result is not None and result[0] == "i" else None


class _Substitution(ast.NodeTransformer):
    def __init__(self, variable: str, instead: ast.expr) -> None:
        self._variable = variable
        self._instead = instead

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return self._instead if node.id == self._variable else node


def substitute(text: str, variable: str, instead: str) -> str:
    """``text`` with the expression ``instead`` in place of an identifier.

    Raises GuardTextError for what is no Python.
    """
    try:
        tree = ast.parse(text, mode="eval")
        part = ast.parse(instead, mode="eval").body
    except (SyntaxError, RecursionError, MemoryError, ValueError) as error:
        raise GuardTextError(f"no guard: {text[:60]}") from error
    return ast.unparse(_Substitution(variable, part).visit(tree))
