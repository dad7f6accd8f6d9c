"""A real Dask scheduler with two workers on this machine."""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.sweep.rooms import ROOM, ROOT, cases

from guarddiff.sweep import bench, dask, versions
from guarddiff.sweep.dask import Unreachable, cluster
from guarddiff.sweep.journal import Writer, read
from guarddiff.sweep.run import Progress, sweep


def test_without_dask_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(Unreachable, match=r'pip install "guarddiff\[dask\]"'), cluster("tcp://127.0.0.1:1"):
        pass


distributed: Any = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def scheduler() -> Iterator[Any]:
    patch = pytest.MonkeyPatch()
    patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]))
    with distributed.LocalCluster(
        n_workers=2, processes=True, threads_per_worker=1, dashboard_address=None, silence_logs=50
    ) as made:
        yield made
    patch.undo()


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nothing://at:all"])
def test_no_scheduler_is_told_soon(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask, "CONNECT_SECONDS", 0.5)
    with pytest.raises(Unreachable, match=f"no scheduler answers at {address}"), cluster(address):
        pass


def test_other_versions_are_refused(scheduler: Any) -> None:
    with distributed.Client(scheduler.scheduler_address, set_as_default=False) as client:
        with pytest.raises(Unreachable, match="has other versions than this process: torch 9.9 and"):
            dask._checked(client, {**versions.versions(), "torch": "9.9"})
        assert dask._checked(client, versions.versions()) == 2


def test_a_worker_that_is_killed_loses_nothing(scheduler: Any, tmp_path: Path) -> None:
    names = [f"slow-{number}" for number in range(12)]
    swept = [*cases(*names), *cases("abort")]
    killed: list[int] = []

    def kill(progress: Progress) -> None:
        if progress.done == 3 and not killed:
            killed.append(next(iter(pids.values())))
            os.kill(killed[0], signal.SIGKILL)

    path = tmp_path / "results-ops.jsonl"
    with cluster(scheduler.scheduler_address) as made, Writer(path, "ops") as journal:
        assert made.threads == 2
        pids: Mapping[str, int] = made.executor._client.run(os.getpid)  # type: ignore[attr-defined]
        measure = partial(bench.measure_apart, room=ROOM, asked=versions.versions())
        ended = sweep(swept, made.executor, journal, kill, limit=made.limit, measure=measure, lost=made.lost)
    assert killed
    assert (ended.interrupted, ended.unmeasured) == (False, ())
    written = [line for line in path.read_text().splitlines() if '"key"' in line]
    assert len(written) == len(swept)
    outcomes = read(path).outcomes
    assert sorted(outcomes) == sorted(case.key for case in swept)
    assert {outcome.state for key, outcome in outcomes.items() if "slow" in key} == {"ok"}
    assert outcomes["ops/fake/abort"].state == "crashed"


def test_ctrl_c_there(scheduler: Any, tmp_path: Path) -> None:
    def stop(progress: Progress) -> None:
        if progress.done == 1:
            threading.Timer(0.1, _thread.interrupt_main).start()

    path = tmp_path / "results-ops.jsonl"
    with cluster(scheduler.scheduler_address) as made, Writer(path, "ops") as journal:
        measure = partial(bench.measure_apart, room=ROOM)
        swept = cases(*(f"slow-{number}" for number in range(30)))
        ended = sweep(swept, made.executor, journal, stop, limit=made.limit, measure=measure, lost=made.lost)
    assert ended.interrupted
    assert len(ended.unmeasured) == 30 - len(read(path).outcomes) > 20
