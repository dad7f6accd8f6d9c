"""The exporter's operator registry, built once in a process: that takes most of the time of a small export."""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Iterator
from typing import Any
from unittest import mock

from torch.onnx._internal.exporter._registration import ONNXRegistry

_built = functools.cache(ONNXRegistry.from_torchlib)


def again(*args: Any, **kwargs: Any) -> ONNXRegistry:
    """A copy, as an export writes custom translations into the registry that it is given."""
    built = _built(*args, **kwargs)
    fresh = copy.copy(built)
    fresh.functions = {target: list(known) for target, known in built.functions.items()}
    return fresh


@contextlib.contextmanager
def shared_registry() -> Iterator[None]:
    """Every export inside gets a copy of the one."""
    with mock.patch.object(ONNXRegistry, "from_torchlib", staticmethod(again)):
        yield
