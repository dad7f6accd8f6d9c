"""Declarations of dynamic dimensions: as the user wrote them, and what is wrong with them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

Code = Literal[
    "both-ways",
    "no-dynamo",
    "program",
    "wrong-form",
    "mixed-keys",
    "unknown-input",
    "missing-input",
    "surplus-input",
    "other-order",
    "keyword-only",
    "no-tensor",
    "axis-type",
    "axis-range",
    "negative-axis",
    "fixed-size",
    "shared-name",
    "two-ranges",
    "example-outside",
    "derived-size",
    "example-zero",
    "example-one",
    "outputs-only",
    "output-axis",
    "fixed-output",
    "range-exceeds",
]

TOLD_ONLY: frozenset[Code] = frozenset(("other-order", "example-zero", "example-one", "fixed-output", "range-exceeds"))
"""What stands in the report and is not warned of: it may be meant, or does no harm to the sizes."""


@dataclass(frozen=True)
class Misdeclaration:
    """One thing that is wrong with what the user declared, or that torch reads in another way.

    Attributes:
        code: What kind of mistake it is.
        where: The part of the declaration: ``dynamic_axes['imges']``, ``dynamic_shapes['x'][2]``.
        problem: What is wrong with it, in one sentence.
        instead: What to write instead.
        places: The dimensions that it is about (``x[2]``), as far as they are known.
    """

    code: Code
    where: str
    problem: str
    instead: str
    places: tuple[str, ...] = ()

    @property
    def warns(self) -> bool:
        """Whether the user has to hear of it: it is very probably a mistake."""
        return self.code not in TOLD_ONLY


# --- what the user wrote ---

Kind = Literal["nothing", "name", "dim", "derived", "hint", "number", "other"]


@dataclass(frozen=True)
class Size:
    """What was written for one axis.

    ``nothing``: None or ``Dim.STATIC``; ``hint``: ``Dim.AUTO`` and ``Dim.DYNAMIC``; ``derived``: ``scale`` times the
    ``name`` plus ``offset``; ``other``: nothing that torch reads as a size. ``lower`` and ``upper`` are its range
    (None: no end), for a derived one that of its root.
    """

    kind: Kind
    text: str
    name: str = ""
    lower: int = 0
    upper: int | None = None
    scale: int = 1
    offset: int = 0
    number: int = 0

    @property
    def dynamic(self) -> bool:
        return self.kind in ("name", "dim", "derived", "hint")


@dataclass(frozen=True)
class Row:
    """A list, a tuple or another sequence (``made_of``: ``list``, ``tuple``, ``set``…)."""

    items: tuple[Spec, ...]
    made_of: str = "tuple"


@dataclass(frozen=True)
class Table:
    """A mapping. Keys that are no text and no whole number stand as their text in ``odd``."""

    entries: tuple[tuple[str | int, Spec], ...]
    odd: tuple[str, ...] = ()


Spec = Size | Row | Table


# --- what was given as example ---


@dataclass(frozen=True)
class Given:
    """One example value: a tensor, a value that is none (``other``), or one with parts.

    Attributes:
        place: How the model's code calls it: ``x``, ``past[0]``, ``d['a']``.
        kind: What it is; ``object`` is a registered class of its own.
        shape: Sizes of a tensor.
        path: The name that torch gives a leaf (``past_0``).
        key: Its key in what it is a part of; for a parameter of ``forward``, its name.
        onnx: The name of the ONNX input that a tensor becomes.
        parts: What it consists of, in torch's order.
        position: For a parameter, its place in the signature.
        keyword_only: For a parameter, whether it can't be given by position.
        made_of: The class of what has parts.
    """

    place: str
    kind: Literal["tensor", "other", "sequence", "mapping", "object"]
    key: str | int = ""
    path: str = ""
    shape: tuple[int, ...] = ()
    onnx: str = ""
    parts: tuple[Given, ...] = ()
    position: int = 0
    keyword_only: bool = False
    made_of: str = ""

    def leaves(self) -> Iterator[Given]:
        """Itself where it has no parts, else all leaves below; an empty container has none."""
        if self.kind in ("tensor", "other"):
            yield self
        for part in self.parts:
            yield from part.leaves()


@dataclass(frozen=True)
class Request:
    """Everything about the dimensions that one call of ``torch.onnx.export`` was given.

    ``given`` are the parameters of ``forward`` in the order of the ONNX inputs; ``program``: the model is an
    ``ExportedProgram``, which keeps its own dimensions.
    """

    given: tuple[Given, ...] = ()
    shapes: Spec | None = None
    axes: Spec | None = None
    input_names: tuple[str, ...] = ()
    output_names: tuple[str, ...] = ()
    dynamo: bool = True
    program: bool = False

    def tensors(self) -> list[Given]:
        return [leaf for value in self.given for leaf in value.leaves() if leaf.kind == "tensor"]


def by_name(given: Iterable[Given], lenient: bool = False) -> dict[str, Given]:
    """Leaves by the names that ``dynamic_axes`` may call them: that of the ONNX input, and where ``input_names`` gave
    no other one (``lenient``: there too) torch's own and that of the model's code."""
    leaves = [leaf for value in given for leaf in value.leaves()]
    found = {leaf.onnx: leaf for leaf in reversed(leaves) if leaf.onnx}
    for leaf in leaves:
        if lenient or leaf.onnx in ("", leaf.path):
            found.setdefault(leaf.path, leaf)
            found.setdefault(leaf.place, leaf)
    return found


def nearest(name: str, names: Sequence[str]) -> str | None:
    """The name that was probably meant; None where none is near."""
    lowered = {one.lower(): one for one in reversed(names)}
    near = difflib.get_close_matches(name.lower(), list(lowered), n=1, cutoff=0.6)
    return lowered[near[0]] if near else None
