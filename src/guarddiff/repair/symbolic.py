"""Sizes that are not known while a model is captured, told apart by their text: comparing them would add guards."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch


def symbolic(value: Any) -> bool:
    """Whether a number stands for a size that is open. What was a symbol and has been fixed since is not."""
    if not isinstance(value, (torch.SymInt, torch.SymFloat)):
        return False
    try:
        float(str(value))
    except ValueError:
        return True
    return False


def any_symbolic(values: Iterable[Any]) -> bool:
    """Whether one of the numbers stands for a size that is open."""
    return any(symbolic(value) for value in values)


def same(one: Any, other: Any) -> bool:
    """Whether two sizes are written alike, hence equal whatever the open ones are. False says nothing."""
    return str(one) == str(other)


def plain_factory(options: dict[str, Any]) -> bool:
    """Whether the keywords of a factory function ask for nothing but a dtype and a device."""
    return (
        options.get("out") is None
        and options.get("layout") in (None, torch.strided)
        and not options.get("pin_memory")
        and not options.get("requires_grad")
        and not set(options) - {"dtype", "device", "out", "layout", "pin_memory", "requires_grad"}
    )
