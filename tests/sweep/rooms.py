"""A room without torch: what a case does is said by its name, as in ``ops/fake/abort-1``."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from guarddiff.sweep.case import Case
from guarddiff.sweep.outcome import Outcome

ROOM = "tests.sweep.rooms:fake_room"
"""As the worker process imports it: the root of the repository has to be on its path."""
ROOT = Path(__file__).resolve().parents[2]


def fake_room() -> Callable[[str], Outcome]:
    """Measures in milliseconds."""
    return measured


def broken_room() -> Callable[[str], Outcome]:
    """Can't be prepared."""
    sys.exit("no torch here")


def measured(key: str) -> Outcome:
    """Does what the name of the case says."""
    name = key.split("/")[2]
    if os.environ.get("SWEEP_COUNT"):
        with open(os.environ["SWEEP_COUNT"], "a", encoding="utf-8") as file:
            file.write(f"{key} {os.getpid()}\n")
    if name.startswith("slow"):
        time.sleep(0.3)
    if name.startswith("hang"):
        time.sleep(600)
    if name.startswith("abort"):
        os.write(2, b"free(): invalid pointer\n")
        os.abort()
    if name.startswith("kill"):
        os.kill(os.getpid(), signal.SIGKILL)
    if name.startswith("exit"):
        os._exit(7)
    if name.startswith("raise"):
        raise LookupError("no such operator")
    if name.startswith("quit"):
        sys.exit(4)
    if name.startswith("print"):
        print("{}")
        os.write(1, b"not an answer\n")
    if name.startswith("poison"):
        fake_room.__dict__["poisoned"] = True
    elif fake_room.__dict__.get("poisoned"):
        os.kill(os.getpid(), signal.SIGSEGV)
    if name.startswith("litter"):
        Path("litter.onnx").write_text("a file in the working folder")
    text = f"{os.getpid()} {os.getcwd()} {int(random_number() * 1000)}"
    memory = 2**40 if name.startswith("large") else 2**20
    return Outcome(key, "wrong shape" if name.startswith("wrong") else "ok", text=text, seconds=0.01, memory=memory)


def random_number() -> float:
    import random

    return random.random()


def cases(*names: str, seconds: float = 20.0) -> list[Case]:
    """Cases of these names."""
    return [Case("ops", "fake", name, seconds) for name in names]


def key(name: str) -> str:
    """The key of the case of this name."""
    return f"ops/fake/{name}"
