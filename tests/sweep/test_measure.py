"""One case measured for real: what is true, what guarddiff says, whether the repair cures it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnxscript
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from guarddiff.sweep import measure, sources
from guarddiff.sweep.case import Case, Trial
from guarddiff.sweep.catalogue.entry import Entry, Of, one, two
from guarddiff.sweep.outcome import Outcome

op = onnxscript.opset18


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outcome]:
    def run(entry: Entry, change: Callable[[Trial], Trial] = lambda trial: trial, **more: Any) -> Outcome:
        monkeypatch.setattr(sources, "trial", lambda case: change(entry.trial()))
        outcome = measure.measure(Case("catalogue", entry.family, entry.name), **more)
        assert Outcome.from_data(outcome.to_data()) == outcome
        return outcome

    return run


def test_right(measured: Callable[..., Outcome]) -> None:
    outcome = measured(one("test", "right", lambda x: x * 2 + 1, (2, 6), (3, 6), (2, 7), (1, 12)))
    assert (outcome.state, outcome.stage, outcome.tried, outcome.wrong) == ("ok", None, 3, ())
    assert outcome.default is not None and outcome.full is not None
    assert (outcome.default.status, outcome.default.verdict, outcome.default.warned) == ("clean", "none", False)
    assert outcome.full.status == "clean" and outcome.repair is None and not outcome.text


def test_wrong_from_decomposition_is_found_by_default_and_cured(measured: Callable[..., Outcome]) -> None:
    pool = one("test", "pool", lambda x: F.adaptive_avg_pool2d(x, (2, 3)), (1, 3, 6, 6), (1, 3, 12, 12), (2, 3, 6, 6))
    outcome = measured(pool)
    assert (outcome.state, outcome.stage, outcome.wrong_points) == ("wrong shape", "decompose", 1)
    assert outcome.wrong[0].shapes == ((1, 3, 12, 12),) and "(1, 3, 2, 3)" in outcome.wrong[0].text
    assert outcome.default is not None and outcome.full is not None and outcome.repair is not None
    for said in (outcome.default, outcome.full):
        assert (said.verdict, said.warned) == ("confirmed", True)
        assert said.findings[0].op == "aten._adaptive_avg_pool2d.default" and said.findings[0].stage == "decompose"
        assert "adaptive_avg_pool2d" in (said.findings[0].rule or "")
    assert outcome.repair.returned and outcome.repair.cured


def test_wrong_from_translation_is_found_by_the_full_mode_alone(measured: Callable[..., Outcome]) -> None:
    outcome = measured(one("test", "squeeze", lambda x: x.squeeze(1) * 2, (2, 1, 3), (2, 2, 3)), repair=False)
    assert (outcome.state, outcome.stage, outcome.repair) == ("runtime error", "translate", None)
    assert outcome.default is not None and not outcome.default.warned
    assert outcome.full is not None and outcome.full.verdict == "confirmed"


def test_an_input_that_the_file_calls_static(measured: Callable[..., Outcome]) -> None:
    names = [{0: Dim(f"a{i}"), 1: Dim(f"b{i}")} for i in range(2)]
    entry = two("test", "kron", torch.kron, ((2, 3), (4, 5)), ((4, 6), (8, 10)), dynamic=names)
    outcome = measured(entry)
    assert outcome.state == "static input" and not outcome.silent and outcome.repair is None


class Branch(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum() > 0 else x


def test_what_torch_cannot_export(measured: Callable[..., Outcome]) -> None:
    outcome = measured(Entry("test", "branch", Branch, ((2, 6),), (((3, 6),),)))
    assert outcome.state == "export error" and outcome.text.startswith("GuardOnDataDependentSymNode")
    assert outcome.default is None and outcome.repair is not None and not outcome.repair.cured


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda x: x + torch.rand_like(x), "differs from itself"),
        (lambda x: x.view(2, 6), "no other size"),
        (lambda x: x.shape[0], "no tensors"),
        (lambda x: x.to_sparse(), "another layout"),
    ],
)
def test_what_cannot_be_compared(measured: Callable[..., Outcome], function: Callable[..., Any], why: str) -> None:
    outcome = measured(one("test", "none", function, (2, 6), (3, 6)))
    assert outcome.state == "not comparable" and why in outcome.text


def own_seed(x: torch.Tensor) -> torch.Tensor:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return x + torch.rand_like(x)


def test_what_is_random_in_the_exported_model_alone(measured: Callable[..., Outcome]) -> None:
    outcome = measured(one("test", "seed", own_seed, (2, 6), (3, 6)))
    assert outcome.state == "not comparable" and "the exported model differs from itself" in outcome.text


class Broken(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        raise RuntimeError("no such weights")


def test_a_case_that_cannot_be_made(measured: Callable[..., Outcome]) -> None:
    outcome = measured(Entry("test", "broken", Broken, ((2, 6),), (((3, 6),),)))
    assert outcome.state == "failed" and outcome.text


def wrong_relu(x):  # type: ignore[no-untyped-def]
    return op.Neg(x)


def test_wrong_at_the_example_already(measured: Callable[..., Outcome]) -> None:
    table = {torch.ops.aten.relu.default: wrong_relu}

    def change(trial: Trial) -> Trial:
        keywords = {**trial.keywords, "custom_translation_table": table}
        return Trial(trial.model, trial.shapes, trial.others, trial.at, keywords)

    outcome = measured(one("test", "relu", torch.relu, (2, 6), (3, 6)), change, repair=False)
    assert (outcome.state, outcome.stage, outcome.wrong_points) == ("wrong values", "example", 2)
    assert outcome.wrong[0].shapes == outcome.example


def unloadable(x):  # type: ignore[no-untyped-def]
    return op.Concat(x, op.Cast(x, to=7), axis=0)


def test_a_file_that_onnx_runtime_cannot_load(measured: Callable[..., Outcome]) -> None:
    def change(trial: Trial) -> Trial:
        keywords = {**trial.keywords, "custom_translation_table": {torch.ops.aten.relu.default: unloadable}}
        return Trial(trial.model, trial.shapes, trial.others, trial.at, keywords)

    outcome = measured(one("test", "relu", torch.relu, (2, 6), (3, 6)), change, repair=False)
    assert (outcome.state, outcome.stage) == ("runtime error", "example")
    assert "load the model" in outcome.wrong[0].text


def test_a_fault_that_guarddiff_proved_is_looked_at_where_it_was(measured: Callable[..., Outcome]) -> None:
    """The case's own sizes show nothing: the batch changes alone, and height and width were declared dynamic too."""
    every = dict.fromkeys((0, 2, 3), Dim.AUTO)
    entry = Entry(
        "test",
        "pool",
        lambda: Of(lambda x: F.adaptive_avg_pool2d(x, (2, 3))),
        ((1, 3, 6, 6),),
        (((2, 3, 6, 6),),),
        dynamic=[every],
    )
    outcome = measured(entry, repair=False)
    assert outcome.state in ("wrong shape", "wrong values") and outcome.stage == "decompose"
    assert outcome.beyond and not outcome.unsure
    assert outcome.wrong[0].shapes[0][2:] != (6, 6)


