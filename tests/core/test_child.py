"""A child answers, hangs, crashes or goes away: each is told, nothing is left and nothing blocks."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from guarddiff.core.child import Child, Died

posix = pytest.mark.skipif(os.name != "posix", reason="signals and groups of POSIX")

ECHO = """
import json, os, signal, subprocess, sys, time
def say(answer):
    print(json.dumps(answer), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    exec(asked.get("do", ""))
    say({"got": asked.get("n"), "long": len(asked.get("long", ""))})
"""


def echo(**options: object) -> Child:
    return Child([sys.executable, "-S", "-c", ECHO], **options)  # type: ignore[arg-type]


def gone(pid: int, seconds: float = 5.0) -> bool:
    """Whether the process is no more, or a zombie that somebody else has to wait for."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            os.kill(pid, 0)
            state = Path(f"/proc/{pid}/stat")
            if state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.02)
    return False


def test_answers_come_in_order() -> None:
    with echo() as child:
        assert [child.ask({"n": n}, 20)["got"] for n in range(3)] == [0, 1, 2]
        assert child.alive
    assert not child.alive


def test_environment_and_folder(tmp_path: Path) -> None:
    with echo(env={**os.environ, "CHILD_WORD": "here"}, cwd=str(tmp_path)) as child:
        answer = child.ask({"do": "say([]) if 0 else say({'env': os.environ['CHILD_WORD'], 'cwd': os.getcwd()})"}, 20)
        assert answer == {"env": "here", "cwd": os.path.realpath(tmp_path)}


def test_what_is_no_command_raises() -> None:
    with pytest.raises(OSError):
        Child([os.path.join(os.curdir, "no", "such", "command")])


def test_too_slow_is_ended() -> None:
    with echo() as child:
        child.ask({}, 20)
        begun = time.monotonic()
        with pytest.raises(Died, match="gave no answer within 0 seconds") as death:
            child.ask({"do": "time.sleep(60)"}, 0.3)
        assert death.value.slow
        assert 0.25 < time.monotonic() - begun < 5
        assert gone(child.pid, 0.1)
        with pytest.raises(Died, match="was not there"):
            child.ask({}, 1)


@posix
@pytest.mark.parametrize("name", ["SIGABRT", "SIGKILL", "SIGSEGV"])
def test_a_crash_is_named(name: str) -> None:
    with echo() as child, pytest.raises(Died) as death:
        child.ask({"do": f"os.kill(os.getpid(), signal.{name})"}, 20)
    assert str(death.value) == f"crashed ({name})"
    assert (death.value.signal, death.value.code, death.value.slow) == (name, None, False)


def test_an_exit_code_is_told() -> None:
    with echo() as child, pytest.raises(Died, match="ended its process with code 3") as death:
        child.ask({"do": "os._exit(3)"}, 20)
    assert (death.value.signal, death.value.code) == (None, 3)


@posix
def test_a_crash_is_seen_though_somebody_else_holds_the_pipe() -> None:
    with echo() as child:
        begun = time.monotonic()
        with pytest.raises(Died, match="SIGKILL"):
            child.ask({"do": "subprocess.Popen(['sleep', '60']); os.kill(os.getpid(), signal.SIGKILL)"}, 30)
        assert time.monotonic() - begun < 10


@posix
def test_the_whole_group_is_ended() -> None:
    with echo() as child:
        more = "more = subprocess.Popen(['sleep', '60']); say({'pid': more.pid}); time.sleep(60)"
        pid = child.ask({"do": more}, 20)["pid"]
        with pytest.raises(Died):
            child.answer(0.2)
        assert gone(pid)


@pytest.mark.parametrize("said", ["print('no json')", "print('[1]')", "print('\\x00\\xff')"])
def test_what_is_no_answer_ends_it(said: str) -> None:
    with echo() as child, pytest.raises(Died, match="can't be read"):
        child.ask({"do": said}, 20)
    assert gone(child.pid, 0.1)


def test_a_closed_output_is_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("guarddiff.core.child._GRACE_SECONDS", 0.3)
    with echo() as child, pytest.raises(Died, match="closed its output") as death:
        child.ask({"do": "os.close(1); time.sleep(60)"}, 20)
    assert death.value.signal is None


def test_full_pipes_block_nobody() -> None:
    with echo(tail=100) as child:
        child.ask({}, 20)
        with pytest.raises(Died) as death:  # more than a pipe holds, and nobody reads it
            child.ask({"do": "time.sleep(60)"}, 0.2)
        assert death.value.slow
    with echo(tail=100) as child:
        flood = "sys.stderr.write('x' * 3_000_000 + 'the end')"
        assert child.ask({"do": flood, "long": "y" * 3_000_000}, 30)["long"] == 3_000_000


def test_a_long_request_to_one_that_does_not_read() -> None:
    code = "import time; print('{}', flush=True); time.sleep(60)"
    with Child([sys.executable, "-S", "-c", code]) as child:
        child.answer(20)
        with pytest.raises(Died) as death:
            child.ask({"long": "y" * 3_000_000}, 0.3)
    assert death.value.slow


def test_the_last_words_are_those_since_the_last_request() -> None:
    with echo(tail=30) as child:
        child.ask({"do": "print('before', file=sys.stderr, flush=True)"}, 20)
        time.sleep(0.2)
        with pytest.raises(Died) as death:
            child.ask({"do": "sys.stderr.write('x' * 99 + ' last words'); sys.stderr.flush(); os._exit(1)"}, 20)
    assert death.value.tail == "x" * 19 + " last words"
    with echo() as child, pytest.raises(Died) as death:
        child.ask({"do": "sys.stderr.write('unheard'); sys.stderr.flush(); os._exit(1)"}, 20)
    assert death.value.tail == ""


@posix
def test_killed_from_another_thread() -> None:
    with echo() as child:
        child.ask({}, 20)
        threading.Timer(0.2, child.kill).start()
        with pytest.raises(Died, match="SIGKILL"):
            child.ask({"do": "time.sleep(60)"}, 30)


@posix
def test_an_interrupted_question_ends_it() -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with echo() as child:
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            with pytest.raises(KeyboardInterrupt):
                child.ask({"do": "time.sleep(60)"}, 30)
            assert gone(child.pid, 0.1)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def forgotten(child: Child) -> None:
    del child
    gc.collect()


@pytest.mark.parametrize("end", [Child.close, forgotten])
def test_nothing_is_left(end: Callable[[Child], None]) -> None:
    children = [echo(tail=10)]
    children[0].ask({}, 20)
    pid, threads = children[0].pid, threading.active_count()
    end(children.pop())
    if os.name == "posix":
        with pytest.raises(ProcessLookupError):  # no zombie either
            os.kill(pid, 0)
    assert threading.active_count() == threads - 3


def test_it_ends_with_the_interpreter() -> None:
    code = "import sys; from guarddiff.core.child import Child\n"
    code += "child = Child([sys.executable, '-S', '-c', 'import time; time.sleep(60)']); print(child.pid)"
    source = str(Path(__file__).resolve().parents[2] / "src")
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.stderr == ""
    assert gone(int(done.stdout))
