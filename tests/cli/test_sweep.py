"""``guarddiff sweep``: exit codes, what is told, interruption and going on."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.cli.sweeping import NAMES
from tests.sweep.rooms import ROOM, ROOT, cases, key

from guarddiff.cli import sweep as commands
from guarddiff.cli import sweep_progress, sweep_text
from guarddiff.sweep import sources, worker
from guarddiff.sweep.case import GROUPS
from guarddiff.sweep.journal import Writer, read
from guarddiff.sweep.outcome import Found, Outcome, Repaired, Said, Wrong
from guarddiff.sweep.run import Progress

Say = Callable[..., tuple[int, str, str]]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cases and workers without torch, in this process."""
    monkeypatch.setattr(sources, "cases", lambda group, _=None: cases(*NAMES[:4]) if group == "ops" else [])
    monkeypatch.setattr(sources, "families", lambda group: ["fake"] if group == "ops" else [])
    monkeypatch.setattr(worker, "ROOM", ROOM)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def test_a_package_that_is_missing_is_named(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(group: str, _: Any = None) -> list[Any]:
        raise ImportError('no expecttest: pip install "guarddiff[sweep]"')

    monkeypatch.setattr(sources, "cases", missing)
    code, _, err = say("sweep", "list", "ops")
    assert code == 2 and 'pip install "guarddiff[sweep]"' in err and "an error of its own" not in err


def test_groups_are_those_of_the_sweep() -> None:
    assert commands._GROUPS == GROUPS


def test_a_sweep(say: Say, fake: None, tmp_path: Path) -> None:
    code, out, err = say("sweep", "ops", "--jobs", "1", "--out", tmp_path)
    assert code == 0
    assert err == f"results: {tmp_path / 'results-ops.jsonl'}\n"
    assert out.startswith("ops: 4 cases, 2 exported, 1 of them silently wrong (50.0 %)\n")
    rows = dict(re.findall(r"^  (.+?)  +(\d.*)$", out, re.MULTILINE))
    assert {state: rows[state] for state in ("ok", "crashed", "failed")} == {"ok": "1", "crashed": "1", "failed": "1"}
    assert rows["wrong shape"] == "1  (unknown 1)"
    found = read(tmp_path / "results-ops.jsonl")
    assert sorted(found.outcomes) == sorted(map(key, NAMES[:4]))
    assert found.environment["jobs"] == 1


def test_some_of_it_and_then_the_rest(say: Say, fake: None, tmp_path: Path) -> None:
    code, out, _ = say("sweep", "ops", "--only", "fake/wr*", "--only", key("a"), "--out", tmp_path, "--seconds", "9")
    assert (code, out.split(",")[0]) == (0, "ops: 2 cases")
    path = tmp_path / "results-ops.jsonl"
    before = path.read_bytes()
    code, out, err = say("sweep", "ops", "--out", tmp_path)
    assert (code, out) == (2, "")
    assert "is there: go on with it by --resume" in err
    assert path.read_bytes() == before
    code, out, _ = say("sweep", "ops", "--resume", "--out", tmp_path)
    assert (code, out.split(",")[0]) == (0, "ops: 4 cases")
    assert path.read_bytes().startswith(before)
    assert len(read(path).outcomes) == 4


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["ops", "--only", "wrogn"], "no case of ops matches 'wrogn'"),
        (["ops", "--only", "fake/wrogn"], "there are 'ops/fake/wrong'"),
        (["ops", "--only", "fake", "--only", "nothing*"], "no case of ops matches 'nothing*'"),
        (["models"], "none of torchvision, timm and transformers is installed"),
        (["ops", "--jobs", "0"], "--jobs"),
        (["ops", "--seconds", "0"], "--seconds"),
        (["ops", "--jobs", "1", "--dask", "tcp://127.0.0.1:1"], "--jobs is for this machine"),
        (["list", "nothing"], "'nothing' is not one of"),
        (["list", "ops", "--only", "abort2"], "there are"),
        (["case", "nothing/at/all"], "a key begins with ops/, catalogue/, models/"),
        (["nothing"], "No such command"),
    ],
)
def test_wrong_usage_is_one_line(say: Say, fake: None, tmp_path: Path, arguments: list[str], told: str) -> None:
    folder = [] if arguments[0] in ("list", "nothing") else ["--out", str(tmp_path / "results")]
    code, out, err = say("sweep", *arguments, *folder)
    assert (code, out) == (2, "")
    assert told in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "results").exists()


