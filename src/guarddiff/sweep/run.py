"""Measure many cases by an executor, and write down each outcome as it comes."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from dataclasses import dataclass
from typing import Any

from guarddiff.sweep.case import Case
from guarddiff.sweep.journal import Writer
from guarddiff.sweep.outcome import Outcome

MOST_LOSSES = 2
"""How often a case that an executor has lost is submitted again."""
PAUSE_SECONDS = 1.0
"""How long nothing is submitted after a loss: an executor that has lost its workers may be getting others."""
LOST: tuple[type[BaseException], ...] = (BrokenExecutor, CancelledError)
_LOOK_SECONDS = 0.5

Measure = Callable[[Case], Mapping[str, Any]]


class SweepError(RuntimeError):
    """The sweep can't go on; what was measured is in its file. The message says why."""


@dataclass(frozen=True)
class Progress:
    """How far the sweep is.

    Attributes:
        done: Number of cases that have an outcome, those of earlier runs included.
        total: Number of all cases.
        counts: State → number of cases.
        left: Seconds until the end, by the pace of this run so far; None while nothing is measured.
    """

    done: int
    total: int
    counts: Mapping[str, int]
    left: float | None


@dataclass(frozen=True)
class Ended:
    """How the sweep ended.

    Attributes:
        interrupted: Whether by the user.
        unmeasured: Keys of the cases that have no outcome, in their order.
    """

    interrupted: bool
    unmeasured: tuple[str, ...]


def sweep(
    cases: Iterable[Case],
    executor: Executor,
    journal: Writer,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    *,
    limit: int,
    measure: Measure,
    lost: Sequence[type[BaseException]] = LOST,
) -> Ended:
    """Measure what the journal does not hold yet.

    Args:
        cases: All cases of the sweep, each with a key of its own.
        executor: Where ``measure`` is called.
        journal: Gets one outcome per case.
        on_progress: Is called at the start, after each outcome, and twice a second.
        limit: How many cases are submitted at a time.
        measure: (case) → data of its outcome; ``bench.measure_apart``, perhaps with some of its arguments.
        lost: Exceptions of the executor which say that a case was lost, and not what came of it.

    Raises SweepError where the executor is broken, a case was lost more than twice, or ``measure`` raises anything
    else, and JournalError where an outcome can't be written. Ctrl-C ends it too: what is not done is cancelled then.
    """
    run = _Run(list(cases), executor, journal, on_progress, limit, measure, tuple(lost))
    try:
        run.go()
    except KeyboardInterrupt:
        return Ended(True, run.unmeasured())
    finally:
        run.cancel()
    return Ended(False, run.unmeasured())


class _Run:
    def __init__(
        self,
        cases: list[Case],
        executor: Executor,
        journal: Writer,
        on_progress: Callable[[Progress], None],
        limit: int,
        measure: Measure,
        lost: tuple[type[BaseException], ...],
    ) -> None:
        self._cases = list({case.key: case for case in cases}.values())
        self._executor = executor
        self._journal = journal
        self._on_progress = on_progress
        self._limit = max(1, limit)
        self._measure = measure
        self._lost = lost
        self._waiting = deque(case for case in self._cases if case.key not in journal.outcomes)
        self._losses: Counter[str] = Counter()
        self._running: dict[Future[Mapping[str, Any]], Case] = {}
        self._before = len(self._cases) - len(self._waiting)
        self._begun = time.monotonic()
        self._pause_until = self._begun

    def go(self) -> None:
        self._tell()
        while self._waiting or self._running:
            pause = self._pause_until - time.monotonic()
            while self._waiting and len(self._running) < self._limit and pause <= 0:
                self._submit(self._waiting.popleft())
            if not self._running:
                time.sleep(max(0.0, pause))
            done, _ = wait(self._running, _LOOK_SECONDS, FIRST_COMPLETED)
            for future in done:
                self._take(future, self._running.pop(future))
                self._tell()
            if not done:
                self._tell()

    def cancel(self) -> None:
        for future in self._running:
            future.cancel()

    def unmeasured(self) -> tuple[str, ...]:
        return tuple(case.key for case in self._cases if case.key not in self._journal.outcomes)

    def _submit(self, case: Case) -> None:
        try:
            future = self._executor.submit(self._measure, case)
        except Exception as error:
            raise SweepError(f"no more cases can be submitted: {_told(error)}") from error
        self._running[future] = case

    def _take(self, future: Future[Mapping[str, Any]], case: Case) -> None:
        try:
            data = future.result()
        except self._lost as error:
            self._losses[case.key] += 1
            if self._losses[case.key] > MOST_LOSSES:
                times = self._losses[case.key]
                raise SweepError(f"{case.key} was lost {times} times, at last by {_told(error)}") from error
            self._waiting.appendleft(case)
            self._pause_until = time.monotonic() + PAUSE_SECONDS
            return
        except Exception as error:
            raise SweepError(f"{case.key} could not be measured: {_told(error)}") from error
        outcome = Outcome.from_data(data)
        if outcome.key != case.key:
            raise SweepError(f"{case.key} was asked for, and the outcome of {outcome.key} came")
        self._journal.add(outcome)

    def _tell(self) -> None:
        outcomes = self._journal.outcomes
        counts: Counter[str] = Counter(outcomes[case.key].state for case in self._cases if case.key in outcomes)
        done = sum(counts.values())
        here = done - self._before
        pace = (time.monotonic() - self._begun) / here if here else None
        left = pace * (len(self._cases) - done) if pace is not None else None
        self._on_progress(Progress(done, len(self._cases), dict(counts), left))


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
