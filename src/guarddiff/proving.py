"""From findings to proofs: verdicts, further sizes, ladders, reproductions, what each operator became."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeVar

import torch

from guarddiff.analysis.attribute import Attribution
from guarddiff.analysis.constants import numbers
from guarddiff.core.evidence import Evidence
from guarddiff.core.finding import Finding
from guarddiff.core.proof import Try
from guarddiff.core.report import Missing
from guarddiff.options import Options
from guarddiff.replay import ladder, onnx_cut, own_points, search, sizes
from guarddiff.replay import prove as replay
from guarddiff.replay.inputs import Example
from guarddiff.replay.reproduce import Call, reproductions
from guarddiff.replay.tools import Tools
from guarddiff.torch_bridge import evidence as evidence_of
from guarddiff.torch_bridge import listing, onnx_nodes, replaying
from guarddiff.torch_bridge.record import Recording

NOTHING_RUN = 'replay="off": nothing was run'
_Part = TypeVar("_Part")


class Guarded(Protocol):
    """Makes a part; an error of ours is logged and told in the report, and ``instead`` is given."""

    def __call__(self, part: str, make: Callable[[], _Part], instead: _Part) -> _Part: ...


@dataclass(frozen=True)
class Job:
    """One export's findings, and what is needed to prove them. ``verdicts_only``: no ladders, reproductions and
    listings, whatever the options ask for."""

    recording: Recording
    evidence: Evidence
    inputs: evidence_of.Inputs
    found: Attribution
    options: Options
    verdicts_only: bool = False


@dataclass
class Proved:
    """The findings with their proofs, what was tried, and what could not be.

    ``wrong_sizes`` says which of the sizes that the user asked for can't be made; empty when all can.
    """

    findings: list[Finding]
    tries: tuple[Try, ...] = ()
    missing: list[Missing] = field(default_factory=list)
    wrong_sizes: str = ""


def runs(job: Job) -> bool:
    """Whether ``prove`` has anything to run."""
    options = job.options
    return options.replay != "off" and bool(job.found.findings or options.searches or options.sizes)


def prove(job: Job, guarded: Guarded, prover: replay.Prover | None = None) -> Proved:
    """Verdicts by the ways that the options ask for. ``prover``: one that has made tries already; None makes one."""
    findings, options = job.found.findings, job.options
    if options.replay == "off":
        return _nothing_run(job, NOTHING_RUN)
    if not runs(job):
        return Proved(findings)
    prover = prover or prover_of(job)
    if prover is None:
        return _nothing_run(job, "a program that was exported before has no example inputs to run")
    proved = Proved([_specialized_before(job, finding) for finding in prover.prove(findings)])
    if job.recording.program is not None:
        _search(job, prover, proved, guarded)
    proved.tries = tuple(prover.tries)
    if job.verdicts_only:
        return proved
    if options.thorough:
        climb = partial(_with_ladders, proved.findings, prover)
        proved.findings = guarded("the stage ladders", climb, proved.findings)
        reproduce = partial(reproductions, proved.findings, prover, _call(job.recording))
        proved.findings = guarded("the reproductions", reproduce, proved.findings)
    show = partial(_with_listings, job, proved.findings)
    proved.findings = guarded("the operators before and after", show, proved.findings)
    proved.tries = tuple(prover.tries)
    return proved


def _nothing_run(job: Job, why: str) -> Proved:
    """The findings without proofs; the user's own sizes are missing then."""
    missing = [Missing(search.NOT_RUN, why)] if job.options.sizes else []
    return Proved(_because(job.found.findings, why), missing=missing)


def _search(job: Job, prover: replay.Prover, proved: Proved, guarded: Guarded) -> None:
    """The whole model at the user's own sizes, and where the options ask for it at further ones."""
    asked, proved.wrong_sizes = own_points.named(job.options.sizes, prover.dims, prover.sizes)
    if proved.wrong_sizes:
        proved.missing.append(Missing(search.ASKED, proved.wrong_sizes))
    if not asked and not prover.astray and not job.options.searches:
        return
    run = partial(_searched, job, prover, proved.findings, asked)
    outcome = guarded("runs at further sizes", run, search.Found(proved.findings))
    proved.findings = outcome.findings
    proved.missing += outcome.missing


