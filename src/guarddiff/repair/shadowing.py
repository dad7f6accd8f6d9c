"""Other values for names in the modules that hold a model's code, while its capture lasts."""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

from guarddiff.core import locks
from guarddiff.core.own_models import is_own_model

_LEFT_ALONE = {
    *sys.stdlib_module_names,
    *("torch", "numpy", "sympy", "onnx", "onnxscript", "onnx_ir", "onnxruntime", "guarddiff"),
}
_ABSENT = object()
_lock = locks.lock()


def namespaces(model: Any) -> list[dict[str, Any]]:
    """The globals of the modules that hold the model's code: of the classes of its submodules, of functions kept in
    their attributes, and of what those call by name. Not those of torch, numpy and the standard library."""
    found: dict[int, dict[str, Any]] = {}
    seen: set[int] = set()
    waiting = list(_starts(model))
    while waiting:
        function = waiting.pop()
        if id(function.__code__) in seen or not _model_code(function.__globals__):
            continue
        seen.add(id(function.__code__))
        found[id(function.__globals__)] = function.__globals__
        waiting += _called(function)
    return list(found.values())


def _model_code(space: Mapping[str, Any]) -> bool:
    name = str(space.get("__name__") or "")
    return is_own_model(name) or name.partition(".")[0] not in _LEFT_ALONE


def _starts(model: Any) -> Iterator[FunctionType]:
    if not isinstance(model, torch.nn.Module):
        yield from _functions(model)
        return
    classes: set[type] = set()
    for module in model.modules():
        classes.update(type(module).__mro__)
        for value in vars(module).values():
            yield from _functions(value)
    for cls in classes:
        yield from _of_class(cls)


def _of_class(cls: type) -> Iterator[FunctionType]:
    for value in list(vars(cls).values()):
        yield from _functions(value)


def _functions(value: Any) -> Iterator[FunctionType]:
    """The Python functions that a value runs when it is called, or read as an attribute."""
    if isinstance(value, FunctionType):
        yield value
        wrapped = value.__dict__.get("__wrapped__")
        if wrapped is not None:
            yield from _functions(wrapped)
    elif isinstance(value, (staticmethod, classmethod, MethodType)):
        yield from _functions(value.__func__)
    elif isinstance(value, functools.partial):
        yield from _functions(value.func)
    elif isinstance(value, property):
        yield from _functions(value.fget)
    elif isinstance(value, functools.cached_property):
        yield from _functions(value.func)


def _called(function: FunctionType) -> Iterator[FunctionType]:
    """The functions that a function names, itself or in the functions inside it, and those in its closure."""
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # a cell that is not filled yet
            yield from _functions(cell.cell_contents)
    names = set(_names(function.__code__))
    for name in names:
        value = function.__globals__.get(name)
        if isinstance(value, ModuleType):
            if _model_code(vars(value)):
                for inner in names & set(vars(value)):
                    yield from _functions(vars(value)[inner])
        elif inspect.isclass(value):
            yield from _of_class(value)
        else:
            yield from _functions(value)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


@dataclass
class _Shadow:
    """What stands in under one name of one module, for how many, and what was there (``_ABSENT``: nothing)."""

    space: dict[str, Any]
    name: str
    stand_in: Any
    before: Any
    users: int = field(default=0)


_shadows: dict[tuple[int, str], _Shadow] = {}


@contextlib.contextmanager
def shadowed(spaces: Iterable[dict[str, Any]], stand_ins: Mapping[Any, Any]) -> Iterator[None]:
    """While this is on, names of the modules whose globals ``spaces`` are lead to the stand-ins of what they led to.

    All threads see it. Where it is on several times, also in several threads, the last to end takes it back.
    """
    held: list[_Shadow] = []
    try:
        with _lock:
            for space in spaces:
                for name, real in _shadowable(space, stand_ins):
                    held.append(_hold(space, name, real, stand_ins[real]))
        yield
    finally:
        with _lock:
            for shadow in held:
                _let_go(shadow)


def _shadowable(space: dict[str, Any], stand_ins: Mapping[Any, Any]) -> list[tuple[str, Any]]:
    """Names to shadow, each with what they lead to: those of the module, and builtins that it does not hide."""
    ids = {id(real): real for real in stand_ins} | {id(stand_in): real for real, stand_in in stand_ins.items()}
    found = [(name, ids[id(value)]) for name, value in list(space.items()) if id(value) in ids]
    for real in stand_ins:
        name = getattr(real, "__name__", "")
        if getattr(real, "__module__", "") == "builtins" and name not in space:
            found.append((name, real))
    return found


def _hold(space: dict[str, Any], name: str, real: Any, stand_in: Any) -> _Shadow:
    shadow = _shadows.get((id(space), name))
    if shadow is None:
        shadow = _Shadow(space, name, stand_in, real if name in space else _ABSENT)
        _shadows[id(space), name] = shadow
        space[name] = stand_in
    shadow.users += 1
    return shadow


def _let_go(shadow: _Shadow) -> None:
    """One user less; with the last, the name leads to what it led to, unless somebody else has set it since."""
    shadow.users -= 1
    if shadow.users:
        return
    del _shadows[id(shadow.space), shadow.name]
    if shadow.space.get(shadow.name) is not shadow.stand_in:
        return
    if shadow.before is _ABSENT:
        del shadow.space[shadow.name]
    else:
        shadow.space[shadow.name] = shadow.before
