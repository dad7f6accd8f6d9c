"""A task in a forked child: what kills or hangs the child harms nobody else, and what it changes stays there."""

from __future__ import annotations

import contextlib
import contextvars
import faulthandler
import gc
import logging
import os
import pickle
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from guarddiff.core import log
from guarddiff.core.child import Died
from guarddiff.core.quiet import quiet

_Given = TypeVar("_Given")

STEP_SECONDS = 120.0
"""How long one step may take."""
SILENT_SECONDS = 300.0
"""How long a child may work between two steps: reproductions take up to 240."""
_START_SECONDS = 30.0
"""How long a child may take to say that it is there: a lock that another thread held at the fork is held for ever."""
_LOOK_SECONDS = 0.5
_GRACE_SECONDS = 5.0
_LAST_STREAM = 2
MOST_DEATHS = 8
"""After so many children that ended no further step of a task is done; one that was too slow counts for four."""


class NotApart(BaseException):
    """Raised by a task that can't be done in a forked child; it is done in this process then."""


@dataclass
class _Inside:
    """What a child knows of its task. ``gone``: what became of steps that ended an earlier child, by number.
    ``given_up``: no step beyond those is done."""

    connection: Connection
    gone: Mapping[int, Died]
    given_up: bool = False
    begun: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def tell(self, kind: str, content: Any = None) -> None:
        with self.lock:
            self.connection.send_bytes(pickle.dumps((kind, content)))

    def begin(self) -> None:
        self.begun += 1
        death = self.gone.get(self.begun)
        if death is not None:
            raise death
        if self.given_up and self.begun > max(self.gone, default=0):
            raise Died(f"was not run any more: {len(self.gone)} runs had ended their process")
        self.tell("step", self.begun)


_inside: _Inside | None = None
_unused: list[Any] = []
"""In a child, the streams of its parent: one that is closed writes what waits in it a second time."""


class _Death(Exception):
    """A child that ended: how, and during which step (None: between two)."""

    def __init__(self, died: Died, step: int | None) -> None:
        super().__init__(str(died))
        self.died = died
        self.step = step


class _Elsewhere(Exception):
    """What the child could not do at all."""


class _Trace(Exception):
    """The traceback of an error in a child, as text."""

    def __str__(self) -> str:
        return f"\n\n{self.args[0]}"


def possible() -> bool:
    """Whether children are forked here: on Linux. (Elsewhere system libraries do not outlive a fork, or there is
    none.)"""
    return sys.platform == "linux" and hasattr(os, "fork")


@contextlib.contextmanager
def step() -> Iterator[None]:
    """Something that may end the process, or not come back. Raises Died where it did so in an earlier child; does
    nothing outside a forked task."""
    inside = _inside
    if inside is None:
        yield
        return
    inside.begin()
    try:
        yield
    finally:
        inside.tell("between")


def run(task: Callable[[], _Given]) -> _Given:
    """What ``task`` gives, done in a forked child where that is possible, and in this process otherwise.

    The result is pickled. What the task logs is logged here; what it prints is lost, and so is whatever it changes.
    A step that ends the child is not done again: the task begins anew in another child, where that step raises Died.

    After ``MOST_DEATHS`` no further step is done.

    Raises what the task raises, and Died where the child ends between two steps.
    """
    if _inside is not None or not possible():
        return task()
    gone: dict[int, Died] = {}
    given_up = False
    while True:
        try:
            given: _Given = _in_child(task, gone, given_up)
            return given
        except _Elsewhere as error:
            log.say(logging.DEBUG, f"no child of its own: {error}")
            return task()
        except _Death as death:
            if death.step is None or given_up:
                raise death.died from None
            gone[death.step] = death.died
            given_up = sum(4 if died.slow else 1 for died in gone.values()) >= MOST_DEATHS


def _in_child(task: Callable[[], Any], gone: Mapping[int, Died], given_up: bool) -> Any:
    """Raises what the task raises, _Death and _Elsewhere."""
    with contextlib.ExitStack() as stack:
        try:
            scratch: str | None = stack.enter_context(_folder())
        except OSError:
            scratch = None
        try:
            reader, writer = _pipe()
            stack.enter_context(reader)
            parent = os.getpid()
            with writer, quiet(), _signals_later():  # from Python 3.12 on a fork beside other threads warns
                pid = os.fork()
                if pid == 0:
                    try:
                        _be_the_child(task, _Inside(writer, gone, given_up), scratch, parent)
                    finally:
                        os._exit(0)
                stack.callback(_end, pid)
                stack.callback(_end, pid)  # the first may be interrupted
        except OSError as error:
            raise _Elsewhere(str(error)) from error
        return _answer(pid, reader)


def _pipe() -> tuple[Connection, Connection]:
    """Both ends, neither of them with the number of a standard stream: those may be closed here, as in a daemon."""
    held: list[int] = []
    try:
        while True:
            reader, writer = Pipe(duplex=False)
            if min(reader.fileno(), writer.fileno()) > _LAST_STREAM:
                return reader, writer
            reader.close()
            writer.close()
            held.append(os.open(os.devnull, os.O_RDWR))
    finally:
        for number in held:
            os.close(number)


