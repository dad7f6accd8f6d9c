"""Candidates run in a process of their own, and the last script alone in a fresh one."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from guarddiff.replay import workbench
from guarddiff.replay.workbench import Workbench, read

DIFFERS = 'print("(2,) -> PyTorch (2,); ONNX Runtime (2,): equal")\n'
DIFFERS += 'print("(3,) -> PyTorch (3,); ONNX Runtime (2,): different")\nraise SystemExit(1)\n'
STEADY = "import torch\nmodel, other = torch.nn.Identity(), (torch.ones(2),)\n"


@pytest.fixture(scope="module")
def bench() -> Iterator[Workbench]:
    with Workbench(time.monotonic() + 300) as made:
        yield made


@pytest.mark.parametrize(
    ("second", "code", "kind"),
    [
        ("(3,) -> PyTorch (3,); ONNX Runtime (2,): different", 1, "shape"),
        ("(3,) -> PyTorch (3,) (2,); ONNX Runtime (3,): different", 1, "shape"),
        ("(3,) -> PyTorch (3,); ONNX Runtime (3,): different", 1, "values"),
        ("(3,) -> PyTorch (3,); ONNX Runtime raised Got invalid dimensions for input: x", 1, "rejected_input"),
        ("(3,) -> PyTorch (3,); ONNX Runtime raised RUNTIME_EXCEPTION", 1, "runtime_error"),
        ("(3,) -> PyTorch (3,); ONNX Runtime (3,): equal", 0, None),
        ("(3,) -> PyTorch (3,); ONNX Runtime (2,): different", 0, None),
        ("", 1, None),
    ],
)
def test_what_a_script_printed(second: str, code: int, kind: str | None) -> None:
    shown = read(f"(2,) -> PyTorch (2,); ONNX Runtime (2,): equal\n{second}\n", code)
    assert (shown.kind if shown else None) == kind


def test_a_difference_at_the_example_shows_nothing() -> None:
    assert read("(2,) -> PyTorch (2,); ONNX Runtime (3,): different\n(3,) -> …: different\n", 1) is None


def test_candidates_are_run_and_remembered(bench: Workbench) -> None:
    shown = bench.shows(STEADY + DIFFERS)
    assert shown is not None
    assert shown.kind == "shape"
    tried = bench.tried
    assert bench.shows(STEADY + DIFFERS) == shown
    assert bench.tried == tried


def test_an_exception_shows_nothing_and_is_kept_as_the_reason(bench: Workbench) -> None:
    assert bench.shows(STEADY + "raise ValueError('no such size')") is None
    assert bench.last_error == "ValueError: no such size"


def test_what_differs_from_itself_shows_nothing(bench: Workbench) -> None:
    assert bench.shows(STEADY.replace("Identity()", "Dropout()") + DIFFERS) is None


def test_a_crash_ends_the_process_and_not_us(bench: Workbench) -> None:
    assert bench.shows("import os\nos._exit(3)") is None
    assert "ended its process" in bench.last_error
    assert bench.shows(STEADY + DIFFERS + "# after the crash") is not None


def test_a_script_that_takes_too_long_is_ended(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bench.shows(STEADY + DIFFERS + "# ready") is not None
    monkeypatch.setattr(workbench, "CANDIDATE_SECONDS", 0.5)
    assert bench.shows("while True: pass") is None
    assert "took too long" in bench.last_error


def test_no_candidate_is_run_when_the_time_is_up() -> None:
    with Workbench(time.monotonic() - 1) as late:
        assert late.shows(STEADY + DIFFERS) is None
        assert late.tried == 0


def test_a_fresh_process_is_bare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRODUCTION_SECRET", "1")
    monkeypatch.setenv("PYTHONPATH", os.path.dirname(__file__))
    text = (
        "import os, sys\n"
        "assert 'REPRODUCTION_SECRET' not in os.environ and 'PYTHONPATH' not in os.environ\n"
        "assert os.listdir() == ['reproduction.py'] and 'guarddiff' not in sys.modules\n"
    )
    assert workbench.fresh(text + DIFFERS) is not None
    assert workbench.fresh("raise ValueError") is None
    with pytest.raises(TimeoutError):
        workbench.fresh("while True: pass", 1.0)
