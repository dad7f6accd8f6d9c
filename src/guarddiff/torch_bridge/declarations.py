"""What a call of ``torch.onnx.export`` was given about its dimensions, as plain data."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from itertools import count
from typing import Any

import torch

from guarddiff.core.declaration import Given, Request, Row, Size, Spec, Table
from guarddiff.torch_bridge import probe
from guarddiff.torch_bridge.intent import bound_of, key_text, read_axis


def request(
    model: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None, asked: Mapping[str, Any], dynamo: bool = True
) -> Request:
    """What ``asked`` (keywords of ``torch.onnx.export``) says of the dimensions of these example inputs.

    Raises what reading them raises; TypeError where the inputs do not fit the model's signature.
    """
    names = tuple(map(str, asked.get("input_names") or ()))
    shapes, axes = asked.get("dynamic_shapes"), asked.get("dynamic_axes")
    if isinstance(model, torch.export.ExportedProgram):
        return Request((), _spec(shapes), _spec(axes), names, program=True)
    args, named = split(args, kwargs)
    if shapes is not None and hasattr(shapes, "dynamic_shapes"):  # torch.export.ShapesCollection, AdditionalInputs
        shapes = shapes.dynamic_shapes(model, tuple(args), dict(named))
    return Request(
        given_of(model, args, named, names),
        _spec(shapes),
        _spec(axes),
        names,
        tuple(map(str, asked.get("output_names") or ())),
        dynamo,
    )


def request_of(
    model: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None, asked: Mapping[str, Any], dynamo: bool = True
) -> Request | None:
    """As ``request``; None where nothing was declared, or where the inputs do not fit the model's signature or it has
    none that can be read: torch is the one to complain."""
    if asked.get("dynamic_shapes") is None and asked.get("dynamic_axes") is None:
        return None
    if not isinstance(model, torch.export.ExportedProgram):
        try:
            arguments, named = split(args, kwargs)
            inspect.signature(getattr(model, "forward", model)).bind(*arguments, **named)
        except (TypeError, ValueError):
            return None
    return request(model, args, kwargs, asked, dynamo)


def split(args: Any, kwargs: Mapping[str, Any] | None) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """Positional and keyword arguments as torch reads them: one tensor stands for itself, and a mapping at the end
    holds the keyword arguments where none are given apart."""
    args = (args,) if isinstance(args, torch.Tensor) else tuple(args)
    if not kwargs and args and isinstance(args[-1], dict):
        return args[:-1], args[-1]
    return args, kwargs or {}


def given_of(
    model: Any, args: Sequence[Any], kwargs: Mapping[str, Any], input_names: Sequence[str] = ()
) -> tuple[Given, ...]:
    """The example values by the parameters of ``forward``: those given by position, then those given by name in the
    order in which they were given, as torch orders the ONNX inputs. Raises TypeError where they do not fit."""
    signature = inspect.signature(getattr(model, "forward", model))
    bound = signature.bind(*args, **kwargs).arguments
    places = list(signature.parameters)
    named = [name for name in kwargs if name in bound]
    rest = [name for name in bound if name not in named and _kind(signature, name) is inspect.Parameter.VAR_KEYWORD]
    found = []
    for name in [*(n for n in bound if n not in named and n not in rest), *named, *rest]:
        kind = _kind(signature, name)
        value = _given(bound[name], name, name, name)
        if kind is inspect.Parameter.VAR_KEYWORD:  # torch calls these inputs by their own names
            value = replace(
                value, parts=tuple(_given(part, f"{name}[{key!r}]", key, key) for key, part in bound[name].items())
            )
        by_keyword = kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
        found.append(replace(value, key=name, position=places.index(name), keyword_only=by_keyword))
    number = count()
    return tuple(_with_names(value, input_names, number) for value in found)


def _kind(signature: inspect.Signature, name: str) -> Any:
    return signature.parameters[name].kind


def _with_names(value: Given, input_names: Sequence[str], number: Any) -> Given:
    """The same, with the names of the ONNX inputs."""
    if value.kind == "tensor":
        index = next(number)
        return replace(value, onnx=input_names[index] if index < len(input_names) else value.path)
    return replace(value, parts=tuple(_with_names(part, input_names, number) for part in value.parts))


def _given(value: Any, place: str, path: str, key: str | int) -> Given:
    path = path.lower()
    if isinstance(value, torch.Tensor):
        return Given(place, "tensor", key, path, tuple(int(size) for size in value.shape))
    flatten: Any = probe.PYTREE.get()
    pairs = flatten(value, is_leaf=lambda one: one is not value)[0]
    if len(pairs) == 1 and pairs[0][1] is value:
        return Given(place, "other", key, path)
    parts = tuple(
        _given(part, place + _step(way[0]), f"{path}_{key_text(way[0])}", _key(way[0])) for way, part in pairs if way
    )
    made_of = next((cls.__name__ for cls in (list, tuple, dict) if type(value) is cls), type(value).__name__)
    return Given(place, _container(value), key, path, parts=parts, made_of=made_of)


def _container(value: Any) -> Any:
    if isinstance(value, Mapping):
        return "mapping"
    return "sequence" if isinstance(value, (list, tuple)) else "object"


def _key(key: Any) -> str | int:
    for attribute in ("key", "idx", "name"):
        if hasattr(key, attribute):
            found = getattr(key, attribute)
            return found if isinstance(found, (str, int)) else str(found)
    return str(key)


def _step(key: Any) -> str:
    name = _key(key)
    return f".{name}" if hasattr(key, "name") else f"[{name!r}]"


def _spec(what: Any) -> Spec | None:
    """What was written, as plain data; None for None."""
    return None if what is None else read_spec(what)


def read_spec(what: Any) -> Spec:
    """``dynamic_shapes`` or ``dynamic_axes``, or a part of them, as plain data."""
    if isinstance(what, Mapping):
        plain = [(key, read_spec(value)) for key, value in what.items() if isinstance(key, (str, int))]
        odd = tuple(repr(key)[:60] for key in what if not isinstance(key, (str, int)))
        return Table(tuple((int(k) if isinstance(k, int) else k, value) for k, value in plain), odd)
    if isinstance(what, (Sequence, Set)) and not isinstance(what, (str, bytes)):
        return Row(tuple(map(read_spec, what)), type(what).__name__)
    return read_size(what)


def read_size(what: Any) -> Size:
    """One entry for one axis."""
    if what is None:
        return Size("nothing", "None")
    if isinstance(what, bool):
        return Size("other", str(what))
    if isinstance(what, int):
        return Size("number", str(what), number=what)
    if getattr(what, "root", None) is not None and hasattr(what, "fn"):
        return _derived(what)
    intent = read_axis(what)
    if intent is None:
        static = getattr(getattr(what, "type", None), "name", None) == "STATIC"
        return Size("nothing", "Dim.STATIC") if static else Size("other", repr(what)[:60])
    if isinstance(what, str):
        return Size("name", repr(what), what) if what else Size("hint", "''")
    sizes = intent.declared.sizes
    if intent.name is None:
        return Size("hint", intent.declared.text + _bounds(what), "", sizes.lower, sizes.upper)
    return Size("dim", intent.declared.text, intent.name, sizes.lower, sizes.upper)


def _derived(what: Any) -> Size:
    """``2*h + 1`` by its root: its own range can't be asked for where it would begin below zero."""
    root = what.root
    lower, upper = bound_of(getattr(root, "min", None), 0) or 0, bound_of(getattr(root, "max", None), None)
    offset, more = (int(what.fn(number)) for number in (0, 1))
    name = str(root.__name__)
    return Size("derived", str(what.__name__), name, lower, upper, scale=more - offset, offset=offset)


def _bounds(hint: Any) -> str:
    bounds = {name: bound_of(getattr(hint, name, None), None) for name in ("min", "max")}
    shown = ", ".join(f"{name}={value}" for name, value in bounds.items() if value is not None)
    return f"({shown})" if shown else ""
