"""Measure cases apart: each thread that does so keeps a process of its own for it.

``measure_apart`` is what is submitted to a ``concurrent.futures.Executor``, here or on another machine. What happens to
the process happens to one case: it is told in the outcome, and the next case has a new process.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import guarddiff.core
from guarddiff.core.child import Child, Died
from guarddiff.core.privacy import scrub
from guarddiff.sweep import worker
from guarddiff.sweep.case import Case
from guarddiff.sweep.outcome import Outcome, State
from guarddiff.sweep.versions import differing, versions
from guarddiff.sweep.worker import ROOM, THREADS

MOST_CASES = 300
MOST_MEMORY = 3 * 2**30
"""A process that has measured so many cases, or whose memory peaked at more bytes, is replaced by a new one."""
START_SECONDS = 300.0
"""How long a process may take to load torch: the machine may be busy. It is no part of a case's time."""

_HOUSE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(guarddiff.core.__file__))))
_TAIL = 4000
_LAST_WORDS = 300
_THREADED = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class NotStarted(RuntimeError):
    """A process that measures can't be started, or not with the versions that were asked for: no case can be measured
    here. The message says why."""


class Stopped(RuntimeError):
    """The sweep has been stopped: there is no outcome."""


def measure_apart(case: Case, room: str = ROOM, asked: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The outcome of the case, as the data of ``Outcome.to_data``, measured in this thread's process.

    ``room`` names what measures, see ``worker``; ``asked`` are the versions that have to be the ones of this machine
    (None: any). A process that crashes has its case measured once more in a new one unless it was new: what an earlier
    case has broken is not this one's fault. Raises NotStarted and Stopped.
    """
    if asked is not None and (wrong := differing(asked, versions())):
        raise NotStarted(f"a worker has other versions: {', '.join(wrong)}")
    bench = _ready(room)
    first = bench.measured == 0
    outcome = _measured(bench, case)
    if outcome["state"] == "crashed" and not first:
        outcome = _measured(_ready(room), case)
    return outcome


@contextlib.contextmanager
def threads(jobs: int) -> Iterator[ThreadPoolExecutor]:
    """An executor of so many threads. Leaving the block ends their processes at once, also those that measure: what is
    submitted and not done raises Stopped or is cancelled."""
    crew = _Crew()
    executor = ThreadPoolExecutor(jobs, "guarddiff-sweep", initializer=_join, initargs=(crew,))
    try:
        yield executor
    finally:
        executor.shutdown(wait=False, cancel_futures=True)
        crew.stop()
        executor.shutdown(wait=True)


class _Crew:
    """The processes of one executor's threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._children: weakref.WeakSet[Child] = weakref.WeakSet()
        self.stopped = False

    def start(self, make: Callable[[], Child]) -> Child:
        """A new one. Raises Stopped."""
        with self._lock:
            if self.stopped:
                raise Stopped("the sweep has been stopped")
            child = make()
            self._children.add(child)
        return child

    def stop(self) -> None:
        """End all of them, and let none start. The threads that wait for them go on with Stopped."""
        with self._lock:
            self.stopped = True
            for child in list(self._children):
                child.kill()


class _Bench:
    """One process, ready to measure, and its folder."""

    def __init__(self, crew: _Crew, room: str) -> None:
        self.crew = crew
        self.room = room
        self.measured = 0
        folder = tempfile.mkdtemp(prefix="guarddiff-sweep-")
        try:
            command = [sys.executable, "-m", "guarddiff.sweep.worker", room, folder]
            self.child = crew.start(lambda: Child(command, env=_environment(folder), cwd=_HOUSE, tail=_TAIL))
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        # Also when the thread ends, whose local variables are dropped then, and when the interpreter does.
        self.close = weakref.finalize(self, _clear, self.child, folder)

    def await_ready(self) -> None:
        """Raises Died when it does not come up."""
        self.child.answer(START_SECONDS)

    @property
    def worn(self) -> bool:
        """Whether it is not to be asked again."""
        return not self.child.alive or self.measured >= MOST_CASES


class _Thread(threading.local):
    crew = _Crew()  # of all threads that belong to no executor of ours: those of a Dask worker
    bench: _Bench | None = None


_thread = _Thread()


def _join(crew: _Crew) -> None:
    _thread.crew = crew


def _ready(room: str) -> _Bench:
    """This thread's process, new where there is none. Raises NotStarted and Stopped."""
    bench = _thread.bench
    if bench is not None and not bench.worn and bench.room == room:
        return bench
    _drop()
    crew = _thread.crew
    for last in (False, True):
        try:
            bench = _Bench(crew, room)
            bench.await_ready()
        except (Died, OSError) as error:
            if bench is not None:
                bench.close()
            if crew.stopped:
                raise Stopped("the sweep has been stopped") from None
            if last:
                raise NotStarted(f"a process that measures can't be started: {_told(error)}") from None
        else:
            _thread.bench = bench
            return bench
    raise NotStarted("a process that measures can't be started")


def _drop() -> None:
    bench, _thread.bench = _thread.bench, None
    if bench is not None:
        bench.close()


def _measured(bench: _Bench, case: Case) -> dict[str, Any]:
    request = {"key": case.key, "seed": worker.seed(case.key), "seconds": case.seconds}
    bench.measured += 1
    try:
        answer = bench.child.ask(request, case.seconds)
    except Died as death:
        _drop()
        if bench.crew.stopped:
            raise Stopped("the sweep has been stopped") from None
        state: State = "timed out" if death.slow else "crashed"
        seconds = case.seconds if death.slow else 0.0
        return Outcome(case.key, state, text=_told(death), seconds=seconds).to_data()
    outcome: dict[str, Any] = answer["outcome"]
    if outcome.get("memory", 0) > MOST_MEMORY:
        _drop()
    return outcome


def _told(error: Died | OSError) -> str:
    """How it died, and the last lines of what it wrote to stderr."""
    if not isinstance(error, Died):
        return scrub(str(error))
    how = f"ended with code {error.code}" if error.code is not None else str(error)
    last = " ".join(scrub(error.tail).split())[-_LAST_WORDS:]
    return f"the process {how}: {last}" if last else f"the process {how}"


def _environment(folder: str) -> dict[str, str]:
    paths = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    threads = os.environ.get(THREADS, "1")
    return {
        **os.environ,
        **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), folder),
        **dict.fromkeys(_THREADED, threads),
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": os.pathsep.join([_HOUSE, *paths]),
    }


def _clear(child: Child, folder: str) -> None:
    child.close()
    shutil.rmtree(folder, ignore_errors=True)
