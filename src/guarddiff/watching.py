"""Guarded calls of the exporter: one by one, inside a block (``watch``), or in the whole process (``install``)."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from guarddiff import legacy, safety
from guarddiff.core.calling import Made
from guarddiff.core.errors import DeclarationWarning, SpecializationError, SpecializationWarning
from guarddiff.core.log import say, warn, warn_unwritten
from guarddiff.options import OnFinding, Options, Replay, ReportTo
from guarddiff.pipeline import Pipeline, unguarded
from guarddiff.report import Report
from guarddiff.torch_bridge import hooks, watching

_install_lock = threading.Lock()
_installed: list[contextlib.ExitStack] = []


@dataclass(frozen=True)
class Outcome:
    """What one guarded export showed.

    ``handed`` says whether the caller was handed a model and no report with it: False where the export raised, and
    where the caller asked for the report (``check``).
    """

    report: Report
    handed: bool


Ended = Callable[[Outcome | None], None]
"""Told when an export ends, in the thread that made it; None when it was broken off (KeyboardInterrupt)."""
Begun = Callable[[], Ended]
"""Told when an export begins, in the thread that makes it; gives what is to be told of its end."""


Otherwise = Callable[[Exception], tuple[Any, Report] | None]
"""Given what an export raised: another program and its report, or None."""


class Told:
    """What the watches that are on in this thread are told of one export: that it begins, and once how it ends."""

    def __init__(self) -> None:
        self._ended: list[Ended] | None = None

    def begin(self) -> None:
        self._ended = []
        for observer in hooks.observers():
            if isinstance(observer, _Watch) and observer.begun is not None:
                try:
                    self._ended.append(observer.begun())
                except Exception as error:
                    say(logging.ERROR, "guarddiff could not tell that an export begins", error)

    def end(self, outcome: Outcome | None) -> None:
        """Also where ``begin`` was not come to; more than once is no error."""
        try:
            if self._ended is None:
                self.begin()
        except Exception as error:
            say(logging.ERROR, "guarddiff could not tell that an export begins", error)
        while self._ended:
            try:
                self._ended.pop(0)(outcome)
            except Exception as error:
                say(logging.ERROR, "guarddiff could not tell what an export showed", error)


class _Watch(watching.Watcher):
    """Guards what it is told of with ``options``, and tells ``begun`` of every guarded export while it is on."""

    def __init__(self, options: Options, begun: Begun | None = None) -> None:
        super().__init__(self._guard)
        self._options = options
        self.begun = begun

    def _guard(self, call: Callable[[], Any], arguments: watching.Arguments | None) -> Any:
        told = Told()

        def guarded(made: Made) -> Any:
            pipeline = Pipeline(self._options, legacy_call(*arguments) if arguments is not None else None)
            return run(pipeline, made, told)[0]

        def instead(made: Made, fault: Exception) -> Any:
            told.end(Outcome(unguarded(None, made, fault), handed=made.done))
            return made.value

        return safety.unharmed(call, guarded, instead)


@contextlib.contextmanager
def watch(
    on_finding: OnFinding = "warn",
    replay: Replay = "findings",
    report_to: ReportTo = None,
    threads: bool = False,
) -> Iterator[list[Report]]:
    """Guard every ``torch.onnx.export`` call made inside, also by third-party code.

    Args:
        on_finding: As for ``export``.
        replay: As for ``export``.
        report_to: Folder for the reports, numbered where there are several; None writes none.
        threads: Whether calls that other threads make while the block runs are guarded as well (a thread pool's, but
            also those of threads that have nothing to do with the block). A watch of such a thread's own goes first.

    Watches may be nested: the innermost one's options hold, and every one's list gets the report. An export through
    ``guarddiff.export`` inside keeps its own options, and every list gets its report as well.

    Yields a list that gets one report per export, in the order in which they end, also for exports that raised.

    Raises:
        TypeError, ValueError: For a wrong value of a keyword named above.
    """
    if not isinstance(threads, bool):
        raise TypeError(f"threads must be True or False, not {threads!r}")
    reports: list[Report] = []
    guard = _Watch(_options(on_finding, replay, report_to), lambda: lambda outcome: _append(reports, outcome))
    with contextlib.ExitStack() as stack:
        if threads:
            stack.enter_context(hooks.everywhere(guard))
        stack.enter_context(hooks.recording(guard))
        yield reports


def install(on_finding: OnFinding = "warn", replay: Replay = "findings", report_to: ReportTo = None) -> None:
    """Guard every ``torch.onnx.export`` call of this process from now on, in all threads, until ``uninstall``.

    Calls may be nested: the newest one's options hold until its ``uninstall``. A ``watch`` goes before it, and
    ``guarddiff.export`` keeps its own options. ``guarddiff.last_report()`` and ``report_of`` give the reports.

    Args:
        on_finding: As for ``export``.
        replay: As for ``export``.
        report_to: Folder for the reports, numbered; None writes none.

    Raises:
        TypeError, ValueError: For a wrong value of a keyword named above.
    """
    guard = _Watch(_options(on_finding, replay, report_to))
    with _install_lock, contextlib.ExitStack() as stack:
        stack.enter_context(hooks.everywhere(guard))
        _installed.append(stack.pop_all())


def uninstall() -> None:
    """Take back the newest ``install``; exports that run already are guarded to their end. Does nothing where nothing
    is installed."""
    with _install_lock:
        if _installed:
            _installed.pop().close()


@contextlib.contextmanager
def listen(begun: Begun, replay: Replay = "findings") -> Iterator[None]:
    """Guard the whole process without a warning, and tell ``begun`` of every guarded export, however it came to be one.

    Raises TypeError or ValueError for a wrong ``replay``.
    """
    with hooks.everywhere(_Watch(Options("ignore", replay), begun)):
        yield


def run(
    pipeline: Pipeline,
    call: Callable[[], Any],
    told: Told,
    *,
    checked: bool = False,
    otherwise: Otherwise | None = None,
) -> tuple[Any, Report]:
    """One guarded call: the result of ``call`` and the report. ``checked``: the caller gets the report. ``otherwise``
    is asked for both where ``call`` raises before there is a program; None there lets the error through."""
    told.begin()
    warned: set[str] = set()
    try:
        if pipeline.torchscript:  # torch aborts the process for some wrong declarations
            _warn_of_declarations(pipeline, warned)
        with hooks.recording(pipeline.recording):
            program = call()
        report = pipeline.finish()
    except Exception as error:
        if otherwise is not None and pipeline.report is None:
            instead = otherwise(error)
            if instead is not None:
                _warn_of_declarations(pipeline, warned)
                told.end(Outcome(instead[1], handed=not checked))
                return instead
        known = pipeline.report
        refused = isinstance(error, SpecializationError) and known is not None and error.report is known
        told.end(Outcome(known if refused and known else pipeline.finish(error), handed=False))
        with contextlib.suppress(DeclarationWarning):  # where warnings are errors, what was raised goes first
            _warn_of_declarations(pipeline, warned)
        raise
    except BaseException:
        told.end(None)
        raise
    told.end(Outcome(report, handed=not checked))
    _warn_of_declarations(pipeline, warned)
    _warn_of_findings(pipeline)
    return program, report


def legacy_call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> legacy.Call | None:
    """The call, if it goes to the TorchScript exporter; wrong arguments are left to torch to tell of."""
    model = kwargs.get("model", args[0] if args else None)
    if isinstance(model, getattr(torch.onnx, "ExportableModule", ())):
        return None
    try:
        return legacy.call_of(args, kwargs)
    except (TypeError, ValueError):
        return None


def _options(on_finding: OnFinding, replay: Replay, report_to: ReportTo) -> Options:
    """Checked, and with the folder as it is now: the watched code may go to another one."""
    options = Options(on_finding, replay, False, report_to)
    if options.report_to is None:
        return options
    try:
        return dataclasses.replace(options, report_to=os.path.abspath(options.report_to))
    except OSError:  # there is no such folder any more
        return options


def _append(reports: list[Report], outcome: Outcome | None) -> None:
    if outcome is not None:
        reports.append(outcome.report)


def _warn_of_findings(pipeline: Pipeline) -> None:
    """Warn of what was found, if that was asked for, and of a report that could not be written."""
    if pipeline.unwritten:
        warn_unwritten(pipeline.unwritten)
    if pipeline.options.on_finding == "warn":
        for text in pipeline.texts():
            say(logging.WARNING, text)
            warn(text, SpecializationWarning)


def _warn_of_declarations(pipeline: Pipeline, warned: set[str]) -> None:
    """Warn of what was declared wrongly, each once; ``warned`` holds what was warned of already."""
    if pipeline.options.on_finding == "ignore":
        return
    for text in pipeline.declaration_texts():
        if text not in warned:
            warned.add(text)
            say(logging.WARNING, text)
            warn(text, DeclarationWarning)
