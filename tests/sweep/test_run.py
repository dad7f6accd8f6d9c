"""A sweep: every case once, whatever happens to it, to the executor, or to us."""

from __future__ import annotations

import _thread
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.sweep.rooms import ROOM, cases, key

from guarddiff.sweep import bench, run
from guarddiff.sweep.case import Case
from guarddiff.sweep.journal import JournalError, Writer, read
from guarddiff.sweep.outcome import Outcome
from guarddiff.sweep.run import Progress, SweepError, sweep


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Writer]:
    with Writer(tmp_path / "results-ops.jsonl", "ops") as writer:
        yield writer


def right(case: Case) -> Mapping[str, Any]:
    return Outcome(case.key, "ok").to_data()


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "PAUSE_SECONDS", 0.05)


class Direct(Executor):
    """Does at once what is submitted; ``fail`` may give an exception for it instead."""

    def __init__(self, fail: Callable[[Case], BaseException | None] = lambda case: None) -> None:
        self.fail = fail
        self.submitted: list[str] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        (case,) = args
        self.submitted.append(case.name)
        future: Future[Any] = Future()
        error = self.fail(case)
        if error is None:
            future.set_result(fn(case))
        elif isinstance(error, CancelledError):
            future.cancel()
            future.set_running_or_notify_cancel()
        else:
            future.set_exception(error)
        return future


def lines(journal: Writer) -> list[str]:
    return [line for line in journal.path.read_text().splitlines() if '"key"' in line]


def test_processes_that_die_lose_one_case_each(journal: Writer, rooms: None) -> None:
    names = ["a", "abort", "b", "raise", "kill", "hang", "print", "c"]
    swept = [*cases(*names[:5]), *cases("hang", seconds=1.0), *cases(*names[6:])]
    with bench.threads(2) as executor:
        ended = sweep(swept, executor, journal, limit=3, measure=partial(bench.measure_apart, room=ROOM))
    assert (ended.interrupted, ended.unmeasured) == (False, ())
    states = {k.split("/")[2]: outcome.state for k, outcome in read(journal.path).outcomes.items()}
    assert states == {
        "a": "ok",
        "abort": "crashed",
        "b": "ok",
        "raise": "failed",
        "kill": "crashed",
        "hang": "timed out",
        "print": "ok",
        "c": "ok",
    }
    assert len(lines(journal)) == len(names)


def test_what_the_journal_holds_is_not_measured_again(journal: Writer) -> None:
    journal.add(Outcome(key("b"), "wrong shape"))
    executor = Direct()
    assert sweep(cases("a", "b", "c", "a"), executor, journal, limit=2, measure=right).unmeasured == ()
    assert executor.submitted == ["a", "c"]
    assert journal.outcomes[key("b")].state == "wrong shape"


def test_few_are_submitted_at_a_time(journal: Writer) -> None:
    class Slow(Direct):
        most = 0
        open: set[Future[Any]] = set()

        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            future: Future[Any] = Future()
            self.open = {one for one in self.open if not one.done()} | {future}
            self.most = max(self.most, len(self.open))
            threading.Timer(0.01, lambda: future.set_result(fn(*args))).start()
            return future

    executor = Slow()
    sweep(cases(*map(str, range(12))), executor, journal, limit=3, measure=right)
    assert executor.most == 3
    assert len(journal.outcomes) == 12


@pytest.mark.parametrize("error", [CancelledError(), BrokenExecutor("a worker was killed")])
def test_what_an_executor_loses_is_submitted_again(journal: Writer, error: BaseException) -> None:
    losses = iter([None, error, error])
    executor = Direct(lambda case: next(losses, None) if case.name != "a" else None)
    next(losses)
    assert sweep(cases("a", "b", "c"), executor, journal, limit=1, measure=right).unmeasured == ()
    assert executor.submitted == ["a", "b", "b", "b", "c"]
    assert len(lines(journal)) == 3


