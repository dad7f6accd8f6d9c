"""Whatever guarddiff's own code does, the caller gets what torch's exporter gives or raises."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
from torch import nn

import guarddiff
from guarddiff import pipeline, safety, watching
from guarddiff.core.errors import SpecializationError
from guarddiff.report import Report

LINE = torch.ones(2, 3)


class Counted:
    """An exporter that counts its calls."""

    def __init__(self, error: Exception | None = None) -> None:
        self.calls, self.error = 0, error

    def __call__(self) -> str:
        self.calls += 1
        if self.error is not None:
            raise self.error
        return "torch's"


def instead(made: safety.Made, fault: Exception) -> str:
    return f"{made.value}, for {fault}"


def test_what_the_guarded_call_gives_is_given() -> None:
    export = Counted()
    assert safety.unharmed(export, lambda made: f"guarded {made()}", instead) == "guarded torch's"
    assert export.calls == 1


@pytest.mark.parametrize("before", [True, False], ids=["before the call", "after it"])
def test_a_fault_of_ours_gives_torchs_result_of_one_call(before: bool, caplog: pytest.LogCaptureFixture) -> None:
    export = Counted()

    def guarded(made: safety.Made) -> str:
        if not before:
            made()
        raise KeyError("ours")

    assert safety.unharmed(export, guarded, instead) == "torch's, for 'ours'"
    assert export.calls == 1
    (record,) = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert record.exc_info is not None
    assert record.exc_info[0] is KeyError


def test_the_call_is_made_also_where_no_watch_can_be_suspended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safety.hooks, "recording", fail)
    export = Counted()
    assert safety.unharmed(export, fail, instead) == "torch's, for a fault of ours"
    assert export.calls == 1


def test_torchs_error_goes_through_and_before_one_of_ours() -> None:
    error = ValueError("torch's")

    def clumsy(made: safety.Made) -> str:
        try:
            return str(made())
        except ValueError:
            raise KeyError("ours") from None

    for guarded in (lambda made: made(), clumsy):
        export = Counted(error)
        with pytest.raises(ValueError, match="torch's") as caught:
            safety.unharmed(export, guarded, instead)
        assert caught.value is error
        assert export.calls == 1


@pytest.mark.parametrize("error", [SpecializationError("asked for", Report()), UserWarning("a warning as an error")])
def test_what_the_user_asked_for_goes_through(error: Exception) -> None:
    def guarded(made: safety.Made) -> str:
        made()
        raise error

    with pytest.raises(type(error)) as caught:
        safety.unharmed(Counted(), guarded, instead)
    assert caught.value is error


def test_an_error_of_another_call_of_torchs_goes_through() -> None:
    error = OSError("no space left")

    def guarded(made: safety.Made) -> str:
        raise safety.TorchsOwn(error) from error

    with pytest.raises(OSError, match="no space left") as caught:
        safety.unharmed(Counted(), guarded, instead)
    assert caught.value is error


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_goes_through_and_nothing_is_exported_after_it(kind: type[BaseException]) -> None:
    export = Counted()

    def guarded(made: safety.Made) -> str:
        raise kind

    with pytest.raises(kind):
        safety.unharmed(export, guarded, instead)
    assert export.calls == 0


def fail(*_: Any, **__: Any) -> Any:
    raise ZeroDivisionError("a fault of ours")


FAULTS = [(pipeline.Pipeline, "__init__"), (watching.Told, "begin"), (pipeline.Pipeline, "finish")]


@pytest.mark.parametrize(
    ("holder", "name", "watched"),
    [*((*fault, watched) for fault in FAULTS for watched in (False, True)), (watching, "legacy_call", False)],
)
def test_an_export_is_torchs_where_guarding_it_fails(
    holder: Any, name: str, watched: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holder, name, fail)
    with guarddiff.watch() as reports:
        export = torch.onnx.export if watched else guarddiff.export
        program = export(nn.ReLU(), (LINE,), dynamo=True, verbose=False)
    assert [node.op_type for node in program.model_proto.graph.node] == ["Relu"]
    report = guarddiff.report_of(program)
    assert report.status == "incomplete"
    assert "ZeroDivisionError: a fault of ours" in [one.why for one in report.missing]
    assert guarddiff.last_report() is not None
    if name != "begin":
        assert [one.missing for one in reports] == [report.missing]


@pytest.mark.parametrize("watched", [False, True])
def test_an_error_of_torchs_is_told_where_guarding_fails(watched: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong(nn.Module):
        def forward(self, x: Any) -> Any:
            raise IndexError("the model's own")

    monkeypatch.setattr(pipeline.Pipeline, "finish", fail)
    with guarddiff.watch() as reports, pytest.raises(torch.onnx.OnnxExporterError):
        (torch.onnx.export if watched else guarddiff.export)(Wrong(), (LINE,), dynamo=True, verbose=False)
    (report,) = reports
    assert report.status == "incomplete"
    assert "caused by IndexError" in str(report.error)
    assert "ZeroDivisionError: a fault of ours" in [one.why for one in report.missing]
