"""Exports in processes of their own: one that dies, one that can't be told, and none at all."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import guarddiff
from guarddiff.contract import manifest
from guarddiff.core.errors import ContractError
from guarddiff.variants import exporting, pool, work
from guarddiff.variants.examples import Example

DEADLY = '''
import multiprocessing, os, pathlib, signal, time, torch

class Deadly(torch.nn.Linear):
    """At 3 rows it waits until another variant is finished, and kills its process, if that is a worker's."""
    folder = pathlib.Path({folder!r})
    def forward(self, x):
        if x.shape[0] == 3 and multiprocessing.parent_process() is not None:
            end = time.monotonic() + 300
            while not (self.folder / "variants.unfinished.json").exists() and time.monotonic() < end:
                time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGKILL)
        return super().forward(x)
'''


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_killed_process_leaves_what_is_finished_and_the_next_call_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "set"
    (tmp_path / "deadly_net.py").write_text(DEADLY.format(folder=str(folder)))
    monkeypatch.syspath_prepend(str(tmp_path))
    from deadly_net import Deadly  # type: ignore[import-not-found]

    torch.manual_seed(0)
    model, sizes = Deadly(64, 64).eval(), [(2, 64), (3, 64)]
    with pytest.raises(ContractError, match="a process that exported was killed, perhaps for want of memory"):
        guarddiff.export_variants(model, torch.randn(1, 64), folder, sizes=sizes, jobs=2)
    left = manifest.read(folder / manifest.UNFINISHED)
    assert left.sizes == ({"x": (2, 64)},)
    assert {path.name for path in folder.iterdir()} == {*left.variants[0].files, manifest.UNFINISHED}
    at = (folder / left.variants[0].file).stat().st_mtime_ns
    found = guarddiff.export_variants(model, torch.randn(1, 64), folder, sizes=sizes, jobs=2)  # one left: in this one
    assert (folder / left.variants[0].file).stat().st_mtime_ns == at
    session, x = guarddiff.VariantSession(found), torch.randn(3, 64)
    with torch.no_grad():
        assert torch.allclose(torch.from_numpy(session.run(None, {"x": x.numpy()})[0]), model(x), atol=1e-5)


def jobs(model: nn.Module) -> list[pool.Job]:
    shapes = {"a": (1, 4), "b": (2, 4)}
    points = {name: torch.zeros(shape) for name, shape in shapes.items()}
    return [pool.Job(name, Example((x,), {}, {"input": x}), {}) for name, x in points.items()]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The jobs that are done in this process, each in no time."""
    seen: list[str] = []

    def export(model: Any, args: Any, kwargs: Any, folder: Path, keywords: Any) -> str:
        seen.append(folder.name)
        return f"report {folder.name}"

    monkeypatch.setattr(work, "export", export)
    return seen


def test_a_model_that_can_t_be_pickled_is_exported_here(
    tmp_path: Path, here: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    model = nn.Linear(4, 4)
    model.activation = lambda x: x
    with caplog.at_level(logging.WARNING, "guarddiff"):
        done = list(pool.run(model, jobs(model), tmp_path, 2))
    assert [(one.job.name, one.report, one.error) for one in done] == [("a", "report a", None), ("b", "report b", None)]
    assert here == ["a", "b"]
    (record,) = caplog.records
    assert "in this process, one after the other: the model can't be sent to another process (" in record.getMessage()


@pytest.mark.parametrize(("processes", "number"), [(1, 2), (2, 1)])
def test_one_at_a_time_needs_no_process(
    tmp_path: Path, here: list[str], monkeypatch: pytest.MonkeyPatch, processes: int, number: int
) -> None:
    monkeypatch.setattr(pool, "_in_processes", None)
    model = nn.Linear(4, 4)
    list(pool.run(model, jobs(model)[:number], tmp_path, processes))
    assert here == ["a", "b"][:number]


class Answers:
    """In the place of the pool: what its processes would answer."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers

    def __call__(self, *_: Any, **__: Any) -> Answers:
        return self

    def submit(self, function: Any, staging: str, name: str) -> Any:
        from concurrent.futures import Future

        future: Any = Future()
        answer = self.answers[name]
        future.set_exception(answer) if isinstance(answer, Exception) else future.set_result(answer)
        return future

    def shutdown(self, **_: Any) -> None:
        pass


def test_an_error_in_a_process_is_told_with_its_traceback(
    tmp_path: Path, here: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = {"a": work.Answer(error="ValueError: no", trace="File x, line 3"), "b": work.Answer("report")}
    monkeypatch.setattr(pool, "ProcessPoolExecutor", Answers(answers))
    done = {one.job.name: one for one in pool.run(nn.Linear(4, 4), jobs(nn.Linear(4, 4)), tmp_path, 2)}
    assert done["b"].report == "report" and done["b"].error is None
    assert str(done["a"].error) == "ValueError: no" and "File x, line 3" in str(done["a"].error.__cause__)
    assert here == []


def test_what_a_process_can_t_load_is_exported_here(
    tmp_path: Path, here: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    unloaded = work.Answer(error="AttributeError: no class Net", unloaded=True)
    monkeypatch.setattr(pool, "ProcessPoolExecutor", Answers({"a": unloaded, "b": unloaded}))
    assert [one.report for one in pool.run(nn.Linear(4, 4), jobs(nn.Linear(4, 4)), tmp_path, 2)] == [
        "report a",
        "report b",
    ]


def test_where_no_process_starts_it_is_said_why(
    tmp_path: Path, here: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = pool.BrokenProcessPool("gone")
    monkeypatch.setattr(pool, "ProcessPoolExecutor", Answers({"a": dead, "b": dead}))
    with pytest.warns(RuntimeWarning, match="needs `if __name__ == '__main__':`; exported in this process"):
        list(pool.run(nn.Linear(4, 4), jobs(nn.Linear(4, 4)), tmp_path, 2))
    assert here == ["a", "b"]


def test_a_worker_says_what_it_can_t_load_and_what_fails(tmp_path: Path, here: list[str]) -> None:
    (tmp_path / "a").mkdir()
    answer = work.in_process(str(tmp_path), "a")
    assert answer.unloaded and "FileNotFoundError" in answer.error and answer.trace
    torch.save((nn.Linear(4, 4), {"a": {}, "b": {}}), tmp_path / work.MODEL)
    torch.save(((torch.zeros(1, 4),), {}), tmp_path / "a" / work.INPUTS)
    assert work.in_process(str(tmp_path), "a") == work.Answer("report a")


def test_a_script_without_guard_is_told_in_its_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting.multiprocessing.current_process(), "_inheriting", True, raising=False)
    with pytest.raises(RuntimeError, match="put the call under `if __name__ == '__main__':`"):
        guarddiff.export_variants(nn.Linear(4, 4), torch.zeros(1, 4), tmp_path, sizes=[(2, 4)])
