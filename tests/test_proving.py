"""What of the proofs goes into a report, by the keywords that ask for it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import guarddiff
from guarddiff.api import check_at
from guarddiff.core.report import Missing
from guarddiff.replay.prove import Prover

pytestmark = pytest.mark.usefixtures("shared_registry")


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
def test_sizes_that_can_not_be_run_are_missing() -> None:
    wide = (torch.randn(3000, 1),)
    report = check(Doubled(), wide, ({1: "k"},), sizes={"k": [2, 40_000]})
    assert report.status == "incomplete"
    assert [(t.sizes["x"][1], t.state) for t in report.tries] == [(1, "agrees"), (2, "agrees"), (40_000, "unknown")]
    why = "k=40000: an input of shape (3000, 40000) has more than 67,108,864 elements"
    assert report.missing == (Missing("runs at the sizes that were asked for", why),)
    assert check(Doubled(), wide, ({1: "k"},), sizes={"k": [2]}).status == "clean"


@QUICK
def test_sizes_that_time_is_too_short_for_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    first = Prover.baseline

    def late(prover: Prover) -> Any:
        outcome = first(prover)
        prover.deadline = 0.0
        return outcome

    monkeypatch.setattr(Prover, "baseline", late)
    report = check(Doubled(), COLUMN, ({1: "k"},), sizes={"k": [7]})
    assert report.status == "incomplete"
    assert [missing.why for missing in report.missing] == ["k=7: the time for trying (120 s) was used up"]


@QUICK
@pytest.mark.parametrize(
    ("keywords", "why"),
    [
        ({"replay": "off"}, 'replay="off": nothing was run'),
        ({"replay": "off", "dynamo": False}, 'replay="off": nothing was run'),
    ],
)
def test_sizes_that_are_not_run_at_all_are_missing(keywords: dict[str, Any], why: str, tmp_path: Path) -> None:
    given = {"dynamo": True, "dynamic_axes": {"x": {1: "k"}}, "input_names": ["x"], "replay": "full", **keywords}
    given = {"verbose": False, "on_finding": "ignore", **given}
    report = check_at(Doubled(), COLUMN, str(tmp_path / "m.onnx"), sizes={"k": [7]}, **given)
    assert report.status == "incomplete"
    assert Missing("runs at the sizes that were asked for", why) in report.missing


@QUICK
def test_sizes_that_a_file_of_the_old_exporter_is_run_at(tmp_path: Path) -> None:
    class Halved(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[:, : int(x.shape[1]) // 2]

    def at(*asked: int, replay: str = "findings") -> guarddiff.Report:
        given = {"dynamo": False, "dynamic_axes": {"x": {1: "k"}}, "input_names": ["x"], "replay": replay}
        given |= {"verbose": False, "on_finding": "ignore", "sizes": {"k": list(asked)}}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return check_at(Halved(), (torch.randn(2, 8),), str(tmp_path / "m.onnx"), **given)

    wrong, large = at(9, 20), at(2**40, replay="full")
    assert [f.counterexample.sizes for f in wrong.findings if f.counterexample is not None] == [{"x": (2, 20)}]
    assert [missing.part for missing in wrong.missing] == ["guards"]
    assert [missing.part for missing in large.missing] == ["runs at the sizes that were asked for"]
    assert "more than 67,108,864 elements" in large.missing[0].why


@QUICK
def test_sizes_that_can_not_be_run_keep_no_repair_away() -> None:
    report = check(Pool(), (torch.randn(1, 64, 6, 6),), SHAPES, sizes={"h": [40_000], "w": [40]}, repair=True)
    assert report.repair is not None and report.repair.returned
    assert report.status == "incomplete"
    assert [missing.part for missing in report.missing] == ["runs at the sizes that were asked for"]


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
