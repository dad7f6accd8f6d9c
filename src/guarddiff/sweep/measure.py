"""Measure one case: what is true of its export, what guarddiff says of it, and whether the repair cures it."""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch

from guarddiff import api, proving, watching
from guarddiff.core.finding import Finding
from guarddiff.core.report import Missing, overall
from guarddiff.options import Options
from guarddiff.pipeline import Pipeline
from guarddiff.replay import ladder
from guarddiff.replay.run import Unavailable, one_line, told
from guarddiff.report import Report
from guarddiff.sweep import sources, truth
from guarddiff.sweep.case import Case, Trial
from guarddiff.sweep.outcome import Found, Outcome, Repaired, Said, State, Wrong
from guarddiff.sweep.truth import Exported, NotComparable, Point
from guarddiff.torch_bridge import evidence

_Part = TypeVar("_Part")
_STRENGTH = ("confirmed", "unconfirmed", "harmless", "inherent")
_LONGEST = 600
KEPT = 3
"""How many wrong points are kept of one case."""


def measure(case: Case, repair: bool = True) -> Outcome:
    """What there is to know of the case. Never raises: what can't be measured is an outcome of its own.

    ``repair``: whether a wrong export is exported again with ``repair=True``.
    """
    begun = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            outcome = _Measurement(case, sources.trial(case), repair).outcome()
        except NotComparable as error:
            outcome = Outcome(case.key, "not comparable", text=str(error))
        except Unavailable as error:
            outcome = Outcome(case.key, "failed", text=str(error))
        except Exception as error:
            outcome = Outcome(case.key, "failed", text=_short(told(error)))
    return dataclasses.replace(outcome, seconds=round(time.perf_counter() - begun, 3), memory=_peak())


def report(case: Case, folder: str | os.PathLike[str], repair: bool = False) -> tuple[Path, ...]:
    """Export the case by itself with ``replay="full"`` and write the whole report into ``folder``; the files' paths.

    Raises what making the case raises. An export that raises leaves a report too.
    """
    trial = sources.trial(case)
    args, keywords = _call(trial)
    try:
        checked = api.check(*args, on_finding="ignore", replay="full", repair=repair, **keywords)
    except Exception:
        checked = api.last_report()  # type: ignore[assignment]
        if checked is None:
            raise
    return checked.write(folder, ("markdown", "json", "html"))


