"""A fault of the exporter's optimizer, repaired by leaving it out."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
import onnxruntime
import pytest
import torch
from torch import nn
from torch.export import Dim

import guarddiff
from guarddiff.repair import registry
from guarddiff.repair.optimizer import REPAIRS

pytestmark = pytest.mark.usefixtures("no_reproductions")


class Spread(nn.Module):
    """As many rows as the second input has."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x[:1].expand(y.shape[0], 3) * 2


def spoil(monkeypatch: pytest.MonkeyPatch) -> None:
    """An optimizer that takes the example's size for a constant."""
    real = torch.onnx.ONNXProgram.optimize

    def optimize(self: Any) -> None:
        real(self)
        for node in list(self.model.graph):
            if node.op_type == "Shape":
                fixed = ir.node("Constant", [], {"value_ints": [4]}, outputs=[ir.Value(name="fixed")])
                self.model.graph.insert_before(node, fixed)
                ir.convenience.replace_all_uses_with(node.outputs[0], fixed.outputs[0])

    monkeypatch.setattr(torch.onnx.ONNXProgram, "optimize", optimize)


def run(program: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    return torch.from_numpy(session.run(None, {"x": x.numpy(), "y": y.numpy()})[0])


def test_left_out_where_it_is_at_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(monkeypatch)
    monkeypatch.setattr(registry, "every", lambda: REPAIRS)
    report = guarddiff.check(
        Spread(),
        (torch.randn(2, 3), torch.randn(4, 1)),
        dynamic_shapes=({0: Dim.AUTO}, {0: Dim.AUTO}),
        verbose=False,
        on_finding="ignore",
        repair=True,
    )
    assert [finding.stage for finding in report.findings if finding.repaired] == ["optimize"]
    assert report.repair is not None
    assert report.repair.names == ("the optimizer left out",)
    assert report.status == "clean"
    for rows in (1, 4, 9):
        x, y = torch.randn(2, 3), torch.randn(rows, 1)
        assert torch.equal(run(report.program, x, y), Spread()(x, y))
