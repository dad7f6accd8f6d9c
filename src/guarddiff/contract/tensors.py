"""A module and its inputs as they were given, and the tensors of nested values, with names."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import torch
from torch import nn

_Module = TypeVar("_Module", bound=nn.Module)


def module(given: _Module, name: str) -> _Module:
    """What was given as ``name``. Raises TypeError for what is no module."""
    if not isinstance(given, nn.Module):
        raise TypeError(f"{name} has to be a torch.nn.Module, not {type(given).__name__}")
    return given


def inputs(args: Any, kwargs: Mapping[str, Any] | None, name: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The inputs of a module, positional and by keyword: one tensor stands for itself. Raises TypeError for others;
    ``name`` is that of the positional ones."""
    given = (args,) if isinstance(args, torch.Tensor) else args
    if not isinstance(given, (tuple, list)):
        raise TypeError(f"{name} must be a tuple, or one tensor, not {type(args).__name__}")
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise TypeError(f"kwargs must be a mapping of names to inputs, not {type(kwargs).__name__}")
    return tuple(given), dict(kwargs or {})


def named(value: Any, name: str) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor in nested tuples, lists, mappings and dataclasses: ``x``, ``past[0]``, ``d['a']``, ``o.logits``."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from named(part, f"{name}[{key!r}]")
    elif isinstance(value, (list, tuple)):
        for place, part in enumerate(value):
            yield from named(part, f"{name}[{place}]")
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from named(getattr(value, field.name), f"{name}.{field.name}")


def mapped(value: Any, change: Callable[[torch.Tensor], Any]) -> Any:
    """The same nested value with every tensor changed."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, Mapping):
        kind: Any = type(value)
        return kind((key, mapped(part, change)) for key, part in value.items())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(mapped(part, change) for part in value))
    if isinstance(value, (list, tuple)):
        return type(value)(mapped(part, change) for part in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: mapped(getattr(value, field.name), change) for field in dataclasses.fields(value)}
        return dataclasses.replace(value, **fields)
    return value
