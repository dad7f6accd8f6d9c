"""``repair=True``: the export once more with what repairs the findings, taken only when it is proved right."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import torch

from guarddiff import apart, proving
from guarddiff.analysis import attribute
from guarddiff.core.finding import Finding
from guarddiff.core.proof import ANOTHER_EXAMPLE, Repair, Try, TryState
from guarddiff.options import Options
from guarddiff.repair import capture, registry
from guarddiff.replay import another, verdicts
from guarddiff.replay import prove as replay
from guarddiff.replay.run import one_line
from guarddiff.torch_bridge import assertions, replaying
from guarddiff.torch_bridge import evidence as evidence_of
from guarddiff.torch_bridge.record import Recording

MOST_EXAMPLES = 3
_HOW = "exported at {}, where what the first example decided is decided otherwise; it is right at both"


@dataclass(frozen=True)
class _Way:
    """One way to export again: with ``repairs``, at the shapes of ``example`` (None: the user's own example)."""

    repairs: tuple[registry.Repair, ...]
    example: another.Shapes | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return (*(repair.name for repair in self.repairs), *([ANOTHER_EXAMPLE] if self.example is not None else ()))

    @property
    def ways(self) -> tuple[str, ...]:
        return (*(repair.way for repair in self.repairs), *([self.how] if self.example is not None else ()))

    @property
    def how(self) -> str:
        """What the other example is, in words."""
        shapes = (f"{name} {'×'.join(map(str, shape))}" for name, shape in (self.example or {}).items())
        return _HOW.format(", ".join(shapes))


@dataclass
class Repaired:
    """The findings with what became of them, what was done, and the program to return (None: torch's own)."""

    findings: list[Finding]
    outcome: Repair | None = None
    program: Any = None

    @property
    def remaining(self) -> list[Finding]:
        """The findings that still warn."""
        return [finding for finding in self.findings if finding.warns]


def repair(job: proving.Job, findings: Sequence[Finding], tries: Sequence[Try], guarded: proving.Guarded) -> Repaired:
    """Export again with the repairs that the findings call for, and where that does not do, with another example; the
    result takes the first one's place when it agrees with eager PyTorch wherever torch's own did (``tries``) and at the
    counterexamples, and nothing new is wrong. Where no finding is to remain, it has to agree at every size that was
    tried on the way, with whatever program: else one would be found that happens to pass its own tries."""
    first = Repaired(list(findings))
    if job.recording.program is None:
        return first
    work = _Work(job, first.findings, tries)
    if not first.remaining and not work.wrong_at_example:
        return first
    best: Repaired | None = None
    for way in work.ways():
        done = guarded("the repair", lambda way=way: work.attempt(way, guarded), first)  # type: ignore[misc]
        if best is None or (done.program is not None and len(done.remaining) < len(best.remaining)):
            best = done
        if done.program is not None and not done.remaining:
            break
    if best is None or _only_tried_another(best.outcome):
        return first
    return best


def _only_tried_another(outcome: Repair | None) -> bool:
    return outcome is not None and not outcome.returned and outcome.names == (ANOTHER_EXAMPLE,)


def told(findings: Sequence[Finding]) -> list[Finding]:
    """The findings, each that warns with what can be done about it."""
    return [_told(finding) for finding in findings]


def _told(finding: Finding) -> Finding:
    if not finding.warns or finding.stage == "run":
        return finding
    known = registry.for_finding(finding)
    if known:
        return dataclasses.replace(finding, repair=f"{known[0].name}: {known[0].way}", repairable=True)
    refusal = registry.refusal_of(finding)
    if refusal.other_example:
        why = f"{ANOTHER_EXAMPLE}: {refusal.why}, and there may be an example whose branch is right for all"
        way = f"{why}; else {refusal.way_out}"
        return dataclasses.replace(finding, repair=way, repairable=True)
    return dataclasses.replace(finding, repair=f"{refusal.why}; {refusal.way_out}")


def in_vain(finding: Finding) -> Finding:
    """The finding after other examples were tried, with what is left to do about it; others as they are."""
    if not finding.warns or finding.stage == "run" or registry.for_finding(finding):
        return finding
    refusal = registry.refusal_of(finding)
    if not refusal.other_example:
        return finding
    why = f"{refusal.why}, and no other example that was tried is right for all"
    return dataclasses.replace(finding, repair=f"{why}; {refusal.way_out}")


class _Work:
    """One export's ways of being repaired. ``tries``: what was run with torch's own model."""

    def __init__(self, job: proving.Job, findings: Sequence[Finding], tries: Sequence[Try]) -> None:
        self._job = job
        self._findings = list(findings)
        self._prover = proving.prover_of(job)
        own = [self._prover.example.shapes] if self._prover is not None else []
        self._right = [*own, *_sizes(tries, "agrees")]
        self._wrong = _sizes(tries, "differs")
        self.wrong_at_example = any(shapes in self._wrong for shapes in own)

    def ways(self) -> Iterator[_Way]:
        """With the repairs that are known, at the user's own example first; with all there are where torch's model is
        wrong at the example itself, which no guard and no other size can explain."""
        if self.wrong_at_example:
            yield _Way(tuple(repair for repair in registry.every() if repair.optimize))
            yield _Way(tuple(repair for repair in registry.every() if not repair.optimize))
            return
        found = [known for finding in self._findings if finding.warns for known in registry.for_finding(finding)]
        chosen = tuple({known.name: known for known in found}.values())
        if chosen:
            yield _Way(chosen)
        for shapes in islice(self._examples(), MOST_EXAMPLES):
            yield _Way(chosen, shapes)

    def _examples(self) -> Iterator[another.Shapes]:
        """Shapes to export at that eager PyTorch accepts."""
        prover = self._prover
        if prover is None or isinstance(self._job.recording.model, torch.export.ExportedProgram):
            return
        loud = [finding for finding in self._findings if finding.warns]
        for shapes in another.examples(loud, prover.dims, prover.declared, prover.sizes, prover.example.shapes):
            if apart.run(partial(_state_at, prover, shapes)) in ("agrees", "differs"):
                yield shapes

    def attempt(self, way: _Way, guarded: proving.Guarded) -> Repaired:
        """The export in this way, and whether it can be taken."""
        recording = self._job.recording
        again = Recording(keep_unoptimized=True)
        example = None
        if way.example is not None and self._prover is not None:
            given = self._prover.example
            example = given.call(given.at(way.example))
        used: dict[str, registry.Repair] = {}
        chosen = registry.noted(way.repairs, used)
        try:
            with capture.repairs(chosen, model=recording.model), assertions.divisible():
                table = registry.translation_table(chosen)
                optimize = all(repair.optimize for repair in way.repairs)
                program = replaying.export_otherwise(recording, table, again, example, optimize)
        except Exception as error:
            outcome = Repair(False, way.names, way.ways, (), f"the repaired export raised ({one_line(error)})")
            return Repaired(list(self._findings), outcome)
        again.program = program
        if self.wrong_at_example:
            unoptimized = tuple(repair for repair in way.repairs if not repair.optimize)
            way = dataclasses.replace(way, repairs=(*used.values(), *unoptimized))
        done = apart.recorded(recording, lambda: self._judged(again, way, guarded))
        if done.outcome is not None and done.outcome.returned:
            done.program = program
        if done.outcome is not None:
            self._wrong += _sizes(done.outcome.tries, "differs")
        return done

    def _judged(self, again: Recording, way: _Way, guarded: proving.Guarded) -> Repaired:
        def refused(why: str, prover: replay.Prover | None = None) -> Repaired:
            tries = tuple(prover.tries) if prover is not None else ()
            return Repaired(list(self._findings), Repair(False, way.names, way.ways, tries, why))

        evidence, inputs = evidence_of.build(again)
        found = attribute.attribute(evidence)
        full = Options(on_finding="ignore", replay="full", sizes=self._job.options.sizes)
        job = proving.Job(again, evidence, inputs, found, full, verdicts_only=True)
        prover = proving.prover_of(job)
        if prover is None:
            return refused("there are no example inputs to run it with")
        base = prover.baseline()
        if base.state != "agrees":
            told = verdicts.at_example(base)
            return refused(f"the repaired model is not right at the example's sizes: {told}", prover)
        right = [self._repaired(finding, prover, way) for finding in self._findings]
        if not any(finding.repaired for finding in right) and not self.wrong_at_example:
            return refused("the repaired model differs from eager PyTorch at the counterexamples too", prover)
        if wrong_at(prover, self._right):
            return refused("the repaired model is wrong at sizes at which torch's own is right", prover)
        proved = proving.prove(job, guarded, prover)
        if any(f.verdict == "confirmed" and not _known(f, right) for f in proved.findings) or self._fails(
            prover, way, any(finding.warns for finding in right)
        ):
            return refused("the repaired model is wrong at further sizes", prover)
        if proved.missing:
            return refused(f"the repaired model could not be tried: {proved.missing[0].why}", prover)
        reason = self._reason(prover.tries, any(finding.warns for finding in right))
        return Repaired(right, Repair(True, way.names, way.ways, tuple(prover.tries), reason))

    def _fails(self, prover: replay.Prover, way: _Way, remaining: bool) -> bool:
        """Whether it is wrong where others went wrong, or at telling sizes if numbers are worked out from sizes. Where
        findings remain, only where torch's own model is right: elsewhere they may be to blame."""
        shapes = list(self._wrong)
        if any(repair.stand_ins for repair in way.repairs):
            shapes += another.telling(prover.dims, prover.declared, prover.sizes, prover.example.shapes)
        if remaining and self._prover is not None:
            shapes = [one for one in shapes if self._prover.attempt_at(one).state == "agrees"]
        return wrong_at(prover, shapes)

    def _reason(self, tries: Sequence[Try], remaining: bool) -> str:
        where = "the example's sizes, where torch's own does not," if self.wrong_at_example else "the counterexamples"
        agreed, untried = (sum(made.state == state for made in tries) for state in ("agrees", "unknown"))
        text = f"it agrees with eager PyTorch at {where} and at all {agreed} sizes at which both ran"
        if untried:
            text += f" ({untried} more could not be told)"
        return f"{text}, but for the findings that remain" if remaining else text

    def _repaired(self, finding: Finding, prover: replay.Prover, way: _Way) -> Finding:
        """The finding, marked as repaired where the repaired model agrees with eager PyTorch at its counterexample;
        where torch's own was wrong at the example there was none to be had, and none may be left."""
        known = registry.for_finding(finding)
        if self.wrong_at_example and finding.warns:
            return dataclasses.replace(finding, repaired=True)
        if not finding.warns or finding.counterexample is None or not (known or way.example):
            return finding
        if prover.attempt_at(dict(finding.counterexample.sizes)).state != "agrees":
            return finding
        text = finding.repair if known else f"{ANOTHER_EXAMPLE}: {way.how}"
        return dataclasses.replace(finding, repaired=True, repair=text)


def _state_at(prover: replay.Prover, shapes: another.Shapes) -> TryState:
    return prover.attempt_at(shapes).state


def wrong_at(prover: replay.Prover, shapes: Sequence[another.Shapes]) -> bool:
    """Whether the model differs from eager PyTorch at one of the shapes."""
    return any(prover.attempt_at(one).state == "differs" for one in shapes)


def _sizes(tries: Sequence[Try], state: TryState) -> list[another.Shapes]:
    return [dict(made.sizes) for made in tries if made.scope == "model" and made.state == state]


def _known(finding: Finding, before: Sequence[Finding]) -> bool:
    """Whether a finding of the repaired export was there before and remains."""
    places = {(dim.input, dim.axis) for dim in finding.dims}
    return any(
        old.warns and old.op == finding.op and places <= {(dim.input, dim.axis) for dim in old.dims} for old in before
    )
