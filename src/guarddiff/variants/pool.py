"""Exports of several variants at a time, in processes of their own; one after the other where that can't be."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import pickle
import warnings
from collections.abc import Generator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from guarddiff.core.errors import ContractError
from guarddiff.core.log import say
from guarddiff.variants import work
from guarddiff.variants.examples import Example

_GRACE_SECONDS = 5.0


@dataclass(frozen=True)
class Job:
    """One export: its name (which is that of a folder of its own), example inputs, and arguments of the export."""

    name: str
    example: Example
    keywords: dict[str, Any]


@dataclass(frozen=True)
class Done:
    """A job that ended: the report as JSON, or the error."""

    job: Job
    report: str = ""
    error: Exception | None = None


class _NotHere(Exception):
    """Other processes can't do it; the message says why."""


def cores() -> int:
    """Processors that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def run(model: torch.nn.Module, jobs: Sequence[Job], staging: Path, processes: int) -> Generator[Done, None, None]:
    """Run the jobs, at most ``processes`` at a time, and yield each when it ended; files are in ``staging/<name>``.

    Raises ContractError where a process dies (of a kill, or of too little memory).
    """
    left = {job.name: job for job in jobs}
    for job in jobs:
        (staging / job.name).mkdir()
    if processes > 1 and len(jobs) > 1:
        try:
            with contextlib.closing(_in_processes(model, jobs, staging, min(processes, len(jobs)))) as found:
                for done in found:
                    del left[done.job.name]
                    yield done
        except _NotHere as err:
            say(logging.WARNING, f"variants are exported in this process, one after the other: {err}")
    for job in left.values():
        yield _here(model, job, staging)


def _here(model: torch.nn.Module, job: Job, staging: Path) -> Done:
    try:
        example = job.example
        report = work.export(model, example.args, example.kwargs, staging / job.name, job.keywords)
    except Exception as err:
        return Done(job, error=err)
    return Done(job, report)


def _in_processes(
    model: torch.nn.Module, jobs: Sequence[Job], staging: Path, processes: int
) -> Generator[Done, None, None]:
    _hand_over(model, jobs, staging)
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(
        processes, context, initializer=work.begin, initargs=(str(staging), max(1, cores() // processes))
    )
    finished = False
    try:
        futures = {pool.submit(work.in_process, str(staging), job.name): job for job in jobs}
        for future in as_completed(futures):
            answer = future.result()
            if answer.unloaded:
                raise _NotHere(f"another process can't load the model ({answer.error})")
            yield _done(futures[future], answer)
        finished = True
    except BrokenProcessPool:
        if _started(staging):
            raise ContractError("a process that exported was killed, perhaps for want of memory") from None
        text = "no process could be started: the script that exports needs `if __name__ == '__main__':`"
        warnings.warn(f"{text}; exported in this process, one after the other", RuntimeWarning, stacklevel=5)
        raise _NotHere(text) from None
    finally:
        pool.shutdown(wait=finished, cancel_futures=True)
        if not finished:
            _end(_started(staging))


def _hand_over(model: torch.nn.Module, jobs: Sequence[Job], staging: Path) -> None:
    """Write what the processes read."""
    try:
        torch.save((model, {job.name: job.keywords for job in jobs}), staging / work.MODEL)
        for job in jobs:
            torch.save((job.example.args, job.example.kwargs), staging / job.name / work.INPUTS)
    except (AttributeError, TypeError, RuntimeError, NotImplementedError, pickle.PickleError) as err:
        raise _NotHere(f"the model can't be sent to another process ({type(err).__name__}: {err})") from err


def _done(job: Job, answer: work.Answer) -> Done:
    if not answer.error:
        return Done(job, answer.report)
    error = ContractError(answer.error)
    error.__cause__ = RuntimeError(f"in the process that exported:\n{answer.trace}")
    return Done(job, error=error)


def _started(staging: Path) -> set[int]:
    """Numbers of the processes that have started."""
    return {int(path.name.removesuffix(work.STARTED)) for path in staging.glob(f"*{work.STARTED}")}


def _end(numbers: set[int]) -> None:
    """End the processes of the pool: what they export is not wanted any more."""
    ours = [process for process in multiprocessing.active_children() if process.pid in numbers]
    for process in ours:
        process.terminate()
    for process in ours:
        process.join(_GRACE_SECONDS)
