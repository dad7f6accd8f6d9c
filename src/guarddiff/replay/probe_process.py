"""The other side of ``probe_worker``: starts the process, asks it, and tells how it died."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import guarddiff.core
from guarddiff.core.child import Child, Died

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
        self._child: Child | None = None
        self.types: dict[str, str] = {}

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def open(self) -> None:
        """Load the model; ``types`` holds the ONNX types of the inputs then. Raises Unloadable."""
        self._loaded()

    def run(self, shapes: Mapping[str, Sequence[int]]) -> Answer:
        """Run the model at these shapes. Raises Unloadable where the model can't be loaded a second time."""
        child = self._child or self._loaded()
        try:
            got = child.ask({"shapes": {name: list(shape) for name, shape in shapes.items()}}, self._seconds)
        except Died as death:
            self._child = None
            return Answer("slow" if death.slow else "crashed", why=f"ONNX Runtime {death}")
        if not got.get("ok"):
            return Answer("failed", why=str(got.get("why", "")))
        return Answer("ran", tuple((str(name), tuple(shape)) for name, shape in got["outputs"]))

    def _loaded(self) -> Child:
        self._end()
        path = os.pathsep.join(filter(None, [_HOUSE, os.environ.get("PYTHONPATH", "")]))
        child = self._child = Child(
            [sys.executable, "-m", "guarddiff.replay.probe_worker", self._path],
            env={**os.environ, "PYTHONPATH": path},
            cwd=_HOUSE,
        )
        try:
            got = child.answer(self._seconds)
        except Died as death:
            self._child = None
            raise Unloadable(f"ONNX Runtime {death} while it loaded the model") from None
        if not got.get("loaded"):
            self._end()
            raise Unloadable(str(got.get("why", "")))
        self.types = dict(got["types"])
        return child

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.close()
