"""The public calls on real exports: what is found, what is said, and what must stay as it was."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import io
import logging
import random
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim
from torch.onnx import export as old_reference

import guarddiff
from guarddiff import api, pipeline
from guarddiff.analysis import attribute, constants, notes
from guarddiff.core.finding import Finding
from guarddiff.render import text
from guarddiff.replay import prove
from guarddiff.torch_bridge import evidence, hooks, origin, probe, record

pytestmark = pytest.mark.usefixtures("shared_registry", "no_reproductions")

HERE = Path(__file__)
AUTO = Dim.AUTO


def auto(*axes: int) -> dict[int, Any]:
    return dict.fromkeys(axes, AUTO)


@pytest.fixture(autouse=True)
def originals() -> Iterator[None]:
    """Torch's functions are the originals again after every test."""

    def functions() -> list[Any]:
        owners = [name.owner() for name in (*hooks.AROUND, probe.LOG_GUARD)]
        return [holder.__dict__[attribute] for holder, attribute in owners]

    before = functions()
    yield
    after = functions()
    assert [one is other for one, other in zip(before, after)] == [True] * len(before)
    assert hooks.current() is None


# --- models ---------------------------------------------------------------------------------------------


class Pool(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.adaptive_avg_pool2d(x, (2, 3))


class TwoPools(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        first = F.adaptive_avg_pool2d(x, (2, 3))
        second = F.adaptive_avg_pool2d(y, (4, 4))
        return first, second


class Kron(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.kron(a, b)


class PoolOverAll(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.avg_pool2d(x, x.shape[2:])


class PoolHeight(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.adaptive_avg_pool2d(x, (1, None))


class Bucketize(nn.Module):
    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        return torch.bucketize(x, edges)


class Split(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return sum(part.sum(0) for part in x.split(2))


class Loop(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = x[:, 0] * 0
        for index in range(x.shape[1]):
            total = total * 0.5 + x[:, index]
        return total


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.rnn = kind(3, 4, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.rnn(x)[0]


class Function(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.attention(x, x, x, key_padding_mask=mask, need_weights=False)[0]


IMAGE = torch.randn(1, 2, 6, 6, generator=torch.Generator().manual_seed(0))
LINE = torch.randn(3, generator=torch.Generator().manual_seed(0))
MATRICES = (torch.randn(2, 3), torch.randn(4, 5))


def checked(model: nn.Module, args: tuple[Any, ...], shapes: Any, **more: Any) -> guarddiff.Report:
    """The report, with the texts of the warnings in ``report.warned``."""
    torch.manual_seed(0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        report = guarddiff.check(model.eval(), args, dynamic_shapes=shapes, verbose=False, **more)
    report.warned = said(caught)  # type: ignore[attr-defined]
    return report


def said(caught: list[warnings.WarningMessage]) -> list[str]:
    return [str(w.message) for w in caught if issubclass(w.category, guarddiff.SpecializationWarning)]


def line_of(source: str) -> int:
    (number,) = [n for n, line in enumerate(HERE.read_text().splitlines(), 1) if line.strip() == source]
    return number


def admitted(finding: Finding) -> dict[str, str]:
    return {dim.place: str(dim.admitted) for dim in finding.dims}


FOUND: dict[str, Callable[[], guarddiff.Report]] = {
    "adaptive": lambda: checked(Pool(), (IMAGE,), (auto(0, 1, 2, 3),)),
    "kron": lambda: checked(Kron(), MATRICES, (auto(0, 1), auto(0, 1))),
    "kron_named": lambda: checked(Kron(), MATRICES, ({0: Dim("p"), 1: Dim("q")}, {0: Dim("r"), 1: Dim("s")})),
    "pool_over_all": lambda: checked(PoolOverAll(), (torch.randn(1, 2, 6, 5),), (auto(2, 3),)),
    "pool_height": lambda: checked(PoolHeight(), (torch.randn(1, 2, 6, 5),), (auto(2, 3),)),
    "bucketize": lambda: checked(Bucketize(), (torch.randn(50), torch.arange(6.0)), (auto(0), auto(0))),
    "split": lambda: checked(Split(), (torch.randn(6, 3),), (auto(0),)),
    "loop": lambda: checked(Loop(), (torch.randn(2, 4),), (auto(0, 1),)),
    "rnn": lambda: checked(Recurrent(nn.RNN), (torch.randn(2, 5, 3),), (auto(0, 1),)),
}

EXPECTED: dict[str, tuple[str, str, dict[str, str], str, str, str]] = {
    # stage, operator, admitted, line of the model, kind of the counterexample, its scope
    "adaptive": (
        "decompose",
        "aten._adaptive_avg_pool2d.default",
        {"x[2]": "exactly 6", "x[3]": "exactly 6"},
        "return F.adaptive_avg_pool2d(x, (2, 3))",
        "shape",
        "operator",
    ),
    "kron": (
        "capture",
        "aten.kron.default",
        {"a[0]": "exactly 2", "a[1]": "exactly 3", "b[0]": "exactly 4", "b[1]": "exactly 5"},
        "return torch.kron(a, b)",
        "runtime_error",
        "operator",
    ),
    "kron_named": (
        "capture",
        "aten.kron.default",
        {"a[0]": "exactly 2", "a[1]": "exactly 3", "b[0]": "exactly 4", "b[1]": "exactly 5"},
        "return torch.kron(a, b)",
        "rejected_input",
        "model",
    ),
    "pool_over_all": (
        "capture",
        "avg_pool2d",
        {"x[2]": "exactly 6", "x[3]": "exactly 5"},
        "return F.avg_pool2d(x, x.shape[2:])",
        "shape",
        "model",
    ),
    "pool_height": (
        "decompose",
        "aten._adaptive_avg_pool2d.default",
        {"x[2]": "exactly 6"},
        "return F.adaptive_avg_pool2d(x, (1, None))",
        "shape",
        "operator",
    ),
    "bucketize": (
        "decompose",
        "aten.bucketize.Tensor",
        {"edges[0]": "exactly 6"},
        "return torch.bucketize(x, edges)",
        "values",
        "operator",
    ),
    "split": (
        "capture",
        "aten.split.Tensor",
        {"x[0]": "5–6"},
        "return sum(part.sum(0) for part in x.split(2))",
        "values",
        "model",
    ),
    "loop": (
        "capture",
        "range() or index",
        {"x[1]": "exactly 4"},
        "for index in range(x.shape[1]):",
        "values",
        "model",
    ),
    "rnn": (
        "capture",
        "aten.rnn_tanh.input",
        {"x[1]": "exactly 5"},
        "return self.rnn(x)[0]",
        "shape",
        "operator",
    ),
}


@pytest.fixture(scope="module")
def found() -> Callable[[str], guarddiff.Report]:
    """A report by name; each export is made once."""
    return functools.cache(lambda name: FOUND[name]())


Found = Callable[[str], guarddiff.Report]


@pytest.mark.parametrize("name", FOUND)
def test_specialized(name: str, found: Found) -> None:
    stage, op, sizes, line, kind, scope = EXPECTED[name]
    report = found(name)
    (finding,) = report.findings
    proof = finding.counterexample
    assert report.status == "specialized"
    assert report.missing == ()
    assert (finding.stage, finding.op, finding.verdict) == (stage, op, "confirmed")
    assert admitted(finding) == sizes
    assert [str(dim.declared) for dim in finding.dims] == ["any size"] * len(sizes)
    assert finding.origin.source is not None
    assert finding.origin.source.text == line
    assert finding.origin.source.file.endswith("test_api.py")
    assert finding.origin.source.function == "forward"
    assert proof is not None
    assert (proof.kind, proof.scope) == (kind, scope)


@pytest.mark.parametrize("name", FOUND)
def test_one_warning_that_names_place_sizes_and_proof(name: str, found: Found) -> None:
    report = found(name)
    (warned,) = report.warned  # type: ignore[attr-defined]
    (finding,) = report.findings
    assert warned == text.warning_text(finding)
    assert len(warned.splitlines()) <= 10
    assert finding.origin.source is not None
    assert f"test_api.py:{finding.origin.source.line}" in warned
    assert all(dim.place in warned for dim in finding.dims)


@pytest.mark.parametrize("name", FOUND)
def test_the_counterexample_breaks_the_guards_and_the_example_does_not(name: str, found: Found) -> None:
    report = found(name)
    (finding,) = report.findings
    assert finding.counterexample is not None
    assert finding.admits(finding.counterexample.sizes) is False
    sizes = {dim.place: dim.example for dim in finding.dims}
    example = {
        name: tuple(sizes.get(f"{name}[{axis}]", size) for axis, size in enumerate(shape))
        for name, shape in finding.counterexample.sizes.items()
    }
    assert finding.admits(example) is True


def test_the_guards_of_one_pooling_are_one_finding(found: Found) -> None:
    (finding,) = found("adaptive").findings
    assert "x[2] % 2 == 0" in finding.guards
    assert "x[3] // 3 == 2" in finding.guards
    assert [dim.place for dim in finding.dims] == ["x[2]", "x[3]"]
    assert finding.origin.module_path == ""
    assert finding.origin.rule is not None
    assert finding.origin.rule.file == "torch/_decomp/decompositions.py"
    assert finding.origin.rule.function == "adaptive_avg_pool2d"
    assert finding.origin.node == "adaptive_avg_pool2d"


def test_admits(found: Found) -> None:
    (finding,) = found("adaptive").findings
    assert finding.admits({"x": (1, 2, 6, 6)}) is True
    assert finding.admits({"x": (5, 9, 6, 6)}) is True
    assert finding.admits({"x": (1, 2, 6, 7)}) is False
    assert finding.admits({"x": (1, 2, 256, 256)}) is False
    assert finding.admits({"other": (1, 2, 6, 6)}) is None
    (split,) = found("split").findings
    assert [split.admits({"x": (size, 3)}) for size in (4, 5, 6, 7)] == [False, True, True, False]
    (named,) = found("kron_named").findings
    assert named.admits({"a": (2, 3), "b": (4, 5)}) is True
    assert named.admits({"a": (2, 3), "b": (4, 6)}) is False


def test_the_onnx_nodes_that_carry_the_number(found: Found) -> None:
    def nodes(name: str) -> set[tuple[str, str]]:
        return {
            (node.op_type, part.split(" ")[0])
            for node in found(name).findings[0].onnx_nodes
            for part in node.where.split("; ")
        }

    (node,) = found("adaptive").findings[0].onnx_nodes
    assert node.op_type == "AveragePool"
    assert set(node.where.split("; ")) == {"attribute kernel_shape = [3, 2]", "attribute strides = [3, 2]"}
    assert nodes("kron") == {("Reshape", "initializer")}
    assert nodes("pool_over_all") == {("AveragePool", "attribute")}


def test_a_named_dimension_that_became_static_says_so(found: Found) -> None:
    (finding,) = found("kron_named").findings
    assert finding.reason.startswith(
        "torch.export refused the declared dimension, and the exporter tried again with a fixed size"
    )
    assert [(dim.place, dim.name) for dim in finding.dims] == [
        ("a[0]", "p"),
        ("a[1]", "q"),
        ("b[0]", "r"),
        ("b[1]", "s"),
    ]
    assert finding.guards == ("p == 2", "q == 3", "r == 4", "s == 5")
    fixed = [dim.dim_value for dim in found("kron_named").program.model_proto.graph.input[0].type.tensor_type.shape.dim]
    assert fixed == [2, 3]


def test_the_module_path_of_a_layer(found: Found) -> None:
    assert found("rnn").findings[0].origin.module_path == "rnn"


@pytest.mark.parametrize("name", ["adaptive", "kron_named", "bucketize"])
def test_reports_survive_a_round_trip(name: str, found: Found, tmp_path: Path) -> None:
    report = found(name)
    again = guarddiff.load_report(report.write(tmp_path)[1])
    assert again.findings == report.findings
    assert (again.status, again.inputs, again.stages, again.notes) == (
        report.status,
        report.inputs,
        report.stages,
        report.notes,
    )
    assert again.to_markdown() == report.to_markdown()
    assert again.program is None


def test_stages_of_a_report(found: Found) -> None:
    report = found("adaptive")
    assert [(s.stage, s.when) for s in report.stages] == [
        ("capture", "after"),
        ("decompose", "before"),
        ("decompose", "after"),
        ("translate", "after"),
        ("optimize", "after"),
    ]
    assert report.model == "Pool"
    assert report.environment["torch"] == importlib.metadata.version("torch")
    assert {"python", "onnx", "onnxscript", "onnxruntime"} <= set(report.environment)


# --- controls -------------------------------------------------------------------------------------------

CLEAN: dict[str, Callable[[], tuple[nn.Module, tuple[torch.Tensor, ...], Any]]] = {
    "convolutions": lambda: (
        nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 2, 3, stride=2)
        ),
        (torch.randn(2, 3, 16, 20),),
        (auto(0, 2, 3),),
    ),
    "pool_to_one": lambda: (
        Function(lambda x: F.adaptive_avg_pool2d(x, 1)),
        (torch.randn(2, 3, 6, 8),),
        (auto(0, 2, 3),),
    ),
    "view": lambda: (Function(lambda x: x.view(x.shape[0], -1)), (torch.randn(2, 3, 4),), (auto(0, 1, 2),)),
    "interpolate": lambda: (
        Function(lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear")),
        (torch.randn(2, 3, 6, 8),),
        (auto(0, 2, 3),),
    ),
    "attention": lambda: (
        Attention(),
        (torch.randn(2, 5, 8), torch.zeros(2, 5, dtype=torch.bool)),
        ({0: "b", 1: "t"}, {0: "b", 1: "t"}),
    ),
    "nonzero": lambda: (Function(lambda x: x.nonzero()), (torch.eye(4, 5),), (auto(0, 1),)),
    "lstm": lambda: (Recurrent(nn.LSTM), (torch.randn(2, 5, 3),), (auto(1),)),
    "gru": lambda: (Recurrent(nn.GRU), (torch.randn(2, 5, 3),), (auto(1),)),
}


@pytest.fixture(scope="module")
def clean() -> Callable[[str], guarddiff.Report]:
    return functools.cache(lambda name: checked(*CLEAN[name]()))


@pytest.mark.parametrize("name", CLEAN)
def test_controls_stay_silent(name: str, clean: Found) -> None:
    report = clean(name)
    if name == "gru" and importlib.metadata.version("onnxscript").startswith("0.6."):
        (finding,) = report.findings  # that release translates it wrongly
        assert "differs from eager PyTorch at the example's own sizes" in finding.reason
        return
    assert report.status == "clean"
    assert report.missing == ()
    assert report.warned == []  # type: ignore[attr-defined]
    assert [finding.verdict for finding in report.findings if finding.verdict != "harmless"] == []


@pytest.mark.parametrize("name", ["convolutions", "pool_to_one", "view", "interpolate", "attention", "nonzero"])
def test_nothing_is_run_where_nothing_restricts(name: str, clean: Found) -> None:
    report = clean(name)
    assert report.findings == ()
    assert report.notes == ()
    assert {change.effect for change in report.changes} <= {"none", "small", "lower", "unbacked"}


@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_a_fixed_output_is_told_apart(name: str, clean: Found) -> None:
    report = clean(name)
    output = report.program.model_proto.graph.output[0]
    if torch.__version__ >= "2.15":  # keeps it dynamic
        assert output.type.tensor_type.shape.dim[1].dim_param
        assert report.notes == ()
        return
    assert output.type.tensor_type.shape.dim[1].dim_value == 5
    assert report.notes == (
        f"ONNX output {output.name}[1] is declared with the fixed size 5, although it was x[1] when captured",
    )


# --- warnings -------------------------------------------------------------------------------------------


def export(model: nn.Module, args: tuple[Any, ...], **more: Any) -> Any:
    """A silent export."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return guarddiff.export(model.eval(), args, verbose=False, **more)


BOTH: dict[str, Any] = {"dynamic_shapes": (auto(2, 3), auto(2, 3)), "verbose": False, "replay": "off"}


def test_one_warning_per_root_cause_at_the_callers_line(caplog: pytest.LogCaptureFixture) -> None:
    model, args = TwoPools().eval(), (IMAGE, torch.randn(1, 2, 8, 8))
    with warnings.catch_warnings(record=True) as caught, caplog.at_level(logging.WARNING, "guarddiff"):
        warnings.simplefilter("always")
        program = guarddiff.export(model, args, **BOTH)
    ours = [w for w in caught if issubclass(w.category, guarddiff.SpecializationWarning)]
    line = line_of("program = guarddiff.export(model, args, **BOTH)")
    assert [(w.filename, w.lineno) for w in ours] == [(__file__, line)] * 2
    logged = [(r.levelname, r.getMessage()) for r in caplog.records if r.name == "guarddiff"]
    assert logged == [("WARNING", str(w.message)) for w in ours]
    assert [list(admitted(f)) for f in guarddiff.report_of(program).findings] == [["x[2]", "x[3]"], ["y[2]", "y[3]"]]
    assert "x[2]" in str(ours[0].message)
    assert "y[2]" in str(ours[1].message)


def test_a_warning_made_an_error_is_the_users_own(tmp_path: Path) -> None:
    with warnings.catch_warnings(), pytest.raises(guarddiff.SpecializationWarning, match="right only for"):
        warnings.simplefilter("error", guarddiff.SpecializationWarning)
        guarddiff.export(Pool(), (IMAGE,), tmp_path / "m.onnx", dynamic_shapes=(auto(2),), verbose=False, replay="off")
    assert (tmp_path / "m.onnx").exists()


def test_ignored_findings_are_in_the_report_only(caplog: pytest.LogCaptureFixture) -> None:
    with warnings.catch_warnings(record=True) as caught, caplog.at_level(logging.WARNING, "guarddiff"):
        warnings.simplefilter("always")
        program = guarddiff.export(
            Pool(), (IMAGE,), dynamic_shapes=(auto(2, 3),), verbose=False, replay="off", on_finding="ignore"
        )
    assert said(caught) == []
    assert [r for r in caplog.records if r.name == "guarddiff"] == []
    assert guarddiff.report_of(program).status == "specialized"


def test_raise_writes_the_report_and_no_model(tmp_path: Path) -> None:
    with pytest.raises(guarddiff.SpecializationError) as caught:
        guarddiff.export(
            Pool(),
            (IMAGE,),
            tmp_path / "m.onnx",
            dynamic_shapes=(auto(2, 3),),
            verbose=False,
            on_finding="raise",
            report_to=tmp_path / "reports",
        )
    report = caught.value.report
    (finding,) = report.findings
    assert finding.verdict == "confirmed"
    assert str(caught.value) == text.warning_text(finding)
    assert not (tmp_path / "m.onnx").exists()
    assert list(tmp_path.iterdir()) == [tmp_path / "reports"]
    loaded = guarddiff.load_report(tmp_path / "reports" / "guarddiff-report.json")
    assert loaded.findings == report.findings
    newest = guarddiff.last_report()
    assert newest is not None
    assert newest.findings == report.findings
    assert newest.error is None


def test_raise_without_a_finding_exports(tmp_path: Path) -> None:
    program = guarddiff.export(
        nn.ReLU(), (LINE,), tmp_path / "m.onnx", dynamic_shapes=(auto(0),), verbose=False, on_finding="raise"
    )
    assert (tmp_path / "m.onnx").read_bytes() == program.model_proto.SerializeToString()


# --- reports --------------------------------------------------------------------------------------------

DYNAMIC: dict[str, Any] = {"dynamic_shapes": (auto(0),)}


def test_report_files_never_collide(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    first = export(nn.ReLU(), (LINE,), report_to=folder, **DYNAMIC)
    second = export(nn.Sigmoid(), (LINE,), report_to=str(folder), **DYNAMIC)
    names = [[path.name for path in guarddiff.report_of(program).paths] for program in (first, second)]
    assert names == [
        ["guarddiff-report.md", "guarddiff-report.json", "guarddiff-report.html"],
        ["guarddiff-report-2.md", "guarddiff-report-2.json", "guarddiff-report-2.html"],
    ]
    assert sorted(path.name for path in folder.iterdir()) == sorted(names[0] + names[1])
    assert guarddiff.load_report(folder / "guarddiff-report.json").model == "ReLU"
    assert guarddiff.load_report(folder / "guarddiff-report-2.json").model == "Sigmoid"


def test_a_folder_that_cannot_be_written_fails_no_export(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "taken").write_text("a file in the way")
    program = export(nn.ReLU(), (LINE,), f=tmp_path / "m.onnx", report_to=tmp_path / "taken", **DYNAMIC)
    report = guarddiff.report_of(program)
    assert (tmp_path / "m.onnx").exists()
    assert [part.part for part in report.missing] == ["the written report"]
    assert report.status == "incomplete"
    assert report.paths == ()
    (logged,) = [r.getMessage() for r in caplog.records if r.name == "guarddiff"]
    assert logged.startswith("the report could not be written to '")
    assert logged.endswith("': it is a file, or lies below one, and no folder")
    assert (tmp_path / "taken").read_text() == "a file in the way"


def test_report_of_a_program_that_was_not_guarded() -> None:
    plain = torch.onnx.export(nn.ReLU(), (LINE,), verbose=False, dynamo=True)
    with pytest.raises(KeyError, match="this program was not exported through guarddiff"):
        guarddiff.report_of(plain)
    with pytest.raises(KeyError):
        guarddiff.report_of(None)


def test_report_of_holds_the_program() -> None:
    program = export(nn.ReLU(), (LINE,), **DYNAMIC)
    report = guarddiff.report_of(program)
    assert report.program is program
    assert (report.status, report.model) == ("clean", "ReLU")
    newest = guarddiff.last_report()
    assert newest is not None
    assert newest.program is program


def test_check_returns_the_report_with_the_program(found: Found) -> None:
    report = found("adaptive")
    assert isinstance(report, guarddiff.Report)
    assert isinstance(report.program, torch.onnx.ONNXProgram)
    assert guarddiff.report_of(report.program).findings == report.findings


class Boom(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pooled = F.adaptive_avg_pool2d(x, (2, 3))
        raise ValueError("boom")
        return pooled


class Untranslatable(nn.Module):
    """Captured and decomposed, but there is no ONNX operator for the second one."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.eigvals(F.adaptive_avg_pool2d(x, (3, 3))).real


def test_last_report_after_an_export_that_raised() -> None:
    with pytest.raises(torch.onnx.OnnxExporterError):
        export(Boom(), (IMAGE,), dynamic_shapes=(auto(2, 3),))
    report = guarddiff.last_report()
    assert report is not None
    assert report.error is not None
    assert report.error.startswith("TorchExportError: Failed to export the model")
    assert report.model == "Boom"
    assert report.program is None
    assert report.status != "clean"


def test_what_was_found_before_an_export_raised_is_kept() -> None:
    with pytest.raises(torch.onnx.OnnxExporterError):
        export(Untranslatable(), (IMAGE,), dynamic_shapes=(auto(2, 3),))
    report = guarddiff.last_report()
    assert report is not None
    assert report.error is not None
    assert report.error.startswith("ConversionError")
    (finding,) = report.findings
    assert admitted(finding) == {"x[2]": "exactly 6", "x[3]": "exactly 6"}
    assert finding.stage == "decompose"


def test_an_error_while_the_model_file_is_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        export(nn.ReLU(), (LINE,), f=str(tmp_path / "no" / "folder" / "m.onnx"), **DYNAMIC)
    report = guarddiff.last_report()
    assert report is not None
    assert report.model == "ReLU"
    assert report.error is not None
    assert report.error.startswith("FileNotFoundError")


def test_last_report_is_of_this_thread() -> None:
    export(nn.ReLU(), (LINE,), **DYNAMIC)
    seen: list[Any] = []

    def other() -> None:
        seen.append(guarddiff.last_report())
        export(nn.Sigmoid(), (LINE,), **DYNAMIC)
        seen.append(guarddiff.last_report())

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert seen[0] is None
    assert seen[1].model == "Sigmoid"
    mine = guarddiff.last_report()
    assert mine is not None
    assert mine.model == "ReLU"


# --- watch ----------------------------------------------------------------------------------------------


def third_party(model: nn.Module, *args: torch.Tensor, **options: Any) -> Any:
    """Holds a reference that is older than the watch."""
    return old_reference(model.eval(), args, verbose=False, dynamo=True, **options)


def test_watch_reports_every_export() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with guarddiff.watch(replay="off") as reports:
            program = third_party(Pool(), IMAGE, dynamic_shapes=(auto(2, 3),))
            torch.onnx.export(nn.ReLU(), (LINE,), verbose=False, dynamic_shapes=(auto(0),))
            with contextlib.suppress(torch.onnx.OnnxExporterError):
                third_party(Boom(), IMAGE)
        after = third_party(Pool(), IMAGE, dynamic_shapes=(auto(2, 3),))
    assert [(r.model, len(r.findings), r.error is None) for r in reports] == [
        ("Pool", 1, True),
        ("ReLU", 0, True),
        ("Boom", 0, False),
    ]
    assert admitted(reports[0].findings[0]) == {"x[2]": "exactly 6", "x[3]": "exactly 6"}
    assert guarddiff.report_of(program).findings == reports[0].findings
    assert len(said(caught)) == 1
    ours = [w for w in caught if issubclass(w.category, guarddiff.SpecializationWarning)]
    assert (ours[0].filename, ours[0].lineno) == (
        __file__,
        line_of("return old_reference(model.eval(), args, verbose=False, dynamo=True, **options)"),
    )
    with pytest.raises(KeyError):
        guarddiff.report_of(after)


def test_watch_raises_in_the_third_party_call(tmp_path: Path) -> None:
    with guarddiff.watch(on_finding="raise", replay="off") as reports, pytest.raises(guarddiff.SpecializationError):
        third_party(Pool(), IMAGE, f=str(tmp_path / "m.onnx"), dynamic_shapes=(auto(2, 3),))
    assert [r.model for r in reports] == ["Pool"]
    assert not (tmp_path / "m.onnx").exists()


def test_watch_writes_reports(tmp_path: Path) -> None:
    with guarddiff.watch(report_to=tmp_path) as reports:
        third_party(nn.ReLU(), LINE, dynamic_shapes=(auto(0),))
        third_party(nn.Sigmoid(), LINE, dynamic_shapes=(auto(0),))
    assert [report.paths[1].name for report in reports] == ["guarddiff-report.json", "guarddiff-report-2.json"]


def test_a_guarded_export_inside_a_watch_warns_once() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with guarddiff.watch(replay="off"):
            guarddiff.export(Pool(), (IMAGE,), dynamic_shapes=(auto(2, 3),), verbose=False, replay="off")
    assert len(said(caught)) == 1


def test_watch_refuses_wrong_values() -> None:
    with pytest.raises(ValueError, match="did you mean 'raise'"), guarddiff.watch(on_finding="rise"):  # type: ignore[arg-type]
        raise AssertionError("must not be entered")


# --- check_at -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        (None, []),
        ({}, []),
        ({"h": [3]}, [{"h": 3}]),
        ({"h": (3, 5), "x[2]": range(7, 9)}, [{"h": h, "x[2]": x} for h in (3, 5) for x in (7, 8)]),
        ({"h": [np.int64(3), 3]}, [{"h": 3}]),
        ([{"h": 3, "w": 4}, {"w": 4, "h": 3}, {"w": 0}, {}], [{"h": 3, "w": 4}, {"w": 0}]),
        ({"a": range(8), "b": range(8)}, [{"a": a, "b": b} for a in range(8) for b in range(8)]),
    ],
)
def test_points(sizes: Any, expected: list[dict[str, int]]) -> None:
    assert list(api.points(sizes)) == expected
    assert all(type(size) is int for point in api.points(sizes) for size in point.values())


@pytest.mark.parametrize(
    ("sizes", "kind", "message"),
    [
        ({"a": range(13), "b": range(5)}, ValueError, "sizes stands for 65 points: give at most 64"),
        ({"a": range(10**6), "b": range(10**6)}, ValueError, "stands for 1000000000000 points"),
        ([{"a": n} for n in range(65)], ValueError, "stands for 65 points"),
        ({"h": []}, ValueError, "sizes['h'] is empty"),
        ({"h": [3, -1]}, ValueError, "a size of 'h' is negative: -1"),
        ({"h": 3}, TypeError, "sizes['h'] must be a list of sizes, not 3"),
        ({"h": "34"}, TypeError, "sizes['h'] must be a list of sizes, not '34'"),
        ({"h": [2.5]}, TypeError, "a size of 'h' must be a whole number, not 2.5"),
        ([{"h": True}], TypeError, "a size of 'h' must be a whole number, not True"),
        ([{2: 3}], TypeError, "sizes must be given by names of dimensions, not 2"),
        ([3], TypeError, "a point of sizes must map names of dimensions to sizes, not 3"),
        ("h=3", TypeError, "sizes must map names of dimensions to lists of sizes, or be a list of points, not 'h=3'"),
    ],
)
def test_points_that_are_none(sizes: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=re.escape(message)):
        api.check_at(nn.ReLU(), (LINE,), sizes=sizes)


def test_check_at_is_check_with_points(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    class Noted(pipeline.Pipeline):
        def __init__(self, options: Any, *more: Any) -> None:
            given.append(options)
            super().__init__(options, *more)

    monkeypatch.setattr(api, "Pipeline", Noted)
    points = {"input[0]": [3, 4]}
    report = api.check_at(nn.ReLU(), (LINE,), sizes=points, on_finding="ignore", replay="full", **DYNAMIC)
    assert isinstance(report.program, torch.onnx.ONNXProgram)
    assert given == [api.Options("ignore", "full", False, None, ({"input[0]": 3}, {"input[0]": 4}))]
    ran = {run.sizes["input"][0] for run in report.tries if run.state == "agrees"}
    assert ran >= {3, 4}


def test_a_name_that_is_no_dimension_is_an_error() -> None:
    with pytest.raises(ValueError, match="there is no dimension 'height'"):
        api.check_at(nn.ReLU(), (LINE,), sizes={"height": [3]}, **DYNAMIC)


# --- arguments ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keywords", "kind", "message"),
    [
        (
            {"on_finding": "wran"},
            ValueError,
            "on_finding must be one of 'warn', 'raise', 'ignore', not 'wran'; did you",
        ),
        ({"replay": True}, TypeError, "replay must be one of 'findings', 'full', 'off', not True"),
        ({"repair": "yes"}, TypeError, "repair must be True or False, not 'yes'"),
        ({"report_to": 3}, TypeError, "report_to must be a folder's path or None, not 3"),
    ],
)
@pytest.mark.parametrize("call", [guarddiff.export, guarddiff.check])
def test_wrong_values_of_our_keywords_stop_before_torch(
    call: Any, keywords: dict[str, Any], kind: type[Exception], message: str, tmp_path: Path
) -> None:
    with pytest.raises(kind) as caught:
        call(Boom(), (IMAGE,), tmp_path / "m.onnx", **keywords)
    assert str(caught.value).startswith(message)


def raised(call: Callable[[], Any]) -> tuple[type[BaseException], str]:
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            call()
        except Exception as error:
            return type(error), str(error)[:300]
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize(
    ("args", "keywords"),
    [
        ((), {}),
        ((nn.ReLU(), (LINE,)), {"no_such_argument": 1}),
        ((nn.ReLU(), (LINE,), None, "positional"), {}),
        ((Boom().eval(), (IMAGE,)), {}),
        ((nn.ReLU(), ()), {}),
        ((3, (LINE,)), {}),
        ((nn.ReLU(), (LINE,)), {"dynamic_shapes": ({0: AUTO}, None)}),
        ((Pool().eval(), (IMAGE,)), {"dynamic_shapes": ({2: Dim("h", min=7)},)}),
        ((nn.ReLU(), (LINE,), "/no/such/folder/m.onnx"), {}),
        ((Untranslatable().eval(), (IMAGE,)), {}),
    ],
    ids=["nothing", "unknown", "positional", "model", "no input", "no model", "shapes", "range", "folder", "operator"],
)
def test_torchs_exceptions_are_unchanged(args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
    options = {"verbose": False, **keywords} if args else keywords
    plain = raised(lambda: torch.onnx.export(*args, **options))
    guarded = raised(lambda: guarddiff.export(*args, **options))
    assert guarded[0] is plain[0]
    assert without_random_parts(guarded[1]) == without_random_parts(plain[1])


def without_random_parts(message: str) -> str:
    return re.sub(r"0x[0-9a-f]+|\.data\.\w+", "", message)


class Scaled(nn.Module):
    def forward(self, x: torch.Tensor, *, size: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        return F.adaptive_avg_pool2d(x, (2, 3)) * scale + size.sum()


def test_keyword_arguments_of_the_model() -> None:
    report = checked(
        Scaled(),
        (IMAGE,),
        {"x": auto(2, 3), "size": auto(0), "scale": None},
        kwargs={"scale": 2.0, "size": torch.ones(4)},
    )
    (finding,) = report.findings
    assert finding.verdict == "confirmed"
    assert admitted(finding) == {"x[2]": "exactly 6", "x[3]": "exactly 6"}
    assert finding.counterexample is not None
    assert finding.counterexample.sizes == {"x": (1, 2, 12, 12), "size": (4,)}


def test_a_program_that_was_exported_before() -> None:
    program = torch.export.export(Pool().eval(), (IMAGE,), dynamic_shapes=({2: Dim.AUTO, 3: Dim.AUTO},))
    report = checked_program(program)
    (finding,) = report.findings
    assert (finding.stage, finding.verdict) == ("decompose", "confirmed")
    assert admitted(finding) == {"x[2]": "exactly 6", "x[3]": "exactly 6"}
    assert finding.origin.source is not None
    assert finding.origin.source.text == "return F.adaptive_avg_pool2d(x, (2, 3))"


def checked_program(program: torch.export.ExportedProgram) -> guarddiff.Report:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return guarddiff.check(program, verbose=False)


def again(program: torch.export.ExportedProgram, saved: bool) -> torch.export.ExportedProgram:
    """The program, or what is loaded of it after it was saved."""
    if not saved:
        return program
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    buffer.seek(0)
    return torch.export.load(buffer)


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("dim", [Dim("b", max=8), Dim("b", min=3, max=8), Dim.DYNAMIC(min=1, max=8)])
def test_the_range_of_a_program_was_declared(dim: Any, saved: bool) -> None:
    program = torch.export.export(nn.ReLU(), (torch.randn(4, 3),), dynamic_shapes=({0: dim},))
    assert checked_program(again(program, saved)).status == "clean"


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("dim", [Dim.AUTO, Dim.AUTO(max=9)])
def test_a_range_that_comes_of_a_branch_was_not_declared(dim: Any, saved: bool) -> None:
    class Branch(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1 if x.shape[0] <= 8 else x - 1

    program = torch.export.export(Branch(), (torch.randn(4, 3),), dynamic_shapes=({0: dim},))
    report = checked_program(again(program, saved))
    (finding,) = report.findings
    assert (report.status, finding.verdict) == ("specialized", "unconfirmed")
    assert admitted(finding) == {"x[0]": "at most 8"}


def test_positional_and_keyword_forms_of_torchs_arguments(tmp_path: Path) -> None:
    for number, call in enumerate(
        (
            lambda f: export(nn.ReLU(), (LINE,), f=f, **DYNAMIC),
            lambda f: guarddiff.export(nn.ReLU(), (LINE,), f, verbose=False, **DYNAMIC),
            lambda f: guarddiff.export(model=nn.ReLU(), args=(LINE,), f=str(f), verbose=False, **DYNAMIC),
        )
    ):
        path = tmp_path / f"{number}.onnx"
        program = call(path)
        assert path.read_bytes() == program.model_proto.SerializeToString()
        assert guarddiff.report_of(program).status == "clean"
        onnx.checker.check_model(onnx.load(path))


def test_a_buffer_as_file_is_treated_as_torch_does() -> None:
    buffers = io.BytesIO(), io.BytesIO()
    results = [
        call(nn.ReLU(), (LINE,), buffer, verbose=False, **DYNAMIC)
        for call, buffer in zip((torch.onnx.export, guarddiff.export), buffers)
    ]
    assert [type(result) for result in results] == [torch.onnx.ONNXProgram] * 2
    assert buffers[0].getvalue() == buffers[1].getvalue()


def test_dynamic_axes_and_input_names() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = guarddiff.check(
            Pool().eval(),
            (IMAGE,),
            input_names=["image"],
            verbose=False,
            replay="off",
            dynamic_axes={"image": {2: "height", 3: "width"}},
        )
    (finding,) = report.findings
    assert [(dim.input, dim.axis, dim.name) for dim in finding.dims] == [
        ("image", 2, "height"),
        ("image", 3, "width"),
    ]
    assert finding.admits({"image": (1, 2, 6, 7)}) is False


def test_repair_is_accepted() -> None:
    program = export(nn.ReLU(), (LINE,), repair=True, **DYNAMIC)
    assert guarddiff.report_of(program).status == "clean"


def test_the_torchscript_exporter_passes_through(tmp_path: Path) -> None:
    def old(call: Any, name: str) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return call(
                nn.ReLU(), (LINE,), str(tmp_path / name), dynamo=False, input_names=["x"], dynamic_axes={"x": {0: "n"}}
            )

    assert old(torch.onnx.export, "plain.onnx") is None
    assert old(guarddiff.export, "guarded.onnx") is None
    assert (tmp_path / "plain.onnx").read_bytes() == (tmp_path / "guarded.onnx").read_bytes()
    report = guarddiff.last_report()
    assert report is not None
    assert [dim.name for dim in report.inputs[0].dims] == ["n"]
    assert report.status != "clean"  # no guards are read and nothing was run: it is not known


def heard(call: Any, model: nn.Module, capsys: pytest.CaptureFixture[str]) -> tuple[list[Any], str]:
    """Torch's own warnings with their places, and what was printed."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(model.eval(), (torch.randn(2, 5, 3),), dynamic_shapes=(auto(1),))
    theirs = [w for w in caught if not issubclass(w.category, guarddiff.SpecializationWarning)]
    return [(w.category, str(w.message)) for w in theirs], capsys.readouterr().out


def test_torchs_own_words_are_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing that the replay does is heard: not the export of an operator, not the runs."""
    plain = heard(torch.onnx.export, Recurrent(nn.RNN), capsys)
    guarded = heard(guarddiff.export, Recurrent(nn.RNN), capsys)
    assert plain[1].count("Obtain model graph") == 2
    assert guarded == plain


TRAINING: dict[str, Any] = {"verbose": False}


# --- faults of ours -------------------------------------------------------------------------------------


def fail(*_: Any, **__: Any) -> Any:
    raise ZeroDivisionError("a fault of ours")


INJECTED: list[tuple[Any, str, str]] = [
    (attribute, "attribute", "the findings"),
    (origin, "observe", "guards and their origins"),
    (record.shape_env, "read", "snapshots around decomposition"),
    (record, "boundary", "the snapshot after translation"),
    (evidence, "build", "the evidence"),
    (notes, "fixed_outputs", "the notes"),
    (prove.Prover, "prove", "the verdicts"),
    (constants, "carriers", "the ONNX nodes"),
    (pipeline.Report, "write", "the written report"),
    (pipeline.Pipeline, "_report", "the report"),
    (text, "warning_text", "a warning"),
]


@pytest.mark.parametrize(("holder", "name", "part"), INJECTED, ids=[name for _, name, _ in INJECTED])
def test_a_fault_of_ours_fails_no_export(
    holder: Any, name: str, part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(holder, name, fail)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program = guarddiff.export(
            Pool().eval(),
            (IMAGE,),
            tmp_path / "m.onnx",
            dynamic_shapes=(auto(2, 3),),
            verbose=False,
            report_to=tmp_path / "reports",
        )
    monkeypatch.undo()
    assert (tmp_path / "m.onnx").read_bytes() == program.model_proto.SerializeToString()
    report = guarddiff.report_of(program)
    named = {missing.part: missing.why for missing in report.missing}
    assert named.get(part) == "ZeroDivisionError: a fault of ours"
    proved = any(finding.verdict == "confirmed" for finding in report.findings)
    assert report.status == ("specialized" if proved else "incomplete")
    logged = [r for r in caplog.records if r.name == "guarddiff" and r.levelname == "ERROR"]
    assert any(r.exc_info and r.exc_info[0] is ZeroDivisionError and part in r.getMessage() for r in logged)
    assert all(message.strip() for message in said(caught))
    assert len(said(caught)) == len([finding for finding in report.findings if finding.warns])


def test_a_private_name_that_is_gone_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = probe.PrivateName("torch.onnx._internal.exporter._core", "no_such_function", "something")
    monkeypatch.setattr(probe, "NAMES", (*probe.NAMES, gone))
    report = guarddiff.report_of(export(nn.ReLU(), (LINE,), **DYNAMIC))
    (missing,) = report.missing
    assert missing.part == "torch.onnx._internal.exporter._core.no_such_function"
    assert missing.why.startswith("something: ")
    assert report.status == "incomplete"


# --- what must stay as it was ---------------------------------------------------------------------------


class Stateful(nn.Module):
    """Its buffers, attributes and submodules' flags could all be changed by a run."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(2)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        return F.adaptive_avg_pool2d(self.norm(x), (2, 3)) + self.calls


@pytest.mark.parametrize("raises", [False, True], ids=["returns", "raises"])
def test_state_is_as_it_was(raises: bool) -> None:
    model = Stateful().eval()
    model.norm.train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    flags = [module.training for module in model.modules()]
    attributes = set(model.__dict__)
    random.seed(7), np.random.seed(7), torch.manual_seed(7)  # noqa: B018
    states = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()
    settings = torch.get_default_dtype(), torch.are_deterministic_algorithms_enabled(), torch.get_num_threads()
    shapes = ({2: "h", 3: "w"},)
    x = IMAGE.clone()
    with torch.enable_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if raises:
            with pytest.raises(guarddiff.SpecializationError):
                guarddiff.check(model, (x,), dynamic_shapes=shapes, verbose=False, replay="full", on_finding="raise")
        else:
            guarddiff.check(model, (x,), dynamic_shapes=shapes, verbose=False, replay="full")
        assert torch.is_grad_enabled()
    assert random.getstate() == states[0]
    assert np.random.get_state()[1].tolist() == states[1]
    assert torch.equal(torch.get_rng_state(), states[2])
    assert settings == (
        torch.get_default_dtype(),
        torch.are_deterministic_algorithms_enabled(),
        torch.get_num_threads(),
    )
    assert [name for name, tensor in model.state_dict().items() if not torch.equal(tensor, before[name])] == []
    assert [module.training for module in model.modules()] == flags
    assert set(model.__dict__) == attributes
    assert all(parameter.requires_grad and parameter.grad is None for parameter in model.parameters())
    assert torch.equal(x, IMAGE)


class BranchThenGather(nn.Module):
    def forward(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        y = x * 2 if x.shape[1] > 4 else x + 1
        return y.gather(1, positions)


def test_positions_that_do_not_fit_smaller_sizes_hide_no_fault() -> None:
    example = (torch.randn(2, 6), torch.tensor([[5, 1], [4, 0]]))
    report = guarddiff.check(
        BranchThenGather(), example, dynamic_shapes=({1: "t"}, {}), verbose=False, on_finding="ignore"
    )
    (finding,) = report.findings
    assert (finding.verdict, finding.op) == ("confirmed", "if")
    assert finding.counterexample is not None
    assert finding.counterexample.sizes == {"x": (2, 4), "positions": (2, 2)}


class DividedBySize(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum(1) / int(x.shape[1] * 1.5)


def test_constant_example_inputs_hide_no_fault() -> None:
    report = guarddiff.check(
        DividedBySize(), (torch.zeros(2, 6),), dynamic_shapes=({1: "t"},), verbose=False, on_finding="ignore"
    )
    (finding,) = report.findings
    assert (finding.verdict, finding.op) == ("confirmed", "int()")
    assert finding.counterexample is not None
    assert finding.counterexample.kind == "values"
