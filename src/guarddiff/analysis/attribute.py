"""Changes and origins → findings, one per root cause."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import cast

from guarddiff.core import domain
from guarddiff.core.dims import Dimension
from guarddiff.core.domain import SizeRange
from guarddiff.core.evidence import Evidence, Group, StaticDimension
from guarddiff.core.finding import Finding
from guarddiff.core.guard_text import substitute
from guarddiff.core.origin import Origin
from guarddiff.core.report import Change, Effect
from guarddiff.core.snapshot import Guard
from guarddiff.core.stage import Stage

FAR = 2**24 - 1
"""Sizes above it are of no concern to a finding, unless the model's own code tells them apart, or what does is not
known."""


@dataclass
class Attribution:
    """Findings without verdicts, and every change with its effect. ``small`` are changes that exclude the sizes 0
    and 1 only, sizes below a bound, or those above ``FAR``, as findings, for ``replay="full"``; ``unplaced`` are guards
    that restrict something, but no dimension that is known."""

    findings: list[Finding] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    small: list[Finding] = field(default_factory=list)
    unplaced: list[str] = field(default_factory=list)


def attribute(evidence: Evidence) -> Attribution:
    """Solve each group of guards and make a finding of every one that restricts what was declared.

    A group that excludes nothing beyond what earlier findings exclude is a consequence, no root cause of its own,
    when they arose at capture, or at an FX node that its own node depends on (the layer after a pooling whose
    number of features is fixed by it).
    """
    result = Attribution()
    for finding in _static_findings(evidence):
        result.findings.append(finding)
    stages: tuple[Stage, ...] = ("capture", "decompose")
    for stage in stages:
        for group in _groups(evidence, stage):
            _attribute_group(result, evidence, group)
    return result


def _attribute_group(result: Attribution, evidence: Evidence, group: Group) -> None:
    texts = usable(group.guards)
    given = [
        guard
        for finding in result.findings
        if finding.stage == "capture" or finding.origin.node in group.upstream
        for guard in finding.guards
    ]
    declared, example = evidence.declared or {}, evidence.example or {}
    effect: Effect = "unbacked"
    if texts:
        effect = _effect(texts, declared, example)
        if effect == "restricts" and given and _effect(texts, declared, example, given) in ("none", "small"):
            effect = "entailed"
    if effect in ("none", "entailed", "unbacked"):
        result.changes.append(Change(group.stage, group.guards, effect))
        return
    kept = _restricting(texts, declared, example) if effect == "restricts" else texts
    finding = make(evidence, group.stage, group.origin, kept, {v for g in group.guards for v in g.variables})
    if effect == "restricts" and _only_below(finding):
        effect = "lower"
    elif effect == "restricts" and group.origin.op and _only_far(texts, declared, example):
        effect = "far"
    if not finding.dims:
        result.changes.append(Change(group.stage, group.guards, "unknown"))
        result.unplaced += texts
        return
    if effect in ("small", "lower", "far") and not group.origin.branch:
        result.changes.append(Change(group.stage, group.guards, effect))
        result.small.append(finding)
    else:
        result.changes.append(Change(group.stage, group.guards, effect, len(result.findings)))
        result.findings.append(finding)


def _only_below(finding: Finding) -> bool:
    """Whether it excludes nothing but sizes below a bound, as a kernel that must fit does: eager PyTorch rejects
    those as well, or they are right. Measured over 1,915 exports, no new lower bound meant a wrong model, unless it
    came from a branch in the model's own code."""
    above: dict[str, SizeRange] = {}
    related = False
    for dim in finding.dims:
        bound = _lower_bound(dim)
        if bound is None:
            return False
        above[dim.name] = bound
        related = related or dim.admitted is None or dim.admitted.text != str(bound)
    if not related:
        return bool(finding.dims)
    if not _variables(finding.guards) <= set(above):  # a derived dimension, or one whose bound is not known here
        return False
    # ``b * (h // 4) * (w // 4) != 0``: do the guards hold wherever every size is above its bound?
    example = {dim.name: dim.example for dim in finding.dims}
    return _effect(finding.guards, above, example) in ("none", "small")