class _Measurement:
    def __init__(self, case: Case, trial: Trial, repair: bool) -> None:
        self._case = case
        self._trial = trial
        self._repair = repair
        self._failures: list[str] = []

    def outcome(self) -> Outcome:
        tried = truth.points(self._trial)
        base = Outcome(self._case.key, "ok", example=self._trial.shapes, tried=len(tried) - 1)
        pipeline = Pipeline(Options(on_finding="ignore"))
        pipeline.recording.keep_unoptimized = True  # the full mode is asked of the same recording
        begun = time.perf_counter()
        try:
            program, report = self._exported(pipeline)
        except Exception as error:
            cause = pipeline.report.error if pipeline.report is not None else None
            refused = dataclasses.replace(base, state="export error", text=_cause(cause or told(error)))
            return dataclasses.replace(refused, repair=self._repaired(tried)) if self._rescues else refused
        said = _said(report, time.perf_counter() - begun)
        names = self._names(pipeline, program)
        found = Exported(program, names).wrong(tried)
        full = self._full(pipeline, report)
        if not found:
            base, found = self._looked_at_again(base, pipeline, (report, full[1]), Exported(program, names), tried[0])
        outcome = dataclasses.replace(base, default=said, full=full[0], text="; ".join(self._failures))
        return self._judged(outcome, pipeline, tried, found, names)

    @property
    def _rescues(self) -> bool:
        """Operators that torch can't export at all are no matter for a repair."""
        return self._repair and self._case.group != "ops"

    def _exported(self, pipeline: Pipeline) -> tuple[Any, Report]:
        args, keywords = _call(self._trial)
        return watching.run(pipeline, functools.partial(torch.onnx.export, *args, **keywords), watching.Told())

    def _names(self, pipeline: Pipeline, program: Any) -> tuple[str | None, ...]:
        """The ONNX input of each leaf of the inputs."""
        if pipeline.job is not None:
            parts = evidence.example_parts(pipeline.recording, pipeline.job.inputs)
            if parts is not None:
                return parts[1]
        return tuple(value.name for value in program.model.graph.inputs)

    def _full(self, pipeline: Pipeline, report: Report) -> tuple[Said | None, Report | None]:
        """What ``replay="full"`` says of the same export: its verdicts, without ladders and reproductions, which
        change none. Proved anew: nothing that was run for the default mode is used again."""
        if pipeline.job is None:
            return None, None
        begun = time.perf_counter()
        options = Options(on_finding="ignore", search=True)
        job = dataclasses.replace(pipeline.job, options=options, verdicts_only=True)
        missing: list[Missing] = []
        proved = proving.prove(job, _Guard(missing))
        full = report.with_program(None)
        full.findings = tuple(proved.findings)
        full.missing = (*report.missing, *proved.missing, *missing)
        full.status = overall(full.findings, full.missing)
        return _said(full, time.perf_counter() - begun), full

    def _looked_at_again(
        self,
        outcome: Outcome,
        pipeline: Pipeline,
        reports: Sequence[Report | None],
        exported: Exported,
        example: Point,
    ) -> tuple[Outcome, list[tuple[Point, Wrong]]]:
        """For a case that is right at its own sizes: the counterexamples that guarddiff has, run once more, with inputs
        of the case's own and, where these agree, with those of guarddiff's replay, whose values are others. Wrong there
        as well: so it is. One that can't be run leaves the case ``unsure``."""
        for finding in [f for r in reports if r is not None for f in r.findings if f.verdict == "confirmed"]:
            for make in (self._own, self._replayed):
                try:
                    again = exported.wrong([example, make(pipeline, finding)])
                except Exception as error:
                    self._failures.append(f"a counterexample could not be run again ({one_line(error)})")
                    outcome = dataclasses.replace(outcome, unsure=True)
                    continue
                if again:
                    return dataclasses.replace(outcome, unsure=False, beyond=True), again
        return outcome, []

    def _own(self, pipeline: Pipeline, finding: Finding) -> Point:
        """The counterexample with inputs of the case's own."""
        del pipeline
        return truth.point(self._trial, self._shapes(finding))

    def _shapes(self, finding: Finding) -> tuple[tuple[int, ...], ...]:
        """The shape of each tensor at the finding's counterexample, in the order of the case's inputs."""
        example = finding.counterexample
        if example is None or len(example.sizes) != len(self._trial.shapes):
            raise NotComparable("the counterexample does not name every input")
        return tuple(tuple(shape) for shape in example.sizes.values())

    def _replayed(self, pipeline: Pipeline, finding: Finding) -> Point:
        """The counterexample with the inputs of guarddiff's replay."""
        prover = proving.prover_of(pipeline.job) if pipeline.job is not None else None
        if prover is None or finding.counterexample is None:
            raise NotComparable("guarddiff's inputs are not known")
        leaves = prover.example.at(finding.counterexample.sizes)
        expected = prover.eager.run(prover.example, leaves)
        return Point(self._shapes(finding), tuple(leaves), tuple(expected))

    def _judged(
        self,
        outcome: Outcome,
        pipeline: Pipeline,
        tried: Sequence[Point],
        found: Sequence[tuple[Point, Wrong]],
        names: Sequence[str | None],
    ) -> Outcome:
        deciding = truth.first(found, self._trial.shapes)
        if deciding is None:
            return outcome
        point, wrong = deciding
        state: State = wrong.state  # type: ignore[assignment]
        at_example = wrong.shapes == self._trial.shapes
        kept = (wrong, *(w for _, w in found if w is not wrong))[:KEPT]
        stage = "example" if at_example else self._guarded(lambda: self._stage(pipeline, point), None)
        outcome = dataclasses.replace(outcome, state=state, stage=stage, wrong=kept, wrong_points=len(found))
        if not self._repair or not (outcome.silent or at_example):
            return outcome
        if all(point is not one for one in tried):
            tried = (*tried, point)
        return dataclasses.replace(outcome, repair=self._repaired(tried, names))

    def _stage(self, pipeline: Pipeline, point: Point) -> str | None:
        """The first stage whose program is wrong at the point; None where it can't be told."""
        prover = proving.prover_of(pipeline.job) if pipeline.job is not None else None
        if prover is None or prover.tools.programs is None:
            return None
        climbed = ladder.climb(prover.tools.programs, prover.pair, prover.example, point.leaves, point.expected)
        return climbed.stage

    def _repaired(self, tried: Sequence[Point], names: Sequence[str | None] | None = None) -> Repaired:
        """What ``guarddiff.export(repair=True)`` hands back, run at the same points."""
        begun = time.perf_counter()
        trial = sources.trial(self._case)
        args, keywords = _call(trial)
        try:
            program = api.export(*args, on_finding="ignore", repair=True, **keywords)
            report = api.report_of(program)
            done = report.repair
            found = Exported(program, _renamed(program, names)).wrong(tried)
        except Exception as error:
            return Repaired(
                False, "", "export error", _cause(told(error)), seconds=round(time.perf_counter() - begun, 3)
            )
        deciding = truth.first(found, trial.shapes)
        state, text = (deciding[1].state, deciding[1].text) if deciding is not None else ("ok", "")
        reason = done.reason if done is not None else "no repair is known"
        returned = done is not None and done.returned
        remaining = any(finding.warns for finding in report.findings)
        seconds = round(time.perf_counter() - begun, 3)
        return Repaired(returned, _short(reason), state, _short(text), seconds, remaining)

    def _guarded(self, make: Callable[[], _Part], instead: _Part) -> _Part:
        try:
            return make()
        except Exception as error:
            self._failures.append(_short(told(error)))
            return instead


