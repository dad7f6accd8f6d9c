"""Exports of one pooling call with the repair's translations, and what ONNX Runtime and eager PyTorch give."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnxruntime as ort
import torch
from torch import nn

from guarddiff.repair import adaptive_avg_pool, adaptive_max_pool, registry

POOLING = registry.translation_table([*adaptive_avg_pool.REPAIRS, *adaptive_max_pool.REPAIRS])


class Call(nn.Module):
    """A module of one function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def table(translations: Mapping[str, Callable[..., Any]]) -> dict[Callable[..., Any], Callable[..., Any]]:
    """As ``custom_translation_table`` wants it."""
    return registry.translation_table([registry.Repair("", (), "", translations=translations)])


def export(
    function: Callable[..., Any],
    x: torch.Tensor,
    spatial: int,
    *,
    decomposed: bool = False,
    translations: Any = None,
) -> torch.onnx.ONNXProgram:
    """The program with the last ``spatial`` axes dynamic, and the batch where there is one. ``decomposed``: the user
    ran ``run_decompositions`` already."""
    axes = {axis: f"d{axis}" for axis in range(x.ndim - spatial, x.ndim)}
    if x.ndim == spatial + 2:
        axes[0] = "n"
    how: Any = {"dynamo": True, "verbose": False, "custom_translation_table": translations or POOLING}
    if decomposed:
        dims = {axis: torch.export.Dim(name) for axis, name in axes.items()}
        program = torch.export.export(Call(function), (x,), dynamic_shapes=(dims,)).run_decompositions()
        found = torch.onnx.export(program, **how)
    else:
        found = torch.onnx.export(Call(function), (x,), dynamic_shapes=(axes,), **how)
    assert found is not None
    return found


class Runner:
    """An exported program in ONNX Runtime, on one thread."""

    def __init__(self, program: torch.onnx.ONNXProgram) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        model = program.model_proto.SerializeToString()
        self._session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._input = self._session.get_inputs()[0].name

    def __call__(self, x: torch.Tensor) -> list[torch.Tensor]:
        if x.dtype == torch.bfloat16:
            return self._bound(x)
        return [torch.from_numpy(np.asarray(y)) for y in self._session.run(None, {self._input: x.numpy()})]

    def _bound(self, x: torch.Tensor) -> list[torch.Tensor]:
        """numpy has no bfloat16."""
        raw = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(x.view(torch.uint16).numpy(), 16)
        binding = self._session.io_binding()
        binding.bind_ortvalue_input(self._input, raw)
        for output in self._session.get_outputs():
            binding.bind_output(output.name, "cpu")
        self._session.run_with_iobinding(binding)
        return [_torch(value) for value in binding.get_outputs()]


def _torch(value: ort.OrtValue) -> torch.Tensor:
    if value.data_type() != "tensor(bfloat16)":
        return torch.from_numpy(value.numpy())
    return torch.utils.dlpack.from_dlpack(value._ortvalue.to_dlpack()).clone()


def error(found: torch.Tensor, exact: torch.Tensor) -> float:
    """L2 distance from the float64 reference."""
    assert found.shape == exact.shape
    return float((found.double() - exact).norm())
