"""From a report to a contract."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from guarddiff.contract.contract import Condition, Contract
from guarddiff.core import domain
from guarddiff.core.dims import Dimension, InputSpec
from guarddiff.core.domain import Admitted, SizeRange
from guarddiff.core.errors import ContractError
from guarddiff.core.finding import Finding, dimension_sizes
from guarddiff.core.origin import Origin
from guarddiff.core.report import UNWRITTEN, ReportData

INCOMPLETE = "allow_incomplete=True makes a contract of what is known"


def contract_of(
    report: ReportData,
    inputs: Sequence[InputSpec] | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
    preprocessing: Mapping[str, Any] | None = None,
    allow_incomplete: bool = False,
    conditions: Sequence[Condition] = (),
) -> Contract:
    """The contract that the evidence of one export gives.

    Conditions are the guards of all findings that were not shown to be harmless and were not repaired, and the
    lower bounds of all stages. A finding without guards (a fault of the translation) holds its dimensions to the
    example's sizes: at others nothing is known.

    Args:
        report: What the export showed.
        inputs: The inputs as the ONNX file has them: names, dtypes and fixed sizes; None takes the report's.
        settings: What the model was constructed with; JSON-able.
        preprocessing: What is done to the inputs before; JSON-able.
        allow_incomplete: Whether a report that lacks evidence will do.
        conditions: What the model is held to besides.

    Raises:
        ContractError: The export raised, the model is wrong at the example's own sizes, evidence is missing, the
            report belongs to another model, the example breaks one of ``conditions``, or a mapping is no JSON.
    """
    if report.error is not None:
        raise ContractError("no contract: the export raised, so there is no model that it could be about")
    counted = [finding for finding in report.findings if _counts(finding)]
    if any(finding.at_example for finding in counted):
        raise ContractError("no contract: the model is wrong at the example's own sizes already, see the report")
    _fits(conditions, report)
    missing = tuple(f"{part.part}: {part.why}" for part in report.missing if part.part not in UNWRITTEN)
    missing += tuple(f"a finding that names no dimension: {f.op}: {f.reason}" for f in counted if not f.dims)
    held, unknown = _usable([*map(_condition, counted), *_bounds(report), *conditions], report)
    missing += unknown
    if missing and not allow_incomplete:
        raise ContractError(f"no contract: the report lacks evidence ({missing[0]}); {INCOMPLETE}")
    specs = _matched(report.inputs, inputs)
    return Contract(
        inputs=_narrowed(specs, held),
        conditions=held,
        model=report.model,
        settings=_json(settings, "settings"),
        preprocessing=_json(preprocessing, "preprocessing"),
        missing=missing,
        environment=dict(report.environment),
    )


def _counts(finding: Finding) -> bool:
    return finding.verdict != "harmless" and not finding.repaired


def _condition(finding: Finding) -> Condition:
    guards = finding.guards
    if not guards:
        guards = tuple(dict.fromkeys(f"{dim.size} == {dim.example}" for dim in finding.dims))
    dims = tuple(dim if finding.guards else held_to(dim, dim.example) for dim in finding.dims)
    return Condition(guards, because(finding.origin, finding.op), dims, finding.verdict)


def held_to(dim: Dimension, size: int) -> Dimension:
    """The dimension, admitting one size."""
    only = Admitted(f"exactly {size}", ((size, size),), known=True, whole=False)
    return dataclasses.replace(dim, admitted=only)


def _bounds(report: ReportData) -> Iterator[Condition]:
    """What excludes only sizes below a bound, or far above all others, is no finding, but belongs to the contract."""
    for change in report.changes:
        if change.effect in ("lower", "far"):
            for guard in change.guards:
                if not guard.unbacked:
                    yield Condition((guard.text,), because(guard.origin))


def _fits(conditions: Sequence[Condition], report: ReportData) -> None:
    """Raise where the example's sizes are none that the model is to be held to."""
    sizes = _example_sizes(report)
    for condition in conditions:
        for guard in condition.guards:
            if domain.holds(guard, sizes) is False:
                told = f", because of {condition.because}" if condition.because else ""
                raise ContractError(f"no contract: it was exported at sizes that break {guard}{told}")


def _example_sizes(report: ReportData) -> dict[str, int]:
    shapes = {spec.name: tuple(_example(spec)) for spec in report.inputs}
    return dimension_sizes([dim for spec in report.inputs for dim in spec.dims], shapes)[0]


