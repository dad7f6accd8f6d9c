"""Python source as trees: where a function's text is, and what of it a reproduction does not need."""

from __future__ import annotations

import ast
import copy
import inspect
import linecache
import textwrap
from collections.abc import Collection, Sequence
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

Function = ast.FunctionDef | ast.AsyncFunctionDef
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def mark(node: ast.AST) -> None:
    """Note that the node holds the line that a finding is about; copies of it keep the note."""
    node.about_finding = True  # type: ignore[attr-defined]


def mark_line(body: Sequence[ast.stmt], line: int) -> None:
    """Mark the innermost statement that holds a line, if there is one."""
    holding = [
        part
        for statement in body
        for part in ast.walk(statement)
        if isinstance(part, ast.stmt) and hasattr(part, "lineno")  # a statement of ours has no place
        if part.lineno <= line <= (part.end_lineno or part.lineno)
    ]
    if holding:
        mark(min(holding, key=lambda part: (part.end_lineno or part.lineno) - part.lineno))


def is_marked(node: ast.AST) -> bool:
    """Whether the node was marked."""
    return bool(getattr(node, "about_finding", False))


class Unwritable(Exception):
    """Something can't be written into a script; the message says what."""


@lru_cache(maxsize=256)
def _tree(filename: str, text: str) -> ast.Module:
    del filename
    return ast.parse(text)


def tree_of(code: CodeType) -> ast.Module:
    """The tree of the file that a code object comes from. Raises Unwritable."""
    lines = linecache.getlines(code.co_filename)
    if not lines:
        raise Unwritable(f"the source of {code.co_name} is not at hand")
    try:
        return _tree(code.co_filename, "".join(lines))
    except SyntaxError as error:
        raise Unwritable(f"the source of {code.co_name} can't be read") from error


def function_tree(code: CodeType) -> ast.FunctionDef:
    """A copy of the definition of a function, cleaned. Raises Unwritable."""
    for node in ast.walk(tree_of(code)):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if first == code.co_firstlineno:
                return cleaned(copy.deepcopy(node))
    raise Unwritable(f"the source of {code.co_name} is not at hand")


def lambda_tree(code: CodeType) -> ast.Lambda:
    """A copy of a lambda, where it is the only one on its line. Raises Unwritable."""
    found = [n for n in ast.walk(tree_of(code)) if isinstance(n, ast.Lambda) and n.lineno == code.co_firstlineno]
    names = code.co_varnames[: code.co_argcount]
    found = [n for n in found if tuple(a.arg for a in n.args.args) == names]
    if len(found) != 1:
        raise Unwritable("the source of a lambda is not at hand")
    return copy.deepcopy(found[0])


def class_tree(kind: type) -> ast.ClassDef:
    """A copy of the definition of a class, cleaned but for its annotations. Raises Unwritable."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    except (OSError, TypeError, SyntaxError) as error:
        raise Unwritable(f"the source of the class {kind.__name__} is not at hand") from error
    node = tree.body[0]
    if not isinstance(node, ast.ClassDef):
        raise Unwritable(f"the source of the class {kind.__name__} is not at hand")
    return node


def plain_function(value: Any) -> FunctionType:
    """The function below wrappers and descriptors. Raises Unwritable."""
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    value = inspect.unwrap(value) if callable(value) else value
    if not isinstance(value, FunctionType):
        raise Unwritable(f"{type(value).__name__} has no source")
    return value


def only_executed(node: ast.FunctionDef, lines: Collection[int]) -> ast.FunctionDef:
    """The function without the branches that were not run; as it is where none of its lines was."""
    if any(_was_run(statement, lines) for statement in node.body):
        node.body = _executed(node.body, lines)
    return node


def _was_run(statement: ast.stmt, lines: Collection[int]) -> bool:
    return any(line in lines for line in range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))


def _executed(body: list[ast.stmt], lines: Collection[int]) -> list[ast.stmt]:
    kept: list[ast.stmt] = []
    for statement in body:
        if isinstance(statement, ast.If) and statement.orelse and not any(_was_run(s, lines) for s in statement.body):
            kept += _executed(statement.orelse, lines)
            continue
        if _was_run(statement, lines) or isinstance(statement, (ast.Pass, ast.Global, ast.Nonlocal, ast.FunctionDef)):
            for name in ("body", "orelse", "finalbody"):
                inside = getattr(statement, name, None)
                if isinstance(inside, list) and inside and not isinstance(statement, ast.FunctionDef):
                    setattr(statement, name, _executed(inside, lines) or ([ast.Pass()] if name == "body" else []))
            kept.append(statement)
    return kept


class _Cleaner(ast.NodeTransformer):
    """Takes annotations and docstrings away."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        self.generic_visit(node)
        node.body = _without_docstring(node.body)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        self.generic_visit(node)
        return ast.copy_location(ast.Assign([node.target], node.value), node)


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0] if body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return body[1:] or [ast.copy_location(ast.Pass(), first)]
    return body


def cleaned(node: ast.FunctionDef) -> ast.FunctionDef:
    """Without annotations, docstrings and decorators other than those that make it another kind of method."""
    kept = ("property", "staticmethod", "classmethod")
    node.decorator_list = [d for d in node.decorator_list if isinstance(d, ast.Name) and d.id in kept]
    found = _Cleaner().visit(node)
    if not isinstance(found, ast.FunctionDef):
        raise Unwritable("no function")
    return found


def stored(node: ast.AST) -> set[str]:
    """Names that are given a value anywhere below."""
    names: set[str] = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load):
            names.add(part.id)
        elif isinstance(part, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
            names.add(part.name)
        elif isinstance(part, ast.arg):
            names.add(part.arg)
        elif isinstance(part, ast.ExceptHandler) and part.name:
            names.add(part.name)
        elif isinstance(part, (ast.Import, ast.ImportFrom)):
            names.update((alias.asname or alias.name).split(".")[0] for alias in part.names)
    return names


def loaded(node: ast.AST) -> set[str]:
    """Names that are read anywhere below."""
    found = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    found |= {n.target.id for n in ast.walk(node) if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)}
    return found


def expression(text: str) -> ast.expr:
    """The tree of an expression."""
    return ast.parse(text, mode="eval").body


def self_attributes(node: ast.AST) -> set[str]:
    """Names of the attributes of ``self`` that are used below; ``*`` where they can't be told by name."""
    found: set[str] = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "self":
            found.add(part.attr)
        elif isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id in ("getattr", "hasattr"):
            name = part.args[1] if len(part.args) > 1 else None
            found.add(name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else "*")
    return found


def attributes(node: ast.AST) -> set[str]:
    """Names of all attributes that are read below, of whatever object."""
    return {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Load)}
