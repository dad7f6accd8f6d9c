"""The installed torch or onnxscript with one of ``patches/`` applied, beside the installed one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

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


def installed(package: str) -> Path:
    """The folder of the installed package."""
    spec = find_spec(package)
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


def apply(name: str, root: Path, packages: Sequence[str] = ("torch",)) -> Path:
    """Links the installed ``packages`` into ``root`` and applies the change of ``patches/<name>`` to them there."""
    for package in packages:
        link(installed(package), root / package)
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


def results(root: Path | None, code: str, *arguments: str) -> Any:
    """What ``code`` prints after the word RESULT, as JSON; ``root`` as for ``python``."""
    done = python(root, *arguments, code=code)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.rpartition("RESULT ")[2])


def check_upstream_tests(name: str, root: Path, tests: str) -> None:
    """The new upstream tests of ``patches/<name>`` pass with the patched package in ``root``."""
    new_tests(name, root)
    done = python(root, "-m", "pytest", "-q", "-p", "no:cacheprovider", tests)
    assert done.returncode == 0, done.stdout


def check_only_the_copy_is_changed(root: Path, package: str, changed: str, added: str) -> None:
    """``added`` stands in the file ``changed`` of the copy, and not in that of the installed package."""
    assert added not in (installed(package) / changed).read_text(encoding="utf-8")
    assert added in (root / package / changed).read_text(encoding="utf-8")
