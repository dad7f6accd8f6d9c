"""A user's modules written as small classes: the methods that are used, and attributes made anew from the instances."""

from __future__ import annotations

import ast
import copy
import inspect
import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from guarddiff.replay import leaf_source, python_source
from guarddiff.replay.frames import Executed
from guarddiff.replay.python_source import Unwritable, expression
from guarddiff.replay.source_names import TAKEN, Names, is_library

_BASE = set(dir(torch.nn.Module)) | {"training"}
_CONTAINERS = (torch.nn.Sequential, torch.nn.ModuleList, torch.nn.ModuleDict)


@dataclass
class _Plan:
    """One class of the script: its methods, the attributes they use, and the places where it is made."""

    name: str
    base: str
    kind: type
    methods: dict[str, ast.FunctionDef] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    made: list[tuple[ast.Call, dict[str, ast.expr]]] = field(default_factory=list)


class Parts:
    """Writes modules as expressions and keeps the classes that they need."""

    def __init__(self, executed: Executed | None = None) -> None:
        self.names = Names(self.module, {} if executed is None else executed)
        self._plans: dict[Any, _Plan] = {}
        self._written: dict[int, ast.expr] = {}
        self.left_out: list[str] = []

    def model(self, forward: ast.FunctionDef, owner: torch.nn.Module | None, space: Mapping[str, Any]) -> None:
        """The class ``Model`` with this ``forward``; ``owner`` is what ``self`` was in it. Raises Unwritable."""
        kind = type(owner) if owner is not None else torch.nn.Module
        plan = self._plans["Model"] = _Plan("Model", "torch.nn.Module", kind)
        globals_, free = space["globals"], space["free"]
        if owner is not None:
            self._inherited(forward, kind, plan)
        self.names.resolve(forward, globals_, free)
        plan.methods["forward"] = forward
        if owner is not None:
            self._follow(plan, owner, python_source.self_attributes(forward))
            plan.made.append((ast.Call(ast.Name("Model", ast.Load()), [], []), self._attributes(plan, owner)))

    def definitions(self) -> ast.Module:
        """Functions and classes in the order in which they are needed, ``Model`` last."""
        plans = [plan for key, plan in self._plans.items() if key != "Model"]
        body: list[ast.stmt] = list(self.names.definitions.values())
        body += [_class(plan) for plan in [*plans, self._plans["Model"]]]
        return ast.fix_missing_locations(ast.Module(body, []))

    def module(self, module: torch.nn.Module) -> ast.expr:
        """An expression that makes a module like this one. Raises Unwritable."""
        if isinstance(module, torch.jit.ScriptModule):
            raise Unwritable("a scripted module")
        kind = type(module)
        if kind in _CONTAINERS:
            return self._container(module, kind)
        if is_library(kind.__module__):
            return leaf_source.text(module)
        return self._own(module, kind)

    def _container(self, module: torch.nn.Module, kind: type) -> ast.expr:
        parts = {name: self.module(part) for name, part in module.named_children()}
        name = f"torch.nn.{kind.__name__}"
        if isinstance(module, torch.nn.Sequential):
            return ast.Call(expression(name), list(parts.values()), [])
        if isinstance(module, torch.nn.ModuleList):
            return ast.Call(expression(name), [ast.List(list(parts.values()), ast.Load())], [])
        keys: list[ast.expr | None] = [ast.Constant(key) for key in parts]
        return ast.Call(expression(name), [ast.Dict(keys, list(parts.values()))], [])

    def _own(self, module: torch.nn.Module, kind: type) -> ast.expr:
        plan = self._plans.get(kind)
        base = next(t for t in kind.__mro__ if is_library(t.__module__))
        if "forward" not in _user_members(kind) and base is not torch.nn.Module:
            return self._container(module, base) if base in _CONTAINERS else leaf_source.text(module, base)
        if plan is None:
            name = kind.__name__.lstrip("_") or "Part"
            while name in TAKEN or name in {p.name for p in self._plans.values()} or name in self.names.definitions:
                name += "_"
            plan = _Plan(name, "torch.nn.Module" if base is torch.nn.Module else f"torch.nn.{base.__name__}", kind)
            if "forward" in _user_members(kind):
                self._method(plan, kind, "forward")
        self._plans.pop(kind, None)
        if "forward" in plan.methods:
            self._plans[kind] = plan
            self._follow(plan, module, python_source.self_attributes(plan.methods["forward"]))
        attributes = self._attributes(plan, module)
        self._plans.pop(kind, None)
        self._plans[kind] = plan  # after the classes that it needs
        args: list[ast.expr] = []
        keywords: list[ast.keyword] = []
        if base in _CONTAINERS:
            args = self._container_args(module)
        elif base is not torch.nn.Module:
            made = leaf_source.text(module, base)
            args, keywords = (made.args, made.keywords) if isinstance(made, ast.Call) else ([], [])
        call = ast.Call(ast.Name(plan.name, ast.Load()), args, keywords)
        plan.made.append((call, attributes))
        return call

    def _container_args(self, module: torch.nn.Module) -> list[ast.expr]:
        children = [self.module(part) for part in module.children()]
        return children if isinstance(module, torch.nn.Sequential) else [ast.List(children, ast.Load())]

    def _method(self, plan: _Plan, kind: type, name: str, owner: type | None = None) -> None:
        """Add a method of the class, found along its bases."""
        member = inspect.getattr_static(owner or kind, name)
        target = member.fget if isinstance(member, property) else member
        function = python_source.plain_function(target)
        node = self.names.function_tree(function)
        node.name = name if owner is None else f"{name}_{owner.__name__}"
        plan.methods[node.name] = node
        self._inherited(node, _defining(owner or kind, name), plan)
        closure = dict(zip(function.__code__.co_freevars, [c.cell_contents for c in function.__closure__ or ()]))
        self.names.resolve(node, function.__globals__, {k: v for k, v in closure.items() if k != "__class__"})

    def _inherited(self, node: ast.FunctionDef, defining: type, plan: _Plan) -> None:
        """``super().f(…)`` to a base class of the user's becomes a call of that method under another name."""
        mro = plan.kind.__mro__
        after = mro[mro.index(defining) + 1 :] if defining in mro else ()
        for part in ast.walk(node):
            if not (isinstance(part, ast.Attribute) and ast.unparse(part.value).startswith("super(")):
                continue
            base = next((t for t in after if part.attr in vars(t)), None)
            if base is None or is_library(base.__module__):
                continue
            new = f"{part.attr}_{base.__name__}"
            part.value = ast.Name("self", ast.Load())
            if new not in plan.methods:
                self._method(plan, plan.kind, part.attr, base)
            part.attr = new

    def _follow(self, plan: _Plan, owner: torch.nn.Module, wanted: set[str]) -> None:
        """Add the methods that are used, and note the attributes that are."""
        todo = list(wanted | {n for n in self._mentioned() if n in _user_members(plan.kind)})
        while todo:
            name = todo.pop()
            if name in plan.used:
                continue
            plan.used.add(name)
            member = inspect.getattr_static(plan.kind, name, None)
            is_own = name in _user_members(plan.kind) and name not in vars(owner)
            if is_own and isinstance(member, (types.FunctionType, staticmethod, classmethod, property)):
                if name not in plan.methods:
                    self._method(plan, plan.kind, name)
                todo += python_source.self_attributes(plan.methods[name])
        for method in plan.methods.values():
            plan.used |= python_source.self_attributes(method)

    def _mentioned(self) -> set[str]:
        return {name for tree in self.names.all_code for name in python_source.attributes(tree)}

    def _attributes(self, plan: _Plan, owner: torch.nn.Module) -> dict[str, ast.expr]:
        """What the used attributes hold, written anew; what can't be written is left out (and may not matter)."""
        held: dict[str, Any] = {}
        for space in (vars(owner), owner._parameters, owner._buffers, owner._modules):  # noqa: SLF001
            held.update(space)
        mentioned = self._mentioned()
        every = "*" in plan.used
        found: dict[str, ast.expr] = {}
        for name, value in {**_constants(plan.kind), **held}.items():
            wanted = name in plan.used or name in mentioned or (every and name in owner._modules)  # noqa: SLF001
            if not wanted or name in _BASE or name in plan.methods:
                continue
            try:
                found[name] = self._attribute(value, name in owner._buffers)  # noqa: SLF001
            except Unwritable as error:
                self.left_out.append(f"{name}: {error}")
        return found

    def _attribute(self, value: Any, buffer: bool) -> ast.expr:
        try:
            made = self.names.value(value)
        except Unwritable:
            return self._namespace(value)
        return ast.Call(expression("torch.nn.Buffer"), [made], []) if buffer and value is not None else made

    def _namespace(self, value: Any) -> ast.expr:
        """A plain object: those of its attributes that the code names."""
        held = {k: v for k, v in getattr(value, "__dict__", {}).items() if k in self._mentioned()}
        if not held:
            raise Unwritable(f"a value of type {type(value).__name__} can't be written")
        keywords = []
        for key, part in held.items():
            try:
                keywords.append(ast.keyword(key, self.names.value(part)))
            except Unwritable:
                continue
        self.names.imports["types"] = "import types"
        return ast.Call(expression("types.SimpleNamespace"), [], keywords)


