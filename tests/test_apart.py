"""Models and runtimes that crash, hang, print or count at other sizes: the export is torch's own all the same."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from typing import Any

import onnxruntime
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

import guarddiff
from guarddiff import apart
from guarddiff.core import forked
from guarddiff.torch_bridge.record import Recording

pytestmark = [
    pytest.mark.skipif(not forked.possible(), reason="no children are forked here"),
    pytest.mark.usefixtures("no_reproductions"),
]
SIZES = ({2: Dim.AUTO, 3: Dim.AUTO},)
IMAGES = torch.arange(72.0).reshape(1, 2, 6, 6)


class Pool(nn.Module):
    def forward(self, x: Any) -> Any:
        return F.adaptive_avg_pool2d(x, (2, 3))


def exported(model: nn.Module, **more: Any) -> tuple[Any, guarddiff.Report]:
    keywords: dict[str, Any] = {"dynamic_shapes": SIZES, "dynamo": True, "verbose": False, "on_finding": "ignore"}
    program = guarddiff.export(model.eval(), (IMAGES,), **{**keywords, **more})
    report = guarddiff.report_of(program)
    assert report is not None
    return program, report


class Crashing(nn.Module):
    """Ends its process at every other height."""

    def forward(self, x: Any) -> Any:
        if x.shape[2] != 6:
            ctypes.string_at(0)
        return x + 1


@pytest.mark.parametrize("replay", ["findings", "full"])
def test_a_model_that_crashes_at_other_sizes(replay: Any) -> None:
    program, report = exported(Crashing(), replay=replay)
    assert program.model_proto.graph.node
    assert report.status != "clean"
    assert any("eager PyTorch crashed (SIGSEGV)" in made.text for made in report.tries)
    assert [finding.verdict for finding in report.findings if finding.stage == "capture"] == ["unconfirmed"]


def test_an_operator_that_crashes_at_other_sizes() -> None:
    """``aten::native_batch_norm`` reads past the end of weights that are too short."""

    class Normed(nn.Module):
        def forward(self, x: Any) -> Any:
            weight = torch.ones(2)
            return torch.native_batch_norm(x, weight, weight, weight, weight, False, 0.1, 1e-5)[0]

    plain = torch.onnx.export(Normed().eval(), (IMAGES,), dynamic_shapes=({1: Dim.AUTO},), dynamo=True, verbose=False)
    program, _ = exported(Normed(), replay="full", dynamic_shapes=({1: Dim.AUTO},))
    assert len(program.model_proto.graph.node) == len(plain.model_proto.graph.node)


class _Session:
    """ONNX Runtime that ends its process at other heights than 6, or at once."""

    at_once = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if self.at_once:
            os.abort()
        self._session = _REAL(*args, **kwargs)

    def get_inputs(self) -> Any:
        return self._session.get_inputs()

    def run(self, names: Any, feeds: dict[str, Any]) -> Any:
        if any(value.shape[2] != 6 for value in feeds.values()):
            os.abort()
        return self._session.run(names, feeds)


_REAL = onnxruntime.InferenceSession


def test_onnx_runtime_that_crashes_at_other_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnxruntime, "InferenceSession", _Session)
    _, report = exported(Pool())
    (finding,) = report.findings
    assert finding.verdict == "confirmed"
    assert finding.counterexample is not None
    assert finding.counterexample.kind == "runtime_error"
    assert finding.counterexample.got == "ONNX Runtime crashed (SIGABRT)"


def test_onnx_runtime_that_crashes_while_it_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnxruntime, "InferenceSession", _Session)
    monkeypatch.setattr(_Session, "at_once", True)
    program, report = exported(Pool())
    assert program.model_proto.graph.node
    (finding,) = report.findings
    assert finding.verdict == "unconfirmed"
    assert "crashed (SIGABRT)" in finding.reason


def test_onnx_runtime_that_does_not_come_back_is_no_proof_and_ends_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(_Session):
        def run(self, names: Any, feeds: dict[str, Any]) -> Any:
            if any(value.shape[2] != 6 for value in feeds.values()):
                time.sleep(60)
            return self._session.run(names, feeds)

    monkeypatch.setattr(onnxruntime, "InferenceSession", Slow)
    monkeypatch.setattr(forked, "STEP_SECONDS", 3.0)
    _, report = exported(nn.ReLU(), replay="full")
    states = {made.state: made.text for made in report.tries if made.state != "agrees"}
    assert set(states) == {"unknown"}
    assert "was not" in states["unknown"]
    assert report.findings == ()


def test_what_is_missing_after_a_task_is_kept() -> None:
    recording = Recording()

    def task() -> int:
        recording.failed("a part", ValueError("of a child"))
        return os.getpid()

    assert apart.recorded(recording, task) != os.getpid()
    assert [(one.part, one.why) for one in recording.missing] == [("a part", "ValueError: of a child")]


def test_a_model_that_does_not_come_back_at_other_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Sleeping(nn.Module):
        def forward(self, x: Any) -> Any:
            if x.shape[2] != 6:
                time.sleep(60)
            return F.adaptive_avg_pool2d(x, (2, 3))

    monkeypatch.setattr(forked, "STEP_SECONDS", 0.5)
    begun = time.monotonic()
    _, report = exported(Sleeping())
    assert time.monotonic() - begun < 50
    assert report.status == "specialized"
    assert any("was not done" in made.text for made in report.tries)


def test_a_model_that_prints_and_counts(capfd: pytest.CaptureFixture[str]) -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[int] = []

        def forward(self, x: Any) -> Any:
            if not torch.compiler.is_exporting():
                print("hello")
                self.seen.append(int(x.shape[2]))
            return F.adaptive_avg_pool2d(x, (2, 3))

    model = Counting()
    _, report = exported(model, replay="full")
    assert [finding.verdict for finding in report.findings] == ["confirmed"]
    assert model.seen == []
    assert "hello" not in "".join(capfd.readouterr())


def test_a_model_that_works_out_gradients() -> None:
    """torch's engine for gradients does not outlive a fork once it has run: then all is done in this process."""

    class Gradient(nn.Module):
        def forward(self, x: Any) -> Any:
            if torch.compiler.is_exporting():
                return F.adaptive_avg_pool2d(x, (2, 3))
            with torch.enable_grad():
                scale = torch.ones(1, requires_grad=True)
                (grad,) = torch.autograd.grad((scale * 1.0).sum(), scale)
            return F.adaptive_avg_pool2d(x, (2, 3)) * grad.detach()

    torch.ones(1, requires_grad=True).sum().backward()
    _, report = exported(Gradient())
    assert [finding.verdict for finding in report.findings] == ["confirmed"]
    _, report = exported(Gradient(), replay="full")
    assert not [made for made in report.tries if "fork" in made.text]