def test_what_is_lost_again_and_again_ends_the_sweep(journal: Writer) -> None:
    executor = Direct(lambda case: BrokenExecutor("no worker") if case.name == "b" else None)
    with pytest.raises(SweepError, match="ops/fake/b was lost 3 times, at last by BrokenExecutor: no worker"):
        sweep(cases("a", "b", "c"), executor, journal, limit=1, measure=right)
    assert executor.submitted == ["a", "b", "b", "b"]
    assert list(read(journal.path).outcomes) == [key("a")]


def test_an_executor_that_takes_no_more_ends_the_sweep(journal: Writer) -> None:
    with ThreadPoolExecutor(1) as executor:
        executor.shutdown()
        with pytest.raises(SweepError, match="no more cases can be submitted: RuntimeError"):
            sweep(cases("a"), executor, journal, limit=1, measure=right)


def test_an_error_that_is_no_loss_ends_the_sweep(journal: Writer) -> None:
    executor = Direct(lambda case: bench.NotStarted("no torch") if case.name == "b" else None)
    with pytest.raises(SweepError, match="ops/fake/b could not be measured: NotStarted: no torch"):
        sweep(cases("a", "b", "c"), executor, journal, limit=1, measure=right)
    assert executor.submitted == ["a", "b"]


def test_an_outcome_of_another_case_is_refused(journal: Writer) -> None:
    def other(case: Case) -> Mapping[str, Any]:
        return Outcome(key("other"), "ok").to_data()

    with pytest.raises(SweepError, match="the outcome of ops/fake/other came"):
        sweep(cases("a"), Direct(), journal, limit=1, measure=other)
    assert not lines(journal)


def test_a_journal_that_can_not_be_written_ends_the_sweep(journal: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(outcome: Outcome) -> None:
        raise JournalError("no space")

    monkeypatch.setattr(journal, "add", full)
    executor = Direct()
    with pytest.raises(JournalError):
        sweep(cases("a", "b"), executor, journal, limit=1, measure=right)
    assert executor.submitted == ["a"]


def test_progress(journal: Writer) -> None:
    journal.add(Outcome(key("b"), "wrong shape"))
    journal.add(Outcome("ops/fake/of-another-choice", "ok"))
    told: list[Progress] = []

    def slowly(case: Case) -> Mapping[str, Any]:
        time.sleep(0.1)
        return right(case)

    sweep(cases("a", "b", "c", "d"), Direct(), journal, told.append, limit=1, measure=slowly)
    assert [one.done for one in told] == [1, 2, 3, 4]
    assert {one.total for one in told} == {4}
    assert told[0] == Progress(1, 4, {"wrong shape": 1}, None)
    assert told[1].counts == {"wrong shape": 1, "ok": 1}
    assert told[1].left == pytest.approx(0.2, abs=0.1)
    assert told[-1].left == 0


def test_ctrl_c_ends_it_quickly_and_it_goes_on_later(tmp_path: Path, rooms: None) -> None:
    path = tmp_path / "results-ops.jsonl"
    swept = cases("a", "b", "hang", "c", "d")
    measure = partial(bench.measure_apart, room=ROOM)

    def stop(progress: Progress) -> None:
        if progress.done == 2:
            threading.Timer(0.2, _thread.interrupt_main).start()

    with Writer(path, "ops") as journal:
        with bench.threads(1) as executor:
            ended = sweep(swept, executor, journal, stop, limit=2, measure=measure)
            begun = time.monotonic()
        assert time.monotonic() - begun < 5
    assert (ended.interrupted, ended.unmeasured) == (True, tuple(map(key, ("hang", "c", "d"))))
    assert list(read(path).outcomes) == [key("a"), key("b")]
    with Writer(path, "ops", resume=True) as journal, bench.threads(1) as executor:
        swept[2] = Case("ops", "fake", "hang", 0.5)
        assert not sweep(swept, executor, journal, limit=2, measure=measure).unmeasured
    assert sorted(read(path).outcomes) == sorted(case.key for case in swept)