class _Guard:
    """Notes what could not be made as missing."""

    def __init__(self, missing: list[Missing]) -> None:
        self._missing = missing

    def __call__(self, part: str, make: Callable[[], _Part], instead: _Part) -> _Part:
        try:
            return make()
        except Exception as error:
            self._missing.append(Missing(part, one_line(error)))
            return instead


def _call(trial: Trial) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What ``torch.onnx.export`` is given, by position and by keyword."""
    args, kwargs = trial.at(trial.shapes)
    return (trial.model, args), {"kwargs": kwargs or None, "dynamo": True, "verbose": False, **trial.keywords}


def _said(report: Report, seconds: float) -> Said:
    verdicts = {finding.verdict for finding in report.findings}
    return Said(
        status=report.status,
        verdict=next((verdict for verdict in _STRENGTH if verdict in verdicts), "none"),
        warned=any(finding.warns for finding in report.findings),
        findings=tuple(_found(finding) for finding in report.findings),
        missing=tuple(f"{one.part}: {one.why}"[:200] for one in report.missing),
        seconds=round(seconds, 3),
    )


def _found(finding: Finding) -> Found:
    rule, source = finding.origin.rule, finding.origin.source
    return Found(
        stage=finding.stage,
        op=finding.op or None,
        verdict=finding.verdict,
        dims=tuple(f"{dim.place}: {dim.admitted if dim.admitted is not None else 'unknown'}" for dim in finding.dims),
        guards=tuple(guard[:200] for guard in finding.guards[:3]),
        source=str(source) if source is not None else None,
        rule=f"{rule} {rule.function}".strip() if rule is not None else None,
        reason=_short(finding.reason),
        repairable=finding.repairable,
    )


def _renamed(program: Any, names: Sequence[str | None] | None) -> list[str | None]:
    """The input of each leaf in a program that was exported again, whose inputs come in the same order: torch calls one
    ``x`` or ``x_orig``, by what forward does with it. ``names`` are those of the first export, None where it raised."""
    inputs = iter([value.name for value in program.model.graph.inputs])
    return list(inputs) if names is None else [name and next(inputs, None) for name in names]


def _cause(text: str) -> str:
    """What was at the root of an export's error: the exporter's own words say only at which step it was."""
    return _short(text.partition("\ncaused by ")[2] or text)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _peak() -> int | None:
    """Peak resident memory of this process, in bytes; None where the system does not tell."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
