"""Exports with and without repairs of capture, run in ONNX Runtime and compared with eager PyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from tests.registry import shared_registry
from torch import nn
from torch.utils._pytree import tree_leaves

from guarddiff.repair import capture
from guarddiff.repair.registry import Repair

AUTO, DYNAMIC = torch.export.Dim.AUTO, torch.export.Dim.DYNAMIC
_seed = torch.Generator().manual_seed(0)


class One(nn.Module):
    """A model of one function of one input."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


class Two(One):
    """A model of one function of two inputs."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        return self.function(x, y)


class Three(One):
    """A model of one function of three inputs."""

    def forward(self, x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> Any:
        return self.function(x, y, z)


def rand(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=_seed).to(dtype)


def every(*tensors: torch.Tensor, size: Any = AUTO) -> tuple[dict[int, Any], ...]:
    """All dimensions of the inputs declared dynamic."""
    return tuple(dict.fromkeys(range(tensor.dim()), size) for tensor in tensors)


def exported(
    function: Callable[..., Any],
    args: tuple[torch.Tensor, ...],
    shapes: Any = None,
    repairs: Sequence[Repair] = (),
    strict: bool = False,
) -> bytes:
    """The ONNX file that torch.onnx.export makes while ``repairs`` are on."""
    model: Any = function if isinstance(function, nn.Module) else (One, Two, Three)[len(args) - 1](function)
    shapes = every(*args) if shapes is None else shapes
    more = {"dynamic_shapes": shapes}
    with shared_registry(), warnings.catch_warnings(), capture.repairs(repairs):
        warnings.simplefilter("ignore")
        if strict:
            model, more = torch.export.export(model, args, dynamic_shapes=shapes, strict=True), {}
        program = torch.onnx.export(model, args, verbose=False, dynamo=True, **more)
    return program.model_proto.SerializeToString()


def run(file: bytes, args: tuple[torch.Tensor, ...]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    return session.run(None, {name: arg.numpy() for name, arg in zip(names, args, strict=True)})


# For tests that sample images: that multiplies the last place of a position, in which processors differ, by slopes.
SAMPLED = 1e-5


def difference(
    file: bytes, function: Callable[..., Any], args: tuple[torch.Tensor, ...], single: float = 2e-6
) -> str | None:
    """How the file's results differ from those of eager PyTorch; None where they don't. ``single``: the tolerance,
    relative and absolute, of what is no float16."""
    expected = [leaf.numpy() for leaf in tree_leaves(function(*args))]
    try:
        got = run(file, args)
    except Exception as error:
        return f"ONNX Runtime raised: {error}"
    if [(a.shape, a.dtype) for a in got] != [(a.shape, a.dtype) for a in expected]:
        return f"{[(a.shape, a.dtype) for a in got]} in place of {[(a.shape, a.dtype) for a in expected]}"
    half = any(a.dtype == np.float16 for a in expected)
    tolerance = 2e-3 if half else single
    for one, other in zip(got, expected, strict=True):
        if not np.allclose(one, other, rtol=tolerance, atol=tolerance, equal_nan=True):
            return f"values differ by {np.abs(one.astype(float) - other.astype(float)).max()}"
    return None


def check_repaired(
    function: Callable[..., Any],
    args: tuple[torch.Tensor, ...],
    others: Sequence[tuple[torch.Tensor, ...]],
    repairs: Sequence[Repair],
    shapes: Any = None,
    strict: bool = False,
    single: float = 2e-6,
) -> None:
    """The export is right at the example's sizes and at ``others`` while ``repairs`` are on."""
    file = exported(function, args, shapes, repairs, strict)
    for inputs in (args, *others):
        found = difference(file, function, inputs, single)
        assert found is None, f"at {[tuple(one.shape) for one in inputs]}: {found}"


def plain_is_wrong(
    function: Callable[..., Any], args: tuple[torch.Tensor, ...], other: tuple[torch.Tensor, ...], shapes: Any = None
) -> str:
    """How the export without repairs goes wrong at ``other``: it refuses or differs. Fails where it is right."""
    try:
        file = exported(function, args, shapes)
    except Exception as error:
        return f"refused: {error}"
    found = difference(file, function, other)
    assert found is not None, "the plain export is right there"
    return found


def as_if_open(patch: pytest.MonkeyPatch, module: Any, *names: str) -> None:
    """Every size counts as open in a file of repairs, so that what it puts in place runs in eager PyTorch."""
    for name in names or ("symbolic",):
        patch.setattr(module, name, lambda value: True)


def same_tensors(one: Any, other: Any) -> None:
    """Equal in number, shape, dtype and, but for rounding, in values."""
    ones, others = tree_leaves(one), tree_leaves(other)
    assert len(ones) == len(others)
    for a, b in zip(ones, others, strict=True):
        torch.testing.assert_close(a, b, equal_nan=True)
