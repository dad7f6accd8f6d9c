"""The other side of ``probe_worker``: starts the process, asks it, and tells how it died."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import guarddiff.core

_HOUSE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(guarddiff.core.__file__))))


@dataclass(frozen=True)
class Answer:
    """One run. ``state``: ``ran``, ``failed`` (an error of ONNX Runtime), ``crashed`` (the process died) or ``slow``.

    ``outputs`` are (name, shape) where it ran; ``why`` says what happened otherwise.
    """

    state: str
    outputs: tuple[tuple[str, tuple[int, ...]], ...] = ()
    why: str = ""


class Unloadable(Exception):
    """ONNX Runtime is missing, or can't load the model; the message says why."""


class Runner:
    """ONNX Runtime on one model file. A process that died is started anew at the next question.

    ``seconds`` is how long one answer may take. Use it as a context manager: leaving ends the process.
    """

    def __init__(self, path: str, seconds: float) -> None:
        self._path = os.path.abspath(path)
        self._seconds = seconds
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str | None] = queue.Queue()
        self.types: dict[str, str] = {}

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def open(self) -> None:
        """Load the model; ``types`` holds the ONNX types of the inputs then. Raises Unloadable."""
        try:
            got = self._started()
        except _Died as death:
            raise Unloadable(f"ONNX Runtime {death} while it loaded the model") from None
        if not got.get("loaded"):
            self._end()
            raise Unloadable(str(got.get("why", "")))
        self.types = dict(got["types"])

    def run(self, shapes: Mapping[str, Sequence[int]]) -> Answer:
        """Run the model at these shapes. Raises Unloadable where the model can't be loaded a second time."""
        if self._process is None:
            self.open()
        try:
            got = self._asked({"shapes": {name: list(shape) for name, shape in shapes.items()}})
        except _Died as death:
            return Answer("slow" if death.slow else "crashed", why=f"ONNX Runtime {death}")
        if not got.get("ok"):
            return Answer("failed", why=str(got.get("why", "")))
        return Answer("ran", tuple((str(name), tuple(shape)) for name, shape in got["outputs"]))

    # --- the process ---

    def _started(self) -> dict[str, Any]:
        path = os.pathsep.join(filter(None, [_HOUSE, os.environ.get("PYTHONPATH", "")]))
        process = subprocess.Popen(
            [sys.executable, "-m", "guarddiff.replay.probe_worker", self._path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=_HOUSE,
            env={**os.environ, "PYTHONPATH": path},
            text=True,
            encoding="utf-8",
        )
        lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=_listen, args=(process, lines), daemon=True).start()
        self._process, self._lines = process, lines
        return self._answer()

    def _asked(self, request: dict[str, Any]) -> dict[str, Any]:
        process = self._process
        if process is None or process.stdin is None:
            raise _Died("was not there")
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
        except OSError:
            raise self._death() from None
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=self._seconds)
        except queue.Empty:
            self._end()
            raise _Died(f"gave no answer within {self._seconds:.0f} seconds", slow=True) from None
        if line is None:
            raise self._death()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _death(self) -> _Died:
        process, self._process = self._process, None
        if process is None:
            return _Died("was not there")
        code = process.wait()
        _close(process)
        if code >= 0:
            return _Died(f"ended its process with code {code}")
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return _Died(f"crashed ({name})")

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            _close(process)


class _Died(Exception):
    def __init__(self, text: str, slow: bool = False) -> None:
        super().__init__(text)
        self.slow = slow


def _listen(process: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
    """Hand on the answers, and None when there are no more."""
    try:
        for line in process.stdout or ():
            lines.put(line)
    except (OSError, ValueError):
        pass
    finally:
        lines.put(None)


def _close(process: subprocess.Popen[str]) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            try:
                stream.close()
            except OSError:
                continue
