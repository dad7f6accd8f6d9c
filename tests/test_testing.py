"""What users' tests call: real exports that pass, fail, or can't be judged; and reports made by hand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

import guarddiff
from guarddiff import api, testing
from guarddiff.core.dims import Declared, Dimension, InputSpec
from guarddiff.core.domain import SizeRange
from guarddiff.core.finding import Finding
from guarddiff.core.origin import Origin
from guarddiff.core.proof import Try
from guarddiff.core.report import Missing, ReportData

pytestmark = pytest.mark.usefixtures("shared_registry", "no_reproductions")

SOURCE = Path(__file__).resolve().parent.parent / "src"
IMAGE = torch.randn(1, 2, 6, 6)


class Pool(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.adaptive_avg_pool2d(x, (2, 3))


class Squeeze(nn.Module):
    """Wrong where the squeezed dimension is not 1, with no guard to tell of it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.squeeze(x, 1)


class Scaled(nn.Module):
    def forward(self, x: torch.Tensor, *, by: torch.Tensor) -> torch.Tensor:
        return x * by


HEIGHT: dict[str, Any] = {"dynamic_shapes": ({2: "h"},)}

# --- assert_exports_dynamic -----------------------------------------------------------------------------


def test_a_model_that_is_right_at_other_sizes_passes() -> None:
    report = testing.assert_exports_dynamic(nn.ReLU(), (IMAGE,), dynamic_shapes={"input": {2: "h", 3: "w"}})
    assert report.status == "clean"
    assert report.program is not None


def test_inputs_by_keyword() -> None:
    report = testing.assert_exports_dynamic(
        Scaled(), (torch.ones(4, 3),), {"by": torch.tensor([2.0])}, dynamic_shapes={"x": {0: "n"}, "by": None}
    )
    assert [dim.name for spec in report.inputs for dim in spec.dims] == ["n"]


def test_the_message_is_the_report() -> None:
    with pytest.raises(AssertionError) as caught:
        testing.assert_exports_dynamic(Pool(), (IMAGE,), **HEIGHT)
    report = guarddiff.last_report()
    assert report is not None
    assert str(caught.value) == report.to_text()
    assert "exactly 6" in str(caught.value)
    assert report.findings[0].verdict == "confirmed"


def test_no_warning_beside_the_failure(recwarn: pytest.WarningsRecorder) -> None:
    with pytest.raises(AssertionError):
        testing.assert_exports_dynamic(Pool(), (IMAGE,), replay="findings", **HEIGHT)
    assert [w for w in recwarn.list if issubclass(w.category, guarddiff.SpecializationWarning)] == []


def test_a_fault_that_leaves_no_guard_fails() -> None:
    with pytest.raises(AssertionError, match="Squeeze: specialized"):
        testing.assert_exports_dynamic(Squeeze(), (torch.randn(4, 1, 3),), dynamic_shapes=({1: Dim.AUTO},))


@pytest.mark.parametrize("allow", ["aten._adaptive_avg_pool2d.default", "aten._adaptive*", ["aten.other", "*pool2d*"]])
def test_allowed_findings_pass(allow: Any) -> None:
    report = testing.assert_exports_dynamic(Pool(), (IMAGE,), allow=allow, replay="findings", **HEIGHT)
    assert report.status == "specialized"


def test_other_findings_are_not_allowed() -> None:
    with pytest.raises(AssertionError):
        testing.assert_exports_dynamic(Pool(), (IMAGE,), allow=("aten.kron", "aten._adaptive"), replay="off", **HEIGHT)


def test_what_is_not_known_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    from guarddiff.torch_bridge import probe

    gone = probe.PrivateName("torch.onnx._internal.exporter._core", "no_such_function", "something")
    monkeypatch.setattr(probe, "NAMES", (*probe.NAMES, gone))
    with pytest.raises(AssertionError, match="ReLU: incomplete"):
        testing.assert_exports_dynamic(nn.ReLU(), (IMAGE,), dynamic_shapes=({2: "h"},), allow="*")


