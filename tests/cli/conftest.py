"""Models, reports and files for the tests of the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src"

MODELS = """
import torch
from torch import nn


class Pool(nn.Module):
    def forward(self, x):
        return nn.functional.adaptive_avg_pool2d(x, (2, 3))


class Double(nn.Module):
    def forward(self, x, *, y=None):
        return x * 2 if y is None else x * 2 + y


class Branch(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


X = torch.rand(1, 2, 6, 6)
HW = {"dynamic_shapes": ({2: "h", 3: "w"},)}


def bad():
    print("said by the factory")
    return Pool().eval(), (X,), HW


def good():
    return Double().eval(), (X,), HW


def fixed():
    return Double().eval(), X


def as_dict():
    shapes = {"x": {2: "h", 3: "w"}, "y": {2: "h", 3: "w"}}
    return {"model": Double().eval(), "args": (X,), "kwargs": {"y": X}, "dynamic_shapes": shapes}


class Holder:
    make = staticmethod(good)


def no_export():
    return Branch().eval(), (X,), {"dynamic_shapes": ({2: "h"},)}
"""


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "cli_models.py"
    path.write_text(MODELS, encoding="utf-8")
    return path


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def guarddiff(tmp_path: Path) -> Run:
    """The command line in a process of its own, in a folder of its own."""

    def run(*arguments: str | Path, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "guarddiff", *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
            cwd=cwd or tmp_path,
            env={**os.environ, "PYTHONPATH": str(SOURCE), **env},
        )

    return run


@pytest.fixture
def say(capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """The command line in this process: exit code, stdout, stderr."""
    from guarddiff.cli import main

    def run(*arguments: str | Path) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        return code, out, err

    return run
