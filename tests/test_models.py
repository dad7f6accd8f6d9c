"""Models that people really export, with random weights: torchvision, timm and transformers (torch 2.14)."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import guarddiff
from guarddiff.core.finding import Finding

pytestmark = pytest.mark.torch214

IMAGES = ({0: "n", 2: "h", 3: "w"},)


def check(model: torch.nn.Module, example: tuple[torch.Tensor, ...], shapes: Any, **more: Any) -> guarddiff.Report:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return guarddiff.check(model.eval(), example, dynamic_shapes=shapes, verbose=False, on_finding="ignore", **more)


def confirmed(report: guarddiff.Report) -> list[Finding]:
    return [finding for finding in report.findings if finding.verdict == "confirmed"]


def really_differs(model: torch.nn.Module, report: guarddiff.Report, finding: Finding) -> bool:
    """Run the whole model afresh at the counterexample's sizes."""
    assert finding.counterexample is not None
    inputs = {name: torch.randn(shape) for name, shape in finding.counterexample.sizes.items()}
    with torch.no_grad():
        expected = model(*inputs.values()).numpy()
    try:
        got = report.program(*inputs.values())[0].numpy()
    except Exception:
        return True
    finally:
        report.program.release()
    return expected.shape != got.shape or not np.allclose(expected, got, rtol=1e-3, atol=1e-4)


def test_vgg11_is_right_from_224_to_255_only() -> None:
    torchvision = pytest.importorskip("torchvision")
    model = torchvision.models.vgg11(weights=None)
    report = check(model, (torch.randn(2, 3, 224, 224),), IMAGES)
    assert report.status == "specialized"
    (finding,) = confirmed(report)
    assert [(dim.name, str(dim.admitted)) for dim in finding.dims] == [("h", "224–255"), ("w", "224–255")]
    assert finding.stage == "decompose"
    assert finding.op == "aten._adaptive_avg_pool2d.default"
    assert finding.origin.module_path == "avgpool"
    assert finding.origin.source is not None
    assert finding.origin.source.file == "torchvision/models/vgg.py"
    assert [node.op_type for node in finding.onnx_nodes] == ["AveragePool"]
    assert finding.counterexample is not None
    assert finding.counterexample.kind == "shape"
    assert finding.admits({"x": (1, 3, 255, 224)}) is True
    assert finding.admits({"x": (2, 3, 256, 256)}) is False
    assert really_differs(model, report, finding)


def test_vgg11_with_its_contract(tmp_path: Path) -> None:
    torchvision = pytest.importorskip("torchvision")
    model = torchvision.models.vgg11(weights=None)
    report = check(model, (torch.randn(2, 3, 224, 224),), IMAGES)
    path = tmp_path / "vgg11.onnx"
    report.program.save(path)
    contract = guarddiff.embed_contract(path, report)
    assert {dim.name: str(dim.admitted) for dim in contract.inputs[0].dims} == {
        "n": "any size",
        "h": "224–255",
        "w": "224–255",
    }
    session = guarddiff.CheckedSession(path)
    with pytest.raises(guarddiff.ContractViolation) as caught:
        session.run(None, {"x": np.zeros((1, 3, 256, 224), np.float32)})
    assert str(caught.value).startswith(
        "x[2]=256: this model is right only for 224–255, because of avgpool at torchvision/models/vgg.py:"
    )
    for step in range(20):
        x = torch.randn(1 + step % 2, 3, 224 + (7 * step) % 32, 224 + (11 * step + 5) % 32)
        with torch.no_grad():
            expected = model(x).numpy()
        got = session.run(None, {"x": x.numpy()})[0]
        assert np.linalg.norm(got - expected) <= 1e-5 * np.linalg.norm(expected), tuple(x.shape)


def test_vgg11_repaired_is_right_at_every_size() -> None:
    """The relative L2 error is that against float64: eager PyTorch's own in float32 is about 2e-6 here."""
    torchvision = pytest.importorskip("torchvision")
    model = torchvision.models.vgg11(weights=None)
    report = check(model, (torch.randn(2, 3, 224, 224),), IMAGES, repair=True)
    assert report.status == "clean"
    assert report.repair is not None
    assert report.repair.names == ("adaptive average pooling",)
    exact = copy.deepcopy(model).double()
    for batch in (1, 3):
        for height, width in ((224, 224), (256, 256), (448, 448), (320, 480), (64, 96)):
            x = torch.randn(batch, 3, height, width)
            with torch.no_grad():
                expected, eager = exact(x.double()), model(x)
            (got,) = report.program(x)
            for one, bound in ((expected, 1e-6), (eager.double(), 5e-6)):
                assert (got.double() - one).norm() <= bound * one.norm(), (batch, height, width)
    report.program.release()


def test_resnet18_is_clean() -> None:
    torchvision = pytest.importorskip("torchvision")
    report = check(torchvision.models.resnet18(weights=None), (torch.randn(2, 3, 224, 224),), IMAGES)
    assert (report.status, report.missing) == ("clean", ())
    assert not report.findings


def test_timm_vit_with_dynamic_image_size() -> None:
    timm = pytest.importorskip("timm")
    model = timm.create_model("vit_tiny_patch16_224", pretrained=False, dynamic_img_size=True)
    report = check(model, (torch.randn(2, 3, 224, 224),), IMAGES)
    assert report.missing == ()
    for finding in confirmed(report):
        assert really_differs(model, report, finding)
    batch_only = timm.create_model("vit_tiny_patch16_224", pretrained=False)
    report = check(batch_only, (torch.randn(2, 3, 224, 224),), ({0: "n"},))
    assert (report.status, report.missing) == ("clean", ())


def test_timm_vgg_and_resnet() -> None:
    timm = pytest.importorskip("timm")
    report = check(timm.create_model("resnet10t", pretrained=False), (torch.randn(2, 3, 96, 96),), IMAGES)
    assert (report.status, report.missing) == ("clean", ())
    report = check(timm.create_model("vgg11", pretrained=False), (torch.randn(2, 3, 224, 224),), IMAGES)
    # timm's VGG has convolutions in place of the pooling: what it says is held against a run of the whole model
    for finding in confirmed(report):
        assert really_differs(timm.create_model("vgg11", pretrained=False).eval(), report, finding)


def test_transformers_encoder_with_mask_is_clean() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=37
    )

    class Encoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = transformers.BertModel(config)

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            return self.net(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state

    example = (torch.randint(0, 50, (2, 7)), torch.ones(2, 7, dtype=torch.long))
    report = check(Encoder(), example, ({0: "b", 1: "t"}, {0: "b", 1: "t"}), replay="full")
    assert (report.status, report.missing) == ("clean", ())
