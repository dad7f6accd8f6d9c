"""How the dynamic sizes of a reproduction are declared: in the user's own way, or in the user's own words."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from guarddiff.core import guard_text
from guarddiff.core.finding import Finding
from guarddiff.replay.prove import Prover

Style = Callable[[str], str]
AUTO = "torch.export.Dim.AUTO"


def styles(finding: Finding, prover: Prover) -> list[Style]:
    """Ways to declare a dimension of a given name, the user's own first."""
    texts = [dim.declared.text for dim in (*finding.dims, *prover.dims) if dim.declared is not None]
    first = texts[0] if texts else ""
    if first.startswith("Dim("):
        return [_named_dim, _auto]
    if first.startswith("Dim.DYNAMIC"):
        return [lambda _: "torch.export.Dim.DYNAMIC", _auto]
    if first.startswith("Dim.AUTO"):
        return [_auto, _string]
    return [_string, _auto]


def _named_dim(name: str) -> str:
    return f'torch.export.Dim("{name}")'


def _string(name: str) -> str:
    return f'"{name}"'


def _auto(_: str) -> str:
    return AUTO


def identifier(text: str, fallback: str = "n") -> str:
    """A name for a dimension out of any text."""
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_")
    return name if name.isidentifier() else f"{fallback}_{name}".rstrip("_")


def short_names() -> Callable[[str], str]:
    """Names for the sizes of one operator, by their texts over dimension names: those of the dimensions in them,
    numbered where another size has that name."""
    given: dict[str, str] = {}

    def name_of(text: str) -> str:
        if text not in given:
            dimensions = sorted(guard_text.variables(text))
            name = "_".join(map(identifier, dimensions)) or identifier(text)
            numbered = (f"{name}{number}" if number > 1 else name for number in itertools.count(1))
            given[text] = next(each for each in numbered if each not in given.values())
        return given[text]

    return name_of


def namer(finding: Finding, prover: Prover) -> Callable[[tuple[int, int]], str]:
    """(size in the example, in the counterexample) → the user's name for such a dimension, or a made-up one."""
    sizes = finding.counterexample.sizes if finding.counterexample is not None else {}
    known: dict[tuple[int, int], str] = {}
    for dim in (*finding.dims, *prover.dims):
        shape = sizes.get(dim.input, ())
        if dim.axis < len(shape):
            known.setdefault((dim.example, shape[dim.axis]), identifier(dim.name))
    return lambda pair: known.get(pair, f"n{pair[0]}")


def verbatim(dynamic_shapes: Any, dynamic_axes: Any, input_names: Sequence[str] | None) -> str | None:
    """The user's declaration word for word, as keywords of ``torch.onnx.export``; None where it can't be written."""
    try:
        if dynamic_shapes is not None:
            text = f"dynamic_shapes={_written(dynamic_shapes)}"
        elif dynamic_axes is not None:
            inputs = {k: v for k, v in dynamic_axes.items() if not input_names or k in input_names}
            text = f"dynamic_axes={_written(inputs)}"
        else:
            return None
    except ValueError:
        return None
    return text + (f", input_names={list(input_names)!r}" if input_names else "")


def _written(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {_written(part)}" for key, part in value.items()) + "}"
    if isinstance(value, tuple):
        return "(" + "".join(f"{_written(part)}, " for part in value).rstrip(" " if len(value) == 1 else ", ") + ")"
    if isinstance(value, list):
        return "[" + ", ".join(_written(part) for part in value) + "]"
    if value is None or isinstance(value, (str, int)):
        return repr(value)
    return _dim(value)


def _dim(value: Any) -> str:
    kind = getattr(getattr(value, "type", None), "name", None)
    if kind is not None:
        bounds = _bounds(value)
        return f"torch.export.Dim.{kind}" + (f"({', '.join(bounds)})" if bounds else "")
    name = getattr(value, "__name__", None)
    if not isinstance(name, str):
        raise ValueError(f"a {type(value).__name__} in the declaration")
    root = getattr(value, "root", None)
    if root is not None:
        return re.sub(rf"\b{re.escape(root.__name__)}\b", _dim(root).replace("\\", r"\\"), name)
    return f"torch.export.Dim({', '.join([repr(name), *_bounds(value)])})"


def _bounds(value: Any) -> list[str]:
    found = []
    for bound, ignored in (("min", (0,)), ("max", ())):
        try:
            number = int(getattr(value, bound))
        except (TypeError, ValueError, OverflowError, AttributeError):
            continue
        if abs(number) < 2**62 and number not in ignored:
            found.append(f"{bound}={number}")
    return found
