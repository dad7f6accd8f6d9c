"""What is wrong with the user's declarations: told before the export from the arguments alone, and after it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from guarddiff.analysis import declared_axes, declared_shapes, declared_sizes
from guarddiff.analysis.declared import Claim, Reading, shapes_text, text
from guarddiff.core.declaration import Code, Misdeclaration, Request, Row, Size, Spec, Table
from guarddiff.core.dims import Dimension
from guarddiff.core.domain import SizeRange
from guarddiff.core.finding import Finding
from guarddiff.core.report import ReportData

_MOST = 50


def before(request: Request) -> tuple[Misdeclaration, ...]:
    """What is wrong with what was asked for, known from the example inputs alone."""
    if request.program:
        return _program(request)
    found: list[Misdeclaration] = []
    shapes = _read_shapes(request)
    if shapes is not None and not request.dynamo:
        found.append(_no_dynamo(request, shapes.claims))
    elif shapes is not None and request.axes is not None:
        found.append(_both(request, shapes.claims))
    for reading in _read(request):
        declared_sizes.check(reading)
        found += reading.wrong
    return tuple(dict.fromkeys(found))[:_MOST]


def claims_of(request: Request) -> list[Claim]:
    """What torch is asked for, axis by axis."""
    return [claim for reading in _read(request) for claim in reading.claims]


def _read(request: Request) -> list[Reading]:
    """What torch reads of it: ``dynamic_shapes`` alone where both are given, and ``dynamic_axes`` without dynamo."""
    shapes = _read_shapes(request) if request.dynamo else None
    if shapes is not None:
        return [shapes]
    axes = _read_axes(request)
    return [axes] if axes is not None else []


def _read_shapes(request: Request) -> Reading | None:
    if request.shapes is None:
        return None
    reading = Reading(request, "dynamic_shapes")
    declared_shapes.read(reading, request.shapes)
    return reading


def _read_axes(request: Request) -> Reading | None:
    if request.axes is None:
        return None
    reading = Reading(request, "dynamic_axes")
    declared_axes.read(reading, request.axes)
    return reading


def _program(request: Request) -> tuple[Misdeclaration, ...]:
    """``dynamic_shapes`` still names the axes of a program; ``dynamic_axes`` is not looked at."""
    if request.axes is None or request.axes == Table(()):
        return ()
    problem = "the model is an ExportedProgram, which keeps the dimensions it was captured with: this is not read"
    right = "torch.export.export(model, args, dynamic_shapes=…), and no dynamic_axes"
    return (Misdeclaration("program", "dynamic_axes", problem, right),)


def _no_dynamo(request: Request, claims: Sequence[Claim]) -> Misdeclaration:
    axes: dict[str, list[str]] = {}
    for claim in claims:
        if claim.size.dynamic:
            name = claim.size.name if claim.size.kind in ("name", "dim") else f"{claim.leaf.onnx}_{claim.axis}"
            axes.setdefault(claim.leaf.onnx, []).append(f"{claim.axis}: {name!r}")
    names = ", ".join(repr(leaf.onnx) for leaf in request.tensors())
    shown = ", ".join(f"{name!r}: {{{', '.join(entries)}}}" for name, entries in axes.items())
    problem = "dynamo=False takes dynamic_axes alone"
    right = f"input_names=[{names}], dynamic_axes={{{shown}}}"
    return Misdeclaration("no-dynamo", "dynamic_shapes", problem, right)


def _both(request: Request, claims: Sequence[Claim]) -> Misdeclaration:
    """Both ways at once: what one of them alone would say."""
    reading = _read_axes(request)
    known = {claim.place for claim in claims}
    more = [claim for claim in (reading.claims if reading else []) if claim.place not in known]
    problem = "dynamic_shapes is given as well: torch reads that alone"
    right = f"{shapes_text(request.given, [*claims, *more])}, and no dynamic_axes"
    return Misdeclaration("both-ways", "dynamic_axes", problem, right, tuple(claim.place for claim in more))


# --- after the export ---


def after(
    told: Sequence[Misdeclaration], request: Request, report: ReportData, lower: Sequence[Finding] = ()
) -> tuple[Misdeclaration, ...]:
    """What is left of ``told`` when the export has been seen, and what can be told now alone.

    ``lower``: what was seen to exclude nothing but small sizes, or very large ones, and is no finding.
    """
    if request.program:
        return tuple(told)
    raised = report.error is not None
    loud = [finding for finding in report.findings if finding.warns]
    covered = {(dim.input, dim.axis) for finding in loud for dim in finding.dims}
    kept = [one for one in told if not _known(one, loud, raised or not request.dynamo)]
    if raised and not any(one.warns for one in kept):
        kept += _suggested(request, report.error or "")
    kept += _small_examples(request, covered, raised and not any(one.warns for one in kept))
    if not raised and request.dynamo:
        kept += _outputs(request, report, bool(loud))
        kept += _ranges(lower, covered)
    return tuple(dict.fromkeys(kept))[:_MOST]


def _known(one: Misdeclaration, loud: Iterable[Finding], raised: bool) -> bool:
    """Whether a finding tells it already, or the export shows that it did no harm."""
    if one.code == "negative-axis":
        return not raised  # it is a finding of stage declare, or the axis did become dynamic
    if one.code != "other-order":
        return False
    return any(finding.stage == "declare" for finding in loud)


def _small_examples(request: Request, covered: set[tuple[str, int]], raised: bool) -> list[Misdeclaration]:
    """Example sizes of 1 and 0 where they may be why the dimension is fixed, or why the export raised."""
    found = []
    what = "the export raised" if raised else "a finding limits this dimension"
    for claim in claims_of(request):
        if not claim.size.dynamic or claim.example > 1:
            continue
        if raised or (claim.leaf.onnx, claim.axis) in covered:
            problem = f"the example has size {claim.example} there, which is often why: {what}"
            right = "an example of size 2 or more there, and the export once more"
            found.append(Misdeclaration("example-one", claim.where, problem, right, (claim.place,)))
    return found


def _outputs(request: Request, report: ReportData, limited: bool) -> list[Misdeclaration]:
    """Outputs that were declared dynamic and came out with fixed sizes."""
    last = next((snapshot for snapshot in reversed(report.stages) if not snapshot.state_read), None)
    if last is None or not isinstance(request.axes, Table) or request.shapes is not None:
        return []
    found = []
    shapes = {output.name: output.shape for output in last.outputs}
    noted = " ".join(report.notes)
    for key, value in request.axes.entries:
        if key not in request.output_names or key not in shapes:
            continue
        wrong = _wrong_axes(str(key), value, shapes[str(key)], noted, limited)
        right = f"{key!r}: {text(_without(value, set(wrong)))}"
        for axis, (code, problem) in wrong.items():
            where = f"dynamic_axes[{key!r}]" + (f"[{axis}]" if isinstance(value, Table) else "")
            found.append(Misdeclaration(code, where, problem, right))
    return found


def _wrong_axes(
    name: str, value: Spec, shape: tuple[int | str | None, ...], noted: str, limited: bool
) -> dict[int, tuple[Code, str]]:
    """Axes of an output that are not there, or have a fixed size that neither a finding nor a note tells of."""
    wrong: dict[int, tuple[Code, str]] = {}
    for axis in _axes(value):
        if not -len(shape) <= axis < len(shape):
            wrong[axis] = ("output-axis", f"axis {axis} is out of range: the output {name!r} has {len(shape)} axes")
        elif isinstance(shape[axis], int) and not (limited or f"{name}[{axis % len(shape)}] is declared" in noted):
            wrong[axis] = ("fixed-output", f"no dynamic input makes it so: it has the fixed size {shape[axis]}")
    return wrong


def _axes(value: Spec) -> list[int]:
    if isinstance(value, Table):
        pairs = [(axis, size) for axis, size in value.entries if isinstance(size, Size) and size.dynamic]
        return [axis for axis, _ in pairs if isinstance(axis, int)]
    items = value.items if isinstance(value, Row) else ()
    return [item.number for item in items if isinstance(item, Size) and item.kind == "number"]


def _without(value: Spec, axes: set[int]) -> Spec:
    """The same without these axes."""
    if isinstance(value, Table):
        return replace(value, entries=tuple(entry for entry in value.entries if entry[0] not in axes))
    items = value.items if isinstance(value, Row) else ()
    return Row(tuple(item for item in items if not isinstance(item, Size) or item.number not in axes), "list")


def _ranges(lower: Sequence[Finding], covered: set[tuple[str, int]]) -> list[Misdeclaration]:
    """Ranges of the user's own that begin below what the guards admit."""
    bounds: dict[str, tuple[Dimension, int, str]] = {}
    for finding in lower:
        for dim in finding.dims:
            least = _least(dim)
            if least is None or (dim.input, dim.axis) in covered:
                continue
            if dim.place not in bounds or bounds[dim.place][1] < least:
                bounds[dim.place] = (dim, least, finding.op)
    found = []
    for dim, least, op in bounds.values():
        declared = dim.declared.sizes if dim.declared else SizeRange()
        why = f" (for {op})" if op not in ("", "unknown") else ""
        problem = f"{declared} is declared, and the exported model is known to be right from {least} up{why}"
        upper = f", max={declared.upper}" if declared.upper is not None else ""
        right = f"Dim({dim.name!r}, min={least}{upper})"
        found.append(Misdeclaration("range-exceeds", dim.place, problem, right, (dim.place,)))
    return found


def _suggested(request: Request, error: str) -> list[Misdeclaration]:
    """The ranges that torch.export suggests where it refuses those that were declared."""
    found = []
    _, _, fixes = error.partition("Suggested fixes:")
    claims = {claim.size.name: claim for claim in reversed(claims_of(request)) if claim.size.name}
    for name, fix in re.findall(r"^ +([^\W\d]\w*) = (Dim\(.*\)|\d+)$", fixes, re.MULTILINE):
        if name in claims:
            claim = claims[name]
            problem = f"{claim.size.text} declares sizes that the model does not take: torch.export refuses it"
            right = f"None: it takes {fix} alone" if fix.isdigit() else fix
            found.append(Misdeclaration("range-exceeds", claim.where, problem, right, (claim.place,)))
    return found


def _least(dim: Dimension) -> int | None:
    """The first size that is admitted, where the user declared an explicit range with smaller ones."""
    declared = dim.declared
    if declared is None or not declared.text.startswith("Dim(") or declared.sizes == SizeRange():
        return None
    admitted = dim.admitted
    if admitted is None or not admitted.known or not admitted.intervals:
        return None
    least = admitted.intervals[0][0]
    return least if least > max(declared.sizes.lower, 1) else None