def _only_far(texts: Sequence[str], declared: Mapping[str, SizeRange], example: Mapping[str, int]) -> bool:
    """Whether the guards exclude nothing but points with a size above ``FAR``, as a check of torch's own does (the
    length in ``torch.quantile``): hardly any model is run there, and few machines could show what it does."""
    near = {
        name: SizeRange(span.lower, FAR if span.upper is None else min(span.upper, FAR))
        for name, span in declared.items()
    }
    return all(size <= FAR for size in example.values()) and _effect(texts, near, example) in ("none", "small")


def _lower_bound(dim: Dimension) -> SizeRange | None:
    """What is admitted, where that is all that was declared from some bound on, relations to others left aside."""
    declared = dim.declared.sizes if dim.declared else SizeRange()
    admitted = dim.admitted
    if admitted is None or not admitted.known:
        return None
    if admitted.intervals is None:  # restricted by a relation alone
        return declared
    if len(admitted.intervals) != 1:
        return None
    lower, upper = admitted.intervals[0]
    text, _, _relation = admitted.text.partition(", ")
    whole = lower <= dim.example and upper == declared.upper and text == str(SizeRange(lower, upper))
    return SizeRange(lower, upper) if whole else None


def usable(guards: Iterable[Guard]) -> list[str]:
    """Texts of the guards that speak of input dimensions alone, without repetitions."""
    return list(dict.fromkeys(g.text for g in guards if not g.unbacked))


def _effect(
    texts: Sequence[str], declared: Mapping[str, SizeRange], example: Mapping[str, int], given: Sequence[str] = ()
) -> Effect:
    return cast("Effect", domain.effect(texts, declared, example, given=given))


def _restricting(texts: list[str], declared: dict[str, SizeRange], example: dict[str, int]) -> list[str]:
    """The guards that exclude some size of 2 or more by themselves; all of them where none does alone."""
    if len(texts) == 1:
        return texts
    alone = [text for text in texts if _effect([text], declared, example) in ("restricts", "unknown")]
    return alone or texts


def make(
    evidence: Evidence, stage: Stage, origin: Origin, texts: Sequence[str], named: Set[str] = frozenset()
) -> Finding:
    """A finding without verdict: its dimensions are those that the guards really restrict. ``named`` are variables of
    guards whose text may be none that can be read."""
    variables = _variables(texts) or named
    declared = {v: s for v, s in (evidence.declared or {}).items() if v in variables}
    admitted = domain.admitted(texts, declared, evidence.example or {})
    touched = [
        replace(dim, admitted=admitted[variable] if dim.size == dim.name else _derived(dim, variable, texts, evidence))
        for dim in evidence.dims
        if (variable := _variable(dim)) in variables and variable in admitted
    ]
    narrowed = [dim for dim in touched if dim.admitted is not None and not dim.admitted.whole]
    return Finding(
        dims=tuple(narrowed or touched),
        stage=stage,
        op=origin.op or "unknown",
        origin=origin,
        guards=tuple(texts),
        inputs=evidence.dims,
    )


def _derived(dim: Dimension, variable: str, texts: Sequence[str], evidence: Evidence) -> domain.Admitted:
    """Admitted sizes of a derived dimension such as ``2*h``: the guards over ``(s - 0) // 2`` in place of ``h``."""
    base, after = domain.value(dim.size, {variable: 0}), domain.value(dim.size, {variable: 1})
    declared = {v: s for v, s in (evidence.declared or {}).items() if v != variable}
    own = dim.declared.sizes if dim.declared else SizeRange()
    if base is None or after is None or after <= base:
        return domain.Admitted("unknown", None, known=False, whole=False)
    step = after - base
    moved = [substitute(text, variable, f"(s - {base}) // {step}") for text in texts]
    example = {**(evidence.example or {}), "s": dim.example}
    used = {v: s for v, s in declared.items() if v in _variables(texts)}
    return domain.admitted([*moved, f"(s - {base}) % {step} == 0"], {**used, "s": own}, example)["s"]


