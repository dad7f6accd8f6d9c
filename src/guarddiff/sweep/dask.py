"""Many machines: the workers of a Dask cluster measure the cases."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from guarddiff.sweep.run import LOST
from guarddiff.sweep.versions import differing, versions

CONNECT_SECONDS = 5.0
WORKERS_SECONDS = 20.0
"""How long workers may take to join a scheduler that answers."""
INSTALL = 'pip install "guarddiff[dask]"'
_LEAST_LIMIT = 32


class Unreachable(RuntimeError):
    """The cluster can't be used; the message says why."""


@dataclass(frozen=True)
class Cluster:
    """A cluster that is connected.

    Attributes:
        executor: Submits to it.
        threads: How many cases its workers measure at a time.
        limit: How many are best submitted at a time: more than its threads, as workers may join.
        lost: Exceptions which say that a case was lost.
    """

    executor: Executor
    threads: int
    limit: int
    lost: tuple[type[BaseException], ...]


@contextlib.contextmanager
def cluster(address: str) -> Iterator[Cluster]:
    """The cluster of the scheduler at ``address``, ``tcp://host:port``, checked.

    Raises Unreachable: Dask is not installed, the scheduler does not answer within a few seconds, it has no workers, or
    these have other versions than this process.
    """
    try:
        import distributed
    except ImportError as error:
        raise Unreachable(f"Dask is missing ({error}): {INSTALL}") from None
    with _calm():
        client = _connected(distributed, address)
        try:
            threads = _checked(client, versions())
            executor = client.get_executor(retries=0)
            lost = (*LOST, distributed.scheduler.KilledWorker)
            yield Cluster(executor, threads, max(_LEAST_LIMIT, 4 * threads), lost)
        finally:
            with contextlib.suppress(Exception):
                client.close(timeout=CONNECT_SECONDS)


def _connected(distributed: Any, address: str) -> Any:
    try:
        return distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise Unreachable(f"no scheduler answers at {address}: {_told(error)}") from None


def _checked(client: Any, own: dict[str, str]) -> int:
    """The number of the workers' threads. Raises Unreachable where one has other versions than ``own``."""
    try:
        client.wait_for_workers(1, timeout=WORKERS_SECONDS)
    except (OSError, TimeoutError):
        raise Unreachable("the scheduler has no workers") from None
    try:
        theirs: dict[str, dict[str, str]] = client.run(versions)
    except Exception as error:
        raise Unreachable(f"the workers can't load this version of guarddiff: {_told(error)}") from None
    for worker, found in theirs.items():
        wrong = differing(own, found)
        if wrong:
            raise Unreachable(f"the worker at {worker} has other versions than this process: {', '.join(wrong)}")
    threads: dict[str, int] = client.nthreads()
    return max(1, sum(threads.values()))


@contextlib.contextmanager
def _calm() -> Iterator[None]:
    """Without what is logged, with tracebacks, when workers come and go or the scheduler does."""
    rooms = ("distributed", "concurrent.futures", "tornado", "asyncio")
    names = {*rooms, *(name for name in logging.root.manager.loggerDict if name.split(".")[0] in rooms)}
    loggers = [logging.getLogger(name) for name in sorted(names)]
    before = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL + 1)
        yield
    finally:
        for logger, level in zip(loggers, before):
            logger.setLevel(level)


def _told(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