def _user_members(kind: type) -> set[str]:
    return {name for t in kind.__mro__ if not is_library(t.__module__) for name in vars(t)}


def _constants(kind: type) -> dict[str, Any]:
    """Plain values that are kept in the class."""
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if not is_library(base.__module__):
            found.update({k: v for k, v in vars(base).items() if not callable(v) and not k.startswith("__")})
    return {k: v for k, v in found.items() if not isinstance(v, (property, staticmethod, classmethod))}


def _defining(kind: type, name: str) -> type:
    return next((t for t in kind.__mro__ if name in vars(t)), kind)


def _class(plan: _Plan) -> ast.ClassDef:
    """The class; attributes that are the same wherever it is made are set in it, the others are parameters."""
    texts = [{name: ast.unparse(value) for name, value in attributes.items()} for _, attributes in plan.made]
    every = list(dict.fromkeys(name for text in texts for name in text))
    same = [n for n in every if len({text.get(n) for text in texts}) == 1]
    differing = [n for n in every if n not in same]
    for call, attributes in plan.made:
        missing = [n for n in differing if n not in attributes]
        call.keywords = [
            *call.keywords,
            *(ast.keyword(n, attributes[n]) for n in differing if n in attributes),
            *(ast.keyword(n, ast.Constant(None)) for n in missing),
        ]
    body: list[ast.stmt] = [copy.deepcopy(method) for method in plan.methods.values()]
    if every:
        body.insert(0, _constructor(plan, same, differing))
    base = [expression(plan.base)]
    return ast.ClassDef(plan.name, base, [], body or [ast.Pass()], [])


def _constructor(plan: _Plan, same: list[str], differing: list[str]) -> ast.stmt:
    own = plan.base == "torch.nn.Module"
    parameters = ["self", *(["*args"] if not own else []), *differing, *(["**kwargs"] if not own else [])]
    lines = [f"def __init__({', '.join(parameters)}):"]
    lines.append(f"    super().__init__({'' if own else '*args, **kwargs'})")
    first = plan.made[0][1]
    lines += [f"    self.{name} = {ast.unparse(first[name])}" for name in same]
    lines += [f"    self.{name} = {name}" for name in differing]
    return ast.parse("\n".join(lines)).body[0]
