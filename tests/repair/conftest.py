"""What the tests of repairs share."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from torch.onnx._internal.exporter._registration import ONNXRegistry


@pytest.fixture(scope="module")
def shared_registry() -> Iterator[None]:
    """The exporter's operator registry is built once and copied for every export: building it takes most of the time
    of a small export, and an export adds its custom translations to the one that it has."""
    with pytest.MonkeyPatch.context() as patch:
        built = ONNXRegistry.from_torchlib()

        def again(*_: Any, **__: Any) -> ONNXRegistry:
            fresh = copy.copy(built)
            fresh.functions = {name: list(found) for name, found in built.functions.items()}
            return fresh

        patch.setattr(ONNXRegistry, "from_torchlib", staticmethod(again))
        yield
