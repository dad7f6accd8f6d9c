"""Verdicts, from real exports; the search of whole models is in test_search.py."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

import guarddiff
from guarddiff.core.finding import Finding
from guarddiff.replay import prove, verdicts
from guarddiff.replay.run import Outcome, Unavailable

pytestmark = pytest.mark.usefixtures("shared_registry")


class Model(nn.Module):
    """A model of one function; two inputs at most."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, y: torch.Tensor | None = None) -> Any:
        return self.function(x) if y is None else self.function(x, y)


def check(function: Any, args: tuple[torch.Tensor, ...], shapes: Any, **more: Any) -> guarddiff.Report:
    model = function if isinstance(function, nn.Module) else Model(function)
    return guarddiff.check(model.eval(), args, dynamic_shapes=shapes, verbose=False, on_finding="ignore", **more)


def only(report: guarddiff.Report) -> Finding:
    assert report.missing == ()
    (finding,) = report.findings
    return finding


TORCH = tuple(int(part) for part in torch.__version__.split(".")[:2])
IMAGE = torch.randn(1, 2, 6, 6, generator=torch.Generator().manual_seed(0))
HEIGHT_WIDTH = ({2: "h", 3: "w"},)


def pooled(x: torch.Tensor) -> torch.Tensor:
    return F.adaptive_avg_pool2d(torch.relu(x), (2, 3))


# --- confirmed ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pooling() -> Finding:
    return only(check(pooled, (IMAGE,), HEIGHT_WIDTH))


def test_confirmed_by_the_operator_alone(pooling: Finding) -> None:
    proof = pooling.counterexample
    assert pooling.verdict == "confirmed"
    assert proof is not None
    assert (proof.scope, proof.kind) == ("operator", "shape")
    assert proof.sizes == {"x": (1, 2, 12, 12)}
    assert proof.operator_shapes == ((1, 2, 12, 12),)
    assert proof.expected == "output 0: (1, 2, 2, 3)"
    assert proof.got == "output 0: (1, 2, 4, 6)"
    assert pooling.reason == (
        "aten.adaptive_avg_pool2d.default was run by itself at these sizes, in eager PyTorch and in ONNX Runtime "
        "(the nodes that it became)"
    )


def test_confirmed_by_the_whole_model() -> None:
    def loop(x: torch.Tensor) -> torch.Tensor:
        total = x[:, 0] * 0
        for index in range(x.shape[1]):
            total = total * 0.5 + x[:, index]
        return total

    finding = only(check(loop, (torch.randn(2, 4),), ({1: Dim.AUTO},)))
    assert finding.verdict == "confirmed"
    assert finding.reason == "the whole model was run at these sizes"
    assert finding.counterexample is not None
    assert finding.counterexample.scope == "model"
    assert finding.counterexample.operator_shapes == ()
    assert finding.counterexample.sizes == {"x": (2, 8)}
    assert finding.counterexample.kind == "values"


def test_an_operator_behind_others_is_tried_at_its_own_shapes() -> None:
    finding = only(
        check(lambda x: F.adaptive_avg_pool2d(F.max_pool2d(x, 2), (2, 3)), (torch.randn(1, 2, 12, 12),), HEIGHT_WIDTH)
    )
    proof = finding.counterexample
    assert proof is not None
    assert proof.scope == "operator"
    assert proof.sizes == {"x": (1, 2, 24, 24)}
    assert proof.operator_shapes == ((1, 2, 12, 12),)


def test_the_counterexample_is_one_that_eager_accepts_in_the_whole_model() -> None:
    """The matrix product after the pooling of the other branch rejects what is not a multiple of 12."""

    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return F.adaptive_avg_pool2d(x, (2, 3)), x.reshape(x.shape[0], -1, 3, 4).sum(1)

    report = check(function, (torch.randn(1, 2, 6, 6),), ({2: Dim.AUTO},))
    confirmed = [finding for finding in report.findings if finding.op.startswith("aten._adaptive_avg_pool2d")]
    assert [finding.verdict for finding in confirmed] == ["confirmed"]
    proof = confirmed[0].counterexample
    assert proof is not None
    function(torch.randn(proof.sizes["x"]))


