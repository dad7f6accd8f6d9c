from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import guarddiff
from guarddiff.core.proof import Decomposition
from guarddiff.torch_bridge import listing

pytestmark = pytest.mark.usefixtures("no_reproductions")


class Net(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(torch.relu(x))


def listed(function: Any, x: torch.Tensor, shapes: Any, **more: Any) -> Decomposition:
    report = guarddiff.check(
        Net(function).eval(), (x,), dynamic_shapes=shapes, verbose=False, on_finding="ignore", dynamo=True, **more
    )
    (finding,) = [finding for finding in report.findings if finding.warns]
    assert finding.decomposition is not None
    return finding.decomposition


def test_a_decomposition_lists_fx_nodes_and_marks_those_that_carry_a_size() -> None:
    made = listed(lambda x: F.adaptive_avg_pool2d(x, (2, 3)), torch.randn(1, 2, 6, 6), ({2: "h", 3: "w"},))
    assert [(line.text, line.marked) for line in made.before] == [
        ("%relu: float32(1, 2, h, w) = aten.relu.default(%x)", False),
        ("%adaptive_avg_pool2d: float32(1, 2, 2, 3) = aten.adaptive_avg_pool2d.default(%relu, [2, 3])", True),
    ]
    assert [(line.text, line.marked) for line in made.after] == [
        ("%avg_pool2d: float32(1, 2, h // 3, w // 2) = aten.avg_pool2d.default(%relu, [3, 2], [3, 2])", True)
    ]


def test_some_of_the_nodes_are_marked() -> None:
    made = listed(lambda x: F.adaptive_avg_pool1d(x, 3), torch.randn(1, 2, 8), ({2: "n"},))
    assert any(line.marked for line in made.after)
    assert not all(line.marked for line in made.after)
    assert all(line.text.startswith("%") for line in made.after)


def test_a_fault_of_translation_lists_onnx_nodes() -> None:
    made = listed(lambda x: x.squeeze(1), torch.randn(3, 1, 4), ({1: "k"},), replay="full")
    assert made.before[-1].text == "%squeeze: float32(3, k, 4) = aten.squeeze.dim(%relu, 1)"
    (line,) = made.after
    assert line.marked
    assert line.text.startswith("%squeeze")
    assert " = Squeeze(%relu, %" in line.text
    assert line.text.endswith(" = [1])")


def test_operators_on_sizes_have_plain_names() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        missing = 8 - x.shape[1]
        return F.pad(x, (missing // 2, missing - missing // 2))

    made = listed(function, torch.randn(2, 4), ({1: "k"},), replay="full")
    assert made.before[-1].text.split(" = ")[1] == "operator.floordiv(%sub, 2)"


def test_long_lists_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MOST", 3)
    made = listed(lambda x: F.adaptive_avg_pool1d(x, 3), torch.randn(1, 2, 8), ({2: "n"},))
    assert len(made.after) == 3
