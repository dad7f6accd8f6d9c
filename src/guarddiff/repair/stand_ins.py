"""Stand-ins for ``int``, ``float``, ``max``, ``min`` and ``math``: a size stays open where those make it a number.

They act in the threads in which repairs are on (``acting``), and are the real ones elsewhere.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import math
import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import torch

from guarddiff.repair.symbolic import any_symbolic, symbolic

_local = threading.local()
_NUMBERS = (builtins.int, builtins.float, torch.SymInt, torch.SymFloat)


@contextlib.contextmanager
def acting() -> Iterator[None]:
    """Stand-ins keep sizes open in this thread while this is on."""
    depth = getattr(_local, "depth", 0)
    _local.depth = depth + 1
    try:
        yield
    finally:
        _local.depth = depth


def _on(*values: Any) -> bool:
    return bool(getattr(_local, "depth", 0)) and any_symbolic(values)


class _Number(type):
    """The class of a stand-in for a number's class: equal to it, and its instances and subclasses are that one's."""

    _real: type
    _keep: Callable[[Any], Any]

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if not cls._stands_in():
            return super().__call__(*args, **kwargs)
        if len(args) == 1 and not kwargs and _on(args[0]):
            return cls._keep(args[0])
        return cls._real(*args, **kwargs)

    def _stands_in(cls) -> bool:
        return "_real" in cls.__dict__

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls._real) if cls._stands_in() else super().__instancecheck__(instance)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls._real) if cls._stands_in() else super().__subclasscheck__(subclass)

    def __eq__(cls, other: object) -> bool:
        return other is cls or (cls._stands_in() and other is cls._real)

    def __hash__(cls) -> int:
        return hash(cls._real) if cls._stands_in() else super().__hash__()

    def __repr__(cls) -> str:
        return repr(cls._real) if cls._stands_in() else super().__repr__()


def _number(real: type, keep: Callable[[Any], Any]) -> Any:
    """The stand-in for a class of numbers. A subclass of it, so that its attributes and patterns of ``match`` work."""
    inside = {"_real": real, "_keep": staticmethod(keep), "__module__": "builtins", "__qualname__": real.__name__}
    return _Number(real.__name__, (real,), {**inside, "__doc__": real.__doc__})


class _Math(ModuleType):
    """The math module with some functions replaced."""

    def __init__(self, functions: dict[str, Callable[..., Any]]) -> None:
        super().__init__("math", math.__doc__)
        self.__dict__.update(functions)

    def __getattr__(self, name: str) -> Any:
        return getattr(math, name)

    def __dir__(self) -> list[str]:
        return dir(math)


def _function(real: Callable[..., Any], keep: Callable[..., Any]) -> Callable[..., Any]:
    """A stand-in for a function of the math module."""

    def stand_in(*args: Any) -> Any:
        return keep(*args) if _on(*args) else real(*args)

    stand_in.__name__ = stand_in.__qualname__ = real.__name__
    stand_in.__module__, stand_in.__doc__ = "math", real.__doc__
    return stand_in


def _float(value: Any) -> Any:
    keep: Callable[[Any], Any] = torch.sym_float
    return keep(value) if symbolic(value) else builtins.float(value)


def _sqrt(value: Any) -> Any:
    return torch.sym_sqrt(_float(value))


def _pow(base: Any, exponent: Any) -> Any:
    return _float(base) ** _float(exponent)


def _isqrt(value: Any) -> Any:
    """Right below 2**52, where a float64 holds every whole number and the root of the next square differs."""
    return math.floor(_sqrt(value))


def _fabs(value: Any) -> Any:
    return abs(_float(value))


def _by_tensor(of: Callable[[Any], Any]) -> Callable[..., Any]:
    """A function that torch has for tensors only."""

    def number(value: Any) -> Any:
        return of(torch.scalar_tensor(value, dtype=torch.float64)).item()

    return number


def _whole_log(base: float) -> Callable[[Any], Any]:
    """The logarithm to ``base``, exact where it is a whole number, as in Python's log2 and log10."""

    def of(value: Any) -> Any:
        found = torch.log(value) / math.log(base)
        whole = torch.round(found)
        return torch.where(torch.pow(torch.full_like(value, base), whole) == value, whole, found)

    return _by_tensor(of)


def _log(value: Any, base: Any = None) -> Any:
    natural = _by_tensor(torch.log)
    if base is None:
        return natural(value)
    below = natural(base) if symbolic(base) else math.log(base)
    return (natural(value) if symbolic(value) else math.log(value)) / below


def _extreme(name: str, keep: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """A stand-in for ``max`` or ``min``: of numbers, one of them open, it asks no question. That a whole number stays
    one among floats is lost. torch.export puts its own functions in place of these, which are called for the rest."""

    def stand_in(*args: Any, **kwargs: Any) -> Any:
        values = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
        if kwargs or not _on(*values) or not all(isinstance(value, _NUMBERS) for value in values):
            return getattr(builtins, name)(*args, **kwargs)
        return functools.reduce(keep, values)

    stand_in.__name__ = stand_in.__qualname__ = name
    stand_in.__module__ = "builtins"
    return stand_in


_KEEPS: dict[str, Callable[..., Any]] = {
    "sqrt": _sqrt,
    "pow": _pow,
    "isqrt": _isqrt,
    "fabs": _fabs,
    "log": _log,
    "log2": _whole_log(2.0),
    "log10": _whole_log(10.0),
    "exp": _by_tensor(torch.exp),
}
_FUNCTIONS = {name: _function(getattr(math, name), keep) for name, keep in _KEEPS.items()}

STAND_INS: dict[Any, Any] = {
    builtins.int: _number(builtins.int, torch.sym_int),
    builtins.float: _number(builtins.float, torch.sym_float),
    builtins.max: _extreme("max", torch.sym_max),
    builtins.min: _extreme("min", torch.sym_min),
    math: _Math(_FUNCTIONS),
    **{getattr(math, name): stand_in for name, stand_in in _FUNCTIONS.items()},
}
"""What a model's code calls, to what stands in for it."""
