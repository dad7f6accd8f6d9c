"""Modules that are held to fixed sizes: checked in eager, told in the contract of their export."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import nn

from guarddiff.contract import tensors
from guarddiff.core.calling import by_parameter
from guarddiff.core.errors import ContractViolation

_Module = TypeVar("_Module", bound=nn.Module)
_MARK = "guarddiff_frozen"


@dataclass(frozen=True)
class Frozen:
    """What a module is held to: the shape of every tensor that it is given, by name; None stands for any size."""

    shapes: Mapping[str, tuple[int | None, ...]]


def freeze(
    module: _Module,
    args: Any,
    kwargs: Mapping[str, Any] | None = None,
    *,
    free: Mapping[str, Sequence[int]] | None = None,
) -> _Module:
    """``module`` held to the sizes of example inputs.

    The result shares parameters, buffers and submodules with ``module``, which stays as it is. Called with other sizes
    it raises ``ContractViolation`` before anything is computed. Exported by ``guarddiff.export`` to a file, the
    contract with these sizes is embedded there (``guarddiff.read_contract``, ``guarddiff.CheckedSession``). Sizes are
    not looked at inside ``torch.compile`` and ``torch.export``, nor where ``forward`` is called directly.

    Args:
        module: The module, typically one whose code was rewritten for fixed sizes.
        args: Example inputs: a tuple of positional ones, or one tensor.
        kwargs: Example inputs by keyword.
        free: Axes that stay free, by the name of the input: ``{"images": [0]}`` for the batch. An input within
            another is named by where it is: ``past[0]``.

    Raises:
        TypeError: The module is none, or the inputs are no tuple, tensor or mapping, or don't fit its ``forward``.
        ValueError: The module is frozen already, or ``free`` names an input or axis that is not there.
    """
    if frozen_of(tensors.module(module, "module")) is not None:
        raise ValueError("this module is frozen already: freeze the module that it was made of")
    shapes = _shapes(module, *tensors.inputs(args, kwargs, "args"))
    held: dict[str, tuple[int | None, ...]] = {name: tuple(shape) for name, shape in shapes.items()}
    for name, axes in (free or {}).items():
        if name not in held:
            raise ValueError(f"free names {name!r}: the inputs are {', '.join(held)}")
        rank = len(held[name])
        for axis in axes:
            if not -rank <= axis < rank:
                raise ValueError(f"free names axis {axis} of {name}, which has {rank}")
        dropped = {axis % rank for axis in axes}
        held[name] = tuple(None if axis in dropped else size for axis, size in enumerate(held[name]))
    frozen = copy.copy(module)
    for hooks in ("_forward_pre_hooks", "_forward_pre_hooks_with_kwargs"):
        frozen.__dict__[hooks] = OrderedDict(frozen.__dict__[hooks])
    object.__setattr__(frozen, _MARK, Frozen(held))
    frozen.register_forward_pre_hook(_look, prepend=True, with_kwargs=True)
    return frozen


def frozen_of(module: Any) -> Frozen | None:
    """What a module is held to; None for one that ``freeze`` did not make."""
    found = getattr(module, "__dict__", {}).get(_MARK)  # the module's own attributes are not asked
    return found if isinstance(found, Frozen) else None


def _shapes(module: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    given = by_parameter(module.forward, args, kwargs)
    return {name: tuple(tensor.shape) for value in given for name, tensor in tensors.named(given[value], value)}


def _look(module: nn.Module, args: Any, kwargs: Any) -> None:
    """The hook: refuse other sizes than those the module is held to. An export looks at them by itself."""
    frozen = frozen_of(module)
    if frozen is None or torch.compiler.is_compiling():
        return
    broken = []
    given = _shapes(module, args, kwargs)
    for name, shape in frozen.shapes.items():
        here = given.get(name)
        if here is None or len(here) != len(shape):
            broken.append(f"{name}: it has to be a tensor of rank {len(shape)}, not {_shown(here)}")
            continue
        broken += [
            f"{name}[{axis}]={size}: this module was frozen for {held}"
            for axis, (size, held) in enumerate(zip(here, shape))
            if held is not None and size != held
        ]
    broken += [f"{name}: this module was frozen without such an input" for name in given.keys() - frozen.shapes.keys()]
    if broken:
        raise ContractViolation("; ".join(broken), tuple(broken))


def _shown(shape: tuple[int, ...] | None) -> str:
    return "nothing" if shape is None else f"one of rank {len(shape)}"
