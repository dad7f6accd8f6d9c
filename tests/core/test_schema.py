from __future__ import annotations

import copy
import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.render.evidence_fixtures import EVIDENCE
from tests.render.fixtures import SAMPLES, adaptive_pool, hostile

from guarddiff.core import codec, records, schema
from guarddiff.core.errors import ReportFileError
from guarddiff.core.report import ReportData

jsonschema = pytest.importorskip("jsonschema")
DOCS = Path(__file__).parents[2] / "docs"
ALL = {**SAMPLES, **EVIDENCE, "empty": ReportData}


def strict(part: Any) -> Any:
    """The schema with every field required and no other allowed: what a writer has to keep to."""
    if isinstance(part, dict):
        part = {key: strict(value) for key, value in part.items()}
        if part.get("type") == "object" and "properties" in part:
            part = {**part, "required": list(part["properties"]), "additionalProperties": False}
        return part
    return [strict(item) for item in part] if isinstance(part, list) else part


LOOSE = jsonschema.Draft202012Validator(schema.schema())
STRICT = jsonschema.Draft202012Validator(strict(schema.schema()))


def kept(name: str, made: str) -> None:
    path = DOCS / name
    if os.environ.get("GUARDDIFF_UPDATE_SNAPSHOTS") == "1":
        path.write_bytes(made.encode("utf-8"))
    assert path.read_bytes().decode("utf-8") == made, f"docs/{name} is old: run with GUARDDIFF_UPDATE_SNAPSHOTS=1"


def test_the_kept_schema_is_up_to_date() -> None:
    kept("report.schema.json", schema.schema_text())
    jsonschema.Draft202012Validator.check_schema(json.loads(schema.schema_text()))


def test_the_kept_reference_is_up_to_date() -> None:
    kept("json.md", schema.reference())


@pytest.mark.parametrize("name", ALL)
def test_every_report_meets_it(name: str) -> None:
    made = json.loads(codec.dumps(ALL[name]()))
    assert [error.message for error in STRICT.iter_errors(made)] == []
    assert LOOSE.is_valid(made)


def test_together_the_samples_use_every_kind_of_object() -> None:
    used: set[str] = set()

    def walk(value: Any) -> None:
        if dataclasses.is_dataclass(value):
            used.add("ReportData" if isinstance(value, ReportData) else type(value).__name__)
            value = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        for item in value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else ():
            walk(item)

    for make in ALL.values():
        walk(make())
    assert used == {record.name for record in schema.records()}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["status"], "fine"),
        (["version"], 2),
        (["format"], "other"),
        (["findings"], {}),
        (["findings", 0, "stage"], "export"),
        (["findings", 0, "verdict"], None),
        (["findings", 0, "dims", 0, "axis"], "2"),
        (["findings", 0, "dims", 0, "admitted", "intervals", 0], [6]),
        (["findings", 0, "dims", 0, "admitted", "intervals", 0], [6, 6, 6]),
        (["findings", 0, "counterexample", "sizes", "x"], [1.5]),
        (["findings", 0, "guards"], [1]),
        (["environment", "torch"], 2),
        (["stages", 0, "inputs", 0], ["x"]),
        (["inputs", 0, "shape", 0], None),
    ],
)
def test_what_the_reader_refuses_the_schema_refuses(path: list[Any], value: Any) -> None:
    made = json.loads(codec.dumps(adaptive_pool()))
    broken = copy.deepcopy(made)
    holder = broken
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    assert LOOSE.is_valid(made)
    assert not LOOSE.is_valid(broken)
    with pytest.raises(ReportFileError):
        codec.from_dict(broken)


def test_what_the_reader_can_do_without_is_not_required() -> None:
    least = {"format": codec.FORMAT, "version": codec.VERSION, "status": "incomplete", "of a later release": 1}
    assert LOOSE.is_valid(least)
    assert codec.from_dict(least) == ReportData("incomplete")
    del least["status"]
    assert not LOOSE.is_valid(least)
    for name in ("op", "dims", "stage", "origin"):
        made = json.loads(codec.dumps(adaptive_pool()))
        del made["findings"][0][name]
        assert not LOOSE.is_valid(made)
        with pytest.raises(ReportFileError):
            codec.from_dict(made)


def test_every_object_and_field_is_described() -> None:
    for record in schema.records():
        assert record.text, record.name
        assert [f.name for f in record.fields if not f.text] == [], record.name
        assert not any(word in f"{record.text} {[f.text for f in record.fields]}" for word in ("None", "False", "``"))


def test_no_description_of_ours_stands_beside_one_in_the_source() -> None:
    by_name = {cls.__name__: cls for cls in schema._classes(ReportData)}
    for key in schema._FIELDS:
        owner, _, name = key.partition(".")
        assert name in records.saved_hints(by_name[owner]), key
        assert name not in schema._documented(by_name[owner])[1], key


def test_what_the_reference_says_of_a_field() -> None:
    page = schema.reference()
    assert '| `verdict` | `"confirmed"`, `"harmless"`, `"inherent"`, `"unconfirmed"` | ' in page
    assert "| `dims` | list of [Dimension](#dimension) |" in page
    assert (
        "| `error` | text or null | The exception of an export that raised, as text; null otherwise. | `null` |" in page
    )
    for record in schema.records():
        for field in record.fields:
            assert f"| `{field.name}` | " in page


def test_the_schema_says_nothing_of_the_program() -> None:
    assert "program" not in schema.schema()["properties"]
    report = hostile()
    report.program = object()
    assert STRICT.is_valid(json.loads(codec.dumps(report)))
