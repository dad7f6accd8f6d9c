"""The public calls: ``torch.onnx.export`` with eyes open."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from guarddiff import legacy
from guarddiff.core.errors import SpecializationError, SpecializationWarning
from guarddiff.core.log import say
from guarddiff.options import OnFinding, Options, Replay, ReportTo
from guarddiff.pipeline import Pipeline, last_report, report_of
from guarddiff.report import Report
from guarddiff.torch_bridge import hooks, watching

_local = threading.local()

__all__ = ["check", "export", "last_report", "report_of", "watch"]


def export(
    *args: Any,
    on_finding: OnFinding = "warn",
    replay: Replay = "findings",
    repair: bool = False,
    report_to: ReportTo = None,
    **kwargs: Any,
) -> Any:
    """``torch.onnx.export`` that warns when a dimension declared dynamic is right at fewer sizes.

    Every positional and keyword argument that is not named here goes to ``torch.onnx.export`` unchanged, and what
    that returns or raises is returned or raised. The model is the same, byte for byte.

    Args:
        args: Positional arguments of ``torch.onnx.export`` (model, args, f).
        on_finding: ``warn`` (default) gives a SpecializationWarning per root cause, ``raise`` raises
            SpecializationError before the model file is written, ``ignore`` only fills the report.
        replay: ``findings`` (default) runs what breaks a guard that was found; ``full`` also runs the whole model
            at further sizes, which finds faults that leave no guard; ``off`` runs nothing.
        repair: Whether to hand back a repaired model. No repairs are known in this version: the model is
            torch's, and the report says so.
        report_to: Folder for ``guarddiff-report.md`` and ``.json``; None writes none. A report that can't be
            written is told in the log and never fails the export.
        kwargs: Keyword arguments of ``torch.onnx.export``. ``dynamo=False`` leaves no guards: with
            ``replay="full"`` the file is run at further sizes of the axes that ``dynamic_axes`` declares.

    Returns:
        What ``torch.onnx.export`` returns; ``guarddiff.report_of(program)`` gives the report.

    Raises:
        SpecializationError: With ``on_finding="raise"``, carrying the report.
        TypeError, ValueError: For a wrong value of a keyword named above.
    """
    options = Options(on_finding, replay, repair, report_to)
    return _run(Pipeline(options, _legacy(args, kwargs)), lambda: torch.onnx.export(*args, **kwargs))[0]


def check(
    *args: Any,
    on_finding: OnFinding = "warn",
    replay: Replay = "findings",
    repair: bool = False,
    report_to: ReportTo = None,
    **kwargs: Any,
) -> Report:
    """As ``export``, but returns the report; ``report.program`` is the ONNXProgram."""
    options = Options(on_finding, replay, repair, report_to)
    program, report = _run(Pipeline(options, _legacy(args, kwargs)), lambda: torch.onnx.export(*args, **kwargs))
    report.program = program
    return report


@contextlib.contextmanager
def watch(
    on_finding: OnFinding = "warn",
    replay: Replay = "findings",
    report_to: ReportTo = None,
) -> Iterator[list[Report]]:
    """Guard every ``torch.onnx.export`` call made inside, in this thread, also by third-party code.

    Yields a list that gets one report per export, in order, also for exports that raised.
    """
    options = Options(on_finding, replay, False, report_to)
    reports: list[Report] = []

    def guarded(call: Callable[[], Any]) -> Any:
        return _run(Pipeline(options), call)[0]

    before = _lists()
    _local.lists = (*before, reports)
    try:
        with hooks.recording(watching.Watcher(guarded)):
            yield reports
    finally:
        _local.lists = before


def _run(pipeline: Pipeline, call: Callable[[], Any]) -> tuple[Any, Report]:
    """One guarded call: the result of ``call`` and the report."""
    try:
        with hooks.recording(pipeline.recording):
            program = call()
    except SpecializationError as error:
        if pipeline.report is not error.report:
            raise
        _tell(pipeline.report)
        raise
    except Exception as error:
        _tell(pipeline.finish(error))
        raise
    report = pipeline.finish()
    _tell(report)
    if pipeline.options.on_finding == "warn":
        for text in pipeline.texts():
            say(logging.WARNING, text)
            _warn(text)
    return program, report


def _lists() -> tuple[list[Report], ...]:
    """The lists of the watches that are on in this thread."""
    found: tuple[list[Report], ...] = getattr(_local, "lists", ())
    return found


def _tell(report: Report | None) -> None:
    if report is not None:
        for reports in _lists():
            reports.append(report)


def _warn(text: str) -> None:
    """Warn at the line that called us: the innermost frame outside guarddiff and torch."""
    frame = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).split(".")[0] in (
        "guarddiff",
        "torch",
        "contextlib",
    ):
        frame = frame.f_back
    warnings.warn_explicit(
        text,
        SpecializationWarning,
        frame.f_code.co_filename,
        frame.f_lineno,
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )


def _legacy(args: tuple[Any, ...], kwargs: dict[str, Any]) -> legacy.Call | None:
    """The call, if it goes to the TorchScript exporter; wrong arguments are left to torch to tell of."""
    try:
        return legacy.call_of(args, kwargs)
    except (TypeError, ValueError):
        return None
