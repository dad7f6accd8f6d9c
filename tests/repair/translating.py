"""Exports with the translations of repairs, beside plain ones."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from tests.registry import shared_registry
from tests.repair.exporting import One, Three, Two, difference, every
from torch import nn

from guarddiff.repair import capture, registry
from guarddiff.repair.registry import Repair


def translated(
    function: Callable[..., Any],
    args: tuple[torch.Tensor, ...],
    repairs: Sequence[Repair] = (),
    shapes: Any = None,
    opset: int | None = None,
) -> bytes:
    """The ONNX file made with the translations of ``repairs``; none: plain torch.onnx.export."""
    model = function if isinstance(function, nn.Module) else (One, Two, Three)[len(args) - 1](function)
    with shared_registry(), warnings.catch_warnings(), capture.repairs(repairs, model=model):
        warnings.simplefilter("ignore")
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
