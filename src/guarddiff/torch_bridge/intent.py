"""The user's declarations, read as the user wrote them: by the names of inputs and parameters.

torch applies some forms by position (``dynamic_axes`` in another order than the inputs) or not at all (a
negative axis). What is read here is compared later with what the exported inputs say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.export import Dim

from guarddiff.core.calling import by_parameter
from guarddiff.core.dims import Declared
from guarddiff.core.domain import SizeRange
from guarddiff.torch_bridge import probe


@dataclass
class Leaf:
    """One leaf of the example inputs.

    ``parameter`` is the parameter of ``forward`` it belongs to, ``path`` the placeholder name that torch
    gives it (``past_0_1``), ``index`` its place among all leaves. ``declared`` maps an axis to what was asked for
    it; ``negative`` holds the axes that were written as negative numbers.
    """

    parameter: str
    path: str
    index: int
    value: Any
    declared: dict[int, AxisIntent] = field(default_factory=dict)
    negative: set[int] = field(default_factory=set)

    @property
    def is_tensor(self) -> bool:
        return isinstance(self.value, torch.Tensor)


@dataclass(frozen=True)
class AxisIntent:
    """What was asked for one axis: the user's ``name`` (None: nameless), and whether it is a plain string, which says
    nothing of equal sizes; for a derived dimension the name and the sizes of its root."""

    name: str | None
    declared: Declared
    root: str | None = None
    root_sizes: SizeRange = SizeRange()
    string: bool = False


def bind(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> dict[str, Any]:
    """Example arguments by parameter name, in the order of the signature.

    Arguments that do not fit the signature give positional names, so that torch is the one to complain.
    """
    try:
        return by_parameter(getattr(model, "forward", model), args, kwargs or {})
    except (TypeError, ValueError):
        return {**{f"arg{i}": value for i, value in enumerate(args)}, **(kwargs or {})}


def leaves_of(arguments: Mapping[str, Any]) -> list[Leaf]:
    """The leaves in the order in which torch.export flattens them; None and other non-tensors included."""
    flatten: Any = probe.PYTREE.get()
    found: list[Leaf] = []
    for parameter, value in arguments.items():
        for path, leaf in flatten(value)[0]:
            parts = [parameter, *(key_text(key) for key in path)]
            found.append(Leaf(parameter, "_".join(parts).lower(), len(found), leaf))
    return found


def key_text(key: Any) -> str:
    for attribute in ("key", "idx", "name"):
        if hasattr(key, attribute):
            return "".join(c if c.isalnum() else "_" for c in str(getattr(key, attribute)))
    return str(key)


def declare(
    leaves: list[Leaf],
    arguments: Mapping[str, Any],
    dynamic_shapes: Any = None,
    dynamic_axes: Mapping[str, Any] | None = None,
    input_names: Sequence[str] | None = None,
    *,
    literal: bool = False,
) -> list[str]:
    """Fill ``declared`` of the leaves from what the user wrote. Returns the parts that could not be read.

    ``literal``: read it as torch.export does, to which a negative axis means nothing.
    """
    unread: list[str] = []
    if dynamic_shapes is not None:
        _read_shapes(leaves, arguments, dynamic_shapes, unread)
        if literal:
            _drop_negative(leaves)
    elif dynamic_axes is not None:
        _read_axes(leaves, dynamic_axes, input_names or ())
    return unread


def _read_axes(leaves: list[Leaf], dynamic_axes: Mapping[str, Any], input_names: Sequence[str]) -> None:
    tensors = [leaf for leaf in leaves if leaf.is_tensor]
    by_name: dict[str, Leaf] = {leaf.parameter: leaf for leaf in reversed(tensors)}
    by_name.update((leaf.path, leaf) for leaf in reversed(tensors))
    by_name.update(zip(input_names, tensors))
    for name, axes in dynamic_axes.items():
        if name in by_name and axes:
            _read_tensor(by_name[name], dict.fromkeys(axes, "") if not isinstance(axes, Mapping) else axes)


def _read_shapes(leaves: list[Leaf], arguments: Mapping[str, Any], shapes: Any, unread: list[str]) -> None:
    if not isinstance(shapes, (Mapping, Sequence)):
        unread.append(f"dynamic_shapes of type {type(shapes).__name__}")
        return
    by_value = {leaf.index: leaf for leaf in leaves}
    position = iter(sorted(by_value))
    if isinstance(shapes, Mapping):
        nested = {k: v for name, value in shapes.items() if name not in arguments and isinstance(value, Mapping)
                  for k, v in value.items() if k in arguments}  # fmt: skip
        specs = {name: shapes.get(name, nested.get(name)) for name in arguments}
    else:
        specs = dict(zip(arguments, shapes))
    for name, value in arguments.items():
        try:
            _walk(value, specs.get(name), by_value, position)
        except (TypeError, ValueError, AttributeError) as error:
            unread.append(f"dynamic_shapes of {name}: {error}")
            return


def _walk(value: Any, spec: Any, leaves: dict[int, Leaf], position: Any) -> None:
    """Follow a value and what was declared for it; ``position`` counts the leaves as they are passed."""
    children = _children(value)
    if children is None:
        leaf = leaves[next(position)]
        if leaf.is_tensor and spec is not None:
            _read_tensor(leaf, spec)
        return
    for child, part in zip(children, _parts(value, spec, len(children))):
        _walk(child, part, leaves, position)


def _children(value: Any) -> list[Any] | None:
    """The children of a nested value in torch's order; None for a leaf."""
    flatten: Any = probe.PYTREE.get()
    pairs = flatten(value, is_leaf=lambda x: x is not value)[0]
    children = [child for _, child in pairs]
    return None if len(children) == 1 and children[0] is value else children


