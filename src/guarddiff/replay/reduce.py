"""Candidates with less code: statements left out, calls replaced by what they are given, unused things taken away."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from guarddiff.replay import python_source
from guarddiff.replay.script import Sketch

Change = Callable[[ast.Module], None]


@dataclass(frozen=True)
class Edit:
    """One way to make a sketch smaller: ``made`` gives the smaller one; ``key`` tells it from other edits."""

    key: str
    made: Callable[[], Sketch]


def without_statements(sketch: Sketch) -> Iterator[Edit]:
    """One statement or a run of them left out, from the end, long runs first."""
    bodies = list(_bodies(sketch.definitions))
    for place, body in enumerate(bodies):
        length = len(body)
        step = length // 2 if length > 3 else 1
        while step:
            for start in range(length - step, -1, -step):
                chosen = body[start : start + step]
                if not any(_is_marked(part) or isinstance(part, (ast.Pass, ast.Return)) for part in chosen):
                    yield _edit(sketch, "delete", chosen, _delete(place, start, start + step))
            step //= 2


def without_ends(sketch: Sketch) -> Iterator[Edit]:
    """A function that returns early what a statement gives a name to, the earliest first."""
    for place, function in enumerate(_functions(sketch.definitions)):
        for index, statement in enumerate(function.body[:-1]):
            rest = function.body[index + 1 :]
            target = statement.targets[0] if isinstance(statement, ast.Assign) else None
            if isinstance(target, ast.Name) and len(rest) > 1 and not any(map(_is_marked, rest)):
                yield _edit(sketch, f"end {index}", [function], _cut_off(place, index + 1, target.id))


def without_nesting(sketch: Sketch) -> Iterator[Edit]:
    """An ``if`` or ``with`` replaced by what is in it."""
    for place, body in enumerate(_bodies(sketch.definitions)):
        for index, statement in enumerate(body):
            if isinstance(statement, (ast.If, ast.With)) and not _is_marked(statement, below=False):
                for inside in (statement.body, getattr(statement, "orelse", [])):
                    if inside:
                        yield _edit(sketch, "splice", inside, _splice(place, index, inside))


def without_names(sketch: Sketch) -> Iterator[Edit]:
    """A variable replaced by what it holds: another name for something, or what the next statement uses once."""
    for place, body in enumerate(_bodies(sketch.definitions)):
        for index, statement in enumerate(body[:-1]):
            target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
            if not isinstance(statement, ast.Assign) or not isinstance(target, ast.Name) or _is_marked(statement):
                continue
            uses = [part for part in ast.walk(body[index + 1]) if _reads(part, target.id)]
            if isinstance(statement.value, ast.Name) or len(uses) == 1:
                yield _edit(sketch, "name", [statement], _put_in(place, index, target.id))


def _reads(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)


def _put_in(place: int, index: int, name: str) -> Change:
    def change(tree: ast.Module) -> None:
        body = list(_bodies(tree))[place]
        statement = body.pop(index)
        value = statement.value if isinstance(statement, ast.Assign) else None
        for later in body[index:] if isinstance(value, ast.Name) else body[index : index + 1]:
            for part in [part for part in ast.walk(later) if _reads(part, name)]:
                _Replace(part, copy.deepcopy(value) if value is not None else part).visit(later)

    return change


def without_calls(sketch: Sketch) -> Iterator[Edit]:
    """An expression replaced by a part of it, outer ones first."""
    nodes = list(ast.walk(sketch.definitions))
    inside = {id(part) for function in _functions(sketch.definitions) for part in ast.walk(function)}
    for index, node in enumerate(nodes):
        if isinstance(node, ast.expr) and id(node) in inside:
            for position, _ in enumerate(_parts(node)):
                yield _edit(sketch, f"hoist {position}", [node], _hoist(index, position))


def pruned(sketch: Sketch) -> Sketch:
    """Without variables, parameters, attributes, methods, functions and classes that nothing uses."""
    tree = copy.deepcopy(sketch.definitions)
    for _ in range(8):
        before = ast.dump(tree)
        _drop_unused(tree)
        if ast.dump(tree) == before:
            break
    given = sketch.given
    forward = forward_of(tree)
    if forward is not None and sketch.declaration is None:
        used = python_source.loaded(ast.Module(forward.body, []))
        kept = tuple(g for g in given if g.name in used)
        if kept and len(kept) < len(given):
            given = kept
            forward.args.args = [a for a in forward.args.args if a.arg in ("self", *(g.name for g in kept))]
            forward.args.defaults = []
    return replace(sketch, definitions=ast.fix_missing_locations(tree), given=given)


def inlined(sketch: Sketch) -> Sketch:
    """Plain constants written where the model's attributes that hold them are used."""
    tree = copy.deepcopy(sketch.definitions)
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == "Model":
            held = {
                _target(part): part.value
                for method in node.body
                if isinstance(method, ast.FunctionDef) and method.name == "__init__"
                for part in method.body
                if isinstance(part, ast.Assign) and isinstance(part.value, (ast.Constant, ast.UnaryOp))
            }
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and method.name != "__init__":
                    _Inline(held).visit(method)
    return pruned(replace(sketch, definitions=ast.fix_missing_locations(tree)))