# --- harmless, inherent ---------------------------------------------------------------------------------


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(3, 4, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.gru(x)[0]


@pytest.mark.skipif(TORCH >= (2, 15), reason="torch 2.15 exports a GRU without a guard")
def test_harmless() -> None:
    finding = only(check(Gated(), (torch.randn(2, 5, 3),), ({1: "t"},)))
    assert finding.verdict == "harmless"
    assert finding.counterexample is None
    assert finding.reason == "9 sizes that break the guards were run and agree with eager PyTorch"
    assert not finding.warns


def test_stretching_the_other_input_is_tried_before_a_guard_is_called_harmless() -> None:
    """``x[1]`` and ``y[0]`` have size 1 in the example; each grown alone agrees, and only both turned round do not."""
    shapes = tuple({0: Dim.AUTO, 1: Dim.AUTO} for _ in range(2))
    found = only(check(torch.broadcast_tensors, (torch.randn(4, 1), torch.randn(1, 3)), shapes))
    assert found.verdict == "confirmed" and found.counterexample is not None
    assert set(found.guards) == {"x[1] == 1", "y[0] == 1"}


def test_a_branch_whose_ways_agree_is_harmless() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[0] > 7 else x + x

    finding = only(check(function, (torch.randn(5, 3),), ({0: "n"},)))
    assert finding.verdict == "harmless"
    assert str(finding.dims[0].admitted) == "at most 7"


def test_a_size_that_capture_put_into_the_operator_is_not_proved_by_the_operator_alone() -> None:
    shapes = ({2: Dim.AUTO, 3: Dim.AUTO, 4: Dim.AUTO},)
    finding = only(check(nn.AdaptiveMaxPool3d((None, None, None)), (torch.randn(1, 2, 4, 3, 5),), shapes))
    assert finding.stage == "capture"
    assert finding.verdict == "harmless"  # the pooling by itself, to 4×3×5, is wrong at 8×6×10; the model is right


def test_nor_is_what_capture_computed_from_a_size() -> None:
    pool = nn.AdaptiveMaxPool3d((None, None, None))
    shapes = ({2: Dim.AUTO},)
    finding = only(check(lambda x: pool(x[:, :, : x.shape[2] // 2]), (torch.randn(1, 2, 8, 3, 5),), shapes))
    assert finding.stage == "capture" and finding.dims[0].example == 8
    assert finding.verdict == "harmless"


def test_inherent() -> None:
    report = check(nn.Conv2d(3, 4, 3), (torch.randn(1, 3, 8, 8),), ({1: Dim.AUTO, 2: "h"},))
    (finding,) = report.findings
    assert finding.verdict == "inherent"
    assert finding.reason.startswith("eager PyTorch rejects every such size too (8 tried: RuntimeError: Given groups=1")
    assert finding.counterexample is None
    assert report.status == "clean"


class Patches(nn.Module):
    """Pictures of up to four pixels a side give one patch, which the second convolution refuses, as it does others."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, stride=4, padding=1)
        self.norm = nn.LayerNorm(4)
        self.second = nn.Conv2d(4, 4, 8, stride=8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        n, c, h, w = y.shape
        tokens = self.norm(y.flatten(2).transpose(1, 2))
        again = tokens.permute(0, 2, 1).reshape(n, c, h, w)
        reduced = self.second(again).reshape(n, c, -1).permute(0, 2, 1)
        return tokens.sum(1, keepdim=True) + (reduced * 2 if reduced.shape[1] > 1 else reduced + reduced)


def test_sizes_that_break_guards_of_others_that_do_no_harm_tell_of_the_finding_itself() -> None:
    report = check(Patches().eval(), (torch.randn(2, 3, 64, 64),), (dict.fromkeys((2, 3), Dim.AUTO),))
    (one_patch,) = [f for f in report.findings if f.origin.source is not None and "again =" in f.origin.source.text]
    assert one_patch.verdict == "inherent"
    assert "Kernel size can't be greater than actual input size" in one_patch.reason
    assert {finding.verdict for finding in report.findings} <= {"inherent", "harmless"}
    assert report.status == "clean"


# --- unconfirmed ----------------------------------------------------------------------------------------


def test_unconfirmed_without_onnx_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    report = check(pooled, (IMAGE,), HEIGHT_WIDTH)
    finding = only(report)
    assert finding.verdict == "unconfirmed"
    assert finding.reason == "ONNX Runtime is not installed"
    assert finding.counterexample is None
    assert report.status == "specialized"
    with pytest.raises(Unavailable, match="ONNX Runtime is not installed"):
        prove.raise_if_no_runtime()


def test_unconfirmed_with_replay_off() -> None:
    finding = only(check(pooled, (IMAGE,), HEIGHT_WIDTH, replay="off"))
    assert finding.verdict == "unconfirmed"
    assert finding.reason == 'replay="off": nothing was run'
    assert [str(dim.admitted) for dim in finding.dims] == ["exactly 6", "exactly 6"]


def test_unconfirmed_where_the_model_is_wrong_at_the_example_already() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        x = F.interpolate(x, scale_factor=0.6, mode="bilinear", antialias=True)
        return x * 2 if x.shape[2] > 7 else x + 1

    finding = only(check(function, (torch.randn(1, 2, 6, 4),), ({2: "h"},)))
    assert finding.verdict == "unconfirmed"
    assert finding.reason.startswith("the ONNX model differs from eager PyTorch at the example's own sizes (eager: ")
    assert finding.counterexample is None


def test_unconfirmed_where_the_model_is_random() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        noisy = x + torch.rand_like(x)
        return noisy * 2 if x.shape[0] > 7 else noisy

    finding = only(check(function, (torch.randn(5, 3),), ({0: "n"},)))
    assert finding.verdict == "unconfirmed"
    assert "the module differs from itself in two eager runs" in finding.reason


def test_a_random_model_does_not_hide_an_operator_that_can_stand_alone() -> None:
    finding = only(check(lambda x: F.adaptive_avg_pool2d(x + torch.rand_like(x), (2, 3)), (IMAGE,), HEIGHT_WIDTH))
    assert finding.verdict == "confirmed"
    assert finding.counterexample is not None
    assert finding.counterexample.scope == "operator"


def test_unconfirmed_where_the_module_cannot_be_copied() -> None:
    class Stubborn(Model):
        def __deepcopy__(self, memo: Any) -> Any:
            raise RuntimeError("not me")

    finding = only(check(Stubborn(pooled), (IMAGE,), HEIGHT_WIDTH))
    assert finding.verdict == "unconfirmed"
    line = Stubborn.__deepcopy__.__code__.co_firstlineno + 1
    assert f"can't be copied, so it was not run (RuntimeError: raised at test_prove.py:{line})" in finding.reason


def test_unconfirmed_where_the_time_is_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prove, "SECONDS", -1.0)

    def function(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[0] > 7 else x + 1

    finding = only(check(function, (torch.randn(5, 3),), ({0: "n"},)))
    assert finding.verdict == "unconfirmed"
    assert "the time for trying" in finding.reason


# --- the rules by themselves ----------------------------------------------------------------------------

AGREES, REJECTED = Outcome("agrees"), Outcome("rejected", text="RuntimeError: no")
UNKNOWN = Outcome("unknown", text="who knows")


@pytest.mark.parametrize(
    ("tried", "verdict", "reason"),
    [
        ([AGREES], "harmless", "1 size that breaks the guards was run and agrees with eager PyTorch"),
        ([AGREES, REJECTED, REJECTED], "harmless", "1 size that breaks"),
        ([REJECTED, REJECTED], "inherent", "eager PyTorch rejects every such size too (2 tried: RuntimeError: no)"),
        ([UNKNOWN], "unconfirmed", "who knows"),
        ([REJECTED, UNKNOWN], "unconfirmed", "who knows"),
        ([AGREES, AGREES, UNKNOWN], "unconfirmed", "who knows"),
        ([AGREES, AGREES, AGREES, UNKNOWN], "harmless", "3 sizes"),
    ],
)
def test_verdict_without_a_difference(pooling: Finding, tried: list[Outcome], verdict: str, reason: str) -> None:
    bare = prove.replace(pooling, reason="", verdict="unconfirmed", counterexample=None)
    found = verdicts.without_difference(bare, tried, True)
    assert found.verdict == verdict
    assert found.reason.startswith(reason)
    assert found.counterexample is None


def test_sizes_that_break_other_guards_too_show_nothing_inherent(pooling: Finding) -> None:
    bare = prove.replace(pooling, reason="", verdict="unconfirmed", counterexample=None)
    found = verdicts.without_difference(bare, [REJECTED, REJECTED], False)
    assert found.verdict == "unconfirmed"
    assert found.reason == (
        "eager PyTorch rejects every size tried (RuntimeError: no), but each breaks another finding's guards too"
    )
    assert verdicts.without_difference(bare, [AGREES, REJECTED], False).verdict == "harmless"


def test_an_error_of_the_try_itself_makes_one_finding_unconfirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError("of ours")

    monkeypatch.setattr(prove.Prover, "_whole", fail)
    monkeypatch.setattr(prove.Prover, "_isolated", lambda *_: None)
    finding = only(check(pooled, (IMAGE,), HEIGHT_WIDTH))
    assert finding.verdict == "unconfirmed"
    line = fail.__code__.co_firstlineno + 1
    assert finding.reason == f"the try itself failed (ZeroDivisionError: raised at test_prove.py:{line})"


# --- far from the example -------------------------------------------------------------------------------


@pytest.mark.parametrize("bound", [20_000, 16_386, 5_000_000])
def test_a_bound_beyond_the_sizes_that_are_all_looked_at(bound: int) -> None:
    finding = only(
        check(lambda x: x + 1 if x.shape[0] < bound else x - 1, (torch.rand(3),), ({0: "n"},), replay="full")
    )
    assert (finding.verdict, str(finding.dims[0].admitted)) == ("confirmed", f"at most {bound - 1}")
    assert finding.counterexample is not None
    assert finding.counterexample.sizes == {"x": (bound,)}


def test_a_bound_at_which_nothing_can_be_run() -> None:
    dim = Dim("n", max=2**40)
    finding = only(check(lambda x: x + 1 if x.shape[0] < 2**30 else x - 1, (torch.rand(3),), ({0: dim},)))
    assert (finding.verdict, str(finding.dims[0].admitted)) == ("unconfirmed", "at most 1073741823")
    assert "a value inside the model would have 1,073,741,824 elements" in finding.reason


def test_a_product_far_away() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[0] * x.shape[1] < 10**6 else x

    finding = only(check(function, (torch.rand(3, 4),), ({0: "a", 1: "b"},)))
    assert finding.verdict == "confirmed"
    assert finding.counterexample is not None
    rows, columns = finding.counterexample.sizes["x"]
    assert 10**6 <= rows * columns < 2 * 10**6


def test_a_branch_that_differs_far_above_the_example_only() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x - x[:, 64:].sum(1, keepdim=True) if x.shape[1] > 4 else x - 0

    finding = only(check(function, (torch.rand(2, 4),), ({1: "n"},)))
    assert finding.verdict == "confirmed"
    assert finding.counterexample is not None
    assert finding.counterexample.sizes == {"x": (2, 257)}


@pytest.mark.parametrize(("example", "rest", "far"), [(7, 0, 258), (6, 1, 257)])
def test_a_far_size_breaks_a_guard_that_repeats(example: int, rest: int, far: int) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x - x[:, 64:].sum(1, keepdim=True) if x.shape[1] % 2 == rest else x - 0

    finding = only(check(function, (torch.rand(2, example),), ({1: "n"},)))
    assert finding.verdict == "confirmed"
    assert finding.counterexample is not None
    assert finding.counterexample.sizes == {"x": (2, far)}


def test_a_branch_on_how_a_tensor_lies_in_memory() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x.transpose(0, 1)
        return y + 0 if y.is_contiguous() else y * 2

    shapes = ({0: "b", 1: "t"},)
    finding = only(check(function, (torch.rand(2, 6, 4),), shapes))
    assert (finding.verdict, finding.op, finding.origin.branch) == ("confirmed", "is_contiguous", True)
    assert {str(dim.admitted) for dim in finding.dims} == {"at least 2"}

    def made(x: torch.Tensor) -> torch.Tensor:
        y = x.transpose(0, 1)
        return y if y.is_contiguous() else y.contiguous()

    assert only(check(made, (torch.rand(2, 6, 4),), shapes)).verdict == "harmless"


def test_no_far_size_at_which_the_scores_of_attention_would_be_large() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        x = x[None, None] if x.shape[0] < 601 else x[None, None] + 0
        return F.scaled_dot_product_attention(x, x, x)

    report = check(function, (torch.rand(600, 2),), ({0: "n"},))
    assert only(report).verdict == "harmless"
    assert max(tried.sizes["x"][0] for tried in report.tries) == 2401


def test_a_plain_string_is_no_dim_of_that_name() -> None:
    n = Dim("n")
    shapes = ({0: "n"}, {0: n, 1: n})
    report = check(torch.block_diag, (torch.randn(3, 4), torch.randn(2, 2)), shapes, replay="full")
    assert (report.status, report.findings) == ("clean", ())
