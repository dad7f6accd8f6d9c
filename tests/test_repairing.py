"""``repair=True``: what takes the place of torch's model, and what does not."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.onnx._internal.exporter._registration import ONNXRegistry

import guarddiff
from guarddiff.repair import registry
from guarddiff.repair.registry import Refusal, Repair

pytestmark = pytest.mark.usefixtures("no_reproductions")


@pytest.fixture(scope="module", autouse=True)
def shared_registry() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ONNXRegistry, "from_torchlib", staticmethod(functools.cache(ONNXRegistry.from_torchlib)))
        yield


X = torch.randn(4, 3)
SHAPES = ({0: Dim.AUTO},)


def right(start: Any, end: Any, steps: Any) -> torch.Tensor:
    return torch.arange(steps) / torch.sym_max(steps - 1, 1) * (end - start) + start


def wrong(start: Any, end: Any, steps: Any) -> torch.Tensor:
    return right(start, end, steps) + 1


def nearly(start: Any, end: Any, steps: Any) -> Any:
    """Right at twice the example's size and wrong beyond."""
    found = right(start, end, steps)
    return found + (torch.arange(steps) > 7)


def known(monkeypatch: pytest.MonkeyPatch, *repairs: Repair, refusals: tuple[Refusal, ...] = ()) -> None:
    monkeypatch.setattr(registry, "every", lambda: repairs)
    monkeypatch.setattr(registry, "refusals", lambda: refusals)


def by(function: Callable[..., Any]) -> Repair:
    return Repair("linspace by size", ("linspace",), "counts up at run time", functions={torch.linspace: function})


def check(model: nn.Module, **more: Any) -> guarddiff.Report:
    return guarddiff.check(
        model.eval(), (X,), dynamic_shapes=SHAPES, verbose=False, on_finding="ignore", dynamo=True, repair=True, **more
    )


class Plain(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.linspace(0, 1, x.shape[0]).unsqueeze(1) * x


def run(model: Any, x: torch.Tensor) -> torch.Tensor:
    source = model if isinstance(model, str) else model.model_proto.SerializeToString()
    session = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
    return torch.from_numpy(session.run(None, {session.get_inputs()[0].name: x.numpy()})[0])


def test_a_right_repair_takes_the_models_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    known(monkeypatch, by(right))
    file = tmp_path / "m.onnx"
    program = guarddiff.export(
        Plain().eval(), (X,), str(file), dynamic_shapes=SHAPES, verbose=False, dynamo=True, repair=True
    )
    report = guarddiff.report_of(program)
    assert report.status == "clean"
    assert report.repair is not None
    assert report.repair.returned
    assert report.repair.names == ("linspace by size",)
    assert {made.state for made in report.repair.tries} <= {"agrees", "rejected", "unknown"}
    (finding,) = [f for f in report.findings if f.repaired]
    assert finding.verdict == "confirmed"
    assert not finding.warns
    assert finding.repair == "linspace by size: counts up at run time"
    x = torch.randn(9, 3)
    for model in (program, str(file)):
        assert torch.allclose(run(model, x), Plain()(x), atol=1e-6)
    assert guarddiff.report_of(program).to_json() == report.to_json()


@pytest.mark.parametrize(
    ("function", "words"),
    [(wrong, "not right at the example's sizes"), (nearly, "wrong at further sizes")],
)
def test_a_wrong_repair_is_not_returned(
    monkeypatch: pytest.MonkeyPatch, function: Callable[..., Any], words: str
) -> None:
    known(monkeypatch, by(function))
    report = check(Plain())
    assert report.status == "specialized"
    assert report.repair is not None
    assert not report.repair.returned
    assert words in report.repair.reason
    assert not any(finding.repaired for finding in report.findings)
    assert report.program is not None
    assert not torch.allclose(run(report.program, X), wrong(0, 1, 4).unsqueeze(1) * X)


def test_a_repair_that_raises_leaves_torchs_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> torch.Tensor:
        raise ValueError("no")

    known(monkeypatch, by(fail))
    report = check(Plain())
    assert report.repair is not None
    assert not report.repair.returned
    assert report.repair.reason.startswith("the repaired export raised (")
    assert report.status == "specialized"
    assert torch.allclose(run(report.program, X), Plain()(X), atol=1e-6)


def test_a_repair_that_does_nothing_is_not_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    known(monkeypatch, by(lambda *_: NotImplemented))
    report = check(Plain())
    assert report.repair is not None
    assert report.repair.reason == "the repaired model differs from eager PyTorch at the counterexamples too"


def test_without_a_known_repair_the_report_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    known(monkeypatch)
    report = check(Plain())
    assert report.repair is None
    assert "repair=True: no repair is known for these findings; the model is torch's own" in report.notes


def test_a_refusal_is_told_in_the_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    known(monkeypatch, refusals=(Refusal(("linspace",), "there is no such ONNX form", "use torch.arange"),))
    (finding,) = [f for f in check(Plain()).findings if f.warns]
    assert finding.repair == "there is no such ONNX form; use torch.arange"


def test_a_clean_model_is_torchs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    class Right(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    known(monkeypatch, by(right))
    report = check(Right())
    assert (report.status, report.repair) == ("clean", None)


def test_a_translation_of_the_users_own_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def own(x: Any) -> Any:
        from onnxscript import opset18 as op

        return op.Abs(x)

    class Two(Plain):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(torch.relu(x))

    def theirs(x: Any) -> Any:
        raise AssertionError("the user's translation was to be used")

    known(monkeypatch, by(right), Repair("relu", ("*linspace*",), "", translations={"aten.relu.default": theirs}))
    report = check(Two(), custom_translation_table={torch.ops.aten.relu.default: own})
    assert report.repair is not None
    assert "AssertionError" not in report.repair.reason


def test_raise_is_for_what_remains(monkeypatch: pytest.MonkeyPatch) -> None:
    known(monkeypatch, by(right))
    report = guarddiff.check(
        Plain().eval(), (X,), dynamic_shapes=SHAPES, verbose=False, dynamo=True, repair=True, on_finding="raise"
    )
    assert report.status == "clean"
    known(monkeypatch, by(wrong))
    with pytest.raises(guarddiff.SpecializationError):
        guarddiff.check(
            Plain().eval(), (X,), dynamic_shapes=SHAPES, verbose=False, dynamo=True, repair=True, on_finding="raise"
        )
