"""Other example sizes to export with: what the example decided (a branch, a size of 1) is decided otherwise there."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

from guarddiff.core.dims import Dimension
from guarddiff.core.domain import SizeRange
from guarddiff.core.finding import Finding
from guarddiff.replay import sizes

Shapes = dict[str, tuple[int, ...]]
"""ONNX input name to shape."""


def examples(
    findings: Sequence[Finding],
    dims: Sequence[Dimension],
    declared: Mapping[str, SizeRange],
    example: Mapping[str, int],
    base: Mapping[str, Sequence[int]],
) -> list[Shapes]:
    """Shapes of the inputs that break the guards of most of ``findings``, the most promising first.

    Where a dimension is declared dynamic, 2 takes the place of 0 and 1, which torch.export takes for fixed.
    """
    shown = [dict(finding.counterexample.sizes) for finding in findings if finding.counterexample is not None]
    points = [point for finding in findings for point in sizes.breaking(finding, declared, example, (), 6)]
    ranked: list[tuple[int, int, Shapes]] = []
    for order, point in enumerate([*points, *sizes.further(dims, declared, example)[1:5]]):
        with contextlib.suppress(ValueError):
            kept = sum(not sizes.breaks(point, finding) for finding in findings)
            ranked.append((kept, order, sizes.shapes_at(point, dims, base)))
    told = [shapes for *_, shapes in sorted(ranked, key=lambda row: row[:2])]
    found = [*shown, *told] if len(findings) == 1 else [*told, *shown]
    lifted = [_lifted(one, dims) for one in found]
    return list({tuple(sorted(one.items())): one for one in lifted}.values())


def telling(
    dims: Sequence[Dimension],
    declared: Mapping[str, SizeRange],
    example: Mapping[str, int],
    base: Mapping[str, Sequence[int]],
) -> list[Shapes]:
    """Shapes at which what a model works out from sizes likes to go wrong: small sizes one by one, powers of two and of
    ten, each dynamic dimension by itself, the others as in the example."""
    free = sorted({v for dim in dims if dim.declared for v in sizes.variables_of(dim) if v in example})
    found = []
    for variable in free:
        for size in _TELLING:
            if size in declared.get(variable, SizeRange()):
                with contextlib.suppress(ValueError):
                    found.append(sizes.shapes_at({**example, variable: size}, dims, base))
    return found


_TELLING = (*range(1, 18), 25, 29, 31, 32, 33, 49, 64, 99, 100, 101, 127, 128)


def _lifted(shapes: Shapes, dims: Sequence[Dimension]) -> Shapes:
    """The same with 2 in place of 0 and 1 where a dimension is declared dynamic."""
    found = {name: list(shape) for name, shape in shapes.items()}
    for dim in dims:
        if dim.declared is not None and found[dim.input][dim.axis] < 2:
            found[dim.input][dim.axis] = 2
    return {name: tuple(shape) for name, shape in found.items()}