def test_a_file_of_other_versions_is_left_alone(say: Say, fake: None, tmp_path: Path) -> None:
    path = tmp_path / "results-ops.jsonl"
    with Writer(path, "ops") as writer:
        writer.add(Outcome(key("a"), "ok"))
    path.write_text(re.sub(r'"torch":"[^"]*"', '"torch":"1.0"', path.read_text()))
    before = path.read_bytes()
    code, _, err = say("sweep", "ops", "--resume", "--out", tmp_path)
    assert code == 2
    assert "torch 1.0 and" in err
    assert path.read_bytes() == before


def test_workers_that_can_not_start_leave_it_incomplete(
    say: Say, fake: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "ROOM", "tests.sweep.rooms:broken_room")
    code, out, err = say("sweep", "ops", "--out", tmp_path)
    assert (code, out) == (3, "")
    assert "can't be started: the process ended with code 1: no torch here. 0 outcomes are in" in err
    assert len(err.splitlines()) == 1


def test_a_cluster_that_is_not_there(say: Say, fake: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    code, _, err = say("sweep", "ops", "--dask", "tcp://127.0.0.1:1", "--out", tmp_path)
    assert code == 2
    assert 'pip install "guarddiff[dask]"' in err
    assert not list(tmp_path.iterdir())


def test_keys_are_listed(say: Say, fake: None) -> None:
    assert say("sweep", "list", "ops") == (0, "".join(f"{key(name)}\n" for name in NAMES[:4]), "")
    assert say("sweep", "list", "ops", "--only", "*/a*")[1].split() == [key("a"), key("abort")]


# --- a real process, interrupted ---


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_interrupted_and_gone_on_with_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "results-ops.jsonl"
    script = str(Path(__file__).with_name("sweeping.py"))
    command = [sys.executable, script, "sweep", "ops", "--jobs", "1", "--resume", "--out", str(tmp_path)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]), "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    until = time.monotonic() + 60
    while not (path.exists() and path.read_text().count('"key"') >= 5) and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    begun = time.monotonic()
    _, err = process.communicate(timeout=30)
    assert time.monotonic() - begun < 5
    assert process.returncode == 130
    before = path.read_bytes()
    kept = list(read(path).outcomes)
    assert 5 <= len(kept) < len(NAMES)
    assert f"guarddiff: interrupted. {len(kept)} outcomes are in {path}: --resume goes on from there\n" == err
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]  # the folders of the workers are gone
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=60)
    assert done.returncode == 0
    assert path.read_bytes().startswith(before)
    assert sorted(read(path).outcomes) == sorted(map(key, NAMES))
    assert path.read_text().count('"key"') == len(NAMES)


# --- one case ---


@pytest.fixture
def one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    measure: Any = ModuleType("measure")

    def report(case: Any, folder: Path) -> tuple[Path, ...]:
        if case.name == "raise":
            raise LookupError("no such operator")
        return (folder / "guarddiff-report.md",)

    measure.report = report
    monkeypatch.setitem(sys.modules, "guarddiff.sweep.measure", measure)
    monkeypatch.setattr("guarddiff.sweep.measure", measure, raising=False)
    known = {case.key: case for case in cases(*NAMES)}
    monkeypatch.setattr(sources, "cases", lambda group, _=None: list(known.values()))
    monkeypatch.setattr(sources, "case", lambda key: known[key])
    monkeypatch.setattr(worker, "torch_room", lambda: lambda key: Outcome(key, "wrong shape", "capture", seconds=2.0))


def test_one_case(say: Say, one: None, tmp_path: Path) -> None:
    code, out, err = say("sweep", "case", key("a"), "--out", tmp_path)
    assert (code, out) == (0, f"{key('a')}: wrong shape, since capture\n\nTook 2 s.\n")
    assert f"report:  {tmp_path / 'guarddiff-report.md'}\n" in err