class _Inline(ast.NodeTransformer):
    def __init__(self, held: Mapping[str | None, ast.expr]) -> None:
        self._held = held

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id == "self" and isinstance(node.ctx, ast.Load):
            return copy.deepcopy(self._held.get(node.attr, node))
        self.generic_visit(node)
        return node


def forward_of(tree: ast.Module) -> ast.FunctionDef | None:
    """``forward`` of the class ``Model``."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == "Model":
            return next((p for p in node.body if isinstance(p, ast.FunctionDef) and p.name == "forward"), None)
    return None


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """Functions and methods other than constructors; that of the model last."""
    for node in reversed(tree.body):
        if isinstance(node, ast.FunctionDef):
            yield node
        elif isinstance(node, ast.ClassDef):
            yield from (p for p in node.body if isinstance(p, ast.FunctionDef) and p.name != "__init__")


def _bodies(tree: ast.Module) -> Iterator[list[ast.stmt]]:
    """Every list of statements in the functions, outer ones first."""
    for function in _functions(tree):
        for node in ast.walk(function):
            for name in ("body", "orelse"):
                found = getattr(node, name, None)
                if isinstance(found, list) and found and isinstance(found[0], ast.stmt):
                    yield found


def _is_marked(node: ast.AST, below: bool = True) -> bool:
    parts = ast.walk(node) if below else [node]
    return any(map(python_source.is_marked, parts))


def _edit(sketch: Sketch, kind: str, nodes: Sequence[ast.AST], change: Change) -> Edit:
    key = f"{kind} " + "\n".join(map(ast.unparse, nodes))
    return Edit(key, partial(_edited, sketch, change))


def _edited(sketch: Sketch, change: Change) -> Sketch:
    tree = copy.deepcopy(sketch.definitions)
    change(tree)
    return pruned(replace(sketch, definitions=ast.fix_missing_locations(tree)))


def _delete(place: int, start: int, end: int) -> Change:
    def edit(tree: ast.Module) -> None:
        body = list(_bodies(tree))[place]
        body[start:end] = [] if len(body) > end - start else [ast.Pass()]

    return edit


def _cut_off(place: int, start: int, name: str) -> Change:
    def change(tree: ast.Module) -> None:
        list(_functions(tree))[place].body[start:] = [ast.Return(ast.Name(name, ast.Load()))]

    return change


def _splice(place: int, index: int, inside: list[ast.stmt]) -> Change:
    def edit(tree: ast.Module) -> None:
        list(_bodies(tree))[place][index : index + 1] = copy.deepcopy(inside)

    return edit


def _hoist(index: int, position: int) -> Change:
    def edit(tree: ast.Module) -> None:
        target = list(ast.walk(tree))[index]
        part = _parts(target)[position] if isinstance(target, ast.expr) else None
        if part is not None:
            _Replace(target, part).visit(tree)

    return edit


class _Replace(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old = old
        self._new = new

    def visit(self, node: ast.AST) -> ast.AST:
        if node is self._old:
            return self._new
        self.generic_visit(node)
        return node


def _parts(node: ast.expr) -> list[ast.expr]:
    """Expressions that may stand in for this one."""
    if isinstance(node, ast.Call):
        found = [node.func.value] if isinstance(node.func, ast.Attribute) and _is_value(node.func.value) else []
        found += [arg for arg in node.args if not isinstance(arg, (ast.Constant, ast.Starred, ast.GeneratorExp))]
        return found + [k.value for k in node.keywords if isinstance(k.value, ast.Call)]
    if isinstance(node, ast.BinOp):
        return [part for part in (node.left, node.right) if not isinstance(part, ast.Constant)]
    if isinstance(node, ast.IfExp):
        return [node.body, node.orelse]
    if isinstance(node, ast.UnaryOp):
        return [] if isinstance(node.operand, ast.Constant) else [node.operand]
    if isinstance(node, (ast.Tuple, ast.List)) and isinstance(node.ctx, ast.Load) and len(node.elts) > 1:
        return [part for part in node.elts if not isinstance(part, (ast.Constant, ast.Starred))]
    return []


def _is_value(node: ast.expr) -> bool:
    """Whether an object that a method is called on may be a tensor: not a module name, not ``self``."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return not (isinstance(node, ast.Name) and node.id in ("self", "torch", "F", "nn", "np", "math", "functional"))


