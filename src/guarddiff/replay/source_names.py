"""What the names in a user's code stand for, written so that a script of its own can use them.

Functions of the user's come along with their source, names of torch, numpy and the standard library are imported,
constants are written in place. No tensor value is written.
"""

from __future__ import annotations

import ast
import builtins
import enum
import functools
import importlib
import math
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

import torch

from guarddiff.replay import python_source, samples
from guarddiff.replay.frames import Executed, Seen
from guarddiff.replay.python_source import Unwritable, expression

_LONGEST = 400
_CACHED = type(functools.lru_cache(lambda: None))
_LIBRARIES = {"torch", "numpy", "onnxruntime", *sys.stdlib_module_names}
_HOMES = ("torch", "torch.nn.functional", "torch.nn", "torch.linalg", "torch.fft", "torch.special", "math", "operator")
TAKEN = frozenset(
    ("Model", "np", "onnxruntime", "torch", "tensors", "model", "example", "other", "program", "session", "args")
    + ("want", "got", "same", "error", "copy")
)
"""Names that a script uses for itself."""


def is_library(module_name: str) -> bool:
    """Whether a script may import it: torch, numpy, ONNX Runtime and the standard library."""
    return module_name.split(".")[0] in _LIBRARIES


class Names:
    """Collects what has to stand before the code: imports, constants, functions and classes.

    ``module_text`` writes a module of torch.nn or of the user's as an expression; ``executed`` tells which lines were
    run, so that the others can be left out.
    """

    def __init__(self, module_text: Callable[[torch.nn.Module], ast.expr], executed: Executed) -> None:
        self.imports: dict[str, str] = {}
        self.definitions: dict[str, ast.stmt] = {}
        self.all_code: list[ast.AST] = []
        self._module_text = module_text
        self._executed = executed
        self._known: dict[str, Any] = {}

    def resolve(self, node: ast.AST, globals_: Mapping[str, Any], free: Mapping[str, Any]) -> None:
        """Rewrite the code below so that its names mean the same in the script. Raises Unwritable."""
        self.all_code.append(node)
        _Resolver(self, globals_, free, python_source.stored(node)).visit(node)

    def reference(self, name: str, value: Any) -> ast.expr:
        """An expression for what a global name stands for."""
        if isinstance(value, types.ModuleType):
            return self._module(name, value)
        home = _home(value)
        if home is not None:
            return self._imported(name, value, *home)
        if isinstance(value, types.FunctionType) and value.__name__ == "<lambda>":
            return self.value(value)
        if isinstance(value, (types.FunctionType, _CACHED)):
            return self._defined(name, value, self._function)
        if isinstance(value, type):
            return self._defined(name, value, self._class)
        if isinstance(value, (torch.Tensor, torch.nn.Module)):
            return self._defined(name, value, self._assigned)
        return self.value(value)

    def value(self, value: Any) -> ast.expr:
        """An expression that gives the same constant, or for a tensor one of the same shape. Raises Unwritable."""
        if isinstance(value, Seen):
            raise Unwritable("a tensor that is no input")
        if isinstance(value, torch.nn.Module):
            return self._module_text(value)
        if isinstance(value, torch.nn.Parameter):
            return expression(f"torch.nn.Parameter({samples.constant(value)})")
        if isinstance(value, torch.Tensor):
            return expression(samples.constant(value))
        if isinstance(value, types.FunctionType) and value.__name__ == "<lambda>":
            node = python_source.lambda_tree(value.__code__)
            self.resolve(node, value.__globals__, _closure(value))
            return node
        if isinstance(value, functools.partial):
            return self._partial(value)
        if isinstance(value, enum.Enum) and not is_library(type(value).__module__):
            return self.value(value.value)
        if callable(value) and not isinstance(value, type) and hasattr(value, "__name__"):
            return self.reference(value.__name__, value)
        return self._plain(value)

    def _plain(self, value: Any) -> ast.expr:
        if isinstance(value, (torch.Size, tuple)) and type(value) in (torch.Size, tuple):
            return ast.Tuple([self.value(part) for part in value], ast.Load())
        if type(value) in (list, set):
            parts = [self.value(part) for part in value]
            return ast.List(parts, ast.Load()) if type(value) is list else expression(repr(value))
        if type(value) is dict:
            return ast.Dict([self.value(k) for k in value], [self.value(v) for v in value.values()])
        if isinstance(value, float) and not math.isfinite(value):
            return expression(f"float('{value}')")
        if value is None or value is Ellipsis or type(value) in (bool, int, float, str, slice, range):
            text = repr(value)
            if len(text) <= _LONGEST:
                return expression(text)
        if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
            return expression(str(value))
        if isinstance(value, torch.device):
            return expression("torch.device('cpu')")
        raise Unwritable(f"a value of type {type(value).__name__} can't be written")

    def _partial(self, value: functools.partial[Any]) -> ast.expr:
        self.imports["functools"] = "import functools"
        keywords = [ast.keyword(key, self.value(part)) for key, part in value.keywords.items()]
        args = [self.value(value.func), *(self.value(part) for part in value.args)]
        return ast.Call(expression("functools.partial"), args, keywords)

    def _module(self, name: str, value: types.ModuleType) -> ast.expr:
        full = value.__name__
        if not is_library(full):
            raise Unwritable(f"the module {name} as a value")
        line = f"import {full}" if name == full else f"import {full} as {name}"
        if full in ("torch", "numpy", "onnxruntime") and name != "np" and name != full:
            line = f"import {full} as {name}"
        if name in ("torch", "np", "onnxruntime"):
            return ast.Name(name, ast.Load())
        return self._import(name, line)

    def _imported(self, name: str, value: Any, module: str, attribute: str) -> ast.expr:
        line = f"from {module} import {attribute}" + ("" if name == attribute else f" as {name}")
        return self._import(name, line)

    def _import(self, name: str, line: str) -> ast.expr:
        if name in TAKEN or self.imports.get(name, line) != line or name in self.definitions:
            name, line = name + "_", f"{line.split(' as ')[0]} as {name}_"
        self.imports[name] = line
        return ast.Name(name, ast.Load())

    def _defined(self, name: str, value: Any, define: Callable[[str, Any], ast.stmt]) -> ast.expr:
        while name in TAKEN or name in self.imports or self._known.get(name, value) is not value:
            name += "_"
        if name not in self._known:
            self._known[name] = value
            made = define(name, value)
            self.definitions.pop(name, None)
            self.definitions[name] = made  # after what it needs
        return ast.Name(name, ast.Load())

    def _function(self, name: str, value: Any) -> ast.stmt:
        function = python_source.plain_function(value)
        node = self.function_tree(function)
        node.name = name
        self.resolve(node, function.__globals__, _closure(function))
        return node

    def function_tree(self, function: types.FunctionType) -> ast.FunctionDef:
        """A copy of a function's definition: what of it was run. Raises Unwritable."""
        code = function.__code__
        return python_source.only_executed(
            python_source.function_tree(code), self._executed.get(code.co_filename, set())
        )

    def _class(self, name: str, value: type) -> ast.stmt:
        node = python_source.class_tree(value)
        node.name = name
        for part in ast.walk(node):
            if isinstance(part, ast.AnnAssign):
                part.annotation = ast.Name("object", ast.Load())
            elif isinstance(part, ast.FunctionDef):
                python_source.cleaned(part)
        node.body = [part for part in node.body if not isinstance(part, ast.Expr)] or [ast.Pass()]
        self.resolve(node, vars(sys.modules[value.__module__]), {})
        return node

    def _assigned(self, name: str, value: Any) -> ast.stmt:
        return ast.fix_missing_locations(ast.Assign([ast.Name(name, ast.Store())], self.value(value)))