def test_one_case_that_can_not_be_made(say: Say, one: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(worker, "torch_room", lambda: lambda key: Outcome(key, "failed", text="no such operator"))
    code, out, err = say("sweep", "case", key("raise"), "--out", tmp_path)
    assert code == 3
    assert out.startswith(f"{key('raise')}: failed\n  no such operator\n")
    assert "there is no report: LookupError: no such operator" in err


def test_a_case_that_is_not_there(say: Say, one: None, tmp_path: Path) -> None:
    code, _, err = say("sweep", "case", key("abrot"), "--out", tmp_path)
    assert code == 2
    assert f"there is no case '{key('abrot')}'; there are '{key('abort')}'" in err


# --- words ---


def test_an_outcome_in_words() -> None:
    found = Found("decompose", "aten.x.default", "confirmed", ("x[2]: exactly 6",), ("h == 6",), "m.py:3", "d.py:9 f")
    outcome = Outcome(
        "ops/pool/1",
        "wrong values",
        "decompose",
        ((1, 6),),
        4,
        (Wrong(((1, 12),), "wrong values", "0.5 off\x1b[31m"),),
        2,
        default=Said("specialized", "confirmed", True, (found,), ("a part: gone",), 1.25),
        full=Said("clean", "none", False),
        repair=Repaired(True, "another way", "ok"),
        seconds=0.5,
    )
    assert sweep_text.told(outcome).splitlines() == [
        "ops/pool/1: wrong values, since decompose",
        "",
        "Wrong at 2 of 5 points; the example is (1, 6)",
        "  (1, 12)  wrong values: 0.5 off\\x1b[31m",
        "",
        "guarddiff by default: specialized, warns, confirmed (1.2 s)",
        "  confirmed, decompose | aten.x.default | x[2]: exactly 6 | guard h == 6 | at m.py:3 | rule d.py:9 f",
        "  missing: a part: gone",
        "",
        'guarddiff with replay="full": clean, does not warn, none (0.0 s)',
        "",
        "With repair=True: a repaired model, right at all these points",
        "  another way",
        "",
        "Took 0.5 s.",
    ]


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (Outcome("a/b/c", "ok", tried=1), "right at the example and at 1 further point"),
        (Outcome("a/b/c", "ok", unsure=True), "could not be run again"),
        (Outcome("a/b/c", "wrong shape", "example"), "wrong shape, at the example's own sizes"),
        (Outcome("a/b/c", "wrong shape"), "wrong shape, at an unknown stage"),
        (Outcome("a/b/c", "export error", text="two\nlines"), "export error\n  two\\nlines"),
        (Outcome("a/b/c", "wrong shape", repair=Repaired(False, "none", "wrong shape")), "no repaired model"),
        (Outcome("a/b/c", "wrong shape", repair=Repaired(True, "", "wrong values")), "a repaired model: wrong values"),
    ],
)
def test_states_in_words(outcome: Outcome, told: str) -> None:
    assert told in sweep_text.told(outcome)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (89, "89 s"), (91, "2 min"), (5000, "83 min"), (7500, "2 h 5 min")]
)
def test_durations(seconds: float, text: str) -> None:
    assert sweep_text.duration(seconds) == text


def test_progress_off_a_terminal_is_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 100.0
    monkeypatch.setattr(sweep_progress.time, "monotonic", lambda: now)
    with sweep_progress.sweeping("sweeping ops") as told:
        told(Progress(0, 9, {}, None))
        now += 29
        told(Progress(1, 9, {"ok": 1}, 100.0))
        now += 1
        told(Progress(2, 9, {"ok": 1, "crashed": 1}, 240.0))
        told(Progress(3, 9, {"ok": 3}, 200.0))
        now += 30
        told(Progress(9, 9, {"ok": 9}, 0.0))
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "2 of 9 cases: 1 ok, 1 crashed; about 4 min left\n9 of 9 cases: 9 ok\n"


def test_progress_on_a_terminal_is_a_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("guarddiff.cli.output.on_terminal", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "150")
    monkeypatch.setenv("TERM", "xterm")
    with sweep_progress.sweeping("sweeping ops") as told:
        told(Progress(2, 9, {"ok": 1, "crashed": 1}, 240.0))
        time.sleep(0.3)
    out, err = capsys.readouterr()
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", err)
    assert out == ""
    assert "sweeping ops" in shown
    assert "2/9" in shown
    assert "4 min left" in shown
    assert "1 ok, 1 crashed" in shown


@pytest.mark.parametrize(
    ("glob", "families"),
    [
        ("ops/kron/0", {"kron"}),
        ("kron/0", {"kron"}),
        ("ops/kr*", {"kron"}),
        ("*kron*", {"kron"}),
        ("ops/[kl]*/1", {"kron", "linalg.inv"}),
        ("ops/linalg.inv/[0-9]", {"linalg.inv"}),
        ("linalg.*", {"linalg.inv"}),
        ("kron", {"kron"}),
        ("ops/kron", {"kron"}),
    ],
)
def test_operators_that_no_pattern_can_mean_are_not_made(glob: str, families: set[str]) -> None:
    known = ("kron", "linalg.inv", "add")
    some = {family for family in known if commands._may_match("ops", family, glob)}
    assert families <= some
    assert "add" not in some or glob.startswith("*")