class _Fold(ast.NodeTransformer):
    """Tests of constants alone are decided."""

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        known = _constant(node.test)
        if known is None or _is_marked(node, below=False):
            return node
        kept, dropped = (node.body, node.orelse) if known else (node.orelse, node.body)
        return node if any(map(_is_marked, dropped)) else (kept or ast.Pass())

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        known = _constant(node.test)
        return node if known is None else (node.body if known else node.orelse)


def _constant(test: ast.expr) -> bool | None:
    """What a test of constants says; None where it needs a name."""
    allowed = (ast.Constant, ast.Compare, ast.UnaryOp, ast.BoolOp, ast.cmpop, ast.unaryop, ast.boolop)
    if not all(isinstance(part, allowed) for part in ast.walk(test)):
        return None
    try:
        return bool(eval(compile(ast.fix_missing_locations(ast.Expression(copy.deepcopy(test))), "", "eval"), {}))
    except Exception:
        return None


def without_refusals(sketch: Sketch) -> Iterator[Edit]:
    """All statements that only refuse something (``if …: raise``, ``assert``) left out at once."""

    def refuses(node: ast.stmt) -> bool:
        raising = isinstance(node, ast.If) and not node.orelse and all(isinstance(p, ast.Raise) for p in node.body)
        return (raising or isinstance(node, ast.Assert)) and not _is_marked(node)

    def change(tree: ast.Module) -> None:
        for body in list(_bodies(tree)):
            body[:] = [part for part in body if not refuses(part)] or [ast.Pass()]

    found = [part for body in _bodies(sketch.definitions) for part in body if refuses(part)]
    if found:
        yield _edit(sketch, "refusals", found, change)


def _drop_unused(tree: ast.Module) -> None:
    _Fold().visit(tree)
    for function in _functions(tree):
        _drop_variables(function)
    names = python_source.loaded(tree)
    mentioned = python_source.attributes(tree) | _strings(tree)
    tree.body = [n for n in tree.body if _name(n) in ("Model", None) or _name(n) in names]
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            _drop_members(node, mentioned)


def _drop_variables(function: ast.FunctionDef) -> None:
    """Simple assignments to names that are never read."""
    used = python_source.loaded(function)
    for node in ast.walk(function):
        for name in ("body", "orelse"):
            body = getattr(node, name, None)
            if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
                kept = [s for s in body if not _is_unused(s, used) and not isinstance(s, ast.Pass)]
                body[:] = kept or ([ast.Pass()] if name == "body" else [])


def _is_unused(statement: ast.stmt, used: set[str]) -> bool:
    if not isinstance(statement, ast.Assign) or _is_marked(statement):
        return False
    if ast.unparse(statement.targets[0]) == ast.unparse(statement.value):
        return True
    names = [t for target in statement.targets for t in ast.walk(target)]
    plain = all(isinstance(t, (ast.Name, ast.Tuple, ast.expr_context, ast.List)) for t in names)
    return plain and not any(isinstance(t, ast.Name) and t.id in used for t in names)


def _drop_members(node: ast.ClassDef, mentioned: set[str]) -> None:
    """Methods that nothing calls, and attributes that only the constructor sets."""
    node.body = [
        p
        for p in node.body
        if not isinstance(p, ast.FunctionDef) or p.name in ("forward", "__init__") or p.name in mentioned
    ]
    read = {
        part.attr
        for method in node.body
        if isinstance(method, ast.FunctionDef) and method.name != "__init__"
        for part in ast.walk(method)
        if isinstance(part, ast.Attribute)
    }
    constructor = next((p for p in node.body if isinstance(p, ast.FunctionDef) and p.name == "__init__"), None)
    if constructor is None:
        return
    outside = mentioned if node.name != "Model" else set()
    if "*" not in python_source.self_attributes(ast.Module([p for p in node.body if p is not constructor], [])):
        constructor.body = [s for s in constructor.body if _target(s) is None or _target(s) in read | outside]
    if len(constructor.body) == 1 and len(constructor.args.args) == 1 and constructor.args.vararg is None:
        node.body.remove(constructor)
    node.body = node.body or [ast.Pass()]


def _target(statement: ast.stmt) -> str | None:
    """The attribute that ``self.name = …`` sets; None for another statement."""
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Attribute):
        return statement.targets[0].attr
    return None


def _name(node: ast.stmt) -> str | None:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return node.name
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return None


def _strings(tree: ast.AST) -> set[str]:
    return {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
