"""Admitted sizes against what eager PyTorch and ONNX Runtime really do, for models that are put together at random."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import hypothesis
import numpy as np
import onnx_ir.passes
import onnxruntime
import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st
from torch import nn

import guarddiff

pytestmark = pytest.mark.usefixtures("shared_registry")

Step = Callable[[torch.Tensor], torch.Tensor]
SIZES = range(1, 14)


def larger(axis: int, bound: int) -> Step:
    return lambda x: x * 2 if x.shape[axis] > bound else x + 1


def alike(axis: int, bound: int) -> Step:
    """Specialized, and the same on either side of the bound."""
    return lambda x: x * 2 if x.shape[axis] > bound else x + x


def wider(factor: int) -> Step:
    return lambda x: x * 3 if x.shape[3] > factor * x.shape[2] else x - 1


def multiple(axis: int, of: int) -> Step:
    return lambda x: torch.flip(x, (axis,)) if x.shape[axis] % of == 0 else x * 2


def area(bound: int) -> Step:
    return lambda x: x + 3 if x.shape[2] * x.shape[3] >= bound else x * 0.5


def rounds(axis: int, of: int) -> Step:
    def step(x: torch.Tensor) -> torch.Tensor:
        for number in range(x.shape[axis] // of):
            x = x + number + 1
        return x

    return step


def pooled(height: int, width: int, kind: Callable[..., torch.Tensor]) -> Step:
    return lambda x: kind(x, (height, width))


def halves(axis: int) -> Step:
    return lambda x: torch.cat([part * (at + 1) for at, part in enumerate(torch.chunk(x, 2, axis))], axis)


def cut(axis: int, by: int) -> Step:
    return lambda x: x.narrow(axis, 0, min(x.shape[axis], by))


def kron(x: torch.Tensor) -> torch.Tensor:
    return torch.kron(x, torch.tensor([[1.0, 2.0]]))


def folded(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(1, 2, -1).cumsum(2).reshape(x.shape)


def mean(x: torch.Tensor) -> torch.Tensor:
    return x - x.mean((2, 3), keepdim=True)


axes, small = st.sampled_from([2, 3]), st.integers(1, 4)
steps = st.one_of(
    st.builds(larger, axes, st.integers(1, 10)),
    st.builds(alike, axes, st.integers(1, 10)),
    st.builds(wider, st.integers(1, 3)),
    st.builds(multiple, axes, st.integers(2, 4)),
    st.builds(area, st.integers(4, 80)),
    st.builds(rounds, axes, st.integers(2, 5)),
    st.builds(pooled, small, small, st.sampled_from([F.adaptive_avg_pool2d, F.adaptive_max_pool2d])),
    st.builds(halves, axes),
    st.builds(cut, axes, small),
    st.sampled_from([torch.relu, folded, kron, mean]),
)


class Chain(nn.Module):
    def __init__(self, steps: list[Step]) -> None:
        super().__init__()
        self.steps = steps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for step in self.steps:
            x = step(x)
        return x


def outcome(run: Callable[[], Any]) -> np.ndarray[Any, Any] | None:
    """What a run gives; None where it raises."""
    try:
        return np.asarray(run())
    except Exception:
        return None


def same(expected: np.ndarray[Any, Any], got: np.ndarray[Any, Any] | None) -> bool:
    return got is not None and got.shape == expected.shape and np.allclose(got, expected, rtol=1e-4, atol=1e-4)


@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate),  # a smaller case takes minutes of exports to find
    suppress_health_check=list(HealthCheck),
)
@given(st.lists(steps, min_size=1, max_size=3), st.integers(3, 9), st.integers(3, 9))
@hypothesis.example([alike(2, 5), torch.relu], 6, 6)
@hypothesis.example([alike(2, 5), larger(3, 7)], 6, 6)
def test_the_model_is_right_wherever_the_report_admits_it(chain: list[Step], height: int, width: int) -> None:
    model = Chain(chain).eval()
    example = torch.randn(1, 2, height, width)
    try:
        report = guarddiff.check(
            model, (example,), dynamic_shapes=({2: "h", 3: "w"},), verbose=False, on_finding="ignore"
        )
    except (torch.onnx.OnnxExporterError, onnx_ir.passes.PassError):
        event("torch does not export it")
        return
    assert report.missing == ()
    session = onnxruntime.InferenceSession(report.program.model_proto.SerializeToString())
    (name,) = (one.name for one in session.get_inputs())
    wrong, right = [], []
    for sizes in itertools.product(SIZES, SIZES):
        x = torch.randn(1, 2, *sizes)
        expected = outcome(lambda x=x: model(x).numpy())
        if expected is None:
            continue
        got = outcome(lambda x=x: session.run(None, {name: x.numpy()})[0])
        admitted = [finding.admits({name: tuple(x.shape)}) for finding in report.findings]
        (right if same(expected, got) else wrong).append((sizes, admitted))
    assert [sizes for sizes, admitted in wrong if all(one is True for one in admitted)] == []
    assert ((height, width), [True] * len(report.findings)) in right
    for finding in report.findings:
        event(finding.verdict)
        if finding.verdict == "confirmed":
            assert finding.counterexample is not None
            sizes = finding.counterexample.sizes[name][2:]
            assert finding.admits({name: (1, 2, *sizes)}) is not True
            assert sizes not in [one for one, _ in right]
        if finding.verdict == "harmless":
            assert len(report.findings) > 1 or not wrong
