"""The process that measures cases one after another: ``python -m guarddiff.sweep.worker ROOM FOLDER``.

Requests and answers are lines of JSON. ROOM is ``module:function``; the function is called once, prepares the process,
and returns what measures one case: (key) → Outcome. FOLDER becomes the working folder, for files that a case leaves.
Whatever may end this process (a crash, a hang, memory) ends one case and not the sweep: ``bench`` is the other side.
"""

from __future__ import annotations

import dataclasses
import faulthandler
import json
import os
import queue
import random
import shutil
import sys
import threading
import time
import zlib
from collections.abc import Callable
from importlib import import_module
from typing import IO, Any

from guarddiff.core.privacy import scrub
from guarddiff.sweep.outcome import Outcome

ROOM = "guarddiff.sweep.worker:torch_room"
THREADS = "GUARDDIFF_SWEEP_THREADS"
"""Environment variable: threads of torch and of ONNX Runtime in each worker process; 1 without it, as there is one
process per core."""
ORPHANED_SECONDS = 30.0
"""How long after its limit a case that can't be interrupted is let be when the process that asked has gone."""

_LONGEST = 600
Measure = Callable[[str], Outcome]


def main(arguments: list[str]) -> None:
    """Answer requests until the process that asks is gone."""
    room, folder = arguments
    requests = _listen(os.fdopen(os.dup(0), encoding="utf-8"), folder)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    with open(os.devnull, "r+", encoding="utf-8") as nowhere:  # what a case prints or reads is no part of this
        os.dup2(nowhere.fileno(), 0)
        os.dup2(nowhere.fileno(), 1)
        os.chdir(folder)
        module, _, function = room.partition(":")
        measure: Measure = getattr(import_module(module), function)()
        _answer(answers, {"ready": True})
        while True:
            request = requests.get()
            faulthandler.dump_traceback_later(request["seconds"] + ORPHANED_SECONDS, exit=True, file=nowhere)
            outcome = measured(measure, request["key"], request["seed"])
            faulthandler.cancel_dump_traceback_later()
            _answer(answers, {"outcome": outcome.to_data()})


def torch_room() -> Measure:
    """Loads torch and ONNX Runtime, and builds the exporter's tables; measures what ``sources`` has."""
    from guarddiff.torch_bridge.workbench import prepare

    prepare()
    import onnxruntime
    import torch

    threads = int(os.environ.get(THREADS, "1"))
    torch.set_num_threads(threads)

    class SessionOptions(onnxruntime.SessionOptions):  # type: ignore[misc]
        """Sessions of this process take no more threads than torch: left alone, each takes all cores."""

        def __init__(self) -> None:
            super().__init__()
            self.intra_op_num_threads = threads

    onnxruntime.SessionOptions = SessionOptions
    return _of_the_sources


def _of_the_sources(key: str) -> Outcome:
    from guarddiff.sweep import measure, sources

    return measure.measure(sources.case(key))


def measured(measure: Measure, key: str, seed: int) -> Outcome:
    """The outcome of one case, with the random numbers of this seed. Never raises: where measuring does, the outcome
    is ``failed`` and says what."""
    begun = time.perf_counter()
    _seed(seed)
    try:
        return measure(key)
    except BaseException as error:  # an exit or a cancellation in a case's own code is no more than its failure
        text = scrub(f"{type(error).__name__}: {error}")[:_LONGEST]
        seconds = round(time.perf_counter() - begun, 3)
        return dataclasses.replace(Outcome(key, "failed", text=text), seconds=seconds)


def seed(key: str) -> int:
    """The seed of a case: the same wherever and whenever it is measured."""
    return zlib.crc32(key.encode())


def _seed(seed: int) -> None:
    """The same random numbers for the same case, whatever was measured before it."""
    random.seed(seed)
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None:
        numpy.random.seed(seed)
    if torch is not None:
        torch.manual_seed(seed)


def _listen(stream: IO[str], folder: str) -> queue.SimpleQueue[dict[str, Any]]:
    """Requests as they come. When the other side is gone the process ends, also in the middle of a case, and takes its
    folder with it."""
    requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def listen() -> None:
        for line in stream:
            requests.put(json.loads(line))
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    return requests


def _answer(answers: IO[str], answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
