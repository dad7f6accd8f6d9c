"""``repair=True`` where torch's own export raises."""

from __future__ import annotations

import math
from pathlib import Path

import onnxruntime
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

import guarddiff
from guarddiff.repair import registry
from guarddiff.repair.registry import Repair

pytestmark = pytest.mark.usefixtures("no_reproductions")


class Volume(nn.Module):
    """Has neither a translation nor a decomposition in torch."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.adaptive_avg_pool3d(x, (2, 1, 2))


class Scaled(nn.Module):
    """A size as a number, which Dim.DYNAMIC forbids."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / math.sqrt(x.shape[1])


class Asking(nn.Module):
    """Asks for a value of the input: nothing repairs that."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum() > 0 else x


def run(file: bytes | str, x: torch.Tensor) -> torch.Tensor:
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    return torch.from_numpy(session.run(None, {session.get_inputs()[0].name: x.numpy()})[0])


def test_what_torch_cannot_export_is_exported_and_proved(tmp_path: Path) -> None:
    x, shapes = torch.randn(1, 2, 4, 4, 4), ({2: Dim.AUTO, 3: Dim.AUTO, 4: Dim.AUTO},)
    with pytest.raises(torch.onnx.errors.OnnxExporterError):
        torch.onnx.export(Volume(), (x,), dynamic_shapes=shapes, verbose=False)
    file = tmp_path / "m.onnx"
    program = guarddiff.export(
        Volume(), (x,), str(file), dynamic_shapes=shapes, verbose=False, repair=True, report_to=tmp_path / "r"
    )
    report = guarddiff.report_of(program)
    assert (report.status, report.error) == ("clean", None)
    assert report.repair is not None
    assert report.repair.returned
    assert report.repair.names == ("adaptive average pooling",)
    assert "ConversionError" in report.repair.reason
    assert sum(made.state == "agrees" for made in report.tries) >= 3
    other = torch.randn(1, 2, 5, 7, 6)
    for model in (program.model_proto.SerializeToString(), str(file)):
        assert torch.allclose(run(model, other), Volume()(other), atol=1e-6)
    loaded = guarddiff.load_report(tmp_path / "r" / "guarddiff-report.json")
    assert loaded.repair == report.repair
    assert sorted(path.name for path in (tmp_path / "r").iterdir()) == [
        "guarddiff-report.html",
        "guarddiff-report.json",
        "guarddiff-report.md",
    ]


def test_a_number_that_dynamic_forbids_is_kept_open() -> None:
    report = guarddiff.check(
        Scaled(), (torch.randn(2, 6),), dynamic_shapes=({1: Dim.DYNAMIC},), verbose=False, repair=True
    )
    assert report.repair is not None
    assert report.repair.names == ("sizes turned into numbers",)
    x = torch.randn(2, 9)
    assert torch.allclose(run(report.program.model_proto.SerializeToString(), x), Scaled()(x))


def test_what_no_repair_helps_raises_as_before(tmp_path: Path) -> None:
    call = {"dynamic_shapes": ({1: Dim.DYNAMIC},), "verbose": False}
    with pytest.raises(torch.onnx.errors.OnnxExporterError) as plain:
        torch.onnx.export(Asking(), (torch.randn(2, 6),), **call)
    with pytest.raises(type(plain.value)):
        guarddiff.export(Asking(), (torch.randn(2, 6),), str(tmp_path / "m.onnx"), **call, repair=True)
    assert list(tmp_path.iterdir()) == []
    report = guarddiff.last_report()
    assert report is not None
    assert report.error
    assert report.repair is None
    assert [note for note in report.notes if "no repair that is known gives a model that is right" in note]


def test_a_rescue_that_is_not_right_is_not_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from guarddiff.repair.adaptive_avg_pool import adaptive_avg_pool3d
    from guarddiff.repair.windows import op

    def wrong(self: object, output_size: object) -> object:
        return op.Mul(adaptive_avg_pool3d(self, output_size), op.CastLike(op.Constant(value_float=2.0), self))

    names = ("aten._adaptive_avg_pool3d.default", "aten.adaptive_avg_pool3d.default")
    repair = Repair("pooling", ("*",), "twice", translations=dict.fromkeys(names, wrong))
    monkeypatch.setattr(registry, "every", lambda: (repair,))
    with pytest.raises(torch.onnx.errors.OnnxExporterError):
        guarddiff.export(
            Volume(),
            (torch.randn(1, 2, 4, 4, 4),),
            str(tmp_path / "m.onnx"),
            dynamic_shapes=({2: Dim.AUTO},),
            verbose=False,
            repair=True,
        )
    assert list(tmp_path.iterdir()) == []


def test_without_replay_nothing_is_taken() -> None:
    with pytest.raises(torch.onnx.errors.OnnxExporterError):
        guarddiff.export(
            Volume(), (torch.randn(1, 2, 4, 4, 4),), dynamic_shapes=({2: Dim.AUTO},), repair=True, replay="off"
        )
    report = guarddiff.last_report()
    assert report is not None
    assert report.notes == ()
