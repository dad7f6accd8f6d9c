"""What a repair is, and which repairs there are for a finding."""

from __future__ import annotations

import fnmatch
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, wraps
from importlib import import_module
from typing import Any

import torch

from guarddiff.core.finding import Finding
from guarddiff.core.stage import Stage

_PACKAGE = __name__.rpartition(".")[0]
_MODULES = ("operator", "math", "builtins", "torch")
"""Modules whose functions stand in captured graphs beside torch's operators."""


@dataclass(frozen=True)
class Repair:
    """One way to export an operator that is right at every size.

    Attributes:
        name: What it is for, in words (``adaptive average pooling``).
        ops: Patterns (as of ``fnmatch``) of the operators of findings that it mends.
        way: What the repaired model does, in words.
        stages: Stages of such findings; empty for any.
        translations: Operator (``aten._adaptive_avg_pool2d.default``) to the function that writes its ONNX nodes, as
            ``custom_translation_table`` of ``torch.onnx.export`` takes it.
        functions: Function or method of torch to what is called instead while the model is captured; that returns
            ``NotImplemented`` where the original is right.
        stand_ins: What the model's own code calls (``int``, ``math``, ``math.sqrt``) to what it finds under that name
            while the model is captured.
        optimize: False: the exporter's optimizer is left out.
        since: First torch release it is for (2, 13).
        before: First torch release it is not for; None for none.
    """

    name: str
    ops: tuple[str, ...]
    way: str
    stages: tuple[Stage, ...] = ()
    translations: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    functions: Mapping[Callable[..., Any], Callable[..., Any]] = field(default_factory=dict)
    stand_ins: Mapping[Any, Any] = field(default_factory=dict)
    optimize: bool = True
    since: tuple[int, int] = (2, 13)
    before: tuple[int, int] | None = None

    def applies(self, finding: Finding) -> bool:
        """Whether it is for this finding, on this torch."""
        this = release()
        if this < self.since or (self.before is not None and this >= self.before):
            return False
        return _matches(finding, self.ops, self.stages)


@dataclass(frozen=True)
class Refusal:
    """Why there is no repair for an operator (``ops`` as for a repair), and the way out. ``other_example``: exporting
    with another example may mend it all the same."""

    ops: tuple[str, ...]
    why: str
    way_out: str
    stages: tuple[Stage, ...] = ()
    other_example: bool = False

    def applies(self, finding: Finding) -> bool:
        """Whether it is for this finding."""
        return _matches(finding, self.ops, self.stages)


def _matches(finding: Finding, ops: tuple[str, ...], stages: tuple[Stage, ...]) -> bool:
    if stages and finding.stage not in stages:
        return False
    return any(fnmatch.fnmatchcase(finding.op, pattern) for pattern in ops)


@lru_cache(maxsize=1)
def every() -> tuple[Repair, ...]:
    """All repairs: the ``REPAIRS`` of every file of this room."""
    return tuple(repair for module in _modules() for repair in getattr(module, "REPAIRS", ()))


@lru_cache(maxsize=1)
def refusals() -> tuple[Refusal, ...]:
    """Operators for which there is no repair, and why."""
    return tuple(refusal for module in _modules() for refusal in getattr(module, "REFUSALS", ()))


def _modules() -> list[Any]:
    path = import_module(_PACKAGE).__path__
    return [import_module(f"{_PACKAGE}.{found.name}") for found in sorted(pkgutil.iter_modules(path), key=_name)]


def _name(found: pkgutil.ModuleInfo) -> str:
    return found.name


def for_finding(finding: Finding) -> tuple[Repair, ...]:
    """The repairs for a finding; empty where none is known."""
    return tuple(repair for repair in every() if repair.applies(finding))


_NOTHING_KNOWN = Refusal(
    ops=("*",),
    why="no repair is known for this",
    way_out=(
        "keep to the admitted sizes, declare the dimension static, or write this line in another way (sizes of 2 and "
        "more that differ from each other make the best example)"
    ),
)


_WRONG_ANYWHERE = Refusal(ops=("*",), why=_NOTHING_KNOWN.why, way_out="write this line in another way")


def refusal_of(finding: Finding) -> Refusal:
    """Why there is no repair for a finding, and the way out."""
    otherwise = _WRONG_ANYWHERE if finding.at_example else _NOTHING_KNOWN
    return next((refusal for refusal in refusals() if refusal.applies(finding)), otherwise)


def translation_table(repairs: Sequence[Repair] | None = None) -> dict[Callable[..., Any], Callable[..., Any]]:
    """Torch operator to the function that writes its ONNX nodes, to be given to ``torch.onnx.export`` as
    ``custom_translation_table``.

    ``repairs`` None: of all repairs there are. Operators that this torch does not have are left out.
    """
    found = {}
    for repair in every() if repairs is None else repairs:
        for name, function in repair.translations.items():
            operator = _operator(name)
            if operator is not None:
                found[operator] = function
    return found


def noted(repairs: Sequence[Repair], used: dict[str, Repair]) -> list[Repair]:
    """The repairs, each of which puts itself into ``used`` by its name when something of it is."""
    return [_noted(repair, used) for repair in repairs]


def _noted(repair: Repair, used: dict[str, Repair]) -> Repair:
    def noting(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            if result is not NotImplemented:
                used.setdefault(repair.name, repair)
            return result

        return call

    return replace(
        repair,
        translations={name: noting(function) for name, function in repair.translations.items()},
        functions={original: noting(instead) for original, instead in repair.functions.items()},
    )


def functions(repairs: Sequence[Repair]) -> dict[Callable[..., Any], Callable[..., Any]]:
    """Function of torch to what is called instead while a model is captured."""
    return {original: instead for repair in repairs for original, instead in repair.functions.items()}


def stand_ins(repairs: Sequence[Repair]) -> dict[Any, Any]:
    """What a model's own code calls to what it finds under that name while it is captured."""
    return {original: instead for repair in repairs for original, instead in repair.stand_ins.items()}


def _operator(name: str) -> Callable[..., Any] | None:
    """``aten.squeeze.dim``, or of a module ``operator.floordiv``; None where there is no such operator."""
    holder: Any = torch.ops
    module = name.partition(".")[0]
    if module in _MODULES:
        holder, name = import_module(module), name.partition(".")[2]
    try:
        for part in name.split("."):
            holder = getattr(holder, part)
    except AttributeError:
        return None
    found: Callable[..., Any] = holder
    return found


def release() -> tuple[int, int]:
    """This torch's, as major and minor number."""
    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)
