"""The JSON of a report described: a JSON Schema and a reference page, read off the records' own types and words."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from guarddiff.core import codec
from guarddiff.core.records import is_required, saved_hints
from guarddiff.core.report import ReportData

TITLE = "guarddiff report"
_SIMPLE = {str: "string", int: "integer", bool: "boolean", float: "number", type(None): "null"}
_IN_JSON = {"None": "null", "True": "true", "False": "false"}
_SHOWN = {str: "text", int: "whole number", bool: "true or false", float: "number", type(None): "null"}

# Fields whose meaning their record tells in a sentence, not in a list of attributes.
_FIELDS = {
    "Change.stage": "The stage that added it.",
    "Change.guards": "What was added, by one origin.",
    "Change.effect": "What it does to the admitted sizes; see above.",
    "Change.finding": "Index into `findings`, from 0; null where it is part of none.",
    "Missing.part": "What is not there.",
    "Missing.why": "Why not.",
    "OnnxNode.name": "Name of the node in the ONNX model.",
    "OnnxNode.op_type": "ONNX operator.",
    "OnnxNode.where": "Attribute or initializer that holds the size, with its value.",
    "Rung.name": "Which program.",
    "Rung.state": "How it compares with eager PyTorch.",
    "Rung.text": "What it gave, or why it was skipped.",
    "GraphLine.text": "The node as text.",
    "GraphLine.marked": "Whether the finding is about this node.",
    "Decomposition.before": "Nodes of the captured program.",
    "Decomposition.after": "The nodes that they became.",
    "Declared.sizes": "The sizes that were asked for.",
    "Declared.text": "The user's own wording.",
    "InputSpec.name": "Name of the ONNX input.",
    "InputSpec.dtype": "Its element type, e.g. `float32`.",
    "InputSpec.shape": "Per axis the size, or the text of a symbolic one.",
    "InputSpec.dims": "Its axes, as far as they are known.",
    "OutputSpec.name": "Name of the ONNX output.",
    "OutputSpec.dtype": "Its element type.",
    "OutputSpec.shape": "Per axis the size, the text of a symbolic one, or null where it is unknown.",
    "Admitted.text": "In words: `exactly 6`, `224–255`, `multiples of 7`, `equal to y[0]`.",
    "Admitted.intervals": (
        "First and last size of each stretch, sorted; a last of null has no end. Null: unknown, or a relation with "
        "other dimensions."
    ),
    "Admitted.known": "Whether the sizes could be worked out.",
    "Admitted.whole": "Whether nothing that was declared is excluded.",
    "Admitted.period": "Beyond `horizon` the sizes repeat with this period, up to `last`; null: they do not.",
    "Admitted.horizon": "The size up to which all were looked at; null: none was.",
    "Admitted.last": "Where sizes that repeat end, beyond `horizon`; null: they don't repeat, or go on without end.",
    "SourceLine.file": "Relative to the working folder, or to the folder of the installed package.",
    "SourceLine.line": "Line number, from 1.",
    "SourceLine.function": "Function that it is in; empty where that is not known.",
    "SourceLine.text": "The stripped source text; empty where it could not be read.",
    "Snapshot.stage": "The stage at whose boundary it was taken.",
    "Snapshot.when": "Which boundary.",
    "Snapshot.guards": "Every condition that holds there.",
    "Snapshot.inputs": "Pairs of an input's name and its shape.",
    "Snapshot.outputs": "The outputs there.",
    "Snapshot.state_read": "Whether all of the state was read; false: only shapes were.",
    "SizeRange.lower": "Smallest size.",
    "SizeRange.upper": "Largest size; null: no upper bound.",
}


@dataclass(frozen=True)
class Field:
    """One field of a record: its type, what it means, and its default as JSON (None: it has to be there)."""

    name: str
    hint: Any
    text: str
    default: str | None


@dataclass(frozen=True)
class Record:
    """One kind of object in a report."""

    name: str
    text: str
    fields: tuple[Field, ...]


def records() -> tuple[Record, ...]:
    """Every kind of object, the report first, then in the order in which they are met."""
    return tuple(_record(cls) for cls in _classes(ReportData))


def schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a report.

    Fields that a reader can do without are not required, and unknown ones are allowed, as ``codec`` reads them.
    """
    report, *others = records()
    properties = {
        "format": {"const": codec.FORMAT, "description": "Tells that this is a report."},
        "version": {"const": codec.VERSION, "description": "Version of the format."},
    }
    own = _object(report)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": TITLE,
        **own,
        "required": ["format", "version", *own.get("required", [])],
        "properties": {**properties, **own["properties"]},
        "$defs": {record.name: _object(record) for record in sorted(others, key=lambda r: r.name)},
    }


def schema_text() -> str:
    """``schema`` as it is kept in ``docs/report.schema.json``."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def reference() -> str:
    """The page ``docs/json.md``: every object and field."""
    parts = [_INTRODUCTION.format(format=codec.FORMAT, version=codec.VERSION).rstrip()]
    for record in records():
        title = "The report" if record.name == "ReportData" else record.name
        lines = ["| field | type | meaning | default |", "| --- | --- | --- | --- |"]
        lines += [
            f"| `{f.name}` | {_shown(f.hint)} | {_cell(f.text)} | {f'`{f.default}`' if f.default else 'required'} |"
            for f in record.fields
        ]
        parts += [f"## {title}", record.text, "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


_INTRODUCTION = """\
# The JSON of a report

