"""Example inputs at the sizes that are wanted."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from guarddiff.contract import tensors
from guarddiff.core.calling import by_parameter
from guarddiff.replay.inputs import TooLarge, resized

Shape = tuple[int, ...]
Size = Mapping[str, Sequence[int]] | Sequence[int]
Made = Callable[[Any], Any]


@dataclass(frozen=True)
class Example:
    """Inputs of one size; ``named`` has every tensor in them, by name, in the order of the model's inputs."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    named: dict[str, torch.Tensor]

    @property
    def shapes(self) -> dict[str, Shape]:
        return {name: tuple(tensor.shape) for name, tensor in self.named.items()}

    @property
    def tensors(self) -> list[torch.Tensor]:
        return list(self.named.values())


def examples(
    model: torch.nn.Module,
    args: Any,
    kwargs: Mapping[str, Any] | None,
    sizes: Sequence[Size],
    inputs: Made | None,
    names: Sequence[str] | None,
) -> list[Example]:
    """Inputs at each size; a size that is given twice counts once.

    Args:
        model: The module.
        args: Its positional example inputs: a tuple, or one tensor.
        kwargs: Those by keyword.
        sizes: For each variant the shapes of inputs by name, or one shape where the model has one tensor.
        inputs: Gives ``args`` for a size of ``sizes``; None makes them from ``args``, with values like those there.
        names: ``input_names`` of the export, which may be used instead of the names in ``forward``.

    Raises:
        TypeError, ValueError: For what is no size, names no input, is not what ``inputs`` gave, or is too large.
    """
    if isinstance(sizes, (str, bytes, Mapping)) or not isinstance(sizes, Sequence):
        raise TypeError(
            f"sizes has to be a list of sizes, each a shape or a mapping of inputs to shapes, not {sizes!r}"
        )
    if not sizes:
        raise ValueError("sizes is empty: give at least one size")
    found: dict[tuple[Any, ...], Example] = {}
    for size in sizes:
        given = _example(model, inputs(size) if inputs is not None else args, kwargs)
        wanted = _wanted(size, given, names)
        if inputs is None:
            given = _at(model, given, wanted)
        for name, shape in wanted.items():
            if given.shapes[name] != shape:
                raise ValueError(f"inputs() gave {name} with shape {given.shapes[name]} for the size {shape}")
        found.setdefault(tuple(given.shapes.items()), given)
    return list(found.values())


def _example(model: torch.nn.Module, args: Any, kwargs: Mapping[str, Any] | None) -> Example:
    given, by_name = tensors.inputs(args, kwargs, "example inputs")
    bound = by_parameter(model.forward, given, by_name)
    named = {name: tensor for key in bound for name, tensor in tensors.named(bound[key], key)}
    if not named:
        raise ValueError("the model has no tensor among its example inputs, so there are no sizes")
    return Example(given, by_name, named)


def _wanted(size: Any, example: Example, names: Sequence[str] | None) -> dict[str, Shape]:
    """The shapes that a size asks for, by the names of the example."""
    known = {name: name for name in example.shapes}
    known.update(zip(names or (), example.shapes))
    if not isinstance(size, Mapping):
        if len(example.shapes) > 1:
            raise TypeError(
                f"the model has several inputs ({', '.join(example.shapes)}): give each size as a mapping of names to "
                f"shapes, not {size!r}"
            )
        size = {next(iter(example.shapes)): size}
    wanted: dict[str, Shape] = {}
    for name, shape in size.items():
        if name not in known:
            raise ValueError(f"sizes names {name!r}: the inputs are {', '.join(example.shapes)}")
        wanted[known[name]] = _shape(name, shape)
    return wanted


def _shape(name: str, shape: Any) -> Shape:
    try:
        sizes = tuple(operator.index(size) for size in shape)
    except TypeError:
        raise TypeError(f"a shape of {name} has to be a list of whole numbers, not {shape!r}") from None
    if any(size < 1 for size in sizes):
        raise ValueError(f"a shape of {name} has a size below 1: {sizes}")
    return sizes


def _at(model: torch.nn.Module, example: Example, wanted: Mapping[str, Shape]) -> Example:
    """The example with these shapes, and values like those that it has."""
    generator = torch.Generator().manual_seed(0)
    made = []
    try:
        for name, tensor in example.named.items():
            shape = wanted.get(name, tuple(tensor.shape))
            made.append(tensor if shape == tuple(tensor.shape) else resized(tensor, shape, generator).to(tensor.device))
    except TooLarge as err:
        raise ValueError(f"{err}; make the inputs yourself, with inputs=") from None
    tagged: list[torch.Tensor] = []  # one object for each place, so that a place is known in args and in forward

    def tag(tensor: torch.Tensor) -> torch.Tensor:
        tagged.append(tensor.detach())
        return tagged[-1]

    args, kwargs = tensors.mapped((example.args, example.kwargs), tag)
    bound = by_parameter(model.forward, args, kwargs)
    order = [tensor for key in bound for _, tensor in tensors.named(bound[key], key)]
    by_place = {id(tensor): new for tensor, new in zip(order, made)}
    args, kwargs = tensors.mapped((args, kwargs), lambda tensor: by_place[id(tensor)])
    return _example(model, args, kwargs)
