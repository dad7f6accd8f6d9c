from __future__ import annotations

import dataclasses
import json
import types
import typing
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.render.fixtures import SAMPLES, adaptive_pool, static_dimension

from guarddiff.core import codec
from guarddiff.core.errors import ReportFileError
from guarddiff.core.report import ReportData

TEXT = st.text(max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda part: st.lists(part, max_size=3) | st.dictionaries(TEXT, part, max_size=3),
    max_leaves=8,
)


def values(hint: Any) -> st.SearchStrategy[Any]:
    """Any value of the type ``hint``: written apart from the codec, which it checks."""
    origin, args = get_origin(hint), get_args(hint)
    if dataclasses.is_dataclass(hint):
        return records(hint)
    if origin is tuple and args[-1] is Ellipsis:
        return st.lists(values(args[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*map(values, args))
    if origin is dict:
        return st.dictionaries(values(args[0]), values(args[1]), max_size=2)
    if origin is typing.Literal:
        return st.sampled_from(args)
    if origin in (typing.Union, types.UnionType):
        return st.one_of(*map(values, args))
    return {str: TEXT, int: st.integers(-5, 10**20), bool: st.booleans(), type(None): st.none()}[hint]


def records(cls: Any) -> st.SearchStrategy[Any]:
    hints = get_type_hints(cls)
    fields = {f.name: values(hints[f.name]) for f in dataclasses.fields(cls) if f.name != "program"}
    return st.builds(cls, **fields)


def saved() -> dict[str, Any]:
    mapping: dict[str, Any] = json.loads(codec.dumps(adaptive_pool()))
    return mapping


def refused(text: str) -> str:
    """The message with which ``text`` is refused."""
    with pytest.raises(ReportFileError) as caught:
        codec.loads(text)
    message = str(caught.value)
    assert message
    assert len(message) < 300
    assert message.isprintable()
    return message


@pytest.mark.parametrize("name", SAMPLES)
def test_round_trip_of_samples(name: str) -> None:
    report = SAMPLES[name]()
    again = codec.loads(codec.dumps(report))
    assert again == report
    assert codec.to_dict(again) == codec.to_dict(report)  # fields that equality leaves out, too


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(records(ReportData))
def test_round_trip_of_any_report(report: ReportData) -> None:
    text = codec.dumps(report)
    again = codec.loads(text)
    assert again == report
    assert codec.dumps(again) == text
    assert codec.from_dict(codec.to_dict(report)) == report


def test_every_field_but_the_program_is_saved() -> None:
    names = {field.name for field in dataclasses.fields(ReportData)} - {"program"}
    assert set(codec.to_dict(ReportData(program=object()))) == names | {"format", "version"}
    assert codec.loads(codec.dumps(ReportData(program=object()))).program is None


def test_a_guards_origin_is_kept() -> None:
    again = codec.loads(codec.dumps(adaptive_pool()))
    assert again.stages[0 + 1].guards[0].origin == adaptive_pool().findings[0].origin


def test_the_text_is_the_same_each_time() -> None:
    text = codec.dumps(adaptive_pool())
    assert text == codec.dumps(adaptive_pool())
    assert text.isascii()
    assert text.startswith('{\n "format": "guarddiff-report",\n "version": 1,\n "changes": [')
    assert list(json.loads(text)["findings"][0]) == sorted(json.loads(text)["findings"][0])


def test_inputs_keep_their_order() -> None:
    proof = codec.loads(codec.dumps(static_dimension())).findings[0].counterexample
    assert proof is not None
    assert list(proof.sizes) == ["x", "mask"]


def test_numpy_sizes_are_saved_as_numbers() -> None:
    report = adaptive_pool()
    finding = report.findings[0]
    assert finding.counterexample is not None
    shape: Any = tuple(np.array([1, 2, 7, 9]))
    proof = dataclasses.replace(finding.counterexample, sizes={"x": shape})
    report = dataclasses.replace(report, findings=(dataclasses.replace(finding, counterexample=proof),))
    again = codec.loads(codec.dumps(report)).findings[0].counterexample
    assert again is not None
    assert type(again.sizes["x"][0]) is int
    assert again.sizes == {"x": (1, 2, 7, 9)}


def test_what_is_no_record_is_not_saved() -> None:
    with pytest.raises(TypeError):
        codec.dumps(ReportData(notes=(object(),)))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="JSON"):
        codec.dumps(ReportData(notes=(float("nan"),)))  # type: ignore[arg-type]


def test_lone_surrogates_survive() -> None:
    report = ReportData(model="a\udc80b")
    assert codec.loads(codec.dumps(report)).model == "a\udc80b"


def test_what_a_newer_minor_adds_is_ignored() -> None:
    mapping = saved()
    mapping["later"] = {"deep": [1, None]}
    mapping["findings"][0]["later"] = 3
    mapping["findings"][0]["origin"]["later"] = "x"
    assert codec.from_dict(mapping) == adaptive_pool()


def test_what_an_older_minor_lacks_takes_its_default() -> None:
    mapping = saved()
    del mapping["notes"]
    del mapping["findings"][0]["repair"]
    assert codec.from_dict(mapping) == adaptive_pool()


@pytest.mark.parametrize("version", [2, 17, 10**50])
def test_a_newer_version_says_so(version: int) -> None:
    message = refused(json.dumps({**saved(), "version": version}))
    assert "newer guarddiff" in message
    assert "upgrade" in message


@pytest.mark.parametrize("version", [None, "1", 1.0, True, 0, -3, [1]])
def test_other_versions_are_refused(version: object) -> None:
    assert "version" in refused(json.dumps({**saved(), "version": version}))


@pytest.mark.parametrize("text", ["{}", "[]", "null", "3", '"x"', '{"format": "other", "version": 1}', '[["a"]]'])
def test_foreign_json_is_refused(text: str) -> None:
    assert "not a guarddiff report" in refused(text)


@pytest.mark.parametrize("text", ["", " ", "{", "nonsense", "<html>", '{"a": 1} x', "{'a': 1}", "\x00", "\ufeff{}"])
def test_what_is_no_json_is_refused(text: str) -> None:
    assert "not valid JSON" in refused(text)


def test_torn_at_any_place() -> None:
    text = codec.dumps(adaptive_pool())
    for end in range(0, len(text) - 2, 97):
        assert "line" in refused(text[:end])


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_words_that_are_no_json_numbers(word: str) -> None:
    text = codec.dumps(adaptive_pool()).replace('"version": 1', f'"version": {word}')
    assert word in refused(text)


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a":' * 200_000, "[" * 200_000 + "]" * 200_000])
def test_deep_nesting(text: str) -> None:
    assert "nested too deeply" in refused(text)


def test_deep_nesting_where_a_value_is_expected() -> None:
    deep: Any = "x"
    for _ in range(300):
        deep = [deep]
    assert "report.model" in refused(json.dumps({**saved(), "model": deep}))


def test_a_number_of_many_digits() -> None:
    text = codec.dumps(adaptive_pool()).replace('"example": 6', f'"example": {"9" * 10_000}')
    assert "number" in refused(text)


def test_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "MAX_SIZE", 100)
    assert "limit" in refused(codec.dumps(adaptive_pool()))


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (["status"], "fine", "report.status is 'fine', expected one of clean, specialized, incomplete"),
        (["status"], ["clean"], "report.status is a list of 1"),
        (["findings"], {}, "report.findings is an object, expected a list"),
        (["findings"], "x", "report.findings"),
        (["findings", 0], None, "report.findings[0] is None, expected an object"),
        (["findings", 0, "stage"], "declar\x1be", "report.findings[0].stage is 'declar\\x1be'"),
        (["findings", 0, "dims", 1, "axis"], "3", "report.findings[0].dims[1].axis is '3'"),
        (["findings", 0, "dims", 1, "axis"], True, "expected a whole number"),
        (["findings", 0, "dims", 1, "axis"], 3.0, "expected a whole number"),
        (["findings", 0, "dims", 0, "declared", "sizes"], 3, "declared.sizes is 3"),
        (["findings", 0, "origin", "branch"], 1, "expected true or false"),
        (["findings", 0, "origin", "source", "line"], None, "source.line is None"),
        (["findings", 0, "counterexample", "sizes"], [1], "sizes is a list of 1, expected an object"),
        (["findings", 0, "counterexample", "sizes", "x"], [1, "2"], "sizes['x'][1] is '2'"),
        (["inputs", 0, "shape", 0], None, "inputs[0].shape[0] is None"),
        (["stages", 0, "inputs", 0], ["x"], "stages[0].inputs[0] is a list of 1, expected a list of 2"),
        (["environment", "torch"], 2, "environment['torch'] is 2"),
        (["model"], "x" * 10, None),
        (["error"], 7, "report.error is 7, expected a text"),
        (["changes", 0, "finding"], 10**60, None),
        (["changes", 0, "finding"], "x" * 10**6, "changes[0].finding"),
    ],
)
def test_wrong_types_name_the_place(path: list[str | int], value: object, said: str | None) -> None:
    mapping = saved()
    place: Any = mapping
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    text = json.dumps(mapping)
    if said is None:
        codec.loads(text)
    else:
        assert said in refused(text)


def test_a_report_without_a_status_is_none() -> None:
    assert "report has no 'status'" in refused('{"format": "guarddiff-report", "version": 1}')
    mapping = saved()
    del mapping["status"]
    assert "report has no 'status'" in refused(json.dumps(mapping))


def test_a_missing_field_is_named() -> None:
    mapping = saved()
    del mapping["findings"][0]["stage"]
    assert "report.findings[0] has no 'stage'" in refused(json.dumps(mapping))


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_no_other_error_whatever_is_put_in(data: st.DataObject) -> None:
    mapping = saved()
    place: Any = mapping
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            break
        key = data.draw(st.sampled_from(keys))
        inner = place[key]
        if not isinstance(inner, (dict, list)) or data.draw(st.booleans()):
            place[key] = data.draw(JSON)
            break
        place = inner
    try:
        codec.from_dict(mapping)
    except ReportFileError as err:
        assert str(err).isprintable()


def test_from_dict_of_something_else() -> None:
    wrong: Any = [1]
    with pytest.raises(ReportFileError, match="not a guarddiff report"):
        codec.from_dict(wrong)
