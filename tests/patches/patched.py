"""The installed torch or onnxscript with one of ``patches/`` applied, beside the installed one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

PATCHES = Path(__file__).resolve().parents[2] / "patches"
SECONDS = 240


def link(source: Path, target: Path) -> None:
    """A copy of the folder ``source`` whose files are hard links, or copies where the disk is another one.

    Byte code comes along (compiling torch anew takes longer than most tests): that of a patched file is out of date,
    and no Python that is run here writes any.
    """

    def one(origin: str, copy: str) -> str:
        try:
            os.link(origin, copy)
        except OSError:
            shutil.copy2(origin, copy)
        return copy

    shutil.copytree(source, target, copy_function=one, symlinks=True)


def git_apply(diff: Path, root: Path, *options: str) -> None:
    """``git apply`` of ``diff`` at ``root``; raises AssertionError with what git printed where it does not apply."""
    done = subprocess.run(
        ["git", "apply", *options, str(diff)],
        cwd=root,
        env={**os.environ, "GIT_CEILING_DIRECTORIES": str(root.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{diff.name} does not apply:\n{done.stderr}"


def apply(name: str, root: Path, packages: Sequence[str] = ("torch",)) -> Path:
    """Links the installed ``packages`` into ``root`` and applies the change of ``patches/<name>`` to them there."""
    for package in packages:
        spec = find_spec(package)
        assert spec is not None and spec.origin is not None
        link(Path(spec.origin).parent, root / package)
    git_apply(PATCHES / name / "change.diff", root, *(f"--include={package}/*" for package in packages))
    return root


def new_tests(name: str, root: Path) -> Path:
    """Writes the upstream tests that the change of ``patches/<name>`` adds as new files below ``root``."""
    git_apply(PATCHES / name / "change.diff", root, "--include=test/*", "--include=tests/*")
    return root


def python(root: Path | None, *arguments: str, code: str | None = None) -> subprocess.CompletedProcess[str]:
    """Runs Python with the packages in ``root`` first (None: the installed ones), in a process of its own."""
    script = [] if code is None else ["-c", code]
    path = [] if root is None else [str(root)]
    return subprocess.run(
        [sys.executable, *script, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=None if root is None else root,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
