"""Exports with the translations of repairs, beside plain ones."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from tests.repair.exporting import One, Three, Two, difference, every
from torch import nn
from torch.onnx._internal.exporter._registration import ONNXRegistry

from guarddiff.repair import capture, registry
from guarddiff.repair.registry import Repair

_built = functools.cache(ONNXRegistry.from_torchlib)  # takes most of the time of a small export


def _copy(*args: Any, **kwargs: Any) -> ONNXRegistry:
    """torch writes custom translations into the registry that it is given: each export gets its own."""
    built, copy = _built(*args, **kwargs), ONNXRegistry()
    copy._opset_version = built.opset_version
    copy.functions = {target: list(metas) for target, metas in built.functions.items()}
    return copy


def translated(
    function: Callable[..., Any],
    args: tuple[torch.Tensor, ...],
    repairs: Sequence[Repair] = (),
    shapes: Any = None,
    opset: int | None = None,
) -> bytes:
    """The ONNX file made with the translations of ``repairs``; none: plain torch.onnx.export."""
    model = function if isinstance(function, nn.Module) else (One, Two, Three)[len(args) - 1](function)
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(), capture.repairs(repairs, model=model):
        warnings.simplefilter("ignore")
        patch.setattr(ONNXRegistry, "from_torchlib", staticmethod(_copy))
        program = torch.onnx.export(
            model.eval(),
            args,
            verbose=False,
            dynamo=True,
            dynamic_shapes=every(*args) if shapes is None else shapes,
            opset_version=opset,
            custom_translation_table=registry.translation_table(repairs),
        )
    return program.model_proto.SerializeToString()


def check_translated(
    function: Callable[..., Any],
    args: tuple[torch.Tensor, ...],
    others: Sequence[tuple[torch.Tensor, ...]],
    repairs: Sequence[Repair],
    shapes: Any = None,
    opset: int | None = None,
    single: float = 2e-6,
) -> None:
    """With the translations the export is right at the example's sizes and at ``others``."""
    file = translated(function, args, repairs, shapes, opset)
    for inputs in (args, *others):
        with torch.no_grad():
            found = difference(file, function, inputs, single)
        assert found is None, f"at {[tuple(one.shape) for one in inputs]}: {found}"


def plain_fault(
    function: Callable[..., Any], args: tuple[torch.Tensor, ...], other: tuple[torch.Tensor, ...], shapes: Any = None
) -> str:
    """How plain torch.onnx.export goes wrong at ``other``. Fails where it is right."""
    try:
        file = translated(function, args, (), shapes)
    except Exception as error:
        return f"refused: {error}"
    with torch.no_grad():
        found = difference(file, function, other)
    assert found is not None, "the plain export is right there"
    return found
