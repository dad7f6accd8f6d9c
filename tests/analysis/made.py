"""Hand-made evidence for the tests of findings. Needs no torch."""

from __future__ import annotations

from guarddiff.analysis import attribute
from guarddiff.core import domain
from guarddiff.core.dims import Declared, Dimension, InputSpec
from guarddiff.core.domain import SizeRange
from guarddiff.core.evidence import Evidence, Group
from guarddiff.core.finding import Finding
from guarddiff.core.origin import Origin, SourceLine
from guarddiff.core.snapshot import Guard, GuardKind

ANY = SizeRange()
POOL = Origin("aten._adaptive_avg_pool2d.default", "pool", SourceLine("m.py", 3), node="pool")
LINEAR = Origin("aten.linear.default", "head", SourceLine("m.py", 4), node="linear")
BRANCH = Origin("if", "", SourceLine("m.py", 5), branch=True)


def guard(text: str, kind: GuardKind = "guard", *, unbacked: bool = False) -> Guard:
    try:
        variables = tuple(sorted(domain.parse(text).variables))
    except domain.GuardTextError:
        variables = ()
    return Guard(text, kind, variables, unbacked=unbacked)


def group(origin: Origin, *texts: str, stage: str = "decompose", upstream: tuple[str, ...] = ()) -> Group:
    return Group(stage, origin, tuple(guard(text) for text in texts), frozenset(upstream))  # type: ignore[arg-type]


def dim(axis: int, name: str, example: int, sizes: SizeRange = ANY, size: str | None = None) -> Dimension:
    return Dimension("x", axis, name, size or name, example, Declared(sizes, name))


H, W = dim(0, "h", 6), dim(1, "w", 6)


def evidence(*groups: Group, dims: tuple[Dimension, ...] = (H, W), **more: object) -> Evidence:
    shape = tuple(d.size for d in dims)
    values: dict[str, object] = {
        "inputs": (InputSpec("x", "torch.float32", shape, dims),),
        "groups": groups,
        "declared": {d.name: d.declared.sizes for d in dims if d.declared and d.size == d.name},
        "example": {d.name: d.example for d in dims if d.size == d.name},
    }
    return Evidence(**{**values, **more})  # type: ignore[arg-type]


def admitted(finding: Finding) -> dict[str, str]:
    return {d.name: str(d.admitted) for d in finding.dims}


def effects(found: attribute.Attribution) -> list[tuple[str, str, int | None]]:
    return [(change.stage, change.effect, change.finding) for change in found.changes]
