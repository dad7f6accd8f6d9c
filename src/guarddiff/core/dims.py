"""Dimensions: one axis of one input, what was declared for it and which sizes it still admits."""

from __future__ import annotations

from dataclasses import dataclass

from guarddiff.core.domain import Admitted, SizeRange


@dataclass(frozen=True)
class Declared:
    """What the user asked for: any size, or a range.

    ``text`` keeps the user's own wording (``"height"``, ``Dim.AUTO``, ``Dim('h', min=4, max=512)``).
    """

    sizes: SizeRange
    text: str = ""

    def __str__(self) -> str:
        return str(self.sizes)


@dataclass(frozen=True)
class Dimension:
    """One axis of one input.

    Attributes:
        input: Name of the ONNX input.
        axis: Index of the axis, never negative.
        name: The user's name for it, or ``x[2]`` where it has none.
        size: Text of its size over the dimension variables: usually ``name`` itself, ``2*h`` for a derived one.
        example: Its size in the example inputs.
        declared: What the user asked for; None where the dimension was declared static.
        admitted: The sizes for which all guards hold; None where that was not asked.
        parameter: The parameter of ``forward`` that the input is; empty where it is a part of one or unknown.
    """

    input: str
    axis: int
    name: str
    size: str
    example: int
    declared: Declared | None = None
    admitted: Admitted | None = None
    parameter: str = ""

    @property
    def place(self) -> str:
        """``x[2]``: the dimension by input and axis."""
        return f"{self.input}[{self.axis}]"


@dataclass(frozen=True)
class InputSpec:
    """One input of the exported model.

    ``shape`` holds per axis the size (int) or the text of a symbolic size over dimension variables.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    dims: tuple[Dimension, ...] = ()


@dataclass(frozen=True)
class OutputSpec:
    """One output: its name, dtype and shape (int, symbolic text, or None where unknown, per axis)."""

    name: str
    dtype: str
    shape: tuple[int | str | None, ...]
