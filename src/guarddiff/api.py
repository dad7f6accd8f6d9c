"""The public calls: ``torch.onnx.export`` with eyes open."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from guarddiff import contracts, rescuing, safety, watching
from guarddiff.core.calling import Made
from guarddiff.options import OnFinding, Options, Replay, ReportTo
from guarddiff.pipeline import Pipeline, last_report, report_of, unguarded
from guarddiff.report import Report
from guarddiff.watching import install, uninstall, watch

MOST_POINTS = 64
Sizes = Mapping[str, Sequence[int]] | Sequence[Mapping[str, int]] | None

__all__ = ["check", "check_at", "export", "install", "last_report", "report_of", "uninstall", "watch"]


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
        repair: Whether to hand back a repaired model. Torch's own is run at further sizes too, as with
            ``replay="full"``. Then the model is exported again with what mends its findings, and where that does not
            do, with other example sizes. The repaired one is taken when it agrees with eager PyTorch at the
            counterexamples and at further sizes; else it is torch's, and the warnings stand. ``report.repair`` tells
            what was done. Where torch's export raises, it is tried with all repairs on, and what that gives is taken
            when it agrees with eager PyTorch at all sizes that are tried; else the error is raised.
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
    return _run(Options(on_finding, replay, repair, report_to), args, kwargs).program


def check(
    *args: Any,
    on_finding: OnFinding = "warn",
    replay: Replay = "findings",
    repair: bool = False,
    report_to: ReportTo = None,
    **kwargs: Any,
) -> Report:
    """As ``export``, but returns the report; ``report.program`` is the ONNXProgram."""
    return _check(Options(on_finding, replay, repair, report_to), args, kwargs)


def check_at(
    *args: Any,
    sizes: Sizes = None,
    on_finding: OnFinding = "warn",
    replay: Replay = "findings",
    repair: bool = False,
    report_to: ReportTo = None,
    **kwargs: Any,
) -> Report:
    """As ``check``, and the model is run at sizes of the caller's own as well.

    Args:
        args: Positional arguments of ``torch.onnx.export``.
        sizes: Names of dimensions (``h``, or ``x[2]`` for one without a name) to the sizes to try, of which every
            combination is run; or a list of points, each a mapping of names to one size. What is not named keeps the
            example's size. At most 64 points; None for none.
        on_finding: As for ``check``, and so are ``replay``, ``repair``, ``report_to`` and ``kwargs``.

    Raises:
        TypeError, ValueError: For a wrong value of a keyword named above, also for more than 64 points, and for a
            dimension that the model does not have (which is known after the export only).
        SpecializationError: With ``on_finding="raise"``, carrying the report.
    """
    options = Options(on_finding, replay, repair, report_to, points(sizes))
    return _check(options, args, kwargs)


def points(sizes: Sizes) -> tuple[Mapping[str, int], ...]:
    """The points that ``sizes`` of ``check_at`` stand for, each once.

    Raises TypeError for what is no size and ValueError for an empty list, a negative size or more than 64 points.
    """
    if sizes is None:
        return ()
    if isinstance(sizes, Mapping):
        axes = [[(name, size) for size in _listed(name, listed)] for name, listed in sizes.items()]
        number = math.prod(map(len, axes))
        found: Iterable[Iterable[tuple[str, int]]] = itertools.product(*axes) if number <= MOST_POINTS else ()
    elif isinstance(sizes, Sequence) and not isinstance(sizes, (str, bytes)):
        for point in sizes:
            if not isinstance(point, Mapping):
                raise TypeError(f"a point of sizes must map names of dimensions to sizes, not {point!r}")
        number = len(sizes)
        found = [[(name, _size(name, size)) for name, size in point.items()] for point in sizes]
    else:
        raise TypeError(f"sizes must map names of dimensions to lists of sizes, or be a list of points, not {sizes!r}")
    if number > MOST_POINTS:
        raise ValueError(f"sizes stands for {number} points: give at most {MOST_POINTS}")
    kept = {tuple(sorted(point)): dict(point) for point in map(list, found)}
    return tuple(point for point in kept.values() if point)


def _listed(name: str, listed: Any) -> list[int]:
    if not isinstance(listed, Sequence) or isinstance(listed, (str, bytes)):
        raise TypeError(f"sizes[{name!r}] must be a list of sizes, not {listed!r}")
    if not listed:
        raise ValueError(f"sizes[{name!r}] is empty: give at least one size")
    return list(dict.fromkeys(_size(name, size) for size in listed))


def _size(name: Any, size: Any) -> int:
    if not isinstance(name, str):
        raise TypeError(f"sizes must be given by names of dimensions, not {name!r}")
    try:
        number = operator.index(size)
    except TypeError:
        number = None
    if number is None or isinstance(size, bool):
        raise TypeError(f"a size of {name!r} must be a whole number, not {size!r}")
    if number < 0:
        raise ValueError(f"a size of {name!r} is negative: {number}")
    return number


@dataclass(frozen=True)
class _Exported:
    """What came of one call: the program, its report, and what is wrong with the sizes that the user named."""

    program: Any
    report: Report
    wrong_sizes: str = ""


def _run(options: Options, args: tuple[Any, ...], kwargs: dict[str, Any], checked: bool = False) -> _Exported:
    told = watching.Told()

    def guarded(export: Made) -> _Exported:
        call = watching.legacy_call(args, kwargs)
        pipeline = Pipeline(options, call)
        otherwise: watching.Otherwise | None = None
        if options.repair and call is None:
            otherwise = functools.partial(rescuing.rescue, args, kwargs, options)
        program, report = watching.run(pipeline, export, told, checked=checked, otherwise=otherwise)
        lost = contracts.keep_frozen(args, kwargs, report)
        if lost:
            pipeline.without_contract(report, lost)
        return _Exported(program, report, pipeline.wrong_sizes)

    def instead(export: Made, fault: Exception) -> _Exported:
        report = unguarded(kwargs.get("model", args[0] if args else None), export, fault)
        told.end(watching.Outcome(report, handed=export.done and not checked))
        return _Exported(export.value, report)

    return safety.unharmed(functools.partial(torch.onnx.export, *args, **kwargs), guarded, instead)


def _check(options: Options, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Report:
    exported = _run(options, args, kwargs, checked=True)
    if exported.wrong_sizes:
        raise ValueError(exported.wrong_sizes)
    exported.report.program = exported.program
    return exported.report
