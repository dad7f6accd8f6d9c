"""``dynamic_axes`` by name → ``dynamic_shapes`` by the parameters of ``forward``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch.export import Dim

from guarddiff.core.declaration import Given, by_name, nearest
from guarddiff.torch_bridge.declarations import given_of, read_size, split

__all__ = ["to_dynamic_shapes"]

_Axes = dict[str, dict[int, Any]]
"""Place of a tensor (``past[0]``) to what is declared for its axes."""


def to_dynamic_shapes(
    dynamic_axes: Mapping[str, Any],
    model: Any,
    args: Any,
    input_names: Sequence[str] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    output_names: Sequence[str] | None = None,
) -> dict[str, Any]:
    """The ``dynamic_shapes`` that say what ``dynamic_axes`` says by name.

    ``torch.onnx.export`` itself goes by position, needs an entry for every input, and leaves an axis static that is
    written as a negative number. Here names count, inputs that are not named are static, and negative axes are turned.

    A name that stands at one axis stays a text: torch raises where it can't keep that dimension dynamic. A name that
    stands at several becomes one ``Dim``, so that these sizes are equal (its name is made an identifier for that). An
    axis in a list, without a name, becomes ``Dim.DYNAMIC``, as in torch's own conversion: unlike ``Dim.AUTO`` it is
    never fixed silently.

    Args:
        dynamic_axes: Names of inputs to axes, as for ``torch.onnx.export``. A key may be a name in ``input_names``, a
            parameter of ``forward``, or for a part of one the name that torch gives it (``past_0``).
        model: The module or function that is exported.
        args: Its example inputs, as for ``torch.onnx.export``.
        input_names: As for ``torch.onnx.export``; None: the names are the model's own.
        kwargs: Example inputs given by name; None for none.
        output_names: As for ``torch.onnx.export``: what ``dynamic_axes`` says of these is left out, since sizes of
            outputs follow from the inputs. None: every key has to be an input's.

    Returns:
        A dict with an entry for every parameter that is given, in the order of the ONNX inputs, nested as the inputs
        are; None for what is static.

    Raises:
        ValueError: A key names no input or a value that is no tensor, an axis is out of range or declared twice, a
            fixed size is not the example's, or axes of one name have different sizes in the example.
        TypeError: The inputs do not fit the model's signature, or a part of ``dynamic_axes`` has another form.
    """
    if not isinstance(dynamic_axes, Mapping):
        raise TypeError(f"dynamic_axes must map names of inputs to axes, not {dynamic_axes!r}")
    args, named = split(args, kwargs)
    given = given_of(model, args, named, tuple(input_names or ()))
    leaves = by_name(given, lenient=True)
    axes: _Axes = {}
    for key, declared in dynamic_axes.items():
        if key in leaves:
            _read(leaves[key], declared, axes.setdefault(leaves[key].place, {}), f"dynamic_axes[{key!r}]")
        elif key not in (output_names or ()):
            raise ValueError(_no_input(key, given))
    _join(axes, {leaf.place: leaf for leaf in leaves.values()})
    return {str(value.key): _nested(value, axes) for value in given}


def _no_input(key: Any, given: Sequence[Given]) -> str:
    names = [leaf.onnx for value in given for leaf in value.leaves() if leaf.onnx]
    near = nearest(key, names) if isinstance(key, str) else None
    hint = f"; did you mean {near!r}?" if near else "; name it in output_names if it is an output"
    return f"dynamic_axes[{key!r}] names no input: there are {', '.join(map(repr, names)) or 'none'}{hint}"


def _read(leaf: Given, declared: Any, found: dict[int, Any], where: str) -> None:
    """Note what is declared for one input, axes counted from the front."""
    if declared is None:
        return
    if isinstance(declared, Mapping):
        entries = list(declared.items())
    elif isinstance(declared, Sequence) and not isinstance(declared, str):
        entries = [(axis, Dim.DYNAMIC) for axis in declared]
    else:
        raise TypeError(f"{where} must be a dict of axes to names or a list of axes, not {declared!r}")
    if leaf.kind != "tensor":
        raise ValueError(f"{where}: {leaf.place} is no tensor, it has no axes")
    rank = len(leaf.shape)
    for written, what in entries:
        if not isinstance(written, int) or isinstance(written, bool):
            raise TypeError(f"{where}: an axis must be a whole number, not {written!r}")
        if not -rank <= written < rank:
            raise ValueError(f"{where}: axis {written} is out of range, {leaf.place} has {rank} axes")
        axis = written % rank
        size = _size(what, leaf.shape[axis], f"{where}[{written}]")
        if size is None:
            continue
        if found.setdefault(axis, size) != size:
            raise ValueError(f"{where}: axis {axis} is declared twice, as {found[axis]!r} and {size!r}")


def _size(what: Any, example: int, where: str) -> Any:
    """What ``dynamic_shapes`` has for one axis; None for a fixed size."""
    size = read_size(what)
    if size.kind == "number" and size.number != example:
        raise ValueError(f"{where} declares the fixed size {what}, and the example has {example} there")
    if size.kind == "other":
        raise TypeError(f"{where} must be a name, a Dim or None, not {what!r}")
    if size.kind in ("nothing", "number"):
        return None
    return what if what != "" else Dim.DYNAMIC


def _join(axes: _Axes, leaves: Mapping[str, Given]) -> None:
    """One ``Dim`` for each name that stands at several axes."""
    used: dict[str, list[tuple[str, int]]] = {}
    dims: dict[str, Any] = {}
    for place, entries in axes.items():
        for axis, size in entries.items():
            read = read_size(size)
            if read.kind in ("name", "dim"):
                used.setdefault(read.name, []).append((place, axis))
            if read.kind == "dim":
                dims.setdefault(read.name, size)
    taken = set(dims)
    for name, places in used.items():
        if len(places) < 2 and name not in dims:
            continue
        sizes = {f"{place}[{axis}]": leaves[place].shape[axis] for place, axis in places}
        if len(set(sizes.values())) > 1:
            shown = ", ".join(f"{place}={size}" for place, size in sizes.items())
            raise ValueError(
                f"the name {name!r} says that sizes are equal, and the example's differ: {shown}; "
                "give each its own name, or an example of equal sizes"
            )
        dim = dims.get(name) or Dim(_identifier(name, taken))
        for place, axis in places:
            axes[place][axis] = dim


def _identifier(name: str, taken: set[str]) -> str:
    """``batch size`` → ``batch_size``: a Dim takes identifiers alone."""
    stem = "".join(char if char.isalnum() or char == "_" else "_" for char in name)
    stem = stem if stem.isidentifier() else f"_{stem}"
    found = next(one for one in (stem, *(f"{stem}_{number}" for number in range(2, 10_000))) if one not in taken)
    taken.add(found)
    return found


def _nested(value: Given, axes: _Axes) -> Any:
    if not any(axes.get(leaf.place) for leaf in value.leaves()):
        return None
    if value.kind == "tensor":
        return dict(sorted(axes[value.place].items()))
    parts = [_nested(part, axes) for part in value.parts]
    if value.kind == "mapping":
        return {part.key: one for part, one in zip(value.parts, parts)}
    return tuple(parts) if value.made_of == "tuple" else parts