def _usable(conditions: Sequence[Condition], report: ReportData) -> tuple[tuple[Condition, ...], tuple[str, ...]]:
    """The conditions without guards that the example breaks itself (the model is right there, so they tell nothing)
    and without those that can't be evaluated, which are told."""
    sizes = _example_sizes(report)
    kept, unknown = [], []
    for condition in conditions:
        verdicts = {guard: domain.holds(guard, sizes) for guard in condition.guards}
        dark = [guard for guard, holds in verdicts.items() if holds is None]
        unknown += [f"a guard that can't be evaluated: {guard}" for guard in dark]
        guards = [guard for guard, holds in verdicts.items() if holds]
        dims = condition.dims
        if dark:  # at other sizes than the example's nothing is known
            guards += [f"{dim.size} == {dim.example}" for dim in dims]
            dims = tuple(held_to(dim, dim.example) for dim in dims)
        if guards:
            kept.append(dataclasses.replace(condition, guards=tuple(dict.fromkeys(guards)), dims=dims))
    return tuple(kept), tuple(dict.fromkeys(unknown))


def _example(spec: InputSpec) -> Iterator[int]:
    by_axis = {dim.axis: dim.example for dim in spec.dims}
    for axis, size in enumerate(spec.shape):
        yield by_axis.get(axis, size if isinstance(size, int) else 0)


def because(origin: Origin | None, op: str = "") -> str:
    """``avgpool at models/vgg.py:66``: the module, else the operator, and the user's line; as far as known."""
    if origin is None:
        return ""
    parts = (origin.op or op).split(".")
    operator = parts[1] if len(parts) == 3 else "" if parts == ["unknown"] else parts[0]
    subject = origin.module_path or operator.lstrip("_")
    place = str(origin.source) if origin.source is not None else ""
    return " at ".join(part for part in (subject, place) if part)


def _matched(reported: Sequence[InputSpec], found: Sequence[InputSpec] | None) -> list[InputSpec]:
    """The inputs as the file has them, with the dimensions that the report knows."""
    if found is None:
        return [dataclasses.replace(spec, dtype=spec.dtype.removeprefix("torch.")) for spec in reported]
    known = {spec.name: spec for spec in reported}
    specs = []
    for spec in found:
        other = known.get(spec.name)
        ranks = {len(spec.shape), *([len(other.shape)] if other is not None else [])}
        if other is None or len(ranks) > 1 or not _same_dtype(spec, other):
            raise ContractError(
                f"no contract: the report is about another model: input {spec.name} ({spec.dtype}, rank "
                f"{len(spec.shape)}) of the file is not in it; export and embed in one go, or give the report"
            )
        shape = tuple(a if isinstance(a, int) else b for a, b in zip(spec.shape, other.shape, strict=True))
        specs.append(InputSpec(spec.name, spec.dtype, shape, other.dims))
    return specs


def _same_dtype(spec: InputSpec, other: InputSpec) -> bool:
    return spec.dtype == other.dtype.removeprefix("torch.") or not other.dtype


def _narrowed(specs: Sequence[InputSpec], conditions: Sequence[Condition]) -> tuple[InputSpec, ...]:
    """The inputs with the sizes that all conditions together admit."""
    dims = [dim for spec in specs for dim in spec.dims]
    plain = [dim for dim in dims if dim.size == dim.name]
    declared = {dim.name: dim.declared.sizes if dim.declared is not None else SizeRange() for dim in plain}
    guards = [guard for condition in conditions for guard in condition.guards]
    found = domain.admitted(guards, declared, {dim.name: dim.example for dim in plain})
    return tuple(
        dataclasses.replace(
            spec, dims=tuple(dataclasses.replace(dim, admitted=found.get(dim.size, dim.admitted)) for dim in spec.dims)
        )
        for spec in specs
    )


def _json(mapping: Mapping[str, Any] | None, name: str) -> dict[str, Any]:
    if mapping is None:
        return {}
    if not isinstance(mapping, Mapping):
        raise ContractError(f"{name} has to be a mapping of names to JSON-able values, not {type(mapping).__name__}")
    try:
        return dict(json.loads(json.dumps(dict(mapping), allow_nan=False)))
    except (TypeError, ValueError) as err:
        raise ContractError(f"{name} is no JSON: {err}") from None
