"""What was seen during one export, as plain data: the input of the analysis."""

from __future__ import annotations

from dataclasses import dataclass

from guarddiff.core.dims import Dimension, InputSpec, OutputSpec
from guarddiff.core.domain import SizeRange
from guarddiff.core.origin import Origin
from guarddiff.core.snapshot import Guard, Snapshot
from guarddiff.core.stage import Stage


@dataclass(frozen=True)
class Group:
    """The guards that one root cause (an FX node, or a source line of the model) added in one stage.

    ``upstream`` names the FX nodes whose results the origin's node depends on.
    """

    stage: Stage
    origin: Origin
    guards: tuple[Guard, ...]
    upstream: frozenset[str] = frozenset()


@dataclass(frozen=True)
class StaticDimension:
    """A dimension that was declared dynamic and is fixed in the ONNX inputs.

    ``stage`` is ``declare`` when torch never took it as dynamic, ``capture`` when it was fixed on the way.
    ``instead`` names dimensions that became dynamic although nothing was declared for them.
    """

    dim: Dimension
    size: int
    stage: Stage
    origin: Origin
    instead: tuple[str, ...] = ()


@dataclass(frozen=True)
class Evidence:
    """Everything that was seen, mapped to the dimensions of the inputs.

    Attributes:
        inputs: The tensor inputs with their dimensions.
        groups: Guards by root cause, in the order in which they were added.
        state: (stage, guard) for what the state gained in a stage: asserts, ranges, guards.
        static: Declared-dynamic dimensions that are fixed in the ONNX inputs.
        declared: Dimension variable to the sizes that were declared for it.
        example: Dimension variable to its size in the example inputs.
        snapshots: The state at each boundary.
        symbolic_outputs: The model's outputs as captured, to compare with what the ONNX file declares.
    """

    inputs: tuple[InputSpec, ...] = ()
    groups: tuple[Group, ...] = ()
    state: tuple[tuple[Stage, Guard], ...] = ()
    static: tuple[StaticDimension, ...] = ()
    declared: dict[str, SizeRange] | None = None
    example: dict[str, int] | None = None
    snapshots: tuple[Snapshot, ...] = ()
    symbolic_outputs: tuple[OutputSpec, ...] = ()

    @property
    def dims(self) -> tuple[Dimension, ...]:
        """Every dimension of every input."""
        return tuple(dim for spec in self.inputs for dim in spec.dims)


@dataclass(frozen=True)
class OnnxNodeInfo:
    """What one ONNX node says of itself: names of captured FX nodes it came from, its source line
    (``file:line``, None when unknown), and the whole numbers in its attributes and constant inputs."""

    name: str
    op_type: str
    roots: tuple[str, ...] = ()
    source: str | None = None
    attributes: tuple[tuple[str, tuple[int, ...]], ...] = ()
    constants: tuple[tuple[str, tuple[int, ...]], ...] = ()
