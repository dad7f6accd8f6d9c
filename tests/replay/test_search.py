"""``replay="full"``: faults that no guard shows."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import guarddiff
from guarddiff.core.finding import Finding
from guarddiff.core.report import Missing

pytestmark = pytest.mark.usefixtures("shared_registry", "no_reproductions")


class One(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


class Two(One):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:  # type: ignore[override]
        return self.function(x, y)


def full(model: nn.Module, args: tuple[torch.Tensor, ...], shapes: Any) -> guarddiff.Report:
    return guarddiff.check(model.eval(), args, dynamic_shapes=shapes, verbose=False, on_finding="ignore", replay="full")


def confirmed(report: guarddiff.Report) -> Finding:
    assert report.status == "specialized"
    (finding,) = [finding for finding in report.findings if finding.verdict == "confirmed"]
    return finding


def new(report: guarddiff.Report) -> Finding:
    """The one finding that no guard told of."""
    finding = confirmed(report)
    assert finding.stage == "translate"
    assert finding.guards == ()
    assert finding.reason == "no guard tells of it: the whole model was run at these sizes"
    assert finding.counterexample is not None
    assert finding.counterexample.scope == "model"
    assert finding.admits(finding.counterexample.sizes) is None
    return finding


def test_squeeze_of_a_size_of_one() -> None:
    finding = new(full(One(lambda x: x.squeeze(1)), (torch.randn(3, 1, 4),), ({1: "k"},)))
    assert [dim.place for dim in finding.dims] == ["x[1]"]
    assert finding.counterexample is not None
    assert finding.counterexample.sizes == {"x": (3, 2, 4)}
    assert finding.counterexample.kind == "runtime_error"


@pytest.mark.parametrize("join", [torch.cat, torch.concat])
def test_an_empty_part_of_what_is_concatenated(join: Any) -> None:
    """A cache that is empty at first: torch decides the branch without a guard."""

    class Cached(nn.Module):
        def forward(self, x: torch.Tensor, past: torch.Tensor) -> torch.Tensor:
            return join([past, x], 1) + 1 if past.shape[1] > 0 else x

    example = (torch.randn(2, 3, 4), torch.randn(2, 4, 4))
    finding = confirmed(full(Cached(), example, ({1: "t"}, {1: "p"})))
    assert (finding.stage, [dim.place for dim in finding.dims]) == ("capture", ["past[1]"])
    assert finding.counterexample is not None
    assert finding.counterexample.sizes == {"x": (2, 3, 4), "past": (2, 0, 4)}
    assert finding.counterexample.kind == "values"
    never = full(Cached(), example, ({1: "t"}, {1: torch.export.Dim("p", min=1)}))
    assert never.status == "clean"
    assert all(0 not in tried.sizes["past"] for tried in never.tries)


def test_a_fault_of_the_translation_where_a_guard_excludes_the_sizes_too() -> None:
    """A flow of width 1 is stretched to the grid's: the decomposed program is right there, the ONNX model is not."""

    class Grid(nn.Module):
        def forward(self, x: torch.Tensor, flow: torch.Tensor) -> torch.Tensor:
            h, w = x.shape[2:]
            rows, columns = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
            grid = torch.stack([columns, rows], -1).float()[None] + flow.permute(0, 2, 3, 1)
            return 2 * grid / torch.tensor([w - 1, h - 1]) - 1

    example = (torch.randn(1, 3, 9, 11), torch.randn(1, 2, 9, 11))
    report = full(Grid(), example, ({2: "h", 3: "w"}, {2: "h2", 3: "w2"}))
    guarded, later = report.findings
    assert guarded.guards
    assert later.counterexample is not None
    assert guarded.admits(later.counterexample.sizes) is False
    assert later.reason.startswith("no guard is to blame: ")


def test_nearest_exact() -> None:
    finding = new(
        full(
            One(lambda x: F.interpolate(x, scale_factor=0.7, mode="nearest-exact")),
            (torch.randn(1, 2, 8),),
            ({2: "t"},),
        )
    )
    assert finding.counterexample is not None
    assert finding.counterexample.sizes == {"x": (1, 2, 7)}
    assert finding.counterexample.kind == "values"


def test_antialiased_bilinear() -> None:
    model = One(lambda x: F.interpolate(x, scale_factor=0.5, mode="bilinear", antialias=True))
    finding = new(full(model, (torch.randn(1, 2, 6, 8),), ({2: "h", 3: "w"},)))
    assert finding.counterexample is not None
    assert finding.counterexample.kind == "values"
    height, width = finding.counterexample.sizes["x"][2:]
    assert height % 2 or width % 2
    assert [dim.place for dim in finding.dims] == ["x[2]", "x[3]"]  # either of them moved alone shows it


