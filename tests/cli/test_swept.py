"""``guarddiff sweep page`` and ``compare`` on folders with made-up results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.sweep.made_up import ENVIRONMENT, outcomes, right, silent

from guarddiff.cli import swept
from guarddiff.sweep import journal, results, versions
from guarddiff.sweep.outcome import Outcome

SOURCE = Path(__file__).resolve().parents[2] / "src"
VERSIONS = {name: value for name, value in ENVIRONMENT.items() if name != "runs"}
FILES = ["README.md", "badge.json", "badge.svg", "classes.svg", "summary.json"]


def write(folder: Path, name: str, cases: Iterable[Outcome], **environment: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    about = {**VERSIONS, **environment}
    seconds = about.pop("seconds", None)
    head = {"format": journal.FORMAT, "version": journal.VERSION, "group": "ops", "environment": about}
    lines: list[dict[str, Any]] = [head, *(one.to_data() for one in cases)]
    lines += [{"seconds": seconds}] if seconds is not None else []
    path = folder / name
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return path


def made(folder: Path, **environment: Any) -> Path:
    """Two files, one for operators and one for the rest."""
    ops = [one for one in outcomes() if one.group == "ops"]
    rest = [one for one in outcomes() if one.group != "ops"]
    write(folder, "results-ops.jsonl", ops, started="2026-01-02", seconds=60, jobs=2, **environment)
    write(folder, "results-rest.jsonl", rest, started="2026-01-03", **environment)
    return folder


def run(command: Any, *arguments: str | Path) -> Result:
    return CliRunner().invoke(command, [str(one) for one in arguments])


def test_page_writes_all_files(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    folder = made(tmp_path / "torch")
    result = run(swept.page, folder)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.count("written: ") == 5
    assert sorted(path.name for path in folder.iterdir() if path.suffix != ".jsonl") == FILES
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert "**8 of 17 exports are silently wrong**" in text
    assert "(badge.svg)" in text and "(classes.svg)" in text
    assert "| `results-ops.jsonl` | – | 2026-01-02 | 2 | 14 | 1 min 00 s | 14.0 |" in text
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    assert (summary["format"], summary["version"]) == ("guarddiff-sweep-summary", 1)
    assert (summary["environment"]["torch"], summary["total"]["silent"]) == ("2.13.0", 8)
    assert json.loads((folder / "badge.json").read_text(encoding="utf-8"))["message"] == "8 of 17 (torch 2.13.0)"
    assert (folder / "classes.svg").read_bytes().startswith(b"<?xml")


def test_the_order_of_measuring_does_not_matter(tmp_path: Path) -> None:
    cases = [*outcomes(), right("ops/add/10"), right("ops/add/9")]
    one = write(tmp_path / "a", "results-ops.jsonl", cases)
    other = write(tmp_path / "b", "results-ops.jsonl", reversed(cases))
    for path in (one, other):
        assert run(swept.page, path.parent, "--no-plot").exit_code == 0
    for name in ("README.md", "summary.json"):
        assert (one.parent / name).read_bytes() == (other.parent / name).read_bytes()
    keys = list(results.load(other).outcomes)
    assert [key for key in keys if key.startswith("ops/add")] == ["ops/add/0", "ops/add/9", "ops/add/10"]
    assert [key.split("/")[0] for key in keys] == ["ops"] * 16 + ["catalogue"] * 4 + ["models"] * 4


def test_versions_are_those_of_the_journal() -> None:
    assert set(results.VERSIONS) == {"guarddiff", "python", *versions.PACKAGES}


def test_page_again_gives_the_same_bytes(tmp_path: Path) -> None:
    folder = made(tmp_path)
    names = [name for name in FILES if name != "classes.svg"]
    assert run(swept.page, folder, "--no-plot").exit_code == 0
    first = [(folder / name).read_bytes() for name in names]
    (folder / "README.md").write_text("older and longer" * 9999, encoding="utf-8")
    assert run(swept.page, folder, "--no-plot").exit_code == 0
    assert [(folder / name).read_bytes() for name in names] == first
    assert not (folder / "classes.svg").exists()
    assert b"classes.svg" not in first[0]


def test_needs_no_torch(tmp_path: Path) -> None:
    folder = made(tmp_path)
    heavy = ("torch", "onnxruntime", "onnx", "sympy")
    code = (
        f"import sys\nsys.modules.update(dict.fromkeys({heavy}))\nfrom guarddiff.cli import main\n"
        f"print(main(['sweep', 'page', {str(folder)!r}, '--no-plot']),"
        f" main(['sweep', 'compare', {str(folder)!r}, {str(folder)!r}, '--format', 'json']))"
    )
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=120)
    assert done.stdout.endswith("\n0 0\n"), done.stderr


def test_out_names_the_page_and_the_folder_of_the_rest(tmp_path: Path) -> None:
    folder = made(tmp_path / "in")
    assert run(swept.page, folder, "--no-plot", "--out", tmp_path / "pages" / "index.md").exit_code == 0
    written = ["badge.json", "badge.svg", "index.md", "summary.json"]
    assert sorted(path.name for path in (tmp_path / "pages").iterdir()) == written
    assert sorted(path.name for path in folder.iterdir()) == ["results-ops.jsonl", "results-rest.jsonl"]


def test_out_may_not_be_another_file_that_is_written(tmp_path: Path) -> None:
    result = run(swept.page, made(tmp_path), "--no-plot", "--out", tmp_path / "summary.json")
    assert result.exit_code == 2
    assert not (tmp_path / "summary.json").exists()


def test_without_matplotlib_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run(swept.page, made(tmp_path))
    assert result.exit_code == 2
    assert "guarddiff[sweep]" in result.stderr and "--no-plot" in result.stderr
    assert not (tmp_path / "README.md").exists()


def test_no_folder_and_no_results(tmp_path: Path) -> None:
    for folder, why in ((tmp_path / "none", "no folder"), (tmp_path, "holds no results-*.jsonl")):
        result = run(swept.page, folder)
        assert result.exit_code == 2
        assert why in result.stderr and result.stderr.count("\n") == 1


@pytest.mark.parametrize("command", [swept.page, swept.compare])
def test_a_broken_file_is_named_in_one_line(tmp_path: Path, command: Any) -> None:
    (tmp_path / "results-ops.jsonl").write_text("{torn", encoding="utf-8")
    result = run(command, tmp_path, *([tmp_path] if command is swept.compare else []))
    assert result.exit_code == 2
    assert "results-ops.jsonl" in result.stderr and result.stderr.count("\n") == 1


def test_a_case_in_two_files_is_not_counted_twice(tmp_path: Path) -> None:
    write(made(tmp_path), "results-zz.jsonl", [right("ops/add/0")])
    result = run(swept.page, tmp_path)
    assert result.exit_code == 2
    assert "ops/add/0" in result.stderr and "results-zz.jsonl" in result.stderr


def test_two_versions_of_torch_are_not_mixed(tmp_path: Path) -> None:
    write(made(tmp_path), "results-zz.jsonl", [right("ops/zz/0")], torch="2.14.1")
    result = run(swept.page, tmp_path)
    assert result.exit_code == 2
    assert "torch 2.14.1" in result.stderr and "2.13.0" in result.stderr


def test_a_folder_that_can_not_be_written_is_one_line(tmp_path: Path) -> None:
    folder = made(tmp_path / "in")
    (tmp_path / "file").write_text("", encoding="utf-8")
    result = run(swept.page, folder, "--no-plot", "--out", tmp_path / "file" / "page.md")
    assert result.exit_code == 3
    assert result.stderr.startswith("guarddiff: the page could not be written to") and result.stderr.count("\n") == 1


def test_compare_exit_codes(tmp_path: Path) -> None:
    old = made(tmp_path / "old")
    new = made(tmp_path / "new", torch="2.14.1")
    result = run(swept.compare, old, new)
    assert (result.exit_code, "nothing got worse" in result.stdout) == (0, True)
    write(new, "results-rest.jsonl", [silent("catalogue/pooling/max", "wrong shape", "capture")], torch="2.14.1")
    result = run(swept.compare, old, new)
    assert (result.exit_code, "something got worse" in result.stdout) == (1, True)
    assert run(swept.compare, old, tmp_path / "none").exit_code == 2


def test_compare_with_a_sweep_that_lacks_cases(tmp_path: Path) -> None:
    old, part = made(tmp_path / "old"), tmp_path / "part"
    part.mkdir()
    write(part, "results-ops.jsonl", [Outcome("ops/fake/0", "ok")])
    result = run(swept.compare, old, part)
    assert result.exit_code == 3
    assert "nothing got worse; " in result.stdout and "with results in the old sweep only: " in result.stdout


@pytest.mark.parametrize(
    ("format", "start"), [("text", "guarddiff sweep compare"), ("markdown", "# guarddiff"), ("json", "{")]
)
def test_compare_formats_of_files(tmp_path: Path, format: str, start: str) -> None:
    one = write(tmp_path, "results-a.jsonl", outcomes())
    result = run(swept.compare, one, one, "--format", format)
    assert result.exit_code == 0
    assert result.stdout.startswith(start)
    assert "same versions" in result.stdout


@pytest.mark.parametrize("command", [swept.page, swept.compare])
def test_help_has_examples_and_exit_codes(command: Any) -> None:
    text = run(command, "--help").output
    assert f"  guarddiff sweep {command.name}" in text
    assert "Examples:" in text and "Exit codes:" in text
