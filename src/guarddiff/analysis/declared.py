"""What the rules on declarations share: what was claimed for which axis, and how to write it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from guarddiff.core.declaration import Code, Given, Misdeclaration, Request, Row, Size, Spec, Table

MOST = 12
"""Parameters that a declaration may have to be written out whole."""
CONVERT = "dynamic_shapes=guarddiff.to_dynamic_shapes(dynamic_axes, model, args, input_names)"


@dataclass(frozen=True)
class Claim:
    """``size`` was written for one axis of a tensor, in the part ``where`` of the declaration."""

    leaf: Given
    axis: int
    size: Size
    where: str

    @property
    def example(self) -> int:
        return self.leaf.shape[self.axis]

    @property
    def place(self) -> str:
        return f"{self.leaf.onnx}[{self.axis}]"


@dataclass
class Reading:
    """What was read of one declaration: the axes that it speaks of, and what is wrong."""

    request: Request
    way: str
    claims: list[Claim] = field(default_factory=list)
    wrong: list[Misdeclaration] = field(default_factory=list)

    def tell(self, code: Code, where: str, problem: str, instead: str, places: Iterable[str] = ()) -> None:
        self.wrong.append(Misdeclaration(code, where, problem, instead, tuple(dict.fromkeys(places))))

    def axes_of(self, leaf: Given, spec: Spec, where: str) -> None:
        """Note what a table of axes says of a tensor; a negative axis is turned, wrong ones are told."""
        rank = len(leaf.shape)
        for axis, size in spec.entries if isinstance(spec, Table) else ():
            here = f"{where}[{axis!r}]"
            if not isinstance(axis, int):
                known = axis.strip().isdigit()
                right = f"{{{axis.strip() if known else _first(leaf, size)}: {text(size)}}}"
                self.tell("axis-type", here, f"an axis is a whole number, not the text {axis!r}", right)
            elif not isinstance(size, Size) or size.kind == "other":
                problem = f"{text(size)} is no size: a name, a Dim, Dim.DYNAMIC, or None for a fixed one is"
                self.tell("wrong-form", here, problem, f"{{{axis}: Dim.DYNAMIC}}")
            elif not -rank <= axis < rank:
                self._out_of_range(leaf, axis, size, here)
            else:
                self._claim(leaf, axis, size, here)
        for key in spec.odd if isinstance(spec, Table) else ():
            self.tell("axis-type", f"{where}[{key}]", f"an axis is a whole number, not {key}", "{0: Dim.DYNAMIC}")

    def _out_of_range(self, leaf: Given, axis: int, size: Size, where: str) -> None:
        rank = len(leaf.shape)
        if not rank:
            problem, right = f"{leaf.place} is a scalar, which has no axes", f"{leaf.place!r}: None"
        else:
            last = f"axes 0 to {rank - 1}" if rank > 1 else "axis 0 alone"
            problem = f"axis {axis} is out of range: {leaf.place} has the shape {leaf.shape}, so {last}"
            right = f"{{{rank - 1}: {size.text}}}, or another axis below {rank}"
        self.tell("axis-range", where, problem, right)

    def _claim(self, leaf: Given, axis: int, size: Size, where: str) -> None:
        claim = Claim(leaf, axis % len(leaf.shape), size, where)
        self.claims.append(claim)
        ignored = self.way == "dynamic_axes" or size.kind in ("name", "hint")
        if axis < 0 and size.dynamic and ignored:
            effect = "torch leaves it static" if self.request.dynamo else "torch may abort the process"
            problem = f"a negative axis is not turned: {effect}"
            self.tell("negative-axis", where, problem, f"{{{claim.axis}: {size.text}}}", [claim.place])


def _first(leaf: Given, size: Spec) -> int:
    """The axis that was probably meant; 0 where it can't be told."""
    number = size.number if isinstance(size, Size) and size.kind == "number" else 0
    return number if 0 <= number < len(leaf.shape) else 0


def text(spec: Spec | None) -> str:
    """A declaration as source text."""
    if spec is None:
        return "None"
    if isinstance(spec, Table):
        entries = ", ".join(f"{key!r}: {text(value)}" for key, value in spec.entries)
        return f"{{{entries}}}"
    if isinstance(spec, Row):
        items = ", ".join(map(text, spec.items))
        if spec.made_of == "list":
            return f"[{items}]"
        if spec.made_of in ("set", "frozenset"):
            return f"{{{items}}}" if items else "set()"
        return f"({items}{',' if len(spec.items) == 1 else ''})"
    return spec.text


def shapes_text(given: Sequence[Given], claims: Iterable[Claim]) -> str:
    """``dynamic_shapes={…}`` that says what the claims say, by the parameters of ``forward`` in their order."""
    axes: dict[str, dict[int, str]] = {}
    for claim in claims:
        if claim.size.dynamic:
            axes.setdefault(claim.leaf.place, {})[claim.axis] = claim.size.text
    shown = ", ".join(f"{value.key!r}: {_value_text(value, axes)}" for value in given)
    return f"dynamic_shapes={{{shown}}}"


def _value_text(value: Given, axes: dict[str, dict[int, str]]) -> str:
    if not any(leaf.place in axes for leaf in value.leaves()):
        return "None"
    if value.kind == "tensor":
        return "{" + ", ".join(f"{axis}: {size}" for axis, size in sorted(axes[value.place].items())) + "}"
    parts = [_value_text(part, axes) for part in value.parts]
    if value.kind == "mapping":
        return "{" + ", ".join(f"{part.key!r}: {shown}" for part, shown in zip(value.parts, parts)) + "}"
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})" if value.kind == "sequence" else _listed(parts)


def _listed(parts: Sequence[str]) -> str:
    return f"[{', '.join(parts)}]"


def some(names: Iterable[str], most: int = 8) -> str:
    """``x, y and z``; cut after ``most``."""
    listed = list(names)
    if not listed:
        return "none"
    if len(listed) > most:
        return f"{', '.join(listed[:most])} and {len(listed) - most} more"
    return " and ".join(filter(None, [", ".join(listed[:-1]), listed[-1]]))
