"""Tasks in forked children: results, errors, logs, steps that end the process or do not come back, and what is left."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from guarddiff.core import forked
from guarddiff.core.child import Died
from guarddiff.core.log import say

pytestmark = pytest.mark.skipif(not forked.possible(), reason="no children are forked here")


def children() -> list[str]:
    found: list[str] = []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the thread has ended since
            found += (task / "children").read_text(encoding="ascii").split()
    return found


@pytest.fixture(autouse=True)
def _nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before, files, threads = children(), os.listdir("/proc/self/fd"), threading.active_count()
    yield
    assert children() == before
    assert len(os.listdir("/proc/self/fd")) == len(files)
    assert threading.active_count() == threads
    assert list(tmp_path.iterdir()) == []


def test_it_is_another_process_whose_changes_stay_there() -> None:
    kept = [1]
    state = random.getstate()

    def task() -> tuple[int, list[int]]:
        kept.append(2)
        os.environ["GUARDDIFF_TEST"] = "1"
        random.random()
        return os.getpid(), kept

    pid, seen = forked.run(task)
    assert pid != os.getpid()
    assert seen == [1, 2]
    assert kept == [1]
    assert "GUARDDIFF_TEST" not in os.environ
    assert random.getstate() == state


def test_what_it_prints_is_lost_and_what_it_logs_is_not(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    def task() -> None:
        print("printed")
        os.write(2, b"written")
        try:
            raise KeyError("inner")
        except KeyError as error:
            say(logging.ERROR, "said", error)

    forked.run(task)
    assert capfd.readouterr() == ("", "")
    (record,) = [record for record in caplog.records if record.name == "guarddiff"]
    assert record.getMessage() == "said"
    assert record.exc_info is not None and isinstance(record.exc_info[1], KeyError)
    assert "in task" in str(record.exc_info[1].__cause__)


class Own(Exception):
    """Can't be pickled."""

    def __reduce__(self) -> Any:
        raise TypeError("not that")


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (ValueError("a"), ValueError, "a"),
        (KeyboardInterrupt(), KeyboardInterrupt, ""),
        (SystemExit(3), SystemExit, "3"),
        (MemoryError("b"), MemoryError, "b"),
        (Own("c"), RuntimeError, "Own: c"),
    ],
)
def test_what_it_raises_is_raised_here(error: BaseException, kind: type[BaseException], text: str) -> None:
    def task() -> None:
        raise error

    with pytest.raises(kind) as caught:
        forked.run(task)
    assert type(caught.value) is kind
    assert str(caught.value) == text
    assert "in task" in str(caught.value.__cause__)


def test_what_can_not_be_sent_is_made_here() -> None:
    here = threading.Lock()
    assert forked.run(lambda: here) is here


def test_what_can_not_be_done_there_is_done_here() -> None:
    home = os.getpid()

    def task() -> int:
        if os.getpid() != home:
            raise forked.NotApart("gradients")
        return os.getpid()

    assert forked.run(task) == home


def test_a_child_has_no_children_of_its_own() -> None:
    def task() -> tuple[int, int]:
        return os.getpid(), forked.run(os.getpid)

    outer, inner = forked.run(task)
    assert outer == inner


def killed(number: int) -> Callable[[], Any]:
    return lambda: signal.pthread_kill(threading.get_ident(), number)


@pytest.mark.parametrize(
    ("fatal", "told"),
    [
        (lambda: ctypes.string_at(0), "crashed (SIGSEGV)"),
        (os.abort, "crashed (SIGABRT)"),
        (killed(signal.SIGKILL), "crashed (SIGKILL)"),
        (lambda: os._exit(7), "ended its process with code 7"),
    ],
)
def test_a_step_that_ends_the_process_raises_and_the_others_are_done(fatal: Callable[[], Any], told: str) -> None:
    def task() -> list[str]:
        done = []
        for number in range(4):
            try:
                with forked.step():
                    if number in (1, 2):
                        fatal()
                    done.append(str(number))
            except Died as death:
                done.append(str(death))
        return done

    assert forked.run(task) == ["0", told, told, "3"]


@pytest.mark.parametrize(("fatal", "most"), [(lambda: ctypes.string_at(0), 8), (lambda: time.sleep(60), 2)])
def test_a_task_whose_child_always_ends_does_no_further_step(
    fatal: Callable[[], Any], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forked, "STEP_SECONDS", 0.3 if most == 2 else 60.0)

    def task() -> list[str]:
        told = []
        for number in range(12):
            try:
                with forked.step():
                    if number:
                        fatal()
                    told.append("done")
            except Died as death:
                told.append(str(death))
        return told

    first, *rest = forked.run(task)
    assert first == "done"
    assert len({*rest[:most]}) == 1
    assert {*rest[most:]} == {f"was not run any more: {most} runs had ended their process"}


def test_an_end_between_two_steps() -> None:
    def task() -> None:
        with forked.step():
            pass
        os._exit(0)

    with pytest.raises(Died, match="ended its process with code 0"):
        forked.run(task)


def test_a_step_that_does_not_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked, "STEP_SECONDS", 0.3)

    def task() -> str:
        try:
            with forked.step():
                time.sleep(60)
        except Died as death:
            assert death.slow
            return str(death)
        return "it came back"

    assert forked.run(task) == "was not done within 0 seconds"


def test_a_child_that_hangs_between_two_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked, "SILENT_SECONDS", 0.3)
    with pytest.raises(Died, match="was not done"):
        forked.run(lambda: time.sleep(60))


