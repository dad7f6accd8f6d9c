"""Tasks in forked children of a process that has imported everything: each finds torch as an import left it."""

from __future__ import annotations

import json
import os
import select
import signal
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

Task = Callable[[], Any]


def run(task: Task, seconds: float = 300.0) -> dict[str, Any]:
    """What ``task`` gives in a child of its own: ``{"value": …}``, plain data; ``{"failed": …}`` where it raised, died
    or was not done in time."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _be_the_child(task, reader, writer)
    os.close(writer)
    text = _read(reader, child, time.monotonic() + seconds)
    os.close(reader)
    _, status = os.waitpid(child, 0)
    if text is None:
        return {"failed": f"not done in {seconds:.0f} s"}
    if os.WIFSIGNALED(status):
        return {"failed": signal.Signals(os.WTERMSIG(status)).name}
    if not text:
        return {"failed": f"exit code {os.waitstatus_to_exitcode(status)}"}
    answer: dict[str, Any] = json.loads(text)
    return answer


def spread(keys: Sequence[str], measure: Callable[[str], dict[str, Any]], jobs: int) -> Iterator[dict[str, Any]]:
    """``measure`` of each key, by ``jobs`` processes side by side, in the order in which they are done."""
    readers = [_share(keys[number::jobs], measure) for number in range(jobs)]
    try:
        yield from _lines(readers)
    finally:
        for reader in readers:
            os.close(reader)
        for _ in readers:
            os.wait()


def _share(keys: Iterable[str], measure: Callable[[str], dict[str, Any]]) -> int:
    """A process that measures these keys one after the other; where its lines are read."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.close(reader)
        try:
            with os.fdopen(writer, "w", encoding="utf-8") as lines:
                for key in keys:
                    lines.write(json.dumps({"key": key, **measure(key)}) + "\n")
                    lines.flush()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(writer)
    return reader


def _lines(readers: Sequence[int]) -> Iterator[dict[str, Any]]:
    parts = dict.fromkeys(readers, b"")
    while parts:
        for reader in select.select(list(parts), [], [])[0]:
            more = os.read(reader, 1 << 16)
            *whole, rest = (parts[reader] + more).split(b"\n")
            for line in whole:
                yield json.loads(line)
            parts[reader] = rest
            if not more:
                del parts[reader]


def _be_the_child(task: Task, reader: int, writer: int) -> None:
    os.close(reader)
    code = 1
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        os.close(nothing)
        try:
            answer = {"value": task()}
        except BaseException as error:
            answer = {"failed": f"{type(error).__name__}: {error}"[:2000]}
        with os.fdopen(writer, "w", encoding="utf-8") as out:
            json.dump(answer, out)
        code = 0
    finally:
        os._exit(code)


def _read(reader: int, child: int, until: float) -> str | None:
    """Everything the child writes; None where it was ended because the time was up."""
    parts = []
    while (left := until - time.monotonic()) > 0:
        if select.select([reader], [], [], left)[0]:
            part = os.read(reader, 1 << 16)
            if not part:
                return b"".join(parts).decode()
            parts.append(part)
    os.kill(child, signal.SIGKILL)
    return None