def _parts(value: Any, spec: Any, count: int) -> list[Any]:
    if spec is None:
        return [None] * count
    if isinstance(spec, Mapping):
        if isinstance(value, Mapping):
            return [spec.get(key) for key in value]
        return list(spec.values())[:count] + [None] * (count - len(spec))
    if isinstance(spec, Sequence) and not isinstance(spec, str):
        return list(spec)[:count] + [None] * (count - len(spec))
    return [None] * count


def _read_tensor(leaf: Leaf, spec: Any) -> None:
    rank = leaf.value.dim()
    entries = spec.items() if isinstance(spec, Mapping) else enumerate(spec)
    for axis, what in entries:
        if not isinstance(axis, int):
            continue
        leaf.negative |= {axis + rank} if axis < 0 else set()
        axis = axis + rank if axis < 0 else axis
        intent = read_axis(what)
        if intent is not None and 0 <= axis < rank:
            leaf.declared[axis] = intent


def read_axis(what: Any) -> AxisIntent | None:
    """One entry of ``dynamic_shapes`` or ``dynamic_axes``; None where it asks for a static size."""
    if what is None or isinstance(what, int):
        return None
    if isinstance(what, str):
        return AxisIntent(what or None, Declared(SizeRange(), repr(what) if what else "dynamic"), string=True)
    lower, upper = bound_of(getattr(what, "min", None), 0), bound_of(getattr(what, "max", None), None)
    kind = getattr(getattr(what, "type", None), "name", None)
    if kind is not None:  # Dim.AUTO, Dim.DYNAMIC, Dim.STATIC
        declared = Declared(SizeRange(lower or 0, upper), f"Dim.{kind}")
        return None if kind == "STATIC" else AxisIntent(None, declared)
    if isinstance(what, Dim) or hasattr(what, "__name__"):
        name = str(what.__name__)
        root = getattr(what, "root", None)
        if root is not None:
            below, above = bound_of(getattr(root, "min", None), 0), bound_of(getattr(root, "max", None), None)
            sizes = Declared(SizeRange(lower or 0, upper), name)
            return AxisIntent(name, sizes, str(root.__name__), SizeRange(below or 0, above))
        return AxisIntent(name, Declared(SizeRange(lower or 0, upper), _dim_text(name, lower, upper)))
    return None


def _drop_negative(leaves: list[Leaf]) -> None:
    for leaf in leaves:
        leaf.declared = {axis: asked for axis, asked in leaf.declared.items() if axis not in leaf.negative}


def bound_of(value: Any, infinite: int | None) -> int | None:
    """A bound as an int; ``infinite`` for none and for infinity (torch's own ``int_oo`` is no int)."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError, AttributeError):
        return infinite
    return number if abs(number) < 2**62 else infinite


def _dim_text(name: str, lower: int | None, upper: int | None) -> str:
    bounds = [f"min={lower}"] if lower else []
    bounds += [f"max={upper}"] if upper is not None else []
    return f"Dim({', '.join([repr(name), *bounds])})"
