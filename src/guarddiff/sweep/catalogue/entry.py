"""One entry of the catalogue."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from guarddiff.sweep.case import Shape, Shapes, Trial

Fill = Callable[[int, Shape], torch.Tensor]


@dataclass(frozen=True)
class Entry:
    """A module, an example, and further sizes at which its export must be right.

    Attributes:
        family: The kind of pattern, in a few words.
        name: Unique within the family.
        make: Makes the module; called after torch was seeded.
        example: The shape of each input of ``forward``, which takes tensors by position.
        others: Shapes of the inputs that eager PyTorch accepts, each of which the exported model has to be right at.
        fill: (place of the input, shape) → its tensor; None gives normal random numbers. Called after a seed was set.
        dynamic: What ``dynamic_shapes`` says for each input, by position; None declares ``Dim.AUTO`` for every axis
            whose size differs between the example and one of ``others``, as a user would.
    """

    family: str
    name: str
    make: Callable[[], nn.Module]
    example: Shapes
    others: tuple[Shapes, ...]
    fill: Fill | None = None
    dynamic: Sequence[Mapping[int, Any] | None] | None = None

    def inputs(self, shapes: Shapes) -> tuple[torch.Tensor, ...]:
        """Inputs of these shapes, the same at every call."""
        state = torch.get_rng_state()
        torch.default_generator.manual_seed(0)
        fill = self.fill or normal
        made = tuple(fill(place, shape) for place, shape in enumerate(shapes))
        torch.set_rng_state(state)
        return made

    def declared(self) -> tuple[Mapping[int, Any] | None, ...]:
        """``dynamic_shapes``, by position."""
        if self.dynamic is not None:
            return tuple(self.dynamic)
        return tuple(
            {axis: torch.export.Dim.AUTO for axis in range(len(shape)) if self._varies(place, axis)} or None
            for place, shape in enumerate(self.example)
        )

    def trial(self) -> Trial:
        """The export to measure."""
        torch.default_generator.manual_seed(0)
        model = self.make().eval()
        return Trial(
            model,
            self.example,
            self.others,
            lambda shapes: (self.inputs(shapes), {}),
            {"dynamic_shapes": self.declared()},
        )

    def _varies(self, place: int, axis: int) -> bool:
        return any(other[place][axis] != self.example[place][axis] for other in self.others)


def normal(place: int, shape: Shape) -> torch.Tensor:
    """Normal random numbers."""
    del place
    return torch.randn(shape)


class Of(nn.Module):
    """A function of one tensor as a module."""

    def __init__(self, function: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


class OfTwo(nn.Module):
    """A function of two tensors as a module."""

    def __init__(self, function: Callable[[torch.Tensor, torch.Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        return self.function(x, y)


def one(
    family: str, name: str, function: Callable[[torch.Tensor], Any], example: Shape, *others: Shape, **more: Any
) -> Entry:
    """A function of one tensor; ``more`` is ``fill`` or ``dynamic``."""
    return Entry(family, name, lambda: Of(function), (example,), tuple((other,) for other in others), **more)


def two(
    family: str,
    name: str,
    function: Callable[[torch.Tensor, torch.Tensor], Any],
    example: Shapes,
    *others: Shapes,
    **more: Any,
) -> Entry:
    """A function of two tensors; ``more`` is ``fill`` or ``dynamic``."""
    return Entry(family, name, lambda: OfTwo(function), example, others, **more)


def module(family: str, name: str, make: Callable[[], nn.Module], example: Shape, *others: Shape, **more: Any) -> Entry:
    """A module of one tensor; ``more`` is ``fill`` or ``dynamic``."""
    return Entry(family, name, make, (example,), tuple((other,) for other in others), **more)
