"""The whole of what one export showed, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from guarddiff.core import records
from guarddiff.core.declaration import Misdeclaration
from guarddiff.core.dims import InputSpec
from guarddiff.core.finding import Finding
from guarddiff.core.proof import Repair, Try
from guarddiff.core.snapshot import Guard, Snapshot
from guarddiff.core.stage import Stage

Status = Literal["clean", "specialized", "incomplete"]
Effect = Literal["none", "small", "lower", "far", "restricts", "unknown", "unbacked", "entailed"]


@dataclass(frozen=True)
class Change:
    """What one origin added in one stage, and what it does to the admitted sizes.

    ``effect``: ``none`` (excludes nothing that was declared), ``small`` (only the sizes 0 and 1), ``lower`` (only
    sizes below a bound), ``far`` (only sizes above 16,777,215), ``restricts`` (became a finding), ``entailed`` (an
    earlier finding excludes all of it already), ``unbacked`` (on data-dependent sizes alone), ``unknown`` (could not be
    evaluated).
    """

    stage: Stage
    guards: tuple[Guard, ...]
    effect: Effect
    finding: int | None = None


@dataclass(frozen=True)
class Missing:
    """A part of the report that is not there: which part, and why."""

    part: str
    why: str


@dataclass
class ReportData:
    """What one export showed.

    Attributes:
        status: ``clean``; ``specialized`` when a finding is confirmed or unconfirmed; ``incomplete`` when a part of
            the evidence could not be read, unless a finding is confirmed.
        model: Class name of the exported model.
        findings: One per root cause, in the order of the stages.
        inputs: The inputs as declared.
        stages: Snapshots in order.
        changes: What each origin added.
        missing: What could not be read or tried, with reasons.
        notes: Things to know that are no fault (an output declared with a fixed size).
        environment: Versions (python, torch, onnx, onnxscript, onnxruntime, guarddiff), platform, and how torch was
            built.
        error: The exception of an export that raised, as text; None otherwise.
        tries: What was run, in order: the sizes and how eager PyTorch and ONNX Runtime compared there.
        declarations: What is wrong with what was declared, or is read otherwise by torch: no findings, and no part of
            the status.
        repair: What ``repair=True`` did; None where it was not asked for, where nothing was to be repaired, or where no
            repair is known (``notes`` says so).
        graph: SHA-256 of what the ONNX graph is made of (nodes and whole numbers in them, names of outputs), which ties
            the report to the file; empty where there is none.
        program: The ``torch.onnx.ONNXProgram``; None in a loaded report. Never serialized.
    """

    status: Status = field(default="clean", metadata=records.REQUIRED)
    model: str = ""
    findings: tuple[Finding, ...] = ()
    inputs: tuple[InputSpec, ...] = ()
    stages: tuple[Snapshot, ...] = ()
    changes: tuple[Change, ...] = ()
    missing: tuple[Missing, ...] = ()
    notes: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    error: str | None = None
    tries: tuple[Try, ...] = ()
    declarations: tuple[Misdeclaration, ...] = ()
    repair: Repair | None = None
    graph: str = ""
    program: Any = field(default=None, compare=False, repr=False, metadata=records.NOT_SAVED)


WRITTEN_REPORT = "the written report"
FROZEN_CONTRACT = "the contract of the frozen module"
UNWRITTEN = (WRITTEN_REPORT, FROZEN_CONTRACT)
"""Parts that are missing because a file could not be written: what is known of the model is not less for it."""


def overall(findings: tuple[Finding, ...], missing: tuple[Missing, ...]) -> Status:
    """The status that findings and missing parts give: never ``clean`` while something is unknown."""
    if any(f.verdict == "confirmed" and f.warns for f in findings):
        return "specialized"
    if missing:
        return "incomplete"
    return "specialized" if any(f.warns for f in findings) else "clean"