def test_what_the_child_started_ends_with_it(tmp_path: Path) -> None:
    noted = tmp_path.parent / f"{tmp_path.name}-pid"

    def task() -> None:
        process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        noted.write_text(str(process.pid))
        ctypes.string_at(0)

    with pytest.raises(Died):
        forked.run(task)
    deadline = time.monotonic() + 10
    while Path(f"/proc/{noted.read_text()}/cmdline").exists() and time.monotonic() < deadline:
        if not Path(f"/proc/{noted.read_text()}/cmdline").read_bytes():
            break  # ended, and not waited for yet by whoever inherits it
        time.sleep(0.05)
    else:
        assert not Path(f"/proc/{noted.read_text()}/cmdline").exists()


def test_an_interrupt_goes_through() -> None:
    def interrupt() -> None:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            forked.run(lambda: time.sleep(60))
    finally:
        thread.join()
        signal.signal(signal.SIGINT, before)


def test_where_no_child_can_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(os, "fork", refuse)
    assert forked.run(os.getpid) == os.getpid()


def test_where_nothing_is_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert forked.run(os.getpid) == os.getpid()
    with forked.step():
        pass


def test_in_two_threads_at_once() -> None:
    found: dict[int, int] = {}

    def work(number: int) -> None:
        for _ in range(5):
            found[number] = forked.run(lambda: number * 100)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: number * 100 for number in range(4)}


def test_temporary_files_of_a_child_that_crashed() -> None:
    def task() -> None:
        tempfile.mkdtemp()
        ctypes.string_at(0)

    with pytest.raises(Died):
        forked.run(task)


def test_a_full_disk_is_no_hindrance(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: Any) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "mkdtemp", full)
    assert forked.run(os.getpid) != os.getpid()


def test_what_waits_to_be_written_is_written_once(tmp_path: Path) -> None:
    log = tmp_path.parent / f"{tmp_path.name}.log"
    script = (
        "import sys; from guarddiff.core import forked; sys.stdout = open(sys.argv[1], 'w'); print('before')\n"
        "assert forked.run(lambda: 5) == 5; print('after')"
    )
    run_script(script, str(log))
    assert log.read_text() == "before\nafter\n"


@pytest.mark.parametrize("closed", [(0,), (1,), (0, 1), (0, 1, 2)])
def test_closed_standard_streams_take_nothing_away(closed: tuple[int, ...]) -> None:
    script = (
        "import os, sys; from guarddiff.core import forked\n"
        "from guarddiff.core.child import Died\n"
        "for stream in map(int, sys.argv[1:]): os.close(stream)\n"
        "try: forked.run(os.abort)\n"
        "except Died: os._exit(7)"
    )
    run_script(script, *map(str, closed), code=7)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_child_whose_parent_is_ended_leaves_nothing(number: int, tmp_path: Path) -> None:
    held = tmp_path.parent / f"{tmp_path.name}-held"
    held.mkdir()
    pid = os.fork()
    if pid == 0:
        try:
            signal.signal(number, signal.SIG_DFL) if number != signal.SIGKILL else None
            tempfile.tempdir = str(held)
            forked.run(lambda: time.sleep(60))
        finally:
            os._exit(0)
    until(lambda: len(list(held.iterdir())) == 1)
    time.sleep(0.3)  # until the child is at work
    os.kill(pid, number)
    os.waitpid(pid, 0)
    until(lambda: not list(held.iterdir()))


def test_a_child_whose_parent_ended_before_it_began(tmp_path: Path) -> None:
    noted = tmp_path.parent / f"{tmp_path.name}-noted"
    script = (
        "import os, pathlib, sys, time; from guarddiff.core import forked\n"
        "os.register_at_fork(after_in_child=lambda: (os.close(2), time.sleep(1)))\n"
        "def task():\n"
        "    pathlib.Path(sys.argv[1]).write_text(str(os.getpid())); time.sleep(60)\n"
        "import threading; threading.Timer(0.3, lambda: os._exit(7)).start()\n"
        "forked.run(task)"
    )
    run_script(script, str(noted), code=7)
    time.sleep(1.2)
    until(lambda: not noted.exists() or not Path(f"/proc/{noted.read_text() or 0}").exists())


def test_where_no_thread_can_be_had_in_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    home, start = os.getpid(), threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if os.getpid() != home:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert forked.run(os.getpid) == home


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_child_never_goes_on_as_its_parent(
    error: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is raised in it: two processes would run the rest of the user's program."""

    def fail(*_: Any) -> None:
        raise error

    home, went_on = os.getpid(), tmp_path.parent / f"{tmp_path.name}-went-on"

    def wait(pid: int) -> None:
        """Not to kill it before it could go on."""
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)

    monkeypatch.setattr(forked, "_be_the_child", fail)
    monkeypatch.setattr(forked, "_end", wait)
    try:
        assert forked.run(os.getpid) == home
    finally:
        if os.getpid() != home:
            went_on.touch()
            os._exit(1)
    assert not went_on.exists()


def test_signals_are_as_they_were() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    handler = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        there = forked.run(lambda: (signal.pthread_sigmask(signal.SIG_BLOCK, ()), signal.getsignal(signal.SIGUSR1)))
    finally:
        signal.signal(signal.SIGUSR1, handler)
    assert there == (set(), signal.SIG_DFL)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


def run_script(script: str, *args: str, code: int = 0) -> None:
    done = subprocess.run([sys.executable, "-c", script, *args], timeout=300, capture_output=True, check=False)
    assert done.returncode == code, done.stderr


def until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.05)