def _variables(texts: Sequence[str]) -> set[str]:
    found: set[str] = set()
    for text in texts:
        try:
            found |= domain.parse(text).variables
        except domain.GuardTextError:
            continue
    return found


def _variable(dim: Dimension) -> str:
    """The variable that a dimension's size depends on: its own, or the root of a derived one."""
    if dim.size == dim.name:
        return dim.name
    try:
        return next(iter(domain.parse(dim.size).variables), dim.name)
    except domain.GuardTextError:
        return dim.name


def _groups(evidence: Evidence, stage: Stage) -> list[Group]:
    """The groups of a stage, with what the state gained beyond them: a range that no seen guard explains."""
    groups = [group for group in evidence.groups if group.stage == stage]
    seen = [text for group in evidence.groups for text in usable(group.guards)]
    seen_here = bool(groups)
    leftover: list[Guard] = []
    for of, guard in evidence.state:
        if of != stage or guard.unbacked or guard.text in seen:
            continue
        if guard.kind == "replacement" or (seen_here and guard.kind not in ("range", "constraint")):
            continue
        if _effect([guard.text], evidence.declared or {}, evidence.example or {}, seen) in ("restricts", "unknown"):
            leftover.append(guard)
    return _attach(groups, leftover, stage)


def _attach(groups: list[Group], leftover: list[Guard], stage: Stage) -> list[Group]:
    """Give each unexplained guard to the last group of its stage on the same dimension, else to a group of its own."""
    alone: list[Guard] = []
    for guard in leftover:
        for index in range(len(groups) - 1, -1, -1):
            if any(set(guard.variables) & set(own.variables) for own in groups[index].guards):
                groups[index] = replace(groups[index], guards=(*groups[index].guards, guard))
                break
        else:
            alone.append(guard)
    by_variable: dict[tuple[str, ...], list[Guard]] = {}
    for guard in alone:
        by_variable.setdefault(guard.variables, []).append(guard)
    return groups + [Group(stage, Origin(), tuple(guards)) for guards in by_variable.values()]


def _static_findings(evidence: Evidence) -> list[Finding]:
    """Declared-dynamic dimensions that are fixed in the ONNX inputs: one finding per place that fixed them. Dimensions
    of one size (the user's ``Dim``, shared by two inputs) are fixed together, whichever of them was asked for."""
    grouped: dict[tuple[object, ...], list[StaticDimension]] = {}
    places: dict[tuple[object, ...], tuple[object, ...]] = {}
    for static in evidence.static:
        place = places.setdefault((static.stage, static.dim.size), (static.stage, static.origin))
        grouped.setdefault(place, []).append(static)
    found = []
    for (_, _), statics in grouped.items():
        first = statics[0]
        guards = tuple(dict.fromkeys(f"{s.dim.size} == {s.size}" for s in statics))
        dims = tuple(replace(s.dim, admitted=_only(s.size)) for s in statics)
        op = first.origin.op or ("torch.onnx.export" if first.stage == "declare" else "torch.export")
        found.append(
            Finding(dims, first.stage, op, first.origin, guards, reason=_static_reason(first), inputs=evidence.dims)
        )
    return found


def _only(size: int) -> domain.Admitted:
    return domain.admitted([f"n == {size}"], {"n": SizeRange()}, {"n": size})["n"]


def _static_reason(static: StaticDimension) -> str:
    if static.stage == "capture":
        return "torch.export refused the declared dimension, and the exporter tried again with a fixed size"
    instead = f"; it made {', '.join(static.instead)} dynamic instead" if static.instead else ""
    return f"torch did not take the dimension as dynamic from what was declared{instead}"