@pytest.mark.parametrize(
    "keywords",
    [{}, {"dynamic_shapes": {}}, {"dynamic_shapes": ()}, {"dynamic_axes": {}}],
    ids=["none", "an empty dict", "an empty tuple", "empty axes"],
)
def test_nothing_declared_is_an_error(keywords: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no dimension is declared dynamic: give dynamic_shapes"):
        testing.assert_exports_dynamic(Pool(), (IMAGE,), replay="off", **keywords)


@pytest.mark.parametrize("shapes", [(None,), ({2: None},), ({},), {"x": {2: Dim.STATIC}}], ids=str)
def test_dynamic_shapes_that_declare_nothing_are_an_error(shapes: Any) -> None:
    with pytest.raises(ValueError, match="no dimension is declared dynamic: what was given declares none"):
        testing.assert_exports_dynamic(Pool(), (IMAGE,), dynamic_shapes=shapes, replay="off")


def test_a_program_brings_its_own_declarations() -> None:
    program = torch.export.export(Pool(), (IMAGE,), dynamic_shapes=({2: Dim.AUTO},))
    with pytest.raises(AssertionError, match="exactly 6"):
        testing.assert_exports_dynamic(program, replay="findings")
    static = torch.export.export(Pool(), (IMAGE,))
    with pytest.raises(ValueError, match="no dimension is declared dynamic"):
        testing.assert_exports_dynamic(static, replay="off")


def test_torchs_errors_are_raised_as_they_are() -> None:
    class Boom(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise RuntimeError("boom")

    with pytest.raises(torch.onnx.OnnxExporterError):
        testing.assert_exports_dynamic(Boom(), (IMAGE,), **HEIGHT)


def test_sizes_and_further_keywords_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    def check_at(*args: Any, **kwargs: Any) -> guarddiff.Report:
        given.update(kwargs, args=args)
        return guarddiff.Report(inputs=(spec("x", (1, "h")),))

    monkeypatch.setattr(api, "check_at", check_at)
    testing.assert_exports_dynamic("model", (1,), sizes={"h": [7]}, opset_version=20, report_to="there", **HEIGHT)
    assert given == {
        "args": ("model", (1,)),
        "kwargs": None,
        "sizes": {"h": [7]},
        "on_finding": "ignore",
        "replay": "full",
        "opset_version": 20,
        "report_to": "there",
        "verbose": False,
        **HEIGHT,
    }


def test_sizes_of_ones_own_are_run() -> None:
    report = testing.assert_exports_dynamic(
        nn.ReLU(),
        (IMAGE,),
        dynamic_shapes={"input": {2: "h", 3: "w"}},
        sizes={"h": [31, 37], "w": [41]},
        replay="findings",
    )
    assert {run.sizes["input"] for run in report.tries} >= {(1, 2, 31, 41), (1, 2, 37, 41)}
    testing.assert_admits(report, {"input": (1, 2, 37, 41)})


def test_sizes_of_ones_own_find_what_no_guard_tells() -> None:
    keywords: dict[str, Any] = {"dynamic_shapes": ({1: "d"},), "replay": "findings"}
    testing.assert_exports_dynamic(Squeeze(), (torch.randn(4, 1, 3),), **keywords)
    with pytest.raises(AssertionError, match="Squeeze: specialized"):
        testing.assert_exports_dynamic(Squeeze(), (torch.randn(4, 1, 3),), sizes={"d": [2]}, **keywords)


def test_sizes_of_ones_own_that_can_not_be_run_fail() -> None:
    with pytest.raises(AssertionError, match="h=40000, w=40000: a value inside the model would have"):
        testing.assert_exports_dynamic(
            nn.ReLU(),
            (IMAGE,),
            dynamic_shapes={"input": {2: "h", 3: "w"}},
            sizes={"h": [40_000], "w": [40_000]},
            replay="findings",
        )


def test_wrong_sizes_stop_before_torch() -> None:
    with pytest.raises(TypeError, match=r"sizes\['h'\] must be a list of sizes"):
        testing.assert_exports_dynamic(None, sizes={"h": 3}, **HEIGHT)  # type: ignore[dict-item]


def test_torch_is_not_imported_before_an_export() -> None:
    code = "import guarddiff.testing, sys; print([m for m in ('torch', 'onnx', 'onnxruntime') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(SOURCE)!r}); {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"


# --- assert_admits --------------------------------------------------------------------------------------


def spec(name: str, shape: tuple[int | str, ...], **declared: SizeRange) -> InputSpec:
    dims = tuple(
        Dimension(name, axis, size, size, 6, Declared(declared.get(size, SizeRange())))
        for axis, size in enumerate(shape)
        if isinstance(size, str)
    )
    return InputSpec(name, "float32", shape, dims)


def finding(spec: InputSpec, *guards: str, verdict: Any = "confirmed") -> Finding:
    return Finding(
        spec.dims, "decompose", "aten.pool", Origin(op="aten.pool"), guards, verdict=verdict, inputs=spec.dims
    )


X = spec("x", (1, "h", "w"), w=SizeRange(2, 9))
CLEAN = ReportData(inputs=(X,))


def test_declared_sizes_of_a_clean_report_are_admitted() -> None:
    testing.assert_admits(CLEAN, {"x": (1, 100, 9)})


@pytest.mark.parametrize(
    ("report", "shape", "why"),
    [
        (CLEAN, (2, 6, 6), "x[0] is fixed at 1"),
        (CLEAN, (1, 6, 10), "x[2] (w) is declared 2–9"),
        (ReportData(inputs=(X,), findings=(finding(X, "h % 2 == 0"),)), (1, 7, 6), "aten.pool: h % 2 == 0"),
        (
            ReportData(inputs=(X,), findings=(finding(X, "h < 7", verdict="inherent"),)),
            (1, 7, 6),
            "aten.pool: h < 7",
        ),
        (
            ReportData(inputs=(X,), tries=(Try({"x": (1, 7, 6)}, "differs", text="a shape"),)),
            (1, 7, 6),
            "it was run, and the exported model is wrong there: a shape",
        ),
        (
            ReportData(inputs=(X,), tries=(Try({"x": (1, 7, 6)}, "rejected", text="too small"),)),
            (1, 7, 6),
            "it was run, and eager PyTorch refuses it: too small",
        ),
    ],
)
def test_not_admitted(report: ReportData, shape: tuple[int, ...], why: str) -> None:
    with pytest.raises(AssertionError) as caught:
        testing.assert_admits(report, {"x": shape})
    assert str(caught.value) == f"not admitted: x={shape}\n- {why}"


@pytest.mark.parametrize(
    ("report", "why"),
    [
        (ReportData(inputs=(X,), findings=(finding(X),)), "aten.pool: a fault that leaves no guard"),
        (ReportData(inputs=(X,), missing=(Missing("guards", "no hook"),)), "guards is missing: no hook"),
        (ReportData(inputs=(X,), error="ValueError: boom"), "the export raised: ValueError: boom"),
        (ReportData(), "the report knows no inputs"),
    ],
)
def test_unknown_is_not_admitted(report: ReportData, why: str) -> None:
    with pytest.raises(AssertionError) as caught:
        testing.assert_admits(report, {"x": (1, 6, 6)})
    assert str(caught.value) == f"it is not known whether this is admitted: x=(1, 6, 6)\n- {why}"


@pytest.mark.parametrize(
    "report",
    [
        ReportData(inputs=(X,), findings=(finding(X, "h % 2 == 0"),)),
        ReportData(inputs=(X,), findings=(finding(X, "h == 5", verdict="harmless"),)),
        ReportData(inputs=(X,), findings=(finding(X),), tries=(Try({"x": (1, 6, 6)}, "agrees"),)),
        ReportData(inputs=(X,), tries=(Try({"x": (1, 6, 6)}, "differs", scope="operator"),)),
        ReportData(inputs=(X,), tries=(Try({"x": (1, 8, 6)}, "differs"),)),
        ReportData(inputs=(X,), tries=(Try({"x": (1, 6, 6)}, "unknown", text="no runtime"),)),
    ],
)
def test_admitted(report: ReportData) -> None:
    testing.assert_admits(report, {"x": (1, 6, 6)})


def test_a_difference_weighs_more_than_an_agreement() -> None:
    tries = (Try({"x": (1, 6, 6)}, "agrees"), Try({"x": (1, 6, 6)}, "differs", text="values"))
    with pytest.raises(AssertionError, match="wrong there: values"):
        testing.assert_admits(ReportData(inputs=(X,), tries=tries), {"x": (1, 6, 6)})


def test_dimensions_of_one_name_must_be_equal() -> None:
    report = ReportData(inputs=(spec("a", ("n",)), spec("b", ("n",))))
    testing.assert_admits(report, {"a": (3,), "b": (3,)})
    with pytest.raises(AssertionError, match="depend on each other do not"):
        testing.assert_admits(report, {"a": (3,), "b": (4,)})


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"y": (1, 6, 6)}, "shapes must name the inputs x, not y"),
        ({}, "shapes must name the inputs x, not none"),
        ({"x": (1, 6)}, "x has 3 dimensions, not 2"),
    ],
)
def test_shapes_that_do_not_fit_are_an_error(shapes: dict[str, tuple[int, ...]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        testing.assert_admits(CLEAN, shapes)


def test_a_real_report_loaded_from_a_file(tmp_path: Path) -> None:
    report = guarddiff.check(
        Pool(), (IMAGE,), replay="off", on_finding="ignore", verbose=False, report_to=tmp_path, **HEIGHT
    )
    loaded = guarddiff.load_report(report.paths[1])
    testing.assert_admits(loaded, {"x": (1, 2, 6, 6)})
    with pytest.raises(AssertionError, match="not admitted"):
        testing.assert_admits(loaded, {"x": (1, 2, 7, 6)})