def test_it_computes_as_the_calling_thread_does() -> None:
    def state() -> tuple[Any, ...]:
        return (
            str(torch.get_default_device()),
            torch.is_autocast_enabled("cpu"),
            torch.get_autocast_dtype("cpu"),
            torch.is_autocast_cache_enabled(),
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
            torch.get_num_threads(),
            torch.get_default_dtype(),
            threading.active_count() > 1,
        )

    def both() -> None:
        here, there = state(), apart.run(lambda: (state(), os.getpid()))
        assert there[1] != os.getpid()
        assert there[0][:-1] == here[:-1]

    both()
    with torch.autocast("cpu", torch.bfloat16, cache_enabled=False), torch.no_grad():
        both()
    with torch.inference_mode(), torch.device("meta"):
        both()
    torch.set_default_dtype(torch.float64)
    try:
        both()
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_mode_of_the_callers_keeps_it_here() -> None:
    from torch.overrides import TorchFunctionMode

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    with Mode():
        assert apart.run(os.getpid) == os.getpid()
    assert apart.run(os.getpid) != os.getpid()


def test_large_products_in_several_threads_come_back() -> None:
    """The threads that OpenMP made in this process are not in the child: it must not wait for them."""
    large = torch.ones(1500, 1500)
    assert float((large @ large)[0, 0]) == 1500.0
    assert apart.run(lambda: float((large @ large)[0, 0])) == 1500.0
