"""Exit codes, one clear line for wrong usage, no heavy imports, Ctrl-C and closed pipes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from guarddiff.cli import app, errors, main

SOURCE = Path(__file__).resolve().parents[2] / "src"
Say = Callable[..., tuple[int, str, str]]

WATCH = """
import json, sys, time
start = time.perf_counter()
from guarddiff.cli import main
code = main(sys.argv[1:])
heavy = [n for n in ("torch", "onnxscript", "onnx_ir", "onnxruntime", "sympy", "onnx") if n in sys.modules]
print("\\n" + json.dumps([code, heavy]), file=sys.stderr)
"""


def loaded(*arguments: str) -> tuple[int, list[str]]:
    done = subprocess.run(
        [sys.executable, "-c", WATCH, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    code, heavy = json.loads(done.stderr.splitlines()[-1])
    return code, heavy


@pytest.fixture
def report_file(tmp_path: Path) -> Path:
    from guarddiff.report import Report

    path = tmp_path / "report.json"
    path.write_text(Report(model="Net").to_json(), encoding="utf-8")
    return path


def test_light_commands_load_nothing_heavy(report_file: Path) -> None:
    for arguments in (["--help"], ["check", "--help"], ["--version"]):
        assert loaded(*arguments) == (0, [])
    assert loaded("show", str(report_file)) == (0, [])
    assert loaded("diff", str(report_file), str(report_file)) == (0, [])


def test_probe_loads_no_torch(tmp_path: Path) -> None:
    import onnx
    from onnx import helper

    value = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, ["n"]) for n in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", value[:1], value[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, tmp_path / "m.onnx")
    code, heavy = loaded("probe", str(tmp_path / "m.onnx"))
    assert (code, heavy) == (0, ["onnx"])


def test_would_notice() -> None:
    code, heavy = loaded("check", "nowhere.py:f")
    assert code == 2
    assert "torch" not in heavy
    assert "torch" in loaded("run", os.devnull)[1]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nothing"], "No such command 'nothing'"),
        (["--nothing"], "No such option"),
        (["check"], "Missing argument 'TARGET'"),
        (["check", "a:b", "--replay", "some"], "'some' is not one of"),
        (["check", "a:b", "--format", "pdf"], "'pdf' is not one of"),
        (["check", "a:b", "--format", "json", "--format", "html"], "several formats need a folder"),
        (["check", "a:b", "--sizes", "h"], "--sizes takes NAME=SIZE"),
        (["check", "a:b", "--sizes", "h=0"], "'0' is no size"),
        (["check", "a:b", "--sizes", "h=a,b"], "'a' is no size"),
        (["check", "a:b", "c:d"], "unexpected extra argument"),
        (["show"], "Missing argument"),
        (["show", "nowhere.json"], "No such file"),
        (["diff", "nowhere.json"], "Missing argument"),
        (["diff", "nowhere.json", "nowhere.json"], "No such file"),
        (["run"], "Missing argument"),
        (["run", "--format", "json", "x.py"], "add --out DIR"),
        (["probe"], "Missing argument"),
        (["probe", "nowhere.onnx"], "there is no such file"),
        (["demo", "more"], "unexpected extra argument"),
        (["show", ""], "it is empty"),
        (["diff", "", "x.json"], "it is empty"),
        (["probe", ""], "it is empty"),
        (["contract", ""], "it is empty"),
        (["check", "a:b", "--save", ""], "it is empty"),
        (["check", "a:b", "--out", ""], "it is empty"),
        (["sweep", "compare", "", "x"], "it is empty"),
        (["sweep", "page", ""], "it is empty"),
        (["demo", "--out", ""], "it is empty"),
        (["probe", "m.onnx", "--seconds", "nan"], "nan is no number of seconds"),
        (["probe", "m.onnx", "--seconds", "inf"], "inf is not in the range"),
        (["sweep", "ops", "--seconds", "NaN"], "NaN is no number of seconds"),
        (["sweep", "compare", os.devnull, os.devnull], "it is no plain file"),
    ],
)
def test_wrong_usage_is_one_line(say: Say, arguments: list[str], told: str) -> None:
    code, out, err = say(*arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("guarddiff: ")
    assert told in err
    assert len(err.splitlines()) == 1


def test_no_arguments_shows_the_help(say: Say) -> None:
    code, out, err = say()
    assert code == 2
    assert "Commands:" in out + err


def test_an_error_of_its_own_is_one_line_and_debug_shows_it(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: Path) -> None:
        raise LookupError("a bug\nin two lines")

    monkeypatch.setattr("guarddiff.cli.show.load", broken)
    code, _, err = say("show", "x.json")
    assert code == 3
    assert err == "guarddiff: an error of its own: LookupError: a bug; `guarddiff --debug` shows where\n"
    code, _, err = say("--debug", "show", "x.json")
    assert code == 3
    assert "Traceback" in err
    assert "in broken" in err


def test_debug_shows_the_cause_of_wrong_usage(say: Say, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def make():\n    raise LookupError('why')\n")
    target = f"{tmp_path / 'broken.py'}:make"
    code, _, err = say("check", target)
    assert (code, "Traceback" in err) == (2, False)
    code, _, err = say("--debug", "check", target)
    assert (code, "Traceback" in err, "broken.py" in err) == (2, True, True)


def test_hostile_words_are_escaped(say: Say, tmp_path: Path) -> None:
    code, _, err = say("show", f"{tmp_path}/\x1b[31m\nred.json")
    assert code == 2
    assert "\x1b" not in err
    assert len(err.splitlines()) == 1


def test_interrupted(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(path: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("guarddiff.cli.show.load", stop)
    code, _, err = say("show", "x.json")
    assert code == 130
    assert "Traceback" not in err


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_in_a_script(tmp_path: Path) -> None:
    (tmp_path / "wait.py").write_text("import time\nprint('ready', flush=True)\ntime.sleep(60)\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "guarddiff", "run", "wait.py"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "interrupted" in err


@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
def test_a_closed_pipe_is_quiet(report_file: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "guarddiff", "show", str(report_file)],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    os.close(writer)
    assert done.returncode == 141
    assert done.stderr == ""


def test_narrow_terminals_get_escapes(
    report_file: Path, guarddiff: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    report_file.write_text(report_file.read_text(encoding="utf-8").replace('"Net"', '"N\\u2013t"'), encoding="utf-8")
    done = guarddiff("show", report_file, PYTHONIOENCODING="latin-1")
    assert done.returncode == 0, done.stderr
    assert "N\\u2013t" in done.stdout


def test_exit_codes_by_status(say: Say, tmp_path: Path) -> None:
    from guarddiff.core.report import Missing
    from guarddiff.report import Report

    for status, code in (("clean", 0), ("specialized", 1), ("incomplete", 3)):
        path = tmp_path / f"{status}.json"
        missing = (Missing("a part", "why"),) if status == "incomplete" else ()
        path.write_text(Report(model="Net", status=status, missing=missing).to_json(), encoding="utf-8")
        assert say("show", path)[0] == code
    assert errors.BY_STATUS.keys() == {"clean", "specialized", "incomplete"}


def test_colours_on_a_terminal_alone(say: Say, report_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    plain = say("show", report_file)[1]
    assert "\x1b" not in plain
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in say("show", report_file)[1]
    assert "\x1b" not in say("show", report_file, "--format", "json")[1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert say("show", report_file)[1] == plain


def test_commands_are_lazy() -> None:
    context = click.Context(app.app)
    assert app.app.get_command(context, "nothing") is None
    assert main(["--version"]) == 0
