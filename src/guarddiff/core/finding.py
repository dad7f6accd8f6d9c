"""Findings: one root cause each, with its dimensions, guards, origin, verdict and proof."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from guarddiff.core import domain
from guarddiff.core.dims import Dimension
from guarddiff.core.origin import Origin
from guarddiff.core.proof import Decomposition, Ladder, Reproduction
from guarddiff.core.stage import Stage

Verdict = Literal["confirmed", "harmless", "inherent", "unconfirmed"]
DifferenceKind = Literal["shape", "values", "runtime_error", "rejected_input"]
Shapes = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Counterexample:
    """Sizes inside the declared range at which ONNX Runtime and eager PyTorch differ.

    Attributes:
        sizes: ONNX input name to shape, for every tensor input of the model.
        expected: What eager PyTorch gives, in words: shapes and how they compare, never tensor values.
        got: What ONNX Runtime gives, in words.
        kind: ``shape`` (also another number of outputs), ``values``, ``runtime_error`` or ``rejected_input``.
        scope: ``operator`` when the operator was run by itself, ``model`` when the whole model was.
        operator_shapes: Shapes of the operator's own inputs when it was run by itself.
    """

    sizes: dict[str, tuple[int, ...]]
    expected: str
    got: str
    kind: DifferenceKind
    scope: Literal["operator", "model"] = "model"
    operator_shapes: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class OnnxNode:
    """An ONNX node that carries a baked size: ``where`` says in which attribute or initializer."""

    name: str
    op_type: str
    where: str


@dataclass(frozen=True)
class Finding:
    """One root cause: a stage and an origin, with all dimensions and guards it touches.

    Attributes:
        dims: The dimensions it restricts, each with ``declared`` and ``admitted``; none where the model is wrong at
            the example's own sizes already.
        stage: Where it arose.
        op: Operator (``aten._adaptive_avg_pool2d.default``) or what the model's code did (``int()``).
        origin: Module path, user's source line, rule, FX node.
        guards: Conditions under which the exported model is right, as text over dimension names.
        onnx_nodes: ONNX nodes that carry the baked size; empty when none was found.
        verdict: ``confirmed``, ``harmless``, ``inherent`` or ``unconfirmed``.
        reason: Why the verdict is what it is; for ``unconfirmed`` why it could not be tried.
        counterexample: The proof of ``confirmed``; None otherwise.
        repair: What was done or can be done; None when nothing is known.
        inputs: Every dimension of the model that a guard may name, for ``admits``.
        ladder: Each stage's program at the counterexample's sizes; None where it was not run.
        reproduction: A small script that shows the difference; None where none was looked for.
        decomposition: The operator before and after the stage; None where it is not known.
        repairable: Whether ``repair=True`` knows something that may mend it: ``repair`` says what.
        repaired: Whether the returned model was repaired and is right at the counterexample.
    """

    dims: tuple[Dimension, ...]
    stage: Stage
    op: str
    origin: Origin
    guards: tuple[str, ...] = ()
    onnx_nodes: tuple[OnnxNode, ...] = ()
    verdict: Verdict = "unconfirmed"
    reason: str = ""
    counterexample: Counterexample | None = None
    repair: str | None = None
    inputs: tuple[Dimension, ...] = ()
    ladder: Ladder | None = None
    reproduction: Reproduction | None = None
    decomposition: Decomposition | None = None
    repaired: bool = False
    repairable: bool = False

    @property
    def warns(self) -> bool:
        """Whether the user has to hear of it: only confirmed and unconfirmed findings warn, unless repaired."""
        return self.verdict in ("confirmed", "unconfirmed") and not self.repaired

    @property
    def at_example(self) -> bool:
        """Whether the model is wrong at the example's own sizes already: no size is to blame, and none is known to be
        right. Such a finding has no dimensions and no guards."""
        return self.counterexample is not None and not self.dims and not self.guards

    def admits(self, shapes: Shapes) -> bool | None:
        """Whether the guards of this finding hold at ``shapes`` (ONNX input name to shape).

        Where they hold, the finding is no reason for the model to be wrong. Where they don't, a ``confirmed`` one is
        such a reason; a ``harmless`` one is not: the model was seen to be right at sizes that break its guards.

        Returns None where it can't be decided: a guard that can't be evaluated, an input that is not given,
        a finding that has no guards (its fault leaves none).
        """
        if not self.guards:
            return None
        sizes, consistent = dimension_sizes(self.inputs, shapes)
        if not consistent:
            return False
        answers = [domain.holds(guard, sizes) for guard in self.guards]
        if False in answers:
            return False
        return None if None in answers else True


def dimension_sizes(dims: Sequence[Dimension], shapes: Shapes) -> tuple[dict[str, int], bool]:
    """Values of the dimension variables at ``shapes``, and whether the dimensions agree with each other.

    Two dimensions that share a variable must have the same size, and a derived one (``2*h``) must be met by a
    whole number; where that fails the second result is False.
    """
    sizes: dict[str, int] = {}
    derived: list[tuple[str, int]] = []
    for dim in dims:
        shape = shapes.get(dim.input)
        if shape is None or dim.axis >= len(shape):
            continue
        size = int(shape[dim.axis])
        if dim.size == dim.name:
            if sizes.setdefault(dim.name, size) != size:
                return sizes, False
        else:
            derived.append((dim.size, size))
    return sizes, all(_meet(text, size, sizes) for text, size in derived)


def _meet(text: str, size: int, sizes: dict[str, int]) -> bool:
    """Give the one missing variable of ``text`` the value that makes it ``size``; True unless that can't be."""
    try:
        variables = domain.parse(text).variables
    except domain.GuardTextError:
        return True
    missing = [v for v in variables if v not in sizes]
    if len(missing) > 1:
        return True
    if missing:
        at = {**sizes, missing[0]: 0}
        base = domain.value(text, at)
        step = domain.value(text, {**at, missing[0]: 1})
        if base is None or step is None or step == base:
            return True
        sizes[missing[0]] = (size - base) // (step - base)
    return domain.value(text, sizes) in (size, None)