def test_scatter_with_a_smaller_index() -> None:
    index = torch.arange(12).reshape(4, 3) % 4
    report = full(
        Two(lambda x, y: torch.zeros_like(x).scatter(0, y, x)), (torch.randn(4, 3), index), ({0: "n"}, {0: "k"})
    )
    finding = new(report)
    assert finding.counterexample is not None
    assert finding.counterexample.kind == "runtime_error"
    assert finding.counterexample.sizes["y"][0] < finding.counterexample.sizes["x"][0]
    assert [(f.stage, f.verdict) for f in report.findings] == [("capture", "inherent"), ("translate", "confirmed")]


def test_the_default_mode_does_not_look_for_such_faults() -> None:
    report = guarddiff.check(
        One(lambda x: x.squeeze(1)).eval(),
        (torch.randn(3, 1, 4),),
        dynamic_shapes=({1: "k"},),
        verbose=False,
        on_finding="ignore",
    )
    assert (report.status, report.findings) == ("clean", ())


@pytest.mark.parametrize(
    ("model", "args", "shapes"),
    [
        (
            nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)),
            (torch.randn(2, 3, 16, 20),),
            ({0: "n", 2: "h", 3: "w"},),
        ),
        (
            One(lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear")),
            (torch.randn(2, 3, 6, 8),),
            ({0: "n", 2: "h", 3: "w"},),
        ),
        (
            Two(lambda x, y: F.scaled_dot_product_attention(x, x, x, attn_mask=y)),
            (torch.randn(2, 2, 5, 8), torch.ones(2, 1, 5, 5, dtype=torch.bool).tril()),
            ({0: "b", 2: "t"}, {0: "b", 2: "t", 3: "t"}),
        ),
        (One(lambda x: x.cumsum(1).softmax(1)), (torch.randn(2, 6),), ({0: "n", 1: "t"},)),
    ],
    ids=["convolutions", "interpolate", "attention", "cumsum"],
)
def test_right_models_stay_clean(model: nn.Module, args: tuple[torch.Tensor, ...], shapes: Any) -> None:
    report = full(model, args, shapes)
    assert report.status == "clean"
    assert report.missing == ()
    assert [finding.verdict for finding in report.findings if finding.warns] == []


def test_a_finding_that_is_confirmed_already_explains_its_points() -> None:
    report = full(One(lambda x: F.adaptive_avg_pool2d(x, (2, 3))), (torch.randn(1, 2, 6, 6),), ({2: "h", 3: "w"},))
    finding = confirmed(report)
    assert len(report.findings) == 1
    assert finding.stage == "decompose"
    assert finding.admits({"x": (1, 2, 6, 6)}) is True
    assert finding.admits({"x": (1, 2, 6, 9)}) is False


def test_what_could_not_be_run_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    report = full(nn.ReLU(), (torch.randn(3),), ({0: "n"},))
    assert report.missing == (Missing("runs at further sizes", "ONNX Runtime is not installed"),)
    assert report.status == "incomplete"


def test_a_random_model_is_missing() -> None:
    report = full(One(lambda x: x + torch.rand_like(x)), (torch.randn(3),), ({0: "n"},))
    why = "the model could not be run at the example's own sizes (the module differs from itself in two eager runs)"
    assert report.missing == (Missing("runs at further sizes", why),)
    assert report.status == "incomplete"


def test_a_model_that_is_wrong_at_the_example_is_not_clean() -> None:
    model = One(lambda x: F.interpolate(x, scale_factor=0.6, mode="bilinear", antialias=True))
    report = full(model, (torch.randn(1, 2, 6, 4),), ({2: "h"},))
    assert report.status == "specialized"
    (finding,) = report.findings
    assert (finding.verdict, finding.stage, finding.dims) == ("confirmed", "translate", ()) and finding.at_example
    assert finding.counterexample is not None and finding.counterexample.sizes == {"x": (1, 2, 6, 4)}
    assert "upsample" in finding.op and finding.warns
    assert "wrong at the example's own sizes already" in report.to_text()
    (missing,) = report.missing
    assert missing.part == "runs at further sizes"
    assert missing.why.startswith("the ONNX model differs from eager PyTorch at the example's own sizes (eager: ")
