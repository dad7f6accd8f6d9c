"""One export from recording to report: steps in order, each of which may fail without failing the export."""

from __future__ import annotations

import dataclasses
import logging
import re
import threading
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from guarddiff import apart, legacy, proving, repairing
from guarddiff.analysis import attribute, constants, declarations, notes
from guarddiff.core.calling import Made
from guarddiff.core.declaration import Misdeclaration, Request
from guarddiff.core.errors import ReportWriteError, SpecializationError, in_words
from guarddiff.core.finding import Finding
from guarddiff.core.log import say
from guarddiff.core.privacy import scrub
from guarddiff.core.proof import Repair
from guarddiff.core.report import FROZEN_CONTRACT, WRITTEN_REPORT, Missing, overall
from guarddiff.options import Options
from guarddiff.replay import search
from guarddiff.replay.run import told
from guarddiff.report import Report
from guarddiff.torch_bridge import declarations as declared
from guarddiff.torch_bridge import evidence as evidence_of
from guarddiff.torch_bridge import hooks, onnx_nodes, probe
from guarddiff.torch_bridge.record import Recording

_Part = TypeVar("_Part")
_LONGEST_NAME = 200
_NO_RESCUE = "repair=True: no repair that is known gives a model that is right; the error is torch's"
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_reports: weakref.WeakKeyDictionary[Any, Report] = weakref.WeakKeyDictionary()
_last = threading.local()


