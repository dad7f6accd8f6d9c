"""One model: how it is made, its inputs with named axes, and the sizes at which its export has to be right."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from guarddiff.sweep.case import Shape, Shapes, Trial
from guarddiff.sweep.models.weights import enliven

Size = int | str
Sizes = Mapping[str, int]
Fill = Callable[[Shape], torch.Tensor]


@dataclass(frozen=True)
class Input:
    """One tensor that the model takes.

    Attributes:
        fill: Makes it; called after a seed was set.
        axes: A number for what is static; a name for what is dynamic; a sum of names and numbers (``past+length``)
            where an axis follows from others.
        name: The keyword that it is passed by; None passes it by position.
    """

    fill: Fill
    axes: tuple[Size, ...]
    name: str | None = None

    def shape(self, sizes: Sizes) -> Shape:
        """Its shape where the names have these sizes."""
        return tuple(_size(axis, sizes) for axis in self.axes)


@dataclass(frozen=True)
class Net:
    """One model of a package.

    Attributes:
        name: As its package calls it, and what was changed after a dot.
        make: Makes the module; called after ``torch.manual_seed(0)``.
        inputs: All by position, or all by keyword.
        points: Sizes by name: the example's first, then those at which the exported model has to be right.
        named: Whether all dynamic dimensions are declared by name; otherwise those of several inputs are, as users do
            who mean one size, and the rest by ``Dim.AUTO``.
        prepare: Whether weights are made anew, so that outputs depend on the inputs.
        gain: Factor of the weights of convolutions that are made anew.
    """

    name: str
    make: Callable[[], nn.Module]
    inputs: tuple[Input, ...]
    points: tuple[Sizes, ...]
    named: bool = False
    prepare: bool = True
    gain: float = 1.0

    def shapes(self, sizes: Sizes) -> Shapes:
        """The shapes of all inputs where the names have these sizes."""
        return tuple(one.shape(sizes) for one in self.inputs)

    def at(self, shapes: Shapes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Inputs of these shapes, the same at every call."""
        with seeded():
            made = [one.fill(shape) for one, shape in zip(self.inputs, shapes)]
        args = tuple(tensor for one, tensor in zip(self.inputs, made) if one.name is None)
        return args, {one.name: tensor for one, tensor in zip(self.inputs, made) if one.name is not None}

    def declared(self) -> Any:
        """``dynamic_shapes``: a tuple for inputs by position, a dictionary for inputs by keyword."""
        dims = [self._dims(one) for one in self.inputs]
        if all(one.name is None for one in self.inputs):
            return tuple(dims)
        return {one.name: dim for one, dim in zip(self.inputs, dims)}

    def trial(self) -> Trial:
        """The export to measure."""
        example, *others = [self.shapes(point) for point in self.points]
        with seeded():
            model = self.make().eval()
            for parameter in model.parameters():
                parameter.requires_grad_(False)
            if self.prepare:
                enliven(model, *self.at(example), self.gain)
        return Trial(model, example, tuple(others), self.at, {"dynamic_shapes": self.declared()})

    def _dims(self, one: Input) -> dict[int, Any] | None:
        dims: dict[int, Any] = {}
        for place, axis in enumerate(one.axes):
            if isinstance(axis, str):
                by_name = axis.isidentifier() and (self.named or axis in self._shared())
                dims[place] = axis if by_name else torch.export.Dim.AUTO
        return dims or None

    def _shared(self) -> set[Size]:
        """Names of axes that stand at several inputs."""
        found = [axis for one in self.inputs for axis in set(one.axes)]
        return {axis for axis in found if found.count(axis) > 1}


@contextlib.contextmanager
def seeded() -> Iterator[None]:
    """Random numbers from a fixed seed, and afterwards as if none had been drawn."""
    state = torch.get_rng_state()
    torch.manual_seed(0)
    try:
        yield
    finally:
        torch.set_rng_state(state)


def points(names: str, *rows: Sequence[int]) -> tuple[Sizes, ...]:
    """Sizes by name from rows of numbers: ``points("n h w", (2, 64, 64), (1, 96, 96))``."""
    return tuple(dict(zip(names.split(), row, strict=True)) for row in rows)


def images(name: str, make: Callable[[], nn.Module], *rows: Sequence[int], **more: Any) -> Net:
    """A model of colour images by position whose batch, height and width are dynamic; rows of (n, h, w)."""
    return Net(name, make, (Input(picture, ("n", 3, "h", "w")),), points("n h w", *rows), **more)


def squares(name: str, make: Callable[[], nn.Module], side: int, **more: Any) -> Net:
    """A model of colour images of one size, by position: only the batch is dynamic."""
    return Net(name, make, (Input(picture, ("n", 3, side, side)),), points("n", (2,), (1,), (3,), (5,)), **more)


def normal(shape: Shape) -> torch.Tensor:
    """Normal random numbers."""
    return torch.randn(shape)


def picture(shape: Shape) -> torch.Tensor:
    """Random colours that change slowly over the picture, and from one to the next, with noise on top.

    Pictures of mere noise all look the same to a network that averages over places.
    """
    coarse = torch.randn((*shape[:-2], 3, 3)).reshape(-1, 1, 3, 3)
    smooth = nn.functional.interpolate(coarse, shape[-2:], mode="bilinear", align_corners=True)
    return smooth.reshape(shape) + 0.3 * torch.randn(shape)


def _size(axis: Size, sizes: Sizes) -> int:
    if isinstance(axis, int):
        return axis
    return sum(int(part) if part.isdigit() else sizes[part] for part in axis.split("+"))
