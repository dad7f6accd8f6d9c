"""The tensors of nested values, with names."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch


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