class Pipeline:
    """Turns one recorded call of the exporter into a report.

    ``recording`` is given to the hooks; ``call`` is what went to the TorchScript exporter, None for the other one.
    ``job`` is what was proved, None before. ``unwritten`` tells why the report is not where the user asked for it;
    empty where it is. ``finish`` makes the report; it is called when torch has made the program and before the model
    file is written, or after an export that raised.
    """

    def __init__(self, options: Options, call: legacy.Call | None = None) -> None:
        self.options = options
        self._call = call
        self.recording = Recording(on_program=self._on_program, keep_unoptimized=options.thorough or options.searches)
        self.wrong_sizes = ""
        self.unwritten = ""
        self.report: Report | None = None
        self._instead: Any = None
        self.job: proving.Job | None = None
        self._missing: list[Missing] = []
        self._lower: list[Finding] = []
        self._request: Request | None = None
        self._wrong: tuple[Misdeclaration, ...] | None = None

    @property
    def torchscript(self) -> bool:
        """Whether the call went to the TorchScript exporter."""
        return self._call is not None

    def declarations(self) -> tuple[Misdeclaration, ...]:
        """What is wrong with the user's declarations: before the export what the arguments alone show, once there is a
        report what that says."""
        if self.report is not None:
            return self.report.declarations
        if self._wrong is None:
            nothing: tuple[Misdeclaration, ...] = ()
            self._wrong = self._guarded("the user's declarations", self._read_declarations, nothing)
        return self._wrong

    def _read_declarations(self) -> tuple[Misdeclaration, ...]:
        recording, call = self.recording, self._call
        if call is not None:
            self._request = declared.request_of(call.model, call.args, call.kwargs, call.asked, dynamo=False)
        elif recording.asked:
            args, kwargs = recording.asked_args, recording.asked_kwargs
            if not args and not kwargs:  # an ExportableModule has its own
                args, kwargs = recording.args, recording.kwargs
            self._request = declared.request_of(recording.model, args, kwargs, recording.asked)
        return declarations.before(self._request) if self._request is not None else ()

    def _seen(self, wrong: tuple[Misdeclaration, ...], report: Report) -> tuple[Misdeclaration, ...]:
        """What is to be told of the declarations now that the export was seen."""
        return declarations.after(wrong, self._request, report, self._lower) if self._request is not None else wrong

    def finish(self, error: BaseException | None = None) -> Report:
        """The report, written where the user asked for it. Raises SpecializationError with ``on_finding="raise"``,
        and nothing else: an error of ours gives a report that is incomplete."""
        if self.report is not None:
            if error is not None and self.report.error is None:  # torch raised after it had made the program
                self.report.error = _text(error)
                self._settle(self.report)
                _remember(self.report)
            return self.report
        with hooks.recording(None):  # what the replay exports is not recorded
            report = self._guarded("the report", self._report, self._bare())
            if self.options.repair and error is None:
                self._repair(report)
            elif self.options.repair and not self.torchscript and self.options.replay != "off":
                report.notes = (*report.notes, _NO_RESCUE)
        report.error = _text(error) if error is not None else None
        wrong = self.declarations()
        report.declarations = self._guarded("the user's declarations", lambda: self._seen(wrong, report), wrong)
        self.report = report
        self._closed(report)
        loud = [finding for finding in report.findings if finding.warns]
        if loud and self.options.on_finding == "raise" and error is None:
            raise SpecializationError("\n\n".join(self.texts()), report)
        return report

    def accept(self, options: Options, repair: Repair) -> Report:
        """The report of this export, finished before, as that of a repaired one: written where ``options`` ask for."""
        self.options, report = options, self.finish()
        report.repair = repair
        self._closed(report)
        return report

    def _on_program(self, recording: Recording) -> Any:
        """The program that is to be returned and written in place of torch's; None for torch's own."""
        del recording
        self.finish()
        return self._instead

    def _repair(self, report: Report) -> None:
        findings = list(report.findings)
        if self.job is None:
            return
        run = partial(repairing.repair, self.job, findings, report.tries, self._guarded)
        done = self._guarded("the repair", run, repairing.Repaired(findings))
        told = [repairing.in_vain(finding) for finding in done.findings]
        report.findings = tuple(dataclasses.replace(finding, repairable=False) for finding in told)
        report.repair = done.outcome
        if done.program is not None:
            self._instead = report.program = done.program
            self._missing = [one for one in self._missing if one.part != search.AT_FURTHER_SIZES]
        elif any(f.warns for f in findings) and done.outcome is None:
            known = "no repair is known" if told == done.findings else "no repair is known, and no other example right,"
            report.notes = (*report.notes, f"repair=True: {known} for these findings; the model is torch's own")

    def _closed(self, report: Report) -> None:
        """Close the report; where that fails it is kept all the same, as one that is incomplete."""
        known = len(self.recording.missing)
        self._guarded("the report", lambda: self._close(report), None)
        if len(self.recording.missing) != known:
            self._guarded("the report", lambda: self._settle(report), None)
            _remember(report)

    def _close(self, report: Report) -> None:
        report.environment = self._guarded("the environment", probe.versions, {})
        if report.program is not None:
            report.graph = self._guarded("the graph", partial(onnx_nodes.graph_digest, report.program), "")
        self._settle(report)
        self._write(report)
        self._settle(report)
        _remember(report)

    def _settle(self, report: Report) -> None:
        """What is missing by now, and the status that follows from it."""
        report.missing = tuple(dict.fromkeys((*probe.missing_names(), *self.recording.missing, *self._missing)))
        report.status = overall(report.findings, report.missing)
        if report.error is not None and report.status == "clean":
            report.status = "incomplete"  # nothing was exported, so nothing is known to be right

    def without_contract(self, report: Report, why: str) -> None:
        """Tell in the report that the contract of a frozen module is not in the exported file."""
        self._missing.append(Missing(FROZEN_CONTRACT, scrub(why)))
        self._settle(report)
        _remember(report)

    def texts(self) -> list[str]:
        """The warning of each finding that the user has to hear of."""
        from guarddiff.render import text, words

        if self.report is None:
            return []
        known = len(self.recording.missing)
        loud = [finding for finding in self.report.findings if finding.warns]
        found = [self._guarded("a warning", partial(text.warning_text, f), "") or words.headline(f) for f in loud]
        if len(self.recording.missing) != known:
            self._settle(self.report)
            _remember(self.report)
        return found

    def declaration_texts(self) -> list[str]:
        """The warning of each declaration that is very probably a mistake."""
        from guarddiff.render import text

        loud = [one for one in self.declarations() if one.warns]
        return [self._guarded("a warning", partial(text.declaration_text, one), one.problem) for one in loud]

    def _report(self) -> Report:
        recording = self.recording
        report = self._bare()
        if self._call is not None:
            return self._legacy_report(self._call)
        if recording.captured is None:
            return report
        built = self._guarded("the evidence", lambda: evidence_of.build(recording), None)
        if built is None:
            return report
        evidence, inputs = built
        report.inputs, report.stages = evidence.inputs, evidence.snapshots
        found = self._guarded("the findings", lambda: attribute.attribute(evidence), attribute.Attribution())
        report.changes, self._lower = tuple(found.changes), found.small
        self._missing += [Missing("the dimension of a guard", text) for text in found.unplaced]
        report.notes = self._guarded("the notes", lambda: notes.fixed_outputs(evidence), ())
        self.job = job = proving.Job(recording, evidence, inputs, found, self.options)
        kept = proving.Proved(found.findings)
        proved = self._guarded("the verdicts", lambda: self._proved(job), kept)
        findings, report.tries = proved.findings, proved.tries
        self._missing += proved.missing
        self.wrong_sizes = proved.wrong_sizes
        findings = self._guarded("the ONNX nodes", lambda: self._with_nodes(findings), findings)
        report.findings = tuple(self._guarded("the known repairs", lambda: repairing.told(findings), findings))
        return report

    def _proved(self, job: proving.Job) -> proving.Proved:
        """The proofs, made apart where anything has to be run."""
        if not proving.runs(job):
            return proving.prove(job, self._guarded)
        return apart.recorded(self.recording, lambda: proving.prove(job, self._guarded))

    def _bare(self) -> Report:
        return Report(model=_name(self.recording.model), program=self.recording.program)

    def _legacy_report(self, call: legacy.Call) -> Report:
        asked = self.options.sizes if self.options.replay != "off" else ()
        run = partial(legacy.run, call, self.options.replay == "full", asked)
        seen = self._guarded("the exported file", run, legacy.Found())
        if self.options.sizes and not asked:
            self._missing.append(Missing(search.NOT_RUN, proving.NOTHING_RUN))
        self._missing += seen.missing
        return Report(model=_name(call.model), inputs=seen.inputs, findings=seen.findings)

    def _with_nodes(self, findings: list[Finding]) -> list[Finding]:
        if not findings or self.recording.program is None:
            return findings
        nodes = onnx_nodes.read(self.recording.program, self.recording.captured)
        return [dataclasses.replace(f, onnx_nodes=constants.carriers(f, nodes)) for f in findings]

    def _write(self, report: Report) -> None:
        if self.options.report_to is None:
            return
        try:
            report.paths = report.write(self.options.report_to)
        except ReportWriteError as error:
            say(logging.ERROR, str(error))
            self.unwritten = str(error)
            self._missing.append(Missing(WRITTEN_REPORT, scrub(str(error))))
        except Exception as error:
            self.unwritten = f"the report could not be written: {in_words(error)}"
            self.recording.failed(WRITTEN_REPORT, error)

    def _guarded(self, part: str, make: Callable[[], _Part], instead: _Part) -> _Part:
        """What ``make`` gives; an error of ours is logged and told in the report, and ``instead`` is given."""
        try:
            return make()
        except Exception as error:
            self.recording.failed(part, error)
            return instead