def test_the_verdicts_are_those_of_the_full_mode(measured: Callable[..., Outcome]) -> None:
    """The sweep leaves out ladders and reproductions: the verdicts must be those of a real ``replay="full"``."""
    import guarddiff

    for entry in (
        one("test", "squeeze", lambda x: x.squeeze(1) * 2, (2, 1, 3), (2, 2, 3)),
        one("test", "split", lambda x: x.split(2, dim=1), (3, 6), (3, 12)),
    ):
        outcome = measured(entry, repair=False)
        trial = entry.trial()
        args, kwargs = trial.at(trial.shapes)
        report = guarddiff.check(
            trial.model, args, kwargs=kwargs, replay="full", on_finding="ignore", verbose=False, **trial.keywords
        )
        assert outcome.full is not None and report.findings
        assert [(f.stage, f.op, f.verdict) for f in report.findings] == [
            (f.stage, f.op, f.verdict) for f in outcome.full.findings
        ]


def test_the_report_of_a_case(tmp_path: Any) -> None:
    paths = measure.report(sources.case("ops/abs/0"), tmp_path)
    assert {path.suffix for path in paths} == {".md", ".json", ".html"}
    import guarddiff

    report = guarddiff.load_report(next(path for path in paths if path.suffix == ".json"))
    assert report.status == "clean" and report.model == "Operator"


def padded(x: torch.Tensor) -> torch.Tensor:
    missing = -x.shape[1] % 4
    if missing:
        x = F.pad(x, (0, missing))
    return x * 2


def test_an_input_that_the_repaired_export_calls_otherwise(measured: Callable[..., Outcome]) -> None:
    """Torch calls the input ``x_orig`` where the branch is not taken, and ``x`` in the export that repairs it."""
    outcome = measured(one("test", "padded", padded, (2, 8), (2, 9), (3, 10)))
    assert outcome.silent and outcome.repair is not None
    assert outcome.repair.returned and outcome.repair.state == "ok", outcome.repair
