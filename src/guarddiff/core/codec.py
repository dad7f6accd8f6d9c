"""Reports as JSON: versioned, strict, and the same text for the same report.

The explicit types of the records say how each field is read. Nothing in a file names a class or is evaluated.
"""

from __future__ import annotations

import dataclasses
import json
import operator
import types
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from guarddiff.core.errors import ReportFileError
from guarddiff.core.report import ReportData

FORMAT = "guarddiff-report"
VERSION = 1
MAX_SIZE = 64 * 1024 * 1024
"""Longest text that is read, in characters; a file may have as many bytes."""

_NOT_SAVED = {(ReportData, "program")}


def to_dict(report: ReportData) -> dict[str, Any]:
    """The report as JSON-ready data: every field but ``program``, with the format's name and version."""
    return {"format": FORMAT, "version": VERSION, **_encode_record(report)}


def from_dict(mapping: Mapping[str, Any]) -> ReportData:
    """The report that ``mapping`` holds; raises ``ReportFileError`` where it holds none that can be read."""
    if not isinstance(mapping, Mapping) or mapping.get("format") != FORMAT:
        raise ReportFileError(f'not a guarddiff report: it has no "format": "{FORMAT}"')
    version = mapping.get("version")
    if type(version) is not int or version < 1:
        raise ReportFileError(f"not a guarddiff report: its version is {_shown(version)}")
    if version > VERSION:
        raise ReportFileError(
            f"the report has version {_shown(version)} and comes from a newer guarddiff; "
            f"this one reads up to version {VERSION}: upgrade guarddiff to read it"
        )
    report = _decode(ReportData, mapping, "report")
    if not isinstance(report, ReportData):
        raise ReportFileError("not a guarddiff report")
    return report


def dumps(report: ReportData) -> str:
    """The report as JSON text in ASCII, ending in a newline.

    Fields are sorted by name; sizes of inputs keep the order of the inputs.
    """
    return json.dumps(to_dict(report), indent=1, allow_nan=False, ensure_ascii=True) + "\n"


def loads(text: str) -> ReportData:
    """The report that ``text`` holds; raises ``ReportFileError`` with one line that says what is wrong."""
    if len(text) > MAX_SIZE:
        raise ReportFileError(f"not read: longer than the limit of {MAX_SIZE // 1024**2} MB for a report")
    try:
        mapping = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ReportFileError("not a guarddiff report: nested too deeply") from None
    except json.JSONDecodeError as err:
        where = f"line {err.lineno}, column {err.colno}"
        raise ReportFileError(f"not valid JSON, perhaps torn: {err.msg} at {where}") from None
    except ReportFileError:
        raise
    except ValueError:
        raise ReportFileError("not valid JSON: it holds a number that is too long to read") from None
    return from_dict(mapping)


def _refuse_constant(name: str) -> None:
    raise ReportFileError(f"not valid JSON: {name} is no JSON number")


def _encode_record(record: Any) -> dict[str, Any]:
    names = _saved_hints(_record_class(type(record)))
    return {name: _encode(getattr(record, name)) for name in sorted(names)}


def _encode(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, float):
        return float(value)
    if dataclasses.is_dataclass(value):
        return _encode_record(value)
    if isinstance(value, Mapping):
        return {str(key): _encode(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_encode(item) for item in value]
    return operator.index(value)


def _record_class(cls: type) -> type:
    """``cls``, or ``ReportData`` for a class made from it: what such a class adds is not saved."""
    return ReportData if issubclass(cls, ReportData) else cls


@cache
def _saved_hints(cls: type) -> dict[str, Any]:
    hints = get_type_hints(cls)
    fields: Any = dataclasses.fields(cls)
    return {f.name: hints[f.name] for f in fields if f.init and (cls, f.name) not in _NOT_SAVED}


def _decode(hint: Any, value: Any, path: str) -> Any:
    """``value`` as the type ``hint``; ``path`` names the place in an error."""
    origin = get_origin(hint)
    if dataclasses.is_dataclass(hint):
        return _decode_record(hint, value, path)
    if origin is tuple:
        return _decode_tuple(get_args(hint), value, path)
    if origin is dict:
        _require(isinstance(value, Mapping), path, "an object", value)
        item = get_args(hint)[1]
        return {key: _decode(item, part, f"{path}[{_shown(key)}]") for key, part in value.items()}
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
    hints = _saved_hints(cls)
    required = {
        f.name
        for f in dataclasses.fields(cls)
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    }
    for name in hints:
        if name in required and name not in value:
            raise ReportFileError(f"not a readable report: {path} has no {name!r}")
    found = {n: _decode(hint, value[n], f"{path}.{n}") for n, hint in hints.items() if n in value}
    try:
        return cls(**found)
    except (TypeError, ValueError) as err:
        raise ReportFileError(f"not a readable report: {path}: {_shown(str(err))}") from None


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
        except ReportFileError:
            continue
    raise _wrong(path, " or ".join(map(_named, arms)), value)


def _require(met: bool, path: str, expected: str, value: Any) -> None:
    if not met:
        raise _wrong(path, expected, value)


def _wrong(path: str, expected: str, value: Any) -> ReportFileError:
    return ReportFileError(f"not a readable report: {path} is {_shown(value)}, expected {expected}")


def _named(hint: Any) -> str:
    words = {str: "a text", int: "a whole number", bool: "true or false", float: "a number"}
    return "null" if hint is type(None) else words.get(hint, "another type")


def _shown(value: Any) -> str:
    """``value`` on one short line: containers by their kind alone, text and numbers cut."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, (list, tuple)):
        return f"a list of {len(value)}"
    if isinstance(value, int) and abs(value) >= 10**40:
        return "a very long number"
    text = ascii(value[:60]) if isinstance(value, str) else ascii(value)
    return text if len(text) <= 80 else text[:79] + "~"
