"""What is swept: cases by key, and what a case makes in the process that measures it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Group = Literal["ops", "catalogue", "models"]
Shape = tuple[int, ...]
Shapes = tuple[Shape, ...]
"""The shape of each tensor among the inputs, in the order in which args and kwargs are flattened."""

GROUPS: tuple[Group, ...] = ("ops", "catalogue", "models")


@dataclass(frozen=True)
class Case:
    """One model to export. The name is all that has to travel between processes.

    Attributes:
        group: ``ops``, ``catalogue`` or ``models``.
        family: What figures are gathered under: the operator, the kind of pattern, the package of models.
        name: Unique within its family.
        seconds: How long measuring it may take, in seconds, before its process is ended.
    """

    group: Group
    family: str
    name: str
    seconds: float = 120.0

    @property
    def key(self) -> str:
        """``group/family/name``: what ``--only`` matches, and what a result is filed under."""
        return f"{self.group}/{self.family}/{self.name}"


@dataclass(frozen=True)
class Trial:
    """One export, and the sizes at which the model has to be right.

    Attributes:
        model: A torch.nn.Module in eval mode.
        shapes: Of the example's inputs.
        others: Further shapes of the inputs. Those that eager PyTorch refuses are left out when they are run.
        at: (shapes) → (args, kwargs): inputs of these shapes, new tensors with the same values at every call.
        keywords: Arguments of ``torch.onnx.export`` beside model, args and kwargs (``dynamic_shapes``, ...).
    """

    model: Any
    shapes: Shapes
    others: tuple[Shapes, ...]
    at: Callable[[Shapes], tuple[tuple[Any, ...], dict[str, Any]]]
    keywords: Mapping[str, Any] = field(default_factory=dict)
