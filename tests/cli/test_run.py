"""``guarddiff run``: scripts of other people."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch  # noqa: F401  # its log keeps the stderr of the moment at which it is imported

Say = Callable[..., tuple[int, str, str]]
Run = Callable[..., subprocess.CompletedProcess[str]]

SCRIPT = """
import sys
import torch
import cli_models

if __name__ == "__main__":
    print(sys.argv[1:], sys.path[0])
    names, end = sys.argv[1].split(","), sys.argv[2]
    for name in filter(None, names):
        model, args, keywords = getattr(cli_models, name)()
        torch.onnx.export(model, args, f"{name}.onnx", verbose=False, **keywords)
    if end == "raise":
        raise LookupError("of the script")
    if end:
        sys.exit(int(end) if end.isdigit() else end)
"""


@pytest.fixture
def script(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = models.parent / "export_all.py"
    path.write_text(SCRIPT, encoding="utf-8")
    return path


def test_found_and_written(guarddiff: Run, script: Path, tmp_path: Path) -> None:
    done = guarddiff("run", "--replay", "findings", "--out", "reports", script, "bad,good", "")
    assert done.returncode == 1, done.stderr
    assert done.stdout == f"{['bad,good', '']} {script.parent}\n" + "said by the factory\n"
    assert "SpecializationWarning" in done.stderr
    told = done.stderr[done.stderr.index("guarddiff: 2 exports watched") :]
    assert "  1. Pool: specialized." in told
    assert "     confirmed: x[2] (h) and x[3] (w)" in told
    assert "  2. Double: clean." in told
    names = sorted(path.name for path in (tmp_path / "reports").iterdir())
    assert names == [f"guarddiff-report{n}.{suffix}" for n in ("-2", "") for suffix in ("json", "md")]
    assert (tmp_path / "bad.onnx").is_file()


@pytest.mark.parametrize(
    ("end", "code", "told"),
    [
        ("", 0, ""),
        ("0", 0, ""),
        ("7", 3, "guarddiff: the script exited with code 7"),
        ("words", 3, "guarddiff: the script exited with code 1"),
        ("raise", 3, "guarddiff: the script raised LookupError: of the script"),
    ],
)
def test_how_the_script_ends(say: Say, script: Path, end: str, code: int, told: str) -> None:
    before = list(sys.argv), list(sys.path)
    ended, _, err = say("run", "--replay", "off", script, "good", end)
    assert ended == code, err
    assert told in err
    assert ("the script" in err.split("watched")[1]) == bool(told)
    assert (sys.argv, sys.path) == before
    if end == "raise":
        shown = err[err.index("Traceback") :].splitlines()
        assert f'File "{script}"' in shown[1]  # the script's own frames alone
    else:
        assert "Traceback" not in err


@pytest.mark.filterwarnings("ignore::guarddiff.SpecializationWarning")
def test_an_error_names_its_cause_without_colours(say: Say, tmp_path: Path) -> None:
    words = (
        "Failed. \x1b[96mThis\x1b[0m one. Next steps:\n- Modify\n\n## Exception summary\n\n<class 'a.Cause'>: no way"
    )
    path = tmp_path / "fails.py"
    path.write_text(f"raise RuntimeError({words!r})\n", encoding="utf-8")
    ended, _, err = say("run", path)
    assert ended == 3
    assert err.splitlines()[-1] == "guarddiff: the script raised RuntimeError: Failed. This one: Cause: no way"


def test_a_fault_outweighs_a_script_that_fails(say: Say, script: Path) -> None:
    assert say("run", "--replay", "findings", script, "bad", "7")[0] == 1


def test_nothing_was_exported(say: Say, script: Path) -> None:
    code, _, err = say("run", script, "", "")
    assert code == 3
    assert "nothing was exported" in err


def test_interrupted_in_the_script(say: Say, tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text("raise KeyboardInterrupt")
    code, _, err = say("run", tmp_path / "s.py")
    assert code == 130
    assert "Traceback" not in err


def test_a_module(guarddiff: Run, script: Path) -> None:
    done = guarddiff("run", "--replay", "off", "-m", "export_all", "good", "0", cwd=script.parent)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("['good', '0']")


def test_options_after_the_script_are_its_own(say: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.py").write_text("import sys\nprint(sys.argv)\n")
    _, out, _ = say("run", "s.py", "--help", "-m", "--out", "x", "--", "y")
    assert out == "['s.py', '--help', '-m', '--out', 'x', '--', 'y']\n"
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nowhere.py"], "can't be read"),
        (["."], "is a folder"),
        (["-m", "nowhere_at_all"], "there is no such module"),
        (["-m", ".x"], "it is no module's whole name"),
        (["-m", "json."], "it is no module's whole name"),
        (["-m", "nowhere_at_all.inside"], "nowhere_at_all"),
        (["broken.py"], "is no Python script: invalid syntax (line 2)"),
        (["binary.py"], "is no Python script"),
        (["huge.py"], "too long for a script"),
    ],
)
def test_no_such_script(
    say: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.py").write_text("x = 1\ndef f(:\n")
    (tmp_path / "binary.py").write_bytes(bytes(range(256)))
    with open(tmp_path / "huge.py", "wb") as file:
        file.truncate(5 * 1024**3)
    code, out, err = say("run", *arguments)
    assert (code, out) == (2, "")
    assert told in err
    assert len(err.splitlines()) == 1


TIMM = """
import sys
import timm
from timm.utils.onnx import onnx_export

model = timm.create_model(sys.argv[1], num_classes=3, pretrained=False, exportable=True)
onnx_export(model, sys.argv[2], batch_size=1, input_size=(3, 224, 224), dynamic_size=True, use_dynamo=True)
"""


@pytest.mark.torch214
@pytest.mark.parametrize(("model", "code"), [("vgg11", 1), ("resnet18", 0)])
def test_timm_exports_by_itself(guarddiff: Run, tmp_path: Path, model: str, code: int) -> None:
    (tmp_path / "export_timm.py").write_text(TIMM)
    threads = str(os.cpu_count() or 1)
    done = guarddiff("run", "--replay", "findings", "export_timm.py", model, "m.onnx", OMP_NUM_THREADS=threads)
    assert done.returncode == code, done.stderr[-3000:]
    assert "guarddiff: 1 export watched" in done.stderr
    if code:
        assert "at least 224" in done.stderr
