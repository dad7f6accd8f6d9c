"""Contracts from one end to the other: found, frozen, proved, embedded, refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import guarddiff

pytestmark = pytest.mark.filterwarnings("ignore::guarddiff.SpecializationWarning")


class Ratio(nn.Module):
    """Pools to a share of the input's size, rounded as Python does."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)

    def size(self, height: int, width: int) -> tuple[int, int]:
        return int(round(height * 0.3)), int(round(width * 0.3))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return F.adaptive_avg_pool2d(torch.relu(self.conv(images)), self.size(images.shape[2], images.shape[3]))


class Fixed(Ratio):
    """The same for one size, worked out when the module is made."""

    def __init__(self, original: Ratio, height: int, width: int) -> None:
        super().__init__()
        self.load_state_dict(original.state_dict())
        self.fixed = super().size(height, width)

    def size(self, height: int, width: int) -> tuple[int, int]:
        return self.fixed


def test_a_pooling_by_a_rounded_ratio(tmp_path: Path) -> None:
    original, images = Ratio().eval(), torch.randn(1, 3, 20, 35)
    shapes = {"images": {0: torch.export.Dim.AUTO, 2: torch.export.Dim.AUTO, 3: torch.export.Dim.AUTO}}

    # found where it is exported as dynamic
    report = guarddiff.check(original, (images,), dynamic_shapes=shapes, verbose=False)
    assert {(finding.op, finding.verdict) for finding in report.findings} == {
        ("int()", "confirmed"),
        ("aten._adaptive_avg_pool2d.default", "confirmed"),
    }

    # proved equal where it is fixed: round(35 * 0.3) = round(10.5) = 10
    fixed = Fixed(original, 20, 35).eval()
    assert fixed.fixed == (6, 10)
    proof = guarddiff.compare_modules(original, fixed, images)
    assert proof.exact and proof.within(largest=0.0, relative=1e-6), proof.to_text()

    # frozen, and its contract embedded by the export
    path = tmp_path / "fixed.onnx"
    frozen = guarddiff.freeze(fixed, images, free={"images": [0]})
    program = guarddiff.export(frozen, (images,), path, dynamic_shapes={"images": {0: "batch"}}, verbose=False)
    assert guarddiff.report_of(program).findings == ()
    with pytest.raises(guarddiff.ContractViolation, match=r"images\[3\]=36: this module was frozen for 35"):
        frozen(torch.randn(1, 3, 20, 36))

    # other sizes are refused, with the reason
    session = guarddiff.CheckedSession(path)
    batch = torch.randn(4, 3, 20, 35)
    with torch.no_grad():
        expected = original(batch).numpy()
    got = session.run(None, {"images": batch.numpy()})[0]
    assert np.linalg.norm(got - expected) <= 1e-6 * np.linalg.norm(expected)
    with pytest.raises(guarddiff.ContractViolation, match=r"images\[3\]=36: this size is fixed to 35 in the model"):
        session.run(None, {"images": np.zeros((4, 3, 20, 36), np.float32)})
    onnx.checker.check_model(path)


def test_the_newest_report_is_taken_where_none_is_given(tmp_path: Path) -> None:
    path = tmp_path / "head.onnx"
    shapes = ({2: "height", 3: "width"},)
    guarddiff.export(
        nn.AdaptiveAvgPool2d((2, 3)), (torch.randn(1, 3, 6, 6),), path, dynamic_shapes=shapes, verbose=False
    )
    contract = guarddiff.embed_contract(path)
    assert {str(dim.admitted) for dim in contract.inputs[0].dims} == {"exactly 6"}
    # another export has come between, of a model with the same inputs, which is right at all sizes
    guarddiff.check(nn.ReLU(), (torch.randn(1, 3, 6, 6),), dynamic_shapes=shapes, verbose=False)
    with pytest.raises(guarddiff.ContractError, match=r"the report is about another model than 'head\.onnx'"):
        guarddiff.embed_contract(path)


def test_a_repaired_model_has_a_contract_without_conditions(tmp_path: Path) -> None:
    path = tmp_path / "head.onnx"
    shapes = ({2: "height", 3: "width"},)
    pool, images = nn.AdaptiveAvgPool2d((2, 3)), torch.randn(1, 3, 6, 6)
    program = guarddiff.export(pool, (images,), path, dynamic_shapes=shapes, repair=True, verbose=False)
    contract = guarddiff.embed_contract(path, guarddiff.report_of(program))
    assert contract.conditions == ()
    assert guarddiff.CheckedSession(path).run(None, {"input": np.zeros((1, 3, 13, 9), np.float32)})[0].shape[2:] == (
        2,
        3,
    )