`report.to_json()` and `report.write(folder, ["json"])` write it, `guarddiff.load_report(path)` reads it without
importing torch. The schema is [report.schema.json](report.schema.json) (JSON Schema, draft 2020-12). This page and
the schema are made from the source: `GUARDDIFF_UPDATE_SNAPSHOTS=1 pytest tests/core/test_schema.py` writes both.

- The text is ASCII, fields are sorted by name, and the same report gives the same text.
- `format` is `"{format}"` and `version` is {version} in every file. A reader refuses newer versions.
- A reader ignores fields that it does not know, and takes the default of a field that is not there: files of older
  releases can be read. A report without a `status`, which no release has written, is refused.
- Sizes are whole numbers. Null means that something is not known or not there, never that it is fine.
- Text from a model (names, source lines, messages) is in it as it was: escape it for where you show it.
- No field holds the value of a tensor, an environment variable, a user name or a home folder.
"""


def _classes(first: Any) -> list[Any]:
    """``first`` and every record below it, in the order of the fields."""
    found = [first]
    for cls in found:
        hints = get_type_hints(cls)
        for name in saved_hints(cls):
            found += [c for c in _inside(hints[name]) if c not in found]
    return found


def _inside(hint: Any) -> Iterator[Any]:
    if dataclasses.is_dataclass(hint):
        yield hint
    for part in get_args(hint):
        if not isinstance(part, str):
            yield from _inside(part)


def _record(cls: Any) -> Record:
    """What the record's docstring and types say of it."""
    text, listed = _documented(cls)
    hints = get_type_hints(cls)
    by_name = {f.name: f for f in dataclasses.fields(cls)}
    fields = [
        Field(name, hints[name], listed.get(name) or _FIELDS.get(f"{cls.__name__}.{name}", ""), _default(by_name[name]))
        for name in sorted(saved_hints(cls))
    ]
    return Record(cls.__name__, text, tuple(fields))


def _documented(cls: Any) -> tuple[str, dict[str, str]]:
    """The docstring without its list of attributes, and that list."""
    text, _, listed = (inspect.getdoc(cls) or "").partition("\nAttributes:\n")
    entries = re.findall(r"^ {4}(\w+): (.*(?:\n {8,}.*)*)", listed, re.MULTILINE)
    return _paragraphs(text), {name: _one_line(entry) for name, entry in entries}


def _paragraphs(text: str) -> str:
    return "\n\n".join(_one_line(part) for part in re.split(r"\n\s*\n", text.strip()))


def _one_line(text: str) -> str:
    """``text`` on one line, in Markdown, with the names that values have in JSON."""
    shown = re.sub(r"\b(?:None|True|False)\b", lambda m: _IN_JSON[m[0]], text.replace("``", "`"))
    return " ".join(shown.split())


def _default(field: Any) -> str | None:
    if is_required(field):
        return None
    if field.default is not dataclasses.MISSING:
        return json.dumps(field.default)
    return json.dumps(field.default_factory())


def _object(record: Record) -> dict[str, Any]:
    required = [f.name for f in record.fields if f.default is None]
    found: dict[str, Any] = {"type": "object", "description": record.text}
    if required:
        found["required"] = required
    found["properties"] = {f.name: {**_type(f.hint), "description": f.text} for f in record.fields}
    return found


def _type(hint: Any) -> dict[str, Any]:
    """The schema of a type, as ``codec`` encodes it."""
    origin, args = get_origin(hint), get_args(hint)
    if dataclasses.is_dataclass(hint):
        return {"$ref": f"#/$defs/{getattr(hint, '__name__', '')}"}
    if origin is Literal:
        return {"enum": list(args)}
    if origin is tuple and args[-1] is Ellipsis:
        return {"type": "array", "items": _type(args[0])}
    if origin is tuple:
        return {"type": "array", "prefixItems": [_type(a) for a in args], "items": False, "minItems": len(args)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _type(args[1])}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_type(arg) for arg in args]}
    return {"type": _SIMPLE[hint]}


def _shown(hint: Any) -> str:
    """A type for the reference page."""
    origin, args = get_origin(hint), get_args(hint)
    if dataclasses.is_dataclass(hint):
        name = getattr(hint, "__name__", "")
        return f"[{name}](#{name.lower()})"
    if origin is Literal:
        return ", ".join(f'`"{arg}"`' for arg in args)
    if origin is tuple and args[-1] is Ellipsis:
        return f"list of ({_shown(args[0])})" if len(get_args(args[0])) > 1 else f"list of {_shown(args[0])}"
    if origin is tuple:
        return f"[{', '.join(_shown(arg) for arg in args)}]"
    if origin is dict:
        return f"object of {_shown(args[1])}"
    if origin in (Union, types.UnionType):
        return " or ".join(_shown(arg) for arg in args)
    return _SHOWN[hint]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
