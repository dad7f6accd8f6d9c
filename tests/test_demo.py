"""``python -m guarddiff.demo``, as ``make demo`` runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import guarddiff

SOURCE = Path(__file__).resolve().parent.parent / "src"
NAMES = ("adaptive_avg_pool2d", "kron", "small_vgg")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "out"


@pytest.fixture(scope="module")
def done(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "guarddiff.demo", "--out", str(folder)],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        cwd=folder.parent,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )


Done = subprocess.CompletedProcess


def test_it_ends_well(done: Done[str]) -> None:
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_three_warnings(done: Done[str]) -> None:
    warned = [" ".join(part.split()) for part in done.stdout.split("\nwarning: ")[1:]]
    assert len(warned) == 3
    assert all("right only for" in text for text in warned)
    assert "exactly 6" in warned[0]
    assert "224–255" in warned[2]
    assert done.stdout.count("tried at") == 3
    assert done.stdout.count("not tried") == 0


def test_the_lines_of_the_models_are_named(done: Done[str]) -> None:
    lines = [line for line in done.stdout.splitlines() if line.strip().startswith("where")]
    assert len(lines) == 3
    source = Path(guarddiff.__file__).with_name("demo.py").read_text(encoding="utf-8").splitlines()
    for line, text in zip(
        lines, ("adaptive_avg_pool2d(x", "torch.kron(a, b)", "self.avgpool(self.features"), strict=True
    ):
        number = next(n for n, code in enumerate(source, 1) if text in code)
        assert f"demo.py:{number}" in line
    assert "avgpool, " in lines[2]


def test_the_models_are_written(done: Done[str], folder: Path) -> None:
    printed = [line.split(maxsplit=1)[1] for line in done.stdout.splitlines() if line.startswith("model:")]
    assert printed == [str(folder / f"{name}.onnx") for name in NAMES]
    assert all(Path(path).stat().st_size > 0 for path in printed)


def test_the_reports_that_are_printed_can_be_loaded(done: Done[str], folder: Path) -> None:
    printed = [Path(line.split(maxsplit=1)[1]) for line in done.stdout.splitlines() if line.startswith("report:")]
    assert printed == [
        folder / name / f"guarddiff-report.{suffix}" for name in NAMES for suffix in ("md", "json", "html")
    ]
    reports = [guarddiff.load_report(path) for path in printed if path.suffix == ".json"]
    assert [(report.status, [f.verdict for f in report.findings if f.warns]) for report in reports] == [
        ("specialized", ["confirmed"])
    ] * 3
    assert [path.read_text(encoding="utf-8") for path in printed if path.suffix == ".md"] == [
        report.to_markdown() for report in reports
    ]
    (pool,) = [finding for finding in reports[2].findings if finding.warns]
    assert pool.origin.module_path == "avgpool"
    assert {dim.name: str(dim.admitted) for dim in pool.dims} == {"h": "224–255", "w": "224–255"}
