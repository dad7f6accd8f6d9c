"""``guarddiff check`` on real exports."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch  # its log keeps the stderr of the moment at which it is imported

from guarddiff.report import Report

Say = Callable[..., tuple[int, str, str]]
Run = Callable[..., subprocess.CompletedProcess[str]]


def test_specialized(say: Say, models: Path) -> None:
    code, out, err = say("check", f"{models}:bad", "--replay", "findings")
    assert code == 1
    assert out.startswith("guarddiff report of Pool: specialized")
    assert "exactly 6" in out
    assert "said by the factory" in err
    assert "said by the factory" not in out
    assert "Traceback" not in err


def test_clean(say: Say, models: Path) -> None:
    code, out, _ = say("check", f"{models}:good")
    assert code == 0
    assert out.startswith("guarddiff report of Double: clean")
    assert "agree" in out  # the whole model was run: --replay full is the default


def test_one_format_on_stdout(say: Say, models: Path) -> None:
    code, out, _ = say("check", f"{models}:bad", "--format", "json", "--replay", "findings")
    assert code == 1
    data = json.loads(out)
    assert data["status"] == "specialized"
    assert [f["verdict"] for f in data["findings"]] == ["confirmed"]


def test_files_of_several_formats(say: Say, models: Path, tmp_path: Path) -> None:
    out = tmp_path / "reports"
    arguments = ["check", f"{models}:bad", "--replay", "off", "--out", str(out)]
    formats = ["--format", "html", "--format", "junit", "--format", "html"]
    code, text, err = say(*arguments, *formats)
    assert code == 1
    assert text.startswith("guarddiff report of Pool")
    first = ["guarddiff-report.html", "guarddiff-report.junit.xml"]
    assert sorted(path.name for path in out.iterdir()) == first
    assert all(str(out / name) in err for name in first)
    say(*arguments)
    names = {path.name for path in out.iterdir()}
    assert {"guarddiff-report.md", "guarddiff-report.json"} <= names
    assert set(first) <= names


def test_a_folder_that_can_not_be_written(say: Say, models: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    code, _, err = say("check", f"{models}:good", "--replay", "off", "--out", tmp_path / "file" / "reports")
    assert code == 2
    assert "could not be written" in err
    assert "Traceback" not in err


def test_save(say: Say, models: Path, tmp_path: Path) -> None:
    import onnx

    path = tmp_path / "pool.onnx"
    code, _, err = say("check", f"{models}:bad", "--replay", "off", "--save", path)
    assert code == 1
    assert f"model:   {path}" in err
    assert onnx.load(path).graph.node[0].op_type == "AveragePool"
    code, _, err = say("check", f"{models}:good", "--replay", "off", "--save", tmp_path / "no" / "pool.onnx")
    assert code == 2
    assert "could not be written" in err


@pytest.mark.parametrize("earlier", [True, False])
def test_a_model_that_can_not_be_saved(
    say: Say, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, earlier: bool
) -> None:
    path = tmp_path / "pool.onnx"
    if earlier:
        path.write_bytes(b"good")

    def torn(_: object, destination: str) -> None:
        Path(destination).write_bytes(b"half")
        Path(f"{destination}.data").write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch.onnx.ONNXProgram, "save", torn)
    code, _, err = say("check", f"{models}:good", "--replay", "off", "--save", path)
    assert code == 3
    assert err.splitlines()[-1] == f"guarddiff: --save {path}: the model could not be written: No space left on device"
    assert [(one.name, one.read_bytes()) for one in tmp_path.iterdir()] == ([("pool.onnx", b"good")] if earlier else [])


def test_weights_are_saved_beside_the_model(say: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import onnx

    (tmp_path / "nets.py").write_text(
        "import torch\ndef make():\n    return torch.nn.Linear(300, 300).eval(), (torch.ones(2, 300),)\n"
    )
    out = tmp_path / "out"
    out.mkdir()

    def apart(program: torch.onnx.ONNXProgram, destination: str, save: Any = torch.onnx.ONNXProgram.save) -> None:
        save(program, destination, external_data=True)

    monkeypatch.setattr(torch.onnx.ONNXProgram, "save", apart)
    assert say("check", f"{tmp_path / 'nets.py'}:make", "--replay", "off", "--save", out / "m.onnx")[0] == 0
    assert sorted(one.name for one in out.iterdir()) == ["m.onnx", "m.onnx.data"]
    onnx.checker.check_model(str(out / "m.onnx"))


def test_own_sizes(say: Say, models: Path) -> None:
    code, out, err = say(
        "check", f"{models}:bad", "--replay", "findings", "--format", "json", "--sizes", "h=7,24", "x[3]=9"
    )
    assert code == 1, err
    tried = [tuple(run["sizes"]["x"]) for run in json.loads(out)["tries"]]
    assert {(1, 2, 7, 9), (1, 2, 24, 9)} <= set(tried)


def test_sizes_that_do_not_exist(say: Say, models: Path) -> None:
    code, out, err = say("check", f"{models}:good", "--replay", "findings", "--sizes", "depth=7")
    assert code == 2
    assert "there is no dimension 'depth' (known: h, w, x[2], x[3])" in err
    assert out  # what was found otherwise is not thrown away


@pytest.mark.parametrize("name", ["fixed", "as_dict", "Holder.make"])
def test_what_a_factory_may_return(say: Say, models: Path, name: str) -> None:
    code, out, err = say("check", f"{models}:{name}", "--replay", "off", "--format", "json")
    assert code == 0, err
    inputs = [spec["name"] for spec in json.loads(out)["inputs"]]
    assert inputs == (["x", "y"] if name == "as_dict" else ["x"])


def test_a_module_by_name(guarddiff: Run, models: Path) -> None:
    done = guarddiff("check", "cli_models:good", "--replay", "off", cwd=models.parent)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("guarddiff report of Double: clean")


def test_an_export_that_raises(say: Say, models: Path) -> None:
    code, out, err = say("check", f"{models}:no_export")
    assert code == 3
    assert "The export raised" in out
    assert "guarddiff: the export raised TorchExportError" in err


def test_an_incomplete_report(say: Say, models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("guarddiff.api.check_at", lambda *args, **kwargs: Report(status="incomplete"))
    assert say("check", f"{models}:good")[0] == 3


def test_options_reach_the_export(say: Say, models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, object] = {}

    def check_at(*args: object, **kwargs: object) -> Report:
        seen.update(kwargs)
        return Report()

    monkeypatch.setattr("guarddiff.api.check_at", check_at)
    assert say("check", f"{models}:good", "--repair", "--replay", "off", "--sizes", "h=1,2", "w=3")[0] == 0
    assert seen["sizes"] == {"h": [1, 2], "w": [3]}
    assert (seen["repair"], seen["replay"], seen["on_finding"]) == (True, "off", "ignore")
    assert seen["dynamic_shapes"] == ({2: "h", 3: "w"},)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("def f(): raise ValueError('no weights')", "the factory raised ValueError: no weights (target.py:1)"),
        ("def f(): raise SystemExit(3)", "the factory raised SystemExit: 3"),
        ("def f(x): return x", "without arguments: missing a required argument: 'x'"),
        ("def f(): return 5", "returned a value of type int; it returns (model, args)"),
        ("def f(): return None", "returned None"),
        ("def f(): return 1, 2, 3, 4", "returned a tuple of 4"),
        ("def f(): return {'args': ()}", "has no 'model'"),
        ("def f(): return {'model': 1}", "has no 'args'"),
        ("import torch\ndef f(): return (lambda x: x), (torch.ones(2),)", "the model is a value of type function"),
        ("import torch\ndef f(): return torch.nn.ReLU, ()", "the model is the class ReLU"),
        ("import torch\ndef f(): return torch.nn.ReLU(), 5", "the example inputs are a value of type int"),
        ("import torch\ndef f(): return torch.nn.ReLU(), (), 5", "the export keywords are a value of type int"),
        ("import torch\ndef f(): return torch.nn.ReLU(), (), {'kwargs': 5}", "'kwargs' is a value of type int"),
        ("import torch\ndef f(): return torch.nn.ReLU(), (), {'dynamic_shape': 5}", "did you mean 'dynamic_shapes'?"),
        ("import torch\ndef f(): return torch.nn.ReLU(), (), {'replay': 'off'}", "use --replay"),
        ("import torch\ndef f(): return torch.nn.ReLU(), (), {'f': 'm.onnx'}", "use --save"),
        ("f = 3", "'f' is no function but a value of type int"),
        ("def g(): pass", "the module has no 'f'; it has g"),
        ("def f(:", "can't be imported: SyntaxError: invalid syntax (target.py:1)"),
        ("import no_such_module_at_all", "can't be imported: ModuleNotFoundError"),
        ("1 / 0", "can't be imported: ZeroDivisionError: division by zero (target.py:1)"),
        ("import sys; sys.exit(0)", "can't be imported: SystemExit: 0"),
    ],
)
def test_targets_that_are_none(say: Say, tmp_path: Path, body: str, told: str) -> None:
    (tmp_path / "target.py").write_text(f"{body}\n")
    code, out, err = say("check", f"{tmp_path / 'target.py'}:f")
    assert (code, out) == (2, "")
    assert told in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("nowhere.py:f", "there is no such file"),
        ("nowhere_at_all.inside:f", "there is no module 'nowhere_at_all'"),
        ("json:nothing", "the module has no 'nothing'"),
        ("..:f", "'..' is no module's whole name"),
        (".x:f", "'.x' is no module's whole name"),
        ("json.:f", "'json.' is no module's whole name"),
        ("word", "names no factory"),
        ("file.py", "names no factory"),
        (":f", "names no factory"),
        ("file.py:", "names no factory"),
        ("nowhere.pt2", "there is no such file"),
    ],
)
def test_names_that_are_none(say: Say, target: str, told: str) -> None:
    code, out, err = say("check", target)
    assert (code, out) == (2, "")
    assert told in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("k.boom", "'boom' can't be looked up: RuntimeError: broken (target.py:3)"),
        ("k.boom.more", "'boom' can't be looked up: RuntimeError: broken (target.py:3)"),
        ("shy", "the factory returned None"),
    ],
)
def test_targets_that_raise_when_looked_at(say: Say, tmp_path: Path, name: str, told: str) -> None:
    (tmp_path / "target.py").write_text(
        "class K:\n    def __getattr__(self, name):\n        raise RuntimeError('broken')\n"
        "    def __call__(self):\n        return None\n"
        "k = K()\n"
        "class Shy(K):\n    @property\n    def __signature__(self):\n        raise RuntimeError('broken')\n"
        "shy = Shy()\n"
    )
    code, out, err = say("check", f"{tmp_path / 'target.py'}:{name}")
    assert (code, out) == (2, "")
    assert f"target.py:{name}': {told}" in err
    assert len(err.splitlines()) == 1


def test_a_saved_program(say: Say, models: Path, tmp_path: Path) -> None:
    class Pool(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.adaptive_avg_pool2d(x, (2, 3))

    dims = {2: torch.export.Dim.DYNAMIC, 3: torch.export.Dim.DYNAMIC}
    program = torch.export.export(Pool(), (torch.rand(1, 2, 6, 6),), dynamic_shapes=(dims,))
    torch.export.save(program, tmp_path / "pool.pt2")
    code, out, err = say("check", tmp_path / "pool.pt2", "--replay", "findings", "--format", "json")
    assert code == 1, err
    assert [f["verdict"] for f in json.loads(out)["findings"]] == ["confirmed"]
