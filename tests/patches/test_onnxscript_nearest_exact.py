"""patches/onnxscript-nearest-exact: interpolation by a given scale, wrong with the installed onnxscript, then right."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.patches.patched import PATCHES, apply, git_apply, python

NAME = "onnxscript-nearest-exact"
TESTS = "tests/function_libs/torch_lib/interpolate_test.py"
CHANGED = "function_libs/torch_lib/ops/nn.py"


@pytest.fixture(scope="module")
def patched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = apply(NAME, tmp_path_factory.mktemp("patched"), ["onnxscript"])
    git_apply(PATCHES / NAME / "change.diff", root, f"--include={TESTS}")
    return root


def test_without_it_upstream_tests_show_the_fault(patched: Path) -> None:
    done = python(None, str(patched / TESTS))
    assert done.returncode == 1, done.stderr
    assert "FAILED (failures=9)" in done.stderr
    assert "Tensor-likes are not equal" in done.stderr
    assert "torch.Size([1, 2, 63, 115]) != torch.Size([1, 2, 62, 114])" in done.stderr
    assert "FAIL: test_antialias" in done.stderr


def test_with_it_upstream_tests_pass(patched: Path) -> None:
    done = python(patched, TESTS)
    assert done.returncode == 0, done.stderr
    assert "Ran 2 tests" in done.stderr


def test_installed_package_is_as_it_was(patched: Path) -> None:
    spec = find_spec("onnxscript")
    assert spec is not None and spec.origin is not None
    assert "_upsample_nearest_exact" not in (Path(spec.origin).parent / CHANGED).read_text(encoding="utf-8")
    assert "_upsample_nearest_exact" in (patched / "onnxscript" / CHANGED).read_text(encoding="utf-8")
