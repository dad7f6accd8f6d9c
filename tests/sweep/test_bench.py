"""One process per thread: kept, replaced after a death, thrown away when it is worn, ended with its thread."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor
from pathlib import Path

import pytest
from tests.core.test_child import gone
from tests.sweep.rooms import ROOM, cases

from guarddiff.sweep import bench, versions
from guarddiff.sweep.bench import NotStarted, Stopped, measure_apart
from guarddiff.sweep.case import Case
from guarddiff.sweep.outcome import Outcome

pytestmark = [
    pytest.mark.usefixtures("rooms"),
    pytest.mark.skipif(os.name != "posix", reason="signals and numbers of processes of POSIX"),
]


@pytest.fixture
def executor() -> Iterator[Executor]:
    with bench.threads(1) as made:
        yield made


Measure = Callable[..., list[Outcome]]


@pytest.fixture
def measure(executor: Executor) -> Measure:
    """Outcomes of cases of these names, measured one after another in one thread."""

    def measured(*names: str, seconds: float = 20.0) -> list[Outcome]:
        futures = [executor.submit(measure_apart, case, ROOM) for case in cases(*names, seconds=seconds)]
        return [Outcome.from_data(future.result(60)) for future in futures]

    return measured


def processes(outcomes: list[Outcome]) -> list[str]:
    return [outcome.text.split()[0] for outcome in outcomes]


def test_one_process_for_all(measure: Measure) -> None:
    outcomes = measure("a", "b", "c")
    assert [outcome.state for outcome in outcomes] == ["ok"] * 3
    assert len(set(processes(outcomes))) == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("abort", "the process crashed (SIGABRT): free(): invalid pointer"),
        ("kill", "the process crashed (SIGKILL)"),
        ("exit", "the process ended with code 7"),
    ],
)
def test_a_crash_is_one_case(measure: Measure, name: str, text: str) -> None:
    before, crashed, after = measure("a", name, "b")
    assert (crashed.state, crashed.text) == ("crashed", text)
    assert (before.state, after.state) == ("ok", "ok")
    assert processes([before]) != processes([after])


def test_a_hang_is_one_case(measure: Measure) -> None:
    measure("a")
    begun = time.monotonic()
    hung, after = measure("hang", "b", seconds=1.0)
    assert (hung.state, hung.text, hung.seconds) == ("timed out", "the process gave no answer within 1 seconds", 1.0)
    assert after.state == "ok"
    assert time.monotonic() - begun < 15


def test_the_start_is_no_part_of_a_cases_time(measure: Measure) -> None:
    (outcome,) = measure("plain", seconds=0.1)  # Python alone takes about as long to start
    assert outcome.state == "ok"


def test_what_an_earlier_case_broke_is_not_held_against_a_later_one(measure: Measure) -> None:
    poison, after = measure("poison", "after")
    assert (poison.state, after.state) == ("ok", "ok")
    assert processes([poison]) != processes([after])


def test_a_worn_process_is_replaced(measure: Measure, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "MOST_CASES", 2)
    one, two, three = processes(measure("a", "b", "c"))
    assert one == two != three
    assert gone(int(one), 0.1)


def test_one_that_grew_large_is_replaced(measure: Measure) -> None:
    one, two, three = processes(measure("a", "large", "b"))
    assert one == two != three


def test_another_room_is_another_process(executor: Executor) -> None:
    (case,) = cases("a")
    one = executor.submit(measure_apart, case, ROOM).result(30)["text"].split()[0]
    with pytest.raises(NotStarted):
        executor.submit(measure_apart, case, "tests.sweep.rooms:broken_room").result(30)
    assert gone(int(one), 0.1)


def test_a_process_that_can_not_start_is_no_outcome(executor: Executor) -> None:
    (case,) = cases("a")
    with pytest.raises(NotStarted, match="ended with code 1: no torch here"):
        executor.submit(measure_apart, case, "tests.sweep.rooms:broken_room").result(30)


def test_other_versions_are_refused(executor: Executor) -> None:
    (case,) = cases("a")
    asked = {**versions.versions(), "guarddiff": "0.0.0"}
    with pytest.raises(NotStarted, match=r"guarddiff 0\.0\.0 and "):
        executor.submit(measure_apart, case, ROOM, asked).result(30)
    assert executor.submit(measure_apart, case, ROOM, versions.versions()).result(30)["state"] == "ok"


def test_two_threads_have_two_processes() -> None:
    with bench.threads(2) as executor:
        done = [executor.submit(measure_apart, case, ROOM) for case in cases("slow-1", "slow-2")]
        assert len({future.result(30)["text"].split()[0] for future in done}) == 2


def test_leaving_ends_what_is_measured_at_once() -> None:
    hang, waiting = cases("hang", "a", seconds=60)
    with bench.threads(1) as executor:
        pid = int(executor.submit(measure_apart, *cases("b"), ROOM).result(30)["text"].split()[0])
        running, queued = (executor.submit(measure_apart, case, ROOM) for case in (hang, waiting))
        time.sleep(0.3)
        begun = time.monotonic()
    assert time.monotonic() - begun < 5
    assert gone(pid, 0.1)
    with pytest.raises(Stopped):
        running.result(0)
    with pytest.raises(CancelledError):
        queued.result(0)


def test_a_process_ends_with_its_thread_and_takes_its_folder_along() -> None:
    found: list[str] = []
    (case,) = cases("litter")
    thread = threading.Thread(target=lambda: found.append(measure_apart(case, ROOM)["text"]))
    thread.start()
    thread.join(30)
    del thread
    gc.collect()
    pid, folder, _ = found[0].split()
    assert gone(int(pid))
    assert os.path.dirname(folder) == os.path.realpath(tempfile.gettempdir())
    assert not Path(folder).exists()


def test_a_killed_sweep_leaves_no_process() -> None:
    code = "import os, threading\nfrom guarddiff.sweep.bench import measure_apart\nfrom tests.sweep.rooms import *\n"
    code += "print(measure_apart(*cases('a'), ROOM)['text'].split()[0], flush=True)\n"
    code += "os.kill(os.getpid(), 9)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert gone(int(done.stdout))


def test_it_travels() -> None:
    case = Case("ops", "a", "b", 5)
    assert pickle.loads(pickle.dumps((measure_apart, case))) == (measure_apart, case)
