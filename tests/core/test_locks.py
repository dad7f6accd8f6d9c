"""A lock is free in a child, whoever holds it."""

from __future__ import annotations

import threading

import pytest

from guarddiff.core import forked, locks


@pytest.mark.skipif(not forked.possible(), reason="no children are forked here")
def test_a_child_finds_it_free_although_another_thread_uses_it_all_the_time() -> None:
    lock = locks.lock()
    stop = threading.Event()

    def use() -> None:
        while not stop.is_set():
            with lock:
                pass

    def task() -> bool:
        free = lock.acquire(timeout=5)
        return free and lock.locked()

    threads = [threading.Thread(target=use) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        assert [forked.run(task) for _ in range(20)] == [True] * 20
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not lock.locked()
