"""What was run to prove or to clear a finding, as plain data: tries, the stage ladder, the reproduction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from guarddiff.core.origin import SourceLine
from guarddiff.core.stage import Stage

TryState = Literal["agrees", "differs", "rejected", "unknown"]
RungName = Literal["eager", "captured", "decomposed", "onnx", "optimized"]
RungState = Literal["agrees", "differs", "raises", "refuses", "skipped"]
ReproductionScope = Literal["operator", "statement", "module", "model", ""]


@dataclass(frozen=True)
class Try:
    """One run of eager PyTorch and of ONNX Runtime at the same inputs.

    Attributes:
        sizes: ONNX input name to shape, for every tensor input of the model.
        state: ``agrees``, ``differs``, ``rejected`` (eager PyTorch refuses these sizes) or ``unknown``.
        scope: ``operator`` when an operator was run by itself, ``model`` when the whole model was.
        text: What differed, was refused or stood in the way; empty for ``agrees``.
    """

    sizes: dict[str, tuple[int, ...]]
    state: TryState
    scope: Literal["operator", "model"] = "model"
    text: str = ""


@dataclass(frozen=True)
class Rung:
    """The program after one stage, run at a counterexample's sizes and compared with eager PyTorch.

    ``name``: ``eager`` (the reference), ``captured``, ``decomposed``, ``onnx`` (before the ONNX optimizer) or
    ``optimized``. ``state``: ``agrees``, ``differs``, ``raises``, ``refuses`` (it takes no inputs of these sizes) or
    ``skipped`` (could not be made; ``text`` says why). ``text`` says in words what it gave.
    """

    name: RungName
    state: RungState
    text: str = ""


@dataclass(frozen=True)
class DifferingNode:
    """The first node of a rung whose shape or values differ from those of the last rung that is right.

    Attributes:
        graph: ``fx`` for a node of the captured or decomposed program, ``onnx`` for a node of the ONNX model.
        name: The node's name in that graph.
        op: ``aten.squeeze.dims``, or the ONNX operator.
        fx_node: The node of the captured program that it came from; None when unknown.
        fx_op: That node's operator; None when unknown.
        module_path: Path of the module it belongs to; ``""`` is the model itself, None when unknown.
        source: The user's source line; None when unknown.
        expected: What it should give, in words.
        got: What it gives, in words.
    """

    graph: Literal["fx", "onnx"]
    name: str
    op: str
    fx_node: str | None = None
    fx_op: str | None = None
    module_path: str | None = None
    source: SourceLine | None = None
    expected: str = ""
    got: str = ""


@dataclass(frozen=True)
class Ladder:
    """Every stage's program at the same sizes.

    Attributes:
        sizes: ONNX input name to shape, for every tensor input of the model.
        rungs: In the order of the stages, eager first.
        stage: The stage of the first rung that does not agree; None when all that could be run agree.
        node: The first node that differs there; None when it could not be told.
    """

    sizes: dict[str, tuple[int, ...]]
    rungs: tuple[Rung, ...]
    stage: Stage | None = None
    node: DifferingNode | None = None


@dataclass(frozen=True)
class Reproduction:
    """A script that needs torch, numpy and ONNX Runtime alone and shows the difference.

    Attributes:
        script: The whole Python text; empty when no script was found that shows the difference.
        output: What it printed in a fresh process: shapes and how they compare.
        scope: What it holds: the ``operator`` alone, the ``statement`` of the model's code, the ``module`` it is in, or
            the whole ``model``; empty when there is no script.
        reason: Why there is no script; empty when there is one.
    """

    script: str = ""
    output: str = ""
    scope: ReproductionScope = ""
    reason: str = ""

    @property
    def lines(self) -> int:
        """Number of lines of the script."""
        return len(self.script.splitlines())


ANOTHER_EXAMPLE = "another example"
"""The name of a repair that exports again at other sizes, where a branch of the model's goes the other way."""


@dataclass(frozen=True)
class Repair:
    """What ``repair=True`` did.

    Attributes:
        returned: Whether the repaired model was proved right where the first one was not, and took its place.
        names: What was repaired, in words (``adaptive average pooling``).
        ways: What the repaired model does, one per name.
        tries: What was run with the repaired model.
        reason: Why the repaired model was or was not taken.
    """

    returned: bool
    names: tuple[str, ...] = ()
    ways: tuple[str, ...] = ()
    tries: tuple[Try, ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class GraphLine:
    """One node of a graph as text; ``marked`` where it is what a finding is about."""

    text: str
    marked: bool = False


@dataclass(frozen=True)
class Decomposition:
    """The operator of a finding before and after: nodes of the captured program, and the nodes that they became
    (FX nodes of the decomposed program, for a fault of translation or optimization ONNX nodes)."""

    before: tuple[GraphLine, ...]
    after: tuple[GraphLine, ...]