@contextlib.contextmanager
def _signals_later() -> Iterator[None]:
    """What a signal raises comes at the end, and not between a fork and what has to follow it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _folder() -> Iterator[str]:
    """For temporary files of a child that may not come to clear up after itself."""
    path = tempfile.mkdtemp(prefix="guarddiff-")
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _answer(pid: int, reader: Connection) -> Any:
    """What the child says in the end. Raises what the task raises, _Death and _Elsewhere."""
    during: int | None = None
    until, limit = time.monotonic() + _START_SECONDS, _START_SECONDS
    started = False
    while True:
        message = _message(pid, reader, until)
        if message is None:
            if not started:
                raise _Elsewhere("it did not start")
            raise _Death(_how(pid, limit), during)
        kind, content = message
        if kind == "value":
            return content
        if kind == "raised":
            raise _joined(*content)
        if kind == "elsewhere":
            raise _Elsewhere(content)
        if kind == "log":
            level, text, error = content
            log.say(level, text, _joined(*error) if error is not None else None)
        else:
            started = True
            during = content if kind == "step" else None
            limit = STEP_SECONDS if during is not None else SILENT_SECONDS
            until = time.monotonic() + limit


def _message(pid: int, reader: Connection, until: float) -> tuple[str, Any] | None:
    """The next message; None where there is none in time, or none any more."""
    while True:
        left = until - time.monotonic()
        try:
            if reader.poll(max(0.0, min(left, _LOOK_SECONDS))):
                message: tuple[str, Any] = pickle.loads(reader.recv_bytes())
                return message
        except (EOFError, OSError):
            return None
        if left <= 0:
            return None
        if _over(pid) and not reader.poll(0):  # what it started may hold the pipe open
            return None


def _how(pid: int, seconds: float) -> Died:
    """How a child ended that gave no answer."""
    until = time.monotonic() + (_GRACE_SECONDS if _over(pid) else 0.2)
    while not _over(pid) and time.monotonic() < until:
        time.sleep(0.01)
    if not _over(pid):
        return Died(f"was not done within {seconds:.0f} seconds", slow=True)
    try:
        found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        found = None
    if found is None:
        return Died("ended its process")
    if found.si_code == os.CLD_EXITED:
        return Died(f"ended its process with code {found.si_status}", code=found.si_status)
    name = signal.Signals(found.si_status).name
    return Died(f"crashed ({name})", signal=name)


def _over(pid: int) -> bool:
    """Whether it has ended. It is not waited for, so that its group keeps its number."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True  # somebody else waited for it


def _end(pid: int) -> None:
    """End a child and what it started, and wait until it has gone."""
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return  # somebody else waited for it: its number may be another's by now
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


def _be_the_child(task: Callable[[], Any], inside: _Inside, scratch: str | None, parent: int) -> None:
    """Do the task in a thread of its own: the threads that OpenMP made for the one that forked are not here, and it
    would wait for them."""
    global _inside
    _settle(scratch)
    _inside = inside
    log.forward(lambda level, text, error: inside.tell("log", (level, text, _parts(error))))
    context = contextvars.copy_context()
    worker = threading.Thread(target=context.run, args=(_do, task, inside), daemon=True)
    worker.start()
    while worker.is_alive() and os.getppid() == parent:
        worker.join(_LOOK_SECONDS)
    if worker.is_alive():
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)
        os.killpg(0, signal.SIGKILL)


def _settle(scratch: str | None) -> None:
    """What a child does not share: signals, the terminal, temporary files, core dumps; it is the first to go where
    memory runs out."""
    os.setpgid(0, 0)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    faulthandler.disable()
    gc.freeze()  # what was there before is not looked at again, and so not copied
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(_LAST_STREAM + 1):
        os.dup2(nothing, stream)
    _unused.extend((sys.stdin, sys.stdout, sys.stderr))
    sys.stdin, sys.stdout, sys.stderr = (open(os.devnull, mode, encoding="utf-8") for mode in ("r", "w", "w"))  # noqa: SIM115
    if scratch is not None:
        tempfile.tempdir = scratch
        os.environ["TMPDIR"] = scratch
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("1000")


def _do(task: Callable[[], Any], inside: _Inside) -> None:
    inside.tell("between")
    try:
        message = ("value", task())
    except NotApart as error:
        message = ("elsewhere", str(error))
    except BaseException as error:
        message = ("raised", _parts(error))
    try:
        inside.tell(*message)
    except Exception as error:
        inside.tell("elsewhere", f"its result can't be sent ({error})")


def _parts(error: BaseException | None) -> tuple[BaseException, str] | None:
    """An error and its traceback, to be pickled."""
    if error is None:
        return None
    return _sendable(error), "".join(traceback.format_exception(type(error), error, error.__traceback__))


def _joined(error: BaseException, text: str) -> BaseException:
    error.__cause__ = _Trace(text)
    return error


def _sendable(error: BaseException) -> BaseException:
    """The error where it survives pickling, else one that tells its type and text."""
    try:
        copy = pickle.loads(pickle.dumps(error))
        if type(copy) is type(error) and str(copy) == str(error):
            return error
    except Exception:
        pass
    return RuntimeError(f"{type(error).__name__}: {error}")
