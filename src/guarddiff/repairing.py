"""``repair=True``: the export once more with what repairs the findings, taken only when it is proved right."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from guarddiff import proving
from guarddiff.analysis import attribute
from guarddiff.core.finding import Finding
from guarddiff.core.proof import Repair
from guarddiff.options import Options
from guarddiff.repair import capture, registry
from guarddiff.replay import prove as replay
from guarddiff.replay.run import one_line
from guarddiff.torch_bridge import evidence as evidence_of
from guarddiff.torch_bridge import replaying
from guarddiff.torch_bridge.record import Recording


@dataclass
class Repaired:
    """The findings with what became of them, what was done, and the program to return (None: torch's own)."""

    findings: list[Finding]
    outcome: Repair | None = None
    program: Any = None


def repair(recording: Recording, findings: Sequence[Finding], options: Options, guarded: proving.Guarded) -> Repaired:
    """Export again with the repairs that the findings call for; the result takes the first one's place when it agrees
    with eager PyTorch at the counterexamples and nothing that was right is wrong."""
    told = [_told(finding) for finding in findings]
    chosen = _chosen(findings)
    if not chosen or recording.program is None:
        return Repaired(told)
    names, ways = tuple(r.name for r in chosen), tuple(r.way for r in chosen)
    try:
        again = Recording(keep_unoptimized=True)
        with capture.repairs(chosen):
            program = replaying.export_otherwise(recording, registry.translation_table(chosen), again)
    except Exception as error:
        outcome = Repair(False, names, ways, (), f"the repaired export raised ({one_line(error)})")
        return Repaired(told, outcome)
    again.program = program
    return guarded("the repair", lambda: _judged(again, told, chosen, options, guarded), Repaired(told))


def _chosen(findings: Sequence[Finding]) -> list[registry.Repair]:
    found = [repair for finding in findings if finding.warns for repair in registry.for_finding(finding)]
    return list({repair.name: repair for repair in found}.values())


def _told(finding: Finding) -> Finding:
    """The finding with what can be done about it."""
    if not finding.warns:
        return finding
    known = registry.for_finding(finding)
    if known:
        return dataclasses.replace(finding, repair=f"{known[0].name}: {known[0].way}")
    refusal = registry.refusal_of(finding)
    text = f"{refusal.why}; {refusal.way_out}" if refusal is not None else None
    return dataclasses.replace(finding, repair=text)


def _judged(
    again: Recording,
    findings: list[Finding],
    chosen: Sequence[registry.Repair],
    options: Options,
    guarded: proving.Guarded,
) -> Repaired:
    names, ways = tuple(r.name for r in chosen), tuple(r.way for r in chosen)

    def refused(why: str, prover: replay.Prover | None = None) -> Repaired:
        tries = tuple(prover.tries) if prover is not None else ()
        return Repaired(findings, Repair(False, names, ways, tries, why))

    evidence, inputs = evidence_of.build(again)
    found = attribute.attribute(evidence)
    full = Options(on_finding="ignore", replay="full", sizes=options.sizes)
    job = proving.Job(again, evidence, inputs, found, full)
    prover = proving.prover_of(job)
    if prover is None:
        return refused("there are no example inputs to run it with")
    base = prover.baseline()
    if base.state != "agrees":
        return refused(f"the repaired model is not right at the example's sizes: {replay.at_example(base)}", prover)
    right = [_repaired(finding, prover) for finding in findings]
    if not any(finding.repaired for finding in right):
        return refused("the repaired model differs from eager PyTorch at the counterexamples too", prover)
    proved = proving.prove(job, guarded, prover)
    new = [f for f in proved.findings if f.verdict == "confirmed" and not _known(f, right)]
    if new:
        return refused("the repaired model is wrong at further sizes", prover)
    if proved.missing:
        return refused(f"the repaired model could not be tried: {proved.missing[0].why}", prover)
    agreed = sum(made.state == "agrees" for made in proved.tries)
    reason = f"it agrees with eager PyTorch at the counterexamples and at all {agreed} sizes at which both ran"
    if any(finding.warns for finding in right):
        reason += ", but for the findings that remain"
    return Repaired(right, Repair(True, names, ways, proved.tries, reason), again.program)


def _repaired(finding: Finding, prover: replay.Prover) -> Finding:
    """The finding, marked as repaired where the repaired model agrees with eager PyTorch at its counterexample."""
    if not finding.warns or not registry.for_finding(finding) or finding.counterexample is None:
        return finding
    if prover.attempt_at(dict(finding.counterexample.sizes)).state != "agrees":
        return finding
    return dataclasses.replace(finding, repaired=True)


def _known(finding: Finding, before: Sequence[Finding]) -> bool:
    """Whether a finding of the repaired export was there before and remains."""
    places = {(dim.input, dim.axis) for dim in finding.dims}
    return any(
        old.warns and old.op == finding.op and places <= {(dim.input, dim.axis) for dim in old.dims} for old in before
    )
