"""What of the proofs goes into a report, by the keywords that ask for it."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.onnx._internal.exporter._registration import ONNXRegistry

import guarddiff
from guarddiff.api import check_at


@pytest.fixture(scope="module", autouse=True)
def shared_registry() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ONNXRegistry, "from_torchlib", staticmethod(functools.cache(ONNXRegistry.from_torchlib)))
        yield


QUICK = pytest.mark.usefixtures("no_reproductions")


class Pool(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.adaptive_avg_pool2d(torch.relu(x), (2, 3))


class Squeeze(nn.Module):
    """Right at k = 1 only, and no guard tells of it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x).squeeze(1)


class Doubled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


IMAGE = (torch.randn(1, 2, 6, 6),)
SHAPES = ({2: "h", 3: "w"},)
COLUMN = (torch.randn(3, 1, 4),)


def check(model: nn.Module, args: Any, shapes: Any, **more: Any) -> guarddiff.Report:
    return check_at(model, args, dynamic_shapes=shapes, verbose=False, on_finding="ignore", dynamo=True, **more)


@QUICK
def test_the_default_tries_and_shows_the_operator_but_climbs_no_ladder() -> None:
    report = check(Pool(), IMAGE, SHAPES)
    (finding,) = report.findings
    assert finding.verdict == "confirmed"
    assert finding.ladder is None
    assert finding.decomposition is not None
    assert [(t.sizes, t.state, t.scope) for t in report.tries] == [({"x": (1, 2, 12, 12)}, "differs", "operator")]
    assert "(1, 2, 4, 6)" in report.tries[0].text


def test_full_climbs_the_ladder_at_the_counterexample() -> None:
    report = check(Pool(), IMAGE, SHAPES, replay="full")
    (finding,) = report.findings
    assert finding.ladder is not None
    assert finding.counterexample is not None
    assert finding.ladder.sizes == finding.counterexample.sizes
    assert finding.ladder.stage == finding.stage == "decompose"
    assert finding.reproduction is not None
    assert "adaptive_avg_pool2d" in finding.reproduction.script
    assert ": different" in finding.reproduction.output
    assert {t.scope for t in report.tries} == {"operator", "model"}
    assert {t.state for t in report.tries} >= {"agrees", "differs"}


@QUICK
def test_a_written_report_has_the_ladder_too(tmp_path: Path) -> None:
    report = check(Pool(), IMAGE, SHAPES, report_to=tmp_path)
    assert report.findings[0].ladder is not None
    (path,) = [path for path in report.paths if path.suffix == ".json"]
    assert guarddiff.load_report(path).findings == report.findings


@QUICK
def test_off_runs_nothing(tmp_path: Path) -> None:
    report = check(Pool(), IMAGE, SHAPES, replay="off", report_to=tmp_path)
    assert report.tries == ()
    assert report.findings[0].ladder is None
    assert report.findings[0].verdict == "unconfirmed"


@QUICK
def test_sizes_of_the_user_find_what_no_guard_tells() -> None:
    assert check(Squeeze(), COLUMN, ({1: "k"},)).status == "clean"
    report = check(Squeeze(), COLUMN, ({1: "k"},), sizes={"k": [1, 5]})
    assert report.status == "specialized"
    (finding,) = report.findings
    assert (finding.stage, finding.op) == ("translate", "aten.squeeze.dim")
    assert finding.counterexample is not None
    assert finding.counterexample.sizes == {"x": (3, 5, 4)}
    assert finding.origin.source is not None
    assert finding.origin.source.text == "return torch.relu(x).squeeze(1)"


@QUICK
def test_sizes_of_the_user_at_which_all_is_right() -> None:
    report = check(Doubled(), COLUMN, ({1: "k"},), sizes={"x[1]": [4, 9]})
    assert report.status == "clean"
    assert [t.sizes["x"][1] for t in report.tries] == [1, 4, 9]
    assert {t.state for t in report.tries} == {"agrees"}


@QUICK
def test_sizes_that_the_model_refuses_are_told() -> None:
    class Square(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.shape[0] > 50:
                raise ValueError("too many")
            return x @ x

    report = check(Square(), (torch.randn(4, 4),), ({0: "n", 1: "n"},), sizes=[{"n": 60}])
    assert [(t.sizes, t.state) for t in report.tries if t.sizes["x"][0] == 60] == [({"x": (60, 60)}, "rejected")]


@QUICK
def test_unknown_sizes_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"there is no dimension 'q' \(known: k, x\[1\]\)"):
        check(Doubled(), COLUMN, ({1: "k"},), sizes={"q": [4]})


@QUICK
def test_two_faults_of_translation_are_two_findings() -> None:
    class Two(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            missing = 8 - y.shape[1]
            return x.squeeze(1), F.pad(y, (missing // 2, missing - missing // 2))

    report = check(Two(), (torch.randn(3, 1, 4), torch.randn(2, 4)), ({1: "k"}, {1: "m"}), replay="full")
    found = {f.op: [dim.name for dim in f.dims] for f in report.findings if f.verdict == "confirmed"}
    assert found == {"aten.squeeze.dim": ["k"], "operator.floordiv": ["m"]}


@QUICK
def test_a_guard_is_not_blamed_for_a_fault_of_translation() -> None:
    """``copy_`` into a slice leaves a guard that does no harm; ``squeeze`` leaves none and is wrong."""

    class Copied(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = torch.zeros_like(x)
            y[:, 1:].copy_(x[:, 1:])
            return y.squeeze(0)

    report = check(Copied(), (torch.rand(1, 3, 4),), ({0: "b", 2: "n"},))
    found = {f.op: (f.stage, f.verdict) for f in report.findings}
    assert found == {
        "aten.copy_.default": ("capture", "harmless"),
        "aten.squeeze.dim": ("translate", "confirmed"),
    }
    (harmless,) = [f for f in report.findings if f.verdict == "harmless"]
    assert "what is wrong there came later" in harmless.reason
