"""A process that answers one line of JSON per request, and may crash or hang without harm to the one that asks."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from typing import IO, Any

_LOOK_SECONDS = 0.5
"""How often it is looked whether the process is still there while its answer is awaited: what it started itself may
hold its end of the pipe open."""
_GRACE_SECONDS = 5.0
_Lines = queue.SimpleQueue["bytes | None"]
"""Lines, and None after the last one."""


class Died(Exception):
    """The process gave no answer, and is gone. The text says how, without a subject: ``crashed (SIGSEGV)``.

    Attributes:
        slow: Whether it was ended because the time was up.
        signal: Name of the signal that ended it; None where none did, or where the time was up.
        code: Its exit code; None where it has none.
        tail: The end of what it wrote to stderr since the last request; empty where that is not kept.
    """

    def __init__(
        self, text: str, *, slow: bool = False, signal: str | None = None, code: int | None = None, tail: str = ""
    ) -> None:
        super().__init__(text)
        self.slow = slow
        self.signal = signal
        self.code = code
        self.tail = tail


class Child:
    """A process that reads requests from stdin and writes answers to stdout, each a JSON object on a line.

    It starts at once, and leads a process group of its own where the system has those, so that what it starts itself
    ends with it. Use it as a context manager, or ``close`` it; a child that is forgotten is ended when it is collected
    and when the interpreter exits. One thread asks at a time; ``kill`` may come from any.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        tail: int = 0,
    ) -> None:
        """Start ``command``. ``env`` None: this process's. ``tail``: how many bytes of the end of its stderr are kept;
        0 sends it nowhere. Raises OSError."""
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if tail else subprocess.DEVNULL,
            env=None if env is None else dict(env),
            cwd=cwd,
            start_new_session=os.name == "posix",
        )
        self._requests: _Lines = queue.SimpleQueue()
        self._answers: _Lines = queue.SimpleQueue()
        self._tail = _Tail(tail)
        threads = [
            _thread(_write, self._process.stdin, self._requests),
            _thread(_read, self._process.stdout, self._answers),
        ]
        if tail:
            threads.append(_thread(_keep, self._process.stderr, self._tail))
        self._finish = weakref.finalize(self, _end, self._process, self._requests, tuple(threads))

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The process's number; another process may have it after the end of this one."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self._finish.alive and not _over(self._process)

    def ask(self, request: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """Its answer to this request, within so many seconds. Raises Died; the process is gone then."""
        self._tail.clear()
        self._requests.put(json.dumps(request).encode() + b"\n")
        return self.answer(seconds)

    def answer(self, seconds: float) -> dict[str, Any]:
        """The next answer, without a request: for what it says when it has started. Raises Died."""
        if not self._finish.alive:
            raise Died("was not there")
        try:
            line = self._line(seconds)
        except queue.Empty:
            self.close()
            text = f"gave no answer within {seconds:.0f} seconds"
            raise Died(text, slow=True, tail=self._tail.text()) from None
        except BaseException:  # interrupted: the answer that comes now would be taken for that to another request
            self.close()
            raise
        if line is None:
            raise self._death()
        try:
            found = json.loads(line)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            self.close()
            raise Died("gave an answer that can't be read", tail=self._tail.text())
        return found

    def kill(self) -> None:
        """End the process at once, from any thread; whoever awaits an answer is told of a crash by SIGKILL."""
        _kill(self._process)

    def close(self) -> None:
        """End the process and whatever it started, and wait until it has gone. Twice is no error."""
        self._finish()

    def _line(self, seconds: float) -> bytes | None:
        """The next line, None when there are no more. Raises queue.Empty when the time is up."""
        until = time.monotonic() + seconds
        while True:
            left = until - time.monotonic()
            try:
                return self._answers.get(timeout=max(0.0, min(left, _LOOK_SECONDS)))
            except queue.Empty:
                if left <= _LOOK_SECONDS:
                    raise
            if _over(self._process):
                try:
                    return self._answers.get(timeout=_LOOK_SECONDS)  # said before it ended
                except queue.Empty:
                    return None

    def _death(self) -> Died:
        until = time.monotonic() + _GRACE_SECONDS
        while not _over(self._process):
            if time.monotonic() > until:
                self.close()
                return Died("closed its output", tail=self._tail.text())
            time.sleep(0.01)
        self.close()
        code, tail = self._process.returncode, self._tail.text()
        if code >= 0:
            return Died(f"ended its process with code {code}", code=code, tail=tail)
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return Died(f"crashed ({name})", signal=name, tail=tail)


class _Tail:
    """The last bytes of a stream."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept = b""
        self._lock = threading.Lock()

    def add(self, more: bytes) -> None:
        with self._lock:
            self._kept = (self._kept + more)[-self._most :]

    def clear(self) -> None:
        with self._lock:
            self._kept = b""

    def text(self) -> str:
        with self._lock:
            return self._kept.decode("utf-8", "replace").strip()


# Each thread owns one pipe and closes it: closing a stream that another thread reads would wait for that thread.


def _thread(target: Any, stream: IO[bytes] | None, other: Any) -> threading.Thread:
    thread = threading.Thread(target=target, args=(stream, other), daemon=True)
    thread.start()
    return thread


def _write(stream: IO[bytes], requests: _Lines) -> None:
    try:
        while (line := requests.get()) is not None:
            stream.write(line)
            stream.flush()
    except OSError:
        pass  # it has gone: whoever awaits the answer is told
    finally:
        with contextlib.suppress(OSError):
            stream.close()


def _read(stream: IO[bytes], answers: _Lines) -> None:
    try:
        with stream:
            for line in stream:
                answers.put(line)
    except OSError:
        pass
    finally:
        answers.put(None)


def _keep(stream: IO[bytes], tail: _Tail) -> None:
    with contextlib.suppress(OSError), stream:
        while more := os.read(stream.fileno(), 65536):
            tail.add(more)


def _over(process: subprocess.Popen[bytes]) -> bool:
    """Whether it has ended. It is not waited for where that can be helped: its group keeps its number until then."""
    if process.returncode is None and hasattr(os, "waitid"):
        try:
            return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True  # somebody else waited for it
    return process.poll() is not None


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.returncode is not None:
        return
    if os.name == "posix":
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(OSError):
        process.kill()


def _end(process: subprocess.Popen[bytes], requests: _Lines, threads: tuple[threading.Thread, ...]) -> None:
    _kill(process)
    process.wait()
    requests.put(None)
    for thread in threads:
        if thread is not threading.current_thread():
            thread.join(1.0)  # longer only where a process outside the group holds the pipe
