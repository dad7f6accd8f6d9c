"""Declarations through real exports: what is warned of, where, and what the report says."""

from __future__ import annotations

import io
import logging
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.torch_bridge.declaring import IMAGE, RIGHT, WRONG, Add, Case, Image, Sum, Valid, ones
from torch import nn
from torch.export import Dim

import guarddiff


class Branch(nn.Module):
    def forward(self, x):
        return torch.cat([x, ones(1, 3)]) if x.shape[0] == 1 else x * 2


def checked(case: Case, **ours: Any) -> tuple[Any, list[warnings.WarningMessage], Exception | None]:
    """The report, our warnings, and what was raised."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        error: Exception | None = None
        try:
            file = None if case.dynamo else io.BytesIO()
            report = guarddiff.check(case.model().eval(), case.args, file, kwargs=dict(case.kwargs) or None,
                                     dynamo=case.dynamo, verbose=False, **case.declared, **ours)  # fmt: skip
        except Exception as raised:
            error = raised
            report = guarddiff.last_report()
    kinds = (guarddiff.DeclarationWarning, guarddiff.SpecializationWarning)
    return report, [one for one in caught if issubclass(one.category, kinds)], error


def test_a_misspelt_key_is_warned_of_at_the_callers_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "guarddiff"):
        report, found, error = checked(WRONG["axes: misspelt input"])
    assert error is None
    assert report.status == "clean"
    assert [one.code for one in report.declarations] == ["unknown-input"]
    (warned,) = found
    assert warned.category is guarddiff.DeclarationWarning
    assert Path(warned.filename) == Path(__file__)
    assert str(warned.message).splitlines() == [
        "dynamic_axes['imges']: 'imges' names no input and no output: the inputs are 'images'",
        "  instead       dynamic_axes['images']",
    ]
    assert str(warned.message) in [record.getMessage() for record in caplog.records]
    for text in (report.to_text(), report.to_markdown(), report.to_html()):
        assert "imges" in text


def test_it_is_warned_of_when_torch_raises_as_well() -> None:
    report, found, error = checked(WRONG["shapes: a range without the example"])
    assert type(error).__name__ == "TorchExportError"
    assert report.error
    assert [one.code for one in report.declarations] == ["example-outside"]
    assert [one.category for one in found] == [guarddiff.DeclarationWarning]


def test_torchs_own_error_goes_first_where_warnings_are_errors() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", guarddiff.DeclarationWarning)
        with pytest.raises(RuntimeError, match="Failed to convert 'dynamic_axes'"):
            guarddiff.check(Image(), IMAGE, dynamic_axes={"a": {0: "n"}, "b": {0: "n"}}, verbose=False)


def test_with_the_torchscript_exporter_the_export_has_ended_where_warnings_are_errors() -> None:
    with guarddiff.watch(), warnings.catch_warnings():
        warnings.simplefilter("error", guarddiff.DeclarationWarning)
        axes = {"imges": {0: "n"}}
        with pytest.raises(guarddiff.DeclarationWarning, match="imges"):
            guarddiff.export(Image(), IMAGE, io.BytesIO(), dynamic_axes=axes, input_names=["images"], dynamo=False)
    report = guarddiff.last_report()
    assert report is not None and [one.code for one in report.declarations] == ["unknown-input"]


def test_a_warning_that_can_not_be_put_into_words_fails_no_export(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> str:
        raise LookupError("no words")

    monkeypatch.setattr("guarddiff.render.text.declaration_text", broken)
    report, found, error = checked(WRONG["axes: misspelt input"])
    assert error is None and report.program is not None
    assert [str(one.message) for one in found] == ["'imges' names no input and no output: the inputs are 'images'"]


@pytest.mark.parametrize(("on_finding", "expected"), [("ignore", 0), ("raise", 1)])
def test_what_is_to_be_done_with_findings(on_finding: str, expected: int) -> None:
    report, found, error = checked(WRONG["axes: one name, two sizes"], on_finding=on_finding, replay="off")
    assert error is None
    assert [one.code for one in report.declarations] == ["shared-name"]
    assert len(found) == expected


def test_what_a_finding_tells_is_not_told_twice() -> None:
    report, found, _ = checked(WRONG["axes: the second input by input_names"])
    assert [(one.stage, one.verdict) for one in report.findings] == [("declare", "confirmed")]
    assert report.declarations == ()
    assert [one.category for one in found] == [guarddiff.SpecializationWarning]


def test_a_negative_axis_that_torch_does_read_is_not_told() -> None:
    report, found, _ = checked(Case(Image, IMAGE, {"dynamic_shapes": {"images": {-1: Dim("w")}}}), replay="off")
    assert report.declarations == ()
    assert found == []


def test_outputs_that_nothing_makes_dynamic() -> None:
    axes = {"x": {0: "n"}, "a": {0: "n", 1: "k"}, "b": {0: "n", 5: "z"}}
    case = Case(Sum, (ones(2, 3),), {"dynamic_axes": axes, "output_names": ["a", "b"]})
    report, found, _ = checked(case, replay="off")
    assert [(one.code, one.where, one.instead) for one in report.declarations] == [
        ("fixed-output", "dynamic_axes['a'][1]", "'a': {0: 'n'}"),
        ("fixed-output", "dynamic_axes['b'][0]", "'b': {}"),
        ("output-axis", "dynamic_axes['b'][5]", "'b': {}"),
    ]
    assert len(found) == 1


def test_a_range_that_begins_below_what_is_admitted() -> None:
    image = (ones(2, 3, 9, 9),)
    report, found, _ = checked(Case(Valid, image, {"dynamic_shapes": {"x": {2: Dim("h", min=2, max=64)}}}))
    (told,) = report.declarations
    assert (told.code, told.instead, told.places) == ("range-exceeds", "Dim('h', min=5, max=64)", ("x[2]",))
    assert found == []
    report, _, error = checked(
        Case(Valid, image, {"dynamic_shapes": {"x": {0: "n", 2: Dim("h", min=1, max=64), 3: "w"}}})
    )
    assert error is not None
    (told,) = report.declarations
    assert (told.code, told.where, told.instead) == (
        "range-exceeds", "dynamic_shapes['x'][2]", "Dim('h', min=5, max=64)")  # fmt: skip


def test_an_example_of_size_1_is_told_where_it_matters_alone() -> None:
    report, found, _ = checked(Case(Branch, (ones(1, 3),), {"dynamic_shapes": {"x": {0: "n"}}}))
    assert [one.code for one in report.declarations] == ["example-one"]
    assert [one.category for one in found] == [guarddiff.SpecializationWarning]
    report, found, error = checked(Case(Add, (ones(1, 3), ones(4, 3)), {"dynamic_shapes": {"x": {0: "n"}, "y": None}}))
    assert error is not None
    assert [one.code for one in report.declarations] == ["example-one"]
    assert found == []
    report, found, _ = checked(RIGHT["axes: a batch of 1"], replay="off")
    assert report.declarations == ()
    assert found == []


def test_the_torchscript_exporter_warns_before_it_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def called(*args: Any, **kwargs: Any) -> None:
        order.append("torch")

    def show(*args: Any, **kwargs: Any) -> None:
        order.append("warned")

    monkeypatch.setattr(torch.onnx, "export", called)
    monkeypatch.setattr(warnings, "showwarning", show)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        guarddiff.export(Image(), IMAGE, io.BytesIO(), dynamo=False, input_names=["images"],
                         dynamic_axes={"images": {-1: "w"}})  # fmt: skip
    assert order == ["warned", "torch"]
    report = guarddiff.last_report()
    assert report is not None
    assert [one.code for one in report.declarations] == ["negative-axis"]


def test_an_export_of_other_code_is_told_as_well() -> None:
    axes = {"x": {0: "n"}, "y": {0: "n"}}
    with warnings.catch_warnings(record=True) as caught, guarddiff.watch() as reports:
        warnings.simplefilter("always")
        torch.onnx.export(Add(), (ones(3, 3), ones(1, 3)), io.BytesIO(), dynamo=False, input_names=["x", "y"],
                          dynamic_axes=axes)  # fmt: skip
    (warned,) = [one for one in caught if one.category is guarddiff.DeclarationWarning]
    assert "x[0]=3 and y[0]=1" in str(warned.message)
    assert [one.code for one in reports[0].declarations] == ["shared-name"]


def test_declarations_are_kept_in_the_file(tmp_path: Path) -> None:
    report, _, _ = checked(WRONG["axes: both ways"], report_to=tmp_path, replay="off")
    loaded = guarddiff.load_report(tmp_path / "guarddiff-report.json")
    assert loaded.declarations == report.declarations
    assert [one.code for one in loaded.declarations] == ["both-ways"]
