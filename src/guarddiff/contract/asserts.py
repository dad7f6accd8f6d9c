"""Conditions as a part of the ONNX graph: any runtime then fails at inputs that break one.

ONNX has no operator that raises. A Reshape does, though, where the number of elements does not fit: each condition
becomes ``Reshape([1], [1 if its guards hold else 2])``, whose node's name tells the condition and so stands in the
runtime's error. One input passes through a Reshape to its own shape times all the results (which are 1), so that no
runtime may drop them. Sizes are computed by the runtime on the host; no value of an input is touched.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from guarddiff.contract.contract import Contract
from guarddiff.core import domain, guard_text
from guarddiff.core.dims import Dimension
from guarddiff.core.errors import ContractError

PREFIX = "guarddiff_assert"
NAMED = "guarddiff: "
"""How the names of the nodes that fail begin."""

_LEAST_OPSET = 14
_ARITHMETIC = {ast.Add: "Add", ast.Sub: "Sub", ast.Mult: "Mul"}
_COMPARISONS = {ast.Eq: "Equal", ast.Lt: "Less", ast.LtE: "LessOrEqual", ast.Gt: "Greater", ast.GtE: "GreaterOrEqual"}
_ROUNDING = {"floor": "Floor", "ceil": "Ceil", "round": "Round"}


def insert(model: onnx.ModelProto, contract: Contract) -> None:
    """Put the conditions of ``contract`` into the graph of ``model``.

    Ranges, equal names and all guards are asserted; names, dtypes, ranks and fixed sizes every runtime looks at itself.

    Raises:
        ContractError: The opset is older than 14, no input is used, or a guard has no form in ONNX.
    """
    if any(node.name.startswith(NAMED) for node in model.graph.node):
        raise ContractError("the model has asserts of a contract already: embed them once, into the exported file")
    opset = max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=0)
    if opset < _LEAST_OPSET:
        raise ContractError(f"asserts need opset {_LEAST_OPSET} or newer, and the model has {opset}")
    wanted = list(dict.fromkeys(_conditions(contract)))
    if not wanted:
        return
    builder = _Builder(contract)
    held = [builder.assertion(text, name) for text, name in wanted]
    carrier = _carrier(model.graph, contract)
    total = held[0]
    for one in held[1:]:
        total = builder.node("Mul", total, one)
    shape = builder.node("Mul", builder.node("Shape", carrier.name), total)
    passed = f"{PREFIX}_{carrier.name}"
    _rename(model.graph, carrier.name, passed)
    builder.nodes.append(helper.make_node("Reshape", [carrier.name, shape], [passed], passed, allowzero=1))
    kind = model.graph.value_info.add()
    kind.CopyFrom(carrier)
    kind.name = passed
    old = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend([*builder.nodes, *old])
    model.graph.initializer.extend(builder.constants)


def added(node: onnx.NodeProto) -> bool:
    """Whether ``insert`` made this node."""
    return node.name.startswith((PREFIX, NAMED))


def _conditions(contract: Contract) -> Iterator[tuple[str, str]]:
    """Text and name of each condition."""
    dims = [dim for spec in contract.inputs for dim in spec.dims]
    plain = {dim.name: dim for dim in reversed(dims) if dim.size == dim.name}
    for number, dim in enumerate(dims):
        here, own = plain.get(dim.name), _own(number)
        if dim.size != dim.name or (here is not None and here.place != dim.place):
            yield f"{own} == {dim.size}", f"{dim.place} has to be equal to {dim.size}"
        sizes = dim.declared.sizes if dim.declared is not None else None
        if sizes is not None and sizes.lower > 0:
            yield f"{own} >= {sizes.lower}", f"{dim.place} is declared as {dim.declared}"
        if sizes is not None and sizes.upper is not None:
            yield f"{own} <= {sizes.upper}", f"{dim.place} is declared as {dim.declared}"
    for condition in contract.conditions:
        sets = [f"{dim.place} {dim.admitted}" for dim in condition.dims if dim.admitted is not None]
        because = f", because of {condition.because}" if condition.because else ""
        told = f"for {'; '.join(sets)}" if sets else f"where {' and '.join(condition.guards[:3])}"
        yield " and ".join(f"({guard})" for guard in condition.guards), f"right only {told}{because}"


def _own(number: int) -> str:
    """A name for a dimension by its number: names of inputs may hold what no guard can (``input.1``)."""
    return f"{PREFIX}_size[{number}]"


def _carrier(graph: onnx.GraphProto, contract: Contract) -> onnx.ValueInfoProto:
    """The input that passes through the asserts: the first that a node of the graph itself takes."""
    used = {name for node in graph.node for name in node.input}
    names = {spec.name for spec in contract.inputs}
    value: onnx.ValueInfoProto
    for value in graph.input:
        if value.name in used & names and value.type.HasField("tensor_type"):
            return value
    raise ContractError("no input of the model is used by its graph, so nothing can be asserted")


def _rename(graph: onnx.GraphProto, old: str, new: str) -> None:
    """Let everything in the graph and its subgraphs take ``new`` instead of ``old``."""
    for node in graph.node:
        for place, name in enumerate(node.input):
            if name == old:
                node.input[place] = new
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                if inner.node:
                    _rename(inner, old, new)


class _Builder:
    """Nodes that compute guards from the shapes of the inputs. Values are tensors of shape [1]."""

    def __init__(self, contract: Contract) -> None:
        self.nodes: list[Any] = []
        self.constants: list[TensorProto] = []
        self._made: dict[Any, str] = {}
        dims = [dim for spec in contract.inputs for dim in spec.dims]
        self._sources: dict[str, Dimension] = {dim.place: dim for dim in dims}
        self._sources.update((_own(number), dim) for number, dim in enumerate(dims))
        self._sources.update((dim.name, dim) for dim in reversed(dims) if dim.size == dim.name)
        self._dims = dims

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        """The value of a node; the same one for the same computation."""
        key = (op, inputs, tuple(sorted(attributes.items())))
        if key not in self._made:
            self._made[key] = name = f"{PREFIX}_{len(self.nodes)}"
            self.nodes.append(helper.make_node(op, list(inputs), [name], name, **attributes))
        return self._made[key]

    def constant(self, value: int | float | bool) -> str:
        key = (type(value), value)
        if key not in self._made:
            kind = {bool: np.bool_, int: np.int64, float: np.float64}[type(value)]
            self._made[key] = name = f"{PREFIX}_constant_{len(self.constants)}"
            self.constants.append(numpy_helper.from_array(np.asarray([value], kind), name))
        return self._made[key]

    def assertion(self, text: str, told: str) -> str:
        """A value of 1 from a node that fails where the guard does not hold."""
        self._nonzero: list[str] = []
        try:
            condition, kind = self.value(ast.parse(text, mode="eval").body)
        except (SyntaxError, _NoForm) as err:
            raise ContractError(f"the guard {text} has no form as an assert in ONNX: {err}") from None
        holds = self._as(condition, kind, "b")
        for other in self._nonzero:
            holds = self.node("And", holds, other)
        code = self.node("Sub", self.constant(2), self.node("Cast", holds, to=TensorProto.INT64))
        number, name = len(self.nodes), f"{PREFIX}_{len(self.nodes)}"
        told = f"{NAMED}{told} ({number})"  # names of nodes have to differ
        self.nodes.append(helper.make_node("Reshape", [self.constant(1), code], [name], told))
        return name

    def value(self, tree: ast.AST) -> tuple[str, str]:
        """Name and kind ("b", "i", "f") of the value of an expression."""
        method = getattr(self, f"_on_{type(tree).__name__}", None)
        if method is None:
            raise _NoForm(ast.unparse(tree))
        found: tuple[str, str] = method(tree)
        return found

    def _as(self, name: str, kind: str, wanted: str) -> str:
        if kind == wanted:
            return name
        to = {"b": TensorProto.BOOL, "i": TensorProto.INT64, "f": TensorProto.DOUBLE}[wanted]
        return self.node("Cast", name, to=to)

    def _number(self, tree: ast.AST) -> tuple[str, str]:
        name, kind = self.value(tree)
        return (self._as(name, kind, "i"), "i") if kind == "b" else (name, kind)

    def _pair(self, *trees: ast.AST) -> tuple[list[str], str]:
        """Numbers of one kind."""
        values = [self._number(tree) for tree in trees]
        kind = "f" if any(kind == "f" for _, kind in values) else "i"
        return [self._as(name, own, kind) for name, own in values], kind

    def _on_Constant(self, tree: ast.Constant) -> tuple[str, str]:
        value = tree.value
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**63:
            raise _NoForm(ast.unparse(tree))
        if not isinstance(value, (bool, int, float)):
            raise _NoForm(ast.unparse(tree))
        return self.constant(value), {bool: "b", int: "i", float: "f"}[type(value)]

    def _size(self, name: str) -> tuple[str, str]:
        dim = self._sources.get(name)
        if dim is None:
            return self._root(name), "i"
        return self.node("Gather", self.node("Shape", dim.input), self.constant(dim.axis), axis=0), "i"

    def _root(self, name: str) -> str:
        """A variable that only sizes derived from it tell (``2*h``); that it is a whole number is another condition."""
        for number, dim in enumerate(self._dims):
            if dim.size != dim.name and guard_text.variables(dim.size) == {name}:
                base, more = (domain.value(dim.size, {name: at}) for at in (0, 1))
                if isinstance(base, int) and isinstance(more, int) and more != base:
                    rest = self.node("Sub", self._size(_own(number))[0], self.constant(base))
                    return self.node("Div", rest, self.constant(more - base))
        raise _NoForm(f"{name} is no dimension of an input")

    def _on_Name(self, tree: ast.Name) -> tuple[str, str]:
        return self._size(tree.id)

    def _on_Subscript(self, tree: ast.Subscript) -> tuple[str, str]:
        return self._size(ast.unparse(tree))

    def _on_UnaryOp(self, tree: ast.UnaryOp) -> tuple[str, str]:
        if isinstance(tree.op, ast.Not):
            name, kind = self.value(tree.operand)
            return self.node("Not", self._as(name, kind, "b")), "b"
        name, kind = self._number(tree.operand)
        return (self.node("Neg", name), kind) if isinstance(tree.op, ast.USub) else (name, kind)

    def _on_BinOp(self, tree: ast.BinOp) -> tuple[str, str]:
        (left, right), kind = self._pair(tree.left, tree.right)
        if type(tree.op) in _ARITHMETIC:
            return self.node(_ARITHMETIC[type(tree.op)], left, right), kind
        if isinstance(tree.op, ast.Div):
            left, right = self._as(left, kind, "f"), self._divisor(self._as(right, kind, "f"), "f")
            return self.node("Div", left, right), "f"
        if isinstance(tree.op, (ast.FloorDiv, ast.Mod)):
            return self._division(tree.op, left, right, kind)
        if isinstance(tree.op, ast.Pow) and isinstance(tree.right, ast.Constant) and kind == "i":
            return self._power(left, tree.right.value), kind
        raise _NoForm(ast.unparse(tree))

    def _division(self, op: ast.operator, left: str, right: str, kind: str) -> tuple[str, str]:
        """As Python's: rounded down, with the divisor's sign; ONNX's Div cuts, its Mod does not."""
        right = self._divisor(right, kind)
        if kind == "f":
            quotient = self.node("Floor", self.node("Div", left, right))
            rest = self.node("Sub", left, self.node("Mul", quotient, right))
            return (quotient if isinstance(op, ast.FloorDiv) else rest), kind
        rest = self.node("Mod", left, right)
        if isinstance(op, ast.Mod):
            return rest, kind
        return self.node("Div", self.node("Sub", left, rest), right), kind

    def _divisor(self, name: str, kind: str) -> str:
        """The divisor, or 1 where it is 0, at which the whole guard counts as broken: it has no value there."""
        zero = self.node("Equal", name, self.constant(0 if kind == "i" else 0.0))
        self._nonzero.append(self.node("Not", zero))
        return self.node("Where", zero, self.constant(1 if kind == "i" else 1.0), name)

    def _power(self, base: str, exponent: Any) -> str:
        if not isinstance(exponent, int) or not 0 <= exponent <= 8:
            raise _NoForm(f"a power of {exponent}")
        power = self.constant(1)
        for _ in range(exponent):
            power = self.node("Mul", power, base)
        return power

    def _on_BoolOp(self, tree: ast.BoolOp) -> tuple[str, str]:
        parts = [self._as(*self.value(value), "b") for value in tree.values]
        whole = parts[0]
        for part in parts[1:]:
            whole = self.node("And" if isinstance(tree.op, ast.And) else "Or", whole, part)
        return whole, "b"

    def _on_Compare(self, tree: ast.Compare) -> tuple[str, str]:
        trees = [tree.left, *tree.comparators]
        whole: str | None = None
        for op, left, right in zip(tree.ops, trees, trees[1:], strict=False):
            names, _ = self._pair(left, right)
            equal = isinstance(op, ast.NotEq)
            here = self.node("Equal" if equal else _COMPARISONS[type(op)], *names)
            here = self.node("Not", here) if equal else here
            whole = here if whole is None else self.node("And", whole, here)
        return whole or self.constant(True), "b"

    def _on_IfExp(self, tree: ast.IfExp) -> tuple[str, str]:
        names, kind = self._pair(tree.body, tree.orelse)
        return self.node("Where", self._as(*self.value(tree.test), "b"), *names), kind

    def _on_Call(self, tree: ast.Call) -> tuple[str, str]:
        called = ast.unparse(tree.func).removeprefix("math.").removeprefix("torch.")
        called = called.removeprefix("sym_").removeprefix("_sym_")
        if called in ("min", "max"):
            names, kind = self._pair(*tree.args)
            return self.node("Min" if called == "min" else "Max", *names), kind
        if called == "ite" and len(tree.args) == 3:
            return self._on_IfExp(ast.IfExp(tree.args[0], tree.args[1], tree.args[2]))
        if len(tree.args) != 1 or tree.keywords:
            raise _NoForm(ast.unparse(tree))
        name, kind = self._number(tree.args[0])
        if called in ("abs", "sqrt"):
            return (self.node("Abs", name), kind) if called == "abs" else (self._sqrt(name, kind), "f")
        if called == "float":
            return self._as(name, kind, "f"), "f"
        if called in ("int", "trunc"):
            return self._as(name, kind, "i"), "i"
        if called in _ROUNDING:
            rounded = name if kind == "i" else self.node(_ROUNDING[called], name)
            return self._as(rounded, kind, "i"), "i"
        raise _NoForm(ast.unparse(tree))

    def _sqrt(self, name: str, kind: str) -> str:
        return self.node("Sqrt", self._as(name, kind, "f"))


class _NoForm(Exception):
    """An expression without a form in ONNX."""
