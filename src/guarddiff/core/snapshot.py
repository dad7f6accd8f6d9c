"""The symbolic-shape state at one stage boundary, as plain data that no longer needs torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from guarddiff.core.dims import OutputSpec
from guarddiff.core.origin import Origin
from guarddiff.core.stage import Stage

GuardKind = Literal["guard", "assert", "range", "replacement", "constraint"]
"""``guard``: ``ShapeEnv.guards`` and evaluated guards; ``assert``: a deferred runtime assert; ``range``: a
variable range; ``replacement``: ``ShapeEnv.replacements``; ``constraint``: ``ep.range_constraints``."""


@dataclass(frozen=True)
class Guard:
    """One condition on sizes.

    Attributes:
        text: Python text over dimension variables, e.g. ``h // 32 % 7 == 0``.
        kind: Which part of the state it was read from.
        variables: The dimension variables it names, sorted; unbacked symbols are left out.
        symbolic: torch's own text over symbols, e.g. ``Eq(Mod((s53//32), 7), 0)``.
        unbacked: It names a symbol that no input dimension determines (``u0``, a Python number among the inputs).
        origin: Where it came from; None when it was not seen being added.
    """

    text: str
    kind: GuardKind
    variables: tuple[str, ...] = ()
    symbolic: str = ""
    unbacked: bool = False
    origin: Origin | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Snapshot:
    """The state at one boundary: ``when`` is ``before`` or ``after`` the stage.

    ``guards`` holds every condition of the five kinds in the order found, without duplicates. ``inputs`` maps
    input names to shapes, each size an int or a text over dimension variables. ``state_read`` is False for the
    boundaries after decomposition, where only shapes are read (a type-promotion pass adds guards of its own
    there that restrict nothing).
    """

    stage: Stage
    when: Literal["before", "after"]
    guards: tuple[Guard, ...] = ()
    inputs: tuple[tuple[str, tuple[int | str, ...]], ...] = ()
    outputs: tuple[OutputSpec, ...] = ()
    state_read: bool = True
