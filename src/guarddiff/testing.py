"""For users' own tests: assert that a model exports with the dynamic dimensions that were declared for it.

torch is imported when an export is made, not before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from guarddiff.core.dims import Dimension, InputSpec
from guarddiff.core.finding import Finding, Shapes, dimension_sizes
from guarddiff.core.proof import Try
from guarddiff.core.report import ReportData

if TYPE_CHECKING:
    from guarddiff.options import Replay
    from guarddiff.report import Report

_NOTHING = "no dimension is declared dynamic"

__all__ = ["allows", "assert_admits", "assert_exports_dynamic"]


def assert_exports_dynamic(
    model: Any,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    sizes: Mapping[str, Sequence[int]] | Sequence[Mapping[str, int]] | None = None,
    replay: Replay = "full",
    allow: str | Iterable[str] = (),
    **export_keywords: Any,
) -> Report:
    """Export ``model`` and assert that the exported model is right at more than the example's sizes.

    Args:
        model: What ``torch.onnx.export`` takes.
        args: Example inputs, positional.
        kwargs: Example inputs by keyword; None for none.
        dynamic_shapes: As for ``torch.onnx.export``; None where ``dynamic_axes`` declares the dimensions, or the model
            brings its own declarations (an ExportedProgram).
        sizes: Sizes of your own to run the model at, as for ``guarddiff.api.check_at``: names of dimensions to lists of
            sizes, of which every combination is run, or a list of points. None for none.
        replay: As for ``guarddiff.export``; ``full`` also finds faults that leave no guard.
        allow: Operators (``Finding.op``, with ``*`` and ``?`` as wildcards) whose findings are known and accepted.
        export_keywords: Further keywords of ``torch.onnx.export``, and ``report_to`` of guarddiff.

    Returns:
        The report.

    Raises:
        AssertionError: Where a finding is confirmed or unconfirmed and not allowed, or where something could not be
            read or tried. The message is the report as text.
        ValueError: Where no dimension is declared dynamic, so that there is nothing to assert; for wrong ``sizes``.
        Exception: Whatever ``torch.onnx.export`` raises.
    """
    __tracebackhide__ = True
    import torch

    from guarddiff.api import check_at

    brings_its_own = isinstance(model, (torch.export.ExportedProgram, torch.onnx.ExportableModule))
    if not dynamic_shapes and not export_keywords.get("dynamic_axes") and not brings_its_own:
        raise ValueError(f"{_NOTHING}: give dynamic_shapes, as in dynamic_shapes={{'x': {{2: 'height'}}}}")
    export_keywords.setdefault("verbose", False)
    report = check_at(
        model,
        args,
        kwargs=dict(kwargs) if kwargs is not None else None,
        dynamic_shapes=dynamic_shapes,
        sizes=sizes,
        on_finding="ignore",
        replay=replay,
        **export_keywords,
    )
    declared = any(dim.declared for spec in report.inputs for dim in spec.dims)
    if not declared and (report.inputs or not report.missing):
        raise ValueError(f"{_NOTHING}: what was given declares none")
    if report.missing or any(finding.warns and not allows(allow, finding) for finding in report.findings):
        raise AssertionError(report.to_text())
    return report


def allows(allow: bool | str | Iterable[str], finding: Finding) -> bool:
    """Whether ``finding`` is one of those allowed: True allows all, False none, texts those of these operators."""
    if isinstance(allow, bool):
        return allow
    patterns = (allow,) if isinstance(allow, str) else tuple(allow)
    return any(pattern == finding.op or fnmatchcase(finding.op, pattern) for pattern in patterns)


def assert_admits(report: ReportData, shapes: Shapes) -> None:
    """Assert that the model that ``report`` is about is right at ``shapes``, as far as the report knows.

    Where the whole model was run at ``shapes``, that decides. Elsewhere the declarations and the guards of the findings
    do. Nothing is exported or run here: a report that was loaded from a file will do.

    Args:
        report: The report of an export.
        shapes: ONNX input name to shape, for every tensor input of the model.

    Raises:
        AssertionError: Where ``shapes`` is not admitted, or where the report can't tell; the message says which.
        ValueError: Where ``shapes`` does not name the model's inputs or has shapes of another rank.
    """
    __tracebackhide__ = True
    _fit(report.inputs, shapes)
    ran = _ran(report.tries, shapes)
    if ran is not None and ran.state == "agrees":
        return
    if ran is not None and ran.state != "unknown":
        what = "the exported model is wrong there" if ran.state == "differs" else "eager PyTorch refuses it"
        raise AssertionError(_said(shapes, False, [f"it was run, and {what}: {ran.text}"]))
    wrong = [
        *_undeclared(report.inputs, shapes),
        *(text for text, answer in _guards(report, shapes) if answer is False),
    ]
    if wrong:
        raise AssertionError(_said(shapes, False, wrong))
    unknown = [text for text, answer in _guards(report, shapes) if answer is None]
    unknown += [f"{missing.part} is missing: {missing.why}" for missing in report.missing]
    unknown += [f"the export raised: {report.error}"] if report.error is not None else []
    unknown += ["the report knows no inputs"] if not report.inputs else []
    if unknown:
        raise AssertionError(_said(shapes, None, unknown))


def _fit(inputs: Sequence[InputSpec], shapes: Shapes) -> None:
    names = [spec.name for spec in inputs]
    if inputs and set(names) != set(shapes):
        raise ValueError(f"shapes must name the inputs {', '.join(names)}, not {', '.join(map(str, shapes)) or 'none'}")
    for spec in inputs:
        if len(shapes[spec.name]) != len(spec.shape):
            raise ValueError(f"{spec.name} has {len(spec.shape)} dimensions, not {len(shapes[spec.name])}")


def _ran(tries: Sequence[Try], shapes: Shapes) -> Try | None:
    """The run of the whole model at ``shapes`` that weighs most: a difference, then a refusal, then an agreement."""
    asked = {name: tuple(shape) for name, shape in shapes.items()}
    found = [one for one in tries if one.scope == "model" and one.sizes == asked]
    order = ("differs", "rejected", "agrees", "unknown")
    return min(found, key=lambda one: order.index(one.state), default=None)


def _undeclared(inputs: Sequence[InputSpec], shapes: Shapes) -> list[str]:
    """What was not declared to be allowed at ``shapes``."""
    found = []
    dims = [dim for spec in inputs for dim in spec.dims]
    for spec in inputs:
        shape = shapes[spec.name]
        dynamic = {dim.axis for dim in spec.dims if dim.declared}
        for axis, (size, held) in enumerate(zip(shape, spec.shape)):
            if axis not in dynamic and isinstance(held, int) and size != held:
                found.append(f"{spec.name}[{axis}] is fixed at {held}")
        found += [
            f"{_name(dim)} is declared {dim.declared}"
            for dim in spec.dims
            if dim.declared and shape[dim.axis] not in dim.declared.sizes
        ]
    if not dimension_sizes(dims, shapes)[1]:
        found.append("dimensions that were declared to depend on each other do not")
    return found


def _guards(report: ReportData, shapes: Shapes) -> list[tuple[str, bool | None]]:
    """What each finding that matters says of ``shapes``: findings that are harmless don't."""
    return [
        (f"{finding.op}: {'; '.join(finding.guards) or 'a fault that leaves no guard'}", finding.admits(shapes))
        for finding in report.findings
        if finding.verdict != "harmless"
    ]


def _name(dim: Dimension) -> str:
    return dim.place if dim.name == dim.place else f"{dim.place} ({dim.name})"


def _said(shapes: Shapes, admitted: bool | None, why: Sequence[str]) -> str:
    at = ", ".join(f"{name}={tuple(shape)}" for name, shape in shapes.items())
    head = f"not admitted: {at}" if admitted is False else f"it is not known whether this is admitted: {at}"
    return "\n".join([head, *(f"- {text}" for text in why)])