class _Resolver(ast.NodeTransformer):
    """Replaces the names that are not the code's own."""

    def __init__(self, names: Names, globals_: Mapping[str, Any], free: Mapping[str, Any], local: set[str]) -> None:
        self._names = names
        self._globals = globals_
        self._free = free
        self._local = local - set(free)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if not isinstance(node.ctx, ast.Load) or node.id in self._local:
            return node
        known, value = self._lookup(node.id)
        return self._names.reference(node.id, value) if known else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if isinstance(node.ctx, ast.Load):
            found, value = self._dotted(node)
            if found and value is not None:
                return self._names.reference(node.attr, value)
        self.generic_visit(node)
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        """A statement that only calls something unwritable (a logger) is left out."""
        try:
            self.generic_visit(node)
        except Unwritable:
            if isinstance(node.value, ast.Call):
                return ast.copy_location(ast.Pass(), node)
            raise
        return node

    def _lookup(self, name: str) -> tuple[bool, Any]:
        for space in (self._free, self._globals):
            if name in space:
                return True, space[name]
        if hasattr(builtins, name) or name == "__class__":
            return False, None
        raise Unwritable(f"the name {name} is not known")

    def _dotted(self, node: ast.Attribute) -> tuple[bool, Any]:
        """What ``module.name`` stands for where the module is the user's own."""
        base = node.value
        if isinstance(base, ast.Attribute):
            found, value = self._dotted(base)
        elif isinstance(base, ast.Name) and base.id not in self._local:
            found, value = self._lookup(base.id)
        else:
            return False, None
        own = (
            found
            and (
                (isinstance(value, types.ModuleType) and not is_library(value.__name__))
                or (isinstance(value, type) and issubclass(value, enum.Enum) and not is_library(value.__module__))
                or (isinstance(value, enum.Enum) and not is_library(type(value).__module__))
            )
            and hasattr(value, node.attr)
        )
        return (True, getattr(value, node.attr)) if own else (False, None)


def _home(value: Any) -> tuple[str, str] | None:
    """(module, name) from which a script can import an object of torch, numpy or the standard library."""
    name = getattr(value, "__name__", None) or getattr(value, "_name", None)
    if not isinstance(name, str) or isinstance(value, (torch.dtype, torch.nn.Module)):
        return None
    own = getattr(value, "__module__", None)
    for module in (*([own] if isinstance(own, str) else []), *_HOMES):
        if is_library(module) and module not in ("__main__", "builtins"):
            try:
                if getattr(importlib.import_module(module), name, None) is value:
                    return module, name
            except ImportError:
                continue
    return None


def _closure(function: types.FunctionType) -> dict[str, Any]:
    cells = zip(function.__code__.co_freevars, function.__closure__ or ())
    found = {}
    for name, cell in cells:
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not filled yet
            continue
    return found
