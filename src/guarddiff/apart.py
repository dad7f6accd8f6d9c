"""What runs a model at other sizes, done in a process of its own: ONNX Runtime and eager PyTorch do crash on some."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from guarddiff.core import forked
from guarddiff.torch_bridge import hooks, thread_state
from guarddiff.torch_bridge.record import Recording

_Given = TypeVar("_Given")


def run(task: Callable[[], _Given]) -> _Given:
    """What ``task`` gives, in a forked child (``core.forked``) that computes as this thread does; in this process
    where there is none to be had. No watch sees the exports that the task makes.

    Raises what the task raises, and Died where its process ended and it is not known why.
    """

    def unwatched() -> _Given:
        with hooks.recording(None):
            return task()

    state = thread_state.taken()
    if state is None:
        return unwatched()

    def entered() -> _Given:
        with state():
            return unwatched()

    return forked.run(entered)


def recorded(recording: Recording, task: Callable[[], _Given]) -> _Given:
    """As ``run``; what the task adds to what is missing in the recording is kept."""
    given, recording.missing = run(lambda: (task(), recording.missing))
    return given
