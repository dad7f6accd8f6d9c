"""The worker's side: requests in, outcomes out, whatever a case prints, raises or leaves."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.sweep.rooms import ROOM, ROOT, key, measured

from guarddiff.core.child import Child
from guarddiff.sweep import worker
from guarddiff.sweep.outcome import Outcome

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}


@pytest.fixture
def child(tmp_path: Path) -> Iterator[Child]:
    command = [sys.executable, "-m", "guarddiff.sweep.worker", ROOM, str(tmp_path)]
    with Child(command, env=ENVIRONMENT, tail=1000) as made:
        assert made.answer(60) == {"ready": True}
        yield made


def ask(child: Child, name: str) -> Outcome:
    request = {"key": key(name), "seed": worker.seed(key(name)), "seconds": 20}
    return Outcome.from_data(child.ask(request, 20)["outcome"])


def test_outcomes_come_back(child: Child, tmp_path: Path) -> None:
    assert ask(child, "plain").state == "ok"
    assert ask(child, "wrong").state == "wrong shape"
    ask(child, "litter")
    assert [path.name for path in tmp_path.iterdir()] == ["litter.onnx"]


def test_what_is_printed_is_no_answer(child: Child) -> None:
    assert ask(child, "print").key == key("print")
    assert ask(child, "plain").key == key("plain")


@pytest.mark.parametrize(
    ("name", "text"), [("raise", "LookupError: no such operator"), ("quit", "SystemExit: 4"), ("plain/", None)]
)
def test_what_is_raised_is_an_outcome(child: Child, name: str, text: str | None) -> None:
    outcome = ask(child, name)
    assert (outcome.state, outcome.text) == ("failed", text) if text else outcome.state == "ok"
    assert ask(child, "plain").state == "ok"


def test_the_seed_is_the_cases_own(child: Child) -> None:
    one, other, again = (ask(child, name).text.split()[2] for name in ("a", "b", "a"))
    assert one == again != other


def test_it_ends_with_the_one_that_asks(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "guarddiff.sweep.worker", ROOM, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=ENVIRONMENT,
    )
    assert process.stdin is not None and process.stdout is not None
    process.stdout.readline()
    process.stdin.write(b'{"key": "ops/fake/hang", "seed": 1, "seconds": 60}\n')
    process.stdin.flush()
    time.sleep(0.2)
    process.stdin.close()
    assert process.wait(10) == 0
    assert not folder.exists()
    process.stdout.close()


def test_texts_are_scrubbed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWEEP_SECRET", "hunter2hunter2")

    def failing(key: str) -> Outcome:
        raise ValueError("/home/somebody/model.py hunter2hunter2")

    assert worker.measured(failing, key("x"), 1).text == "ValueError: ~/model.py …"


def test_numpy_gets_the_seed_too() -> None:
    import numpy as np

    def drawn(key: str) -> Outcome:
        return Outcome(key, "ok", text=str(np.random.rand()))

    assert worker.measured(drawn, key("x"), 5) == worker.measured(drawn, key("x"), 5)
    assert worker.measured(drawn, key("x"), 5) != worker.measured(drawn, key("x"), 6)
    assert worker.measured(measured, key("x"), 5).state == "ok"


def test_the_room_with_torch_measures_what_the_sources_have(monkeypatch: pytest.MonkeyPatch) -> None:
    torch, onnxruntime = pytest.importorskip("torch"), pytest.importorskip("onnxruntime")
    before = torch.get_num_threads()
    monkeypatch.setattr(onnxruntime, "SessionOptions", onnxruntime.SessionOptions)  # put back afterwards
    monkeypatch.setattr("guarddiff.torch_bridge.workbench.prepare", lambda: None)
    monkeypatch.setenv(worker.THREADS, "2")
    try:
        outcome = worker.measured(worker.torch_room(), "nothing/at/all", 1)
        assert torch.get_num_threads() == 2
        assert onnxruntime.SessionOptions().intra_op_num_threads == 2
    finally:
        torch.set_num_threads(before)
    assert outcome.state == "failed"
    assert "is no case" in outcome.text