def _searched(
    job: Job, prover: replay.Prover, findings: Sequence[Finding], asked: Sequence[sizes.Point]
) -> search.Found:
    own = [*asked, *prover.astray]
    found = search.search(prover, findings, job.found.small, own, job.options.searches)
    if not found.missing and not job.verdicts_only:
        found.missing += search.not_run(prover, asked)
    return found


def _with_ladders(findings: Sequence[Finding], prover: replay.Prover) -> list[Finding]:
    """Confirmed findings with every stage's program at the counterexample's sizes."""
    return [
        dataclasses.replace(f, ladder=f.ladder or prover.ladder(f.counterexample.sizes))
        if f.counterexample is not None
        else f
        for f in findings
    ]


def _with_listings(job: Job, findings: Sequence[Finding]) -> list[Finding]:
    """Findings that warn with what their operator was before and after."""
    return [
        dataclasses.replace(
            finding,
            decomposition=listing.decomposition(
                job.recording, job.inputs.namer.size, finding.origin.node, finding.stage, numbers(finding)
            ),
        )
        if finding.warns and finding.origin.node is not None
        else finding
        for finding in findings
    ]


def _call(recording: Recording) -> Call:
    """What the user gave to the exporter, as far as a reproduction has to give the same."""
    asked, model = recording.asked, recording.model
    forward = getattr(model, "forward", model)
    try:
        parameters = tuple(inspect.signature(forward).parameters)
    except (TypeError, ValueError):
        parameters = ()
    names = asked.get("input_names")
    return Call(
        parameters=parameters,
        dynamic_shapes=asked.get("dynamic_shapes"),
        dynamic_axes=asked.get("dynamic_axes"),
        input_names=tuple(names) if names else None,
        opset_version=asked.get("opset_version"),
        optimize=recording.optimize,
    )


def _because(findings: Sequence[Finding], why: str) -> list[Finding]:
    return [dataclasses.replace(f, reason=f"{f.reason}; {why}" if f.reason else why) for f in findings]


def _specialized_before(job: Job, finding: Finding) -> Finding:
    """A program that was specialized when it was made can't be the reference for what was lost then."""
    is_program = isinstance(job.recording.model, torch.export.ExportedProgram)
    if not is_program or finding.stage != "capture" or finding.verdict not in ("inherent", "harmless"):
        return finding
    why = "the program was specialized before it came here, and the module it was made from is not at hand"
    return dataclasses.replace(finding, verdict="unconfirmed", reason=why)


def prover_of(job: Job) -> replay.Prover | None:
    """What runs the job's model; None for a program that was exported before and holds no example inputs."""
    recording, evidence = job.recording, job.evidence
    parts = evidence_of.example_parts(recording, job.inputs)
    if parts is None:
        return None
    mutated = evidence_of.mutated_parameters(recording)
    tools = Tools(
        program=recording.program,
        captured=recording.captured,
        mutated=mutated,
        size_text=job.inputs.namer.size,
        export_operator=lambda module, args, shapes: replaying.export_again(
            recording, module, args, dynamic_shapes=shapes, optimize=recording.optimize
        ),
        fake_accepts=replaying.fake_accepts,
        flatten=replaying.flatten,
        programs=_programs(recording, mutated),
    )
    model = recording.model
    if isinstance(model, torch.export.ExportedProgram):
        model = model.module()
    example = Example(*parts)
    return replay.Prover(tools, model, example, evidence.dims, evidence.declared or {}, evidence.example or {})


def _programs(recording: Recording, mutated: frozenset[str]) -> ladder.Programs:
    """What each stage made; the ONNX graph before the optimizer is made again where it was not kept."""
    program, captured = recording.program, recording.captured
    exported = program.exported_program if program is not None else None
    made: list[Any] = []

    def unoptimized() -> Any:
        if not recording.optimize:
            return None
        if not made:
            kept = recording.unoptimized
            made.append(
                onnx_cut.Piece(kept)
                if kept is not None
                else replaying.export_again(recording, captured, (), optimize=False)
            )
        return made[0]

    return ladder.Programs(
        captured=captured,
        decomposed=exported if exported is not None else recording.decomposed,
        unoptimized=unoptimized,
        optimized=program,
        exits=lambda decomposed: onnx_nodes.exits(decomposed, captured),
        origin_of=lambda node: onnx_nodes.origin_of(node, captured),
        mutated=mutated,
    )
