"""patches/onnxscript-repeat-interleave: fails or does nothing with the installed onnxscript, right with the patch."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.patches.patched import PATCHES, apply, git_apply, python

NAME = "onnxscript-repeat-interleave"
TESTS = "tests/function_libs/torch_lib/repeat_interleave_test.py"
CHANGED = "function_libs/torch_lib/ops/core.py"


@pytest.fixture(scope="module")
def patched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = apply(NAME, tmp_path_factory.mktemp("patched"), ["onnxscript"])
    git_apply(PATCHES / NAME / "change.diff", root, f"--include={TESTS}")
    return root


def test_without_it_upstream_tests_show_the_fault(patched: Path) -> None:
    done = python(None, str(patched / TESTS))
    assert done.returncode == 1, done.stderr
    assert "FAILED (failures=1, errors=6)" in done.stderr
    assert "invalid expand shape" in done.stderr
    assert "The values for attribute 'shape' do not match" in done.stderr


def test_with_it_upstream_tests_pass(patched: Path) -> None:
    done = python(patched, TESTS)
    assert done.returncode == 0, done.stderr
    assert "Ran 1 test" in done.stderr


def test_installed_package_is_as_it_was(patched: Path) -> None:
    spec = find_spec("onnxscript")
    assert spec is not None and spec.origin is not None
    fixed = "op.Mul(op.Shape(self, start=pos_dim, end=pos_dim + 1), repeats)"
    assert fixed not in (Path(spec.origin).parent / CHANGED).read_text(encoding="utf-8")
    assert fixed in (patched / "onnxscript" / CHANGED).read_text(encoding="utf-8")