def _name(model: Any) -> str:
    """The name of its class, which may be as long as it likes."""
    name = type(model).__name__
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"


def _text(error: BaseException) -> str:
    words = _ANSI.sub("", told(error))
    cause = _root_cause(error)
    if cause is not None:  # torch's own words of the outer one repeat those of the cause
        words = f"{words.strip().splitlines()[0]}\ncaused by {_ANSI.sub('', told(cause)).strip()}"
    return words if len(words) <= 2000 else f"{words[:1000]}\n…\n{words[-1000:]}"


def _root_cause(error: BaseException) -> BaseException | None:
    """The exception at the start of the chain; None where there is no other."""
    seen = {id(error)}
    found = error
    while (under := found.__cause__) is not None and id(under) not in seen:
        seen.add(id(under))
        found = under
    return None if found is error else found


def _remember(report: Report) -> None:
    program = report.program
    kept = report.with_program(None)
    _last.report = (kept, weakref.ref(program) if program is not None else None)
    if program is not None:
        _reports[program] = kept


def unguarded(model: Any, made: Made, fault: Exception) -> Report:
    """The report of an export that guarddiff failed to guard, kept for ``report_of`` and ``last_report``."""
    missing = (Missing("the report", scrub(in_words(fault))),)
    error = _text(made.error) if made.error is not None else None
    report = Report(model=_name(model), program=made.value, error=error, status="incomplete", missing=missing)
    _remember(report)
    return report


def report_of(program: Any) -> Report:
    """What was found while ``program`` was exported.

    Raises KeyError for a program that guarddiff did not see being exported.
    """
    try:
        kept = _reports[program]
    except (KeyError, TypeError):
        raise KeyError("this program was not exported through guarddiff (or another copy of it was)") from None
    return kept.with_program(program)


def last_report() -> Report | None:
    """The newest report of this thread, also after an export that raised; None before the first export."""
    kept, program = getattr(_last, "report", (None, None))
    return kept.with_program(program() if program is not None else None) if kept is not None else None
