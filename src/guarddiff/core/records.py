"""Records as JSON-ready data and back: strict, and driven by the records' own type hints.

Nothing in the data names a class or is evaluated. The hints of a record's fields may be records, tuples, dicts with
text keys, literals, unions, text, numbers, and ``Any`` for JSON that is kept as it is.
"""

from __future__ import annotations

import dataclasses
import json
import operator
import types
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

NOT_SAVED = {"saved": False}
"""``metadata`` of a field that is left out."""
REQUIRED = {"required": True}
"""``metadata`` of a field that has to be in the data, though it has a default in Python."""


class JsonError(ValueError):
    """The text is no JSON that is read here."""


class RecordError(ValueError):
    """The data holds no such record: one line says at which place, and what was expected there."""


def parse(text: str) -> Any:
    """What the JSON ``text`` holds. Raises ``JsonError``, also for NaN, numbers too long to read and deep nesting."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise JsonError("not valid JSON: nested too deeply") from None
    except json.JSONDecodeError as err:
        where = f"line {err.lineno}, column {err.colno}"
        raise JsonError(f"not valid JSON, perhaps torn: {err.msg} at {where}") from None
    except JsonError:
        raise
    except ValueError:
        raise JsonError("not valid JSON: it holds a number that is too long to read") from None


def _refuse_constant(name: str) -> None:
    raise JsonError(f"not valid JSON: {name} is no JSON number")


def unheaded(mapping: Any, format: str, newest: int, word: str) -> str:
    """Why ``mapping`` is no record of this ``format`` in a version up to the ``newest``, which ``word`` names; empty
    where it is one."""
    if not isinstance(mapping, Mapping) or mapping.get("format") != format:
        return f'not a guarddiff {word}: it has no "format": "{format}"'
    version = mapping.get("version")
    if type(version) is not int or version < 1:
        return f"not a guarddiff {word}: its version is {shown(version)}"
    if version > newest:
        return (
            f"the {word} has version {shown(version)} and comes from a newer guarddiff; this one reads up to version "
            f"{newest}: upgrade guarddiff to read it"
        )
    return ""


def encode(record: Any, cls: type | None = None) -> dict[str, Any]:
    """The fields of a record, sorted by name; those of ``cls``, where the record is of a class made from it."""
    names = saved_hints(cls or type(record))
    return {name: _encode(getattr(record, name)) for name in sorted(names)}


def _encode(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, float):
        return float(value)
    if dataclasses.is_dataclass(value):
        return encode(value)
    if isinstance(value, Mapping):
        return {str(key): _encode(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_encode(item) for item in value]
    return operator.index(value)


@cache
def saved_hints(cls: type) -> dict[str, Any]:
    """Names and types of the fields that are saved."""
    hints = get_type_hints(cls)
    fields: Any = dataclasses.fields(cls)
    return {f.name: hints[f.name] for f in fields if f.init and f.metadata.get("saved", True)}


def decode(cls: Any, value: Any, path: str) -> Any:
    """The record of class ``cls`` that ``value`` holds; ``path`` names it in the ``RecordError`` of one that is
    wrong."""
    return _decode(cls, value, path)


def _decode(hint: Any, value: Any, path: str) -> Any:
    """``value`` as the type ``hint``; ``path`` names the place in an error."""
    origin = get_origin(hint)
    if hint is Any:
        return value
    if dataclasses.is_dataclass(hint):
        return _decode_record(hint, value, path)
    if origin is tuple:
        return _decode_tuple(get_args(hint), value, path)
    if origin is dict:
        _require(isinstance(value, Mapping), path, "an object", value)
        item = get_args(hint)[1]
        return {key: _decode(item, part, f"{path}[{shown(key)}]") for key, part in value.items()}
    if origin is Literal:
        allowed = get_args(hint)
        _require(value in allowed, path, "one of " + ", ".join(map(str, allowed)), value)
        return value
    if origin in (Union, types.UnionType):
        return _decode_union(get_args(hint), value, path)
    if hint is float and type(value) is int:
        return float(value)
    _require(type(value) is hint, path, _named(hint), value)
    return value


def _decode_record(cls: Any, value: Any, path: str) -> Any:
    """An instance of ``cls``: unknown keys are ignored, a missing one takes the field's default."""
    _require(isinstance(value, Mapping), path, "an object", value)
    hints = saved_hints(cls)
    required = {f.name for f in dataclasses.fields(cls) if is_required(f)}
    for name in hints:
        if name in required and name not in value:
            raise RecordError(f"{path} has no {name!r}")
    found = {n: _decode(hint, value[n], f"{path}.{n}") for n, hint in hints.items() if n in value}
    try:
        return cls(**found)
    except (TypeError, ValueError) as err:
        raise RecordError(f"{path}: {shown(str(err))}") from None


def is_required(field: dataclasses.Field[Any]) -> bool:
    """Whether the data must have the field."""
    without = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    return without or bool(field.metadata.get("required"))


def _decode_tuple(parts: tuple[Any, ...], value: Any, path: str) -> tuple[Any, ...]:
    _require(isinstance(value, (list, tuple)), path, "a list", value)
    if len(parts) == 2 and parts[1] is Ellipsis:
        return tuple(_decode(parts[0], item, f"{path}[{i}]") for i, item in enumerate(value))
    _require(len(value) == len(parts), path, f"a list of {len(parts)}", value)
    pairs = enumerate(zip(parts, value, strict=True))
    return tuple(_decode(part, item, f"{path}[{i}]") for i, (part, item) in pairs)


def _decode_union(arms: tuple[Any, ...], value: Any, path: str) -> Any:
    if value is None and type(None) in arms:
        return None
    others = [arm for arm in arms if arm is not type(None)]
    if len(others) == 1:
        return _decode(others[0], value, path)
    for arm in others:
        try:
            return _decode(arm, value, path)
        except RecordError:
            continue
    raise _wrong(path, " or ".join(map(_named, arms)), value)


def _require(met: bool, path: str, expected: str, value: Any) -> None:
    if not met:
        raise _wrong(path, expected, value)


def _wrong(path: str, expected: str, value: Any) -> RecordError:
    return RecordError(f"{path} is {shown(value)}, expected {expected}")


def _named(hint: Any) -> str:
    words = {str: "a text", int: "a whole number", bool: "true or false", float: "a number"}
    return "null" if hint is type(None) else words.get(hint, "another type")


def shown(value: Any) -> str:
    """``value`` on one short line: containers by their kind alone, text and numbers cut."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, (list, tuple)):
        return f"a list of {len(value)}"
    if isinstance(value, int) and abs(value) >= 10**40:
        return "a very long number"
    text = ascii(value[:60]) if isinstance(value, str) else ascii(value)
    return text if len(text) <= 80 else text[:79] + "~"
