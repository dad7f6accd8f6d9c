"""patches/onnxscript-*, one operator each: upstream's new tests fail with the installed onnxscript and pass with it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.patches.patched import PATCHES, apply, check_only_the_copy_is_changed, git_apply, python


@dataclass(frozen=True)
class Change:
    """``said``: what the tests print without the patch. ``added``: a part of what it writes into ``changed``."""

    name: str
    tests: str
    said: tuple[str, ...]
    added: str
    changed: str = "function_libs/torch_lib/ops/core.py"
    count: str = "Ran 1 test"


CHANGES = [
    Change(
        "onnxscript-floor-division",
        "operator_floordiv_test.py",
        ("FAILED (failures=7)", "AssertionError"),
        "op.Div(op.Sub(self, op.Mod(self, other)), other)",
    ),
    Change(
        "onnxscript-scatter",
        "scatter_test.py",
        ("FAILED (failures=1, errors=3)", "Indices vs updates dimensions differs", "FAIL: test_mean"),
        "_crop_scatter_src",
        count="Ran 3 tests",
    ),
    Change(
        "onnxscript-repeat-interleave",
        "repeat_interleave_test.py",
        (
            "FAILED (failures=1, errors=6)",
            "invalid expand shape",
            "The values for attribute 'shape' do not match",
        ),
        "op.Mul(op.Shape(self, start=pos_dim, end=pos_dim + 1), repeats)",
    ),
    Change(
        "onnxscript-nearest-exact",
        "interpolate_test.py",
        (
            "FAILED (failures=9)",
            "Tensor-likes are not equal",
            "torch.Size([1, 2, 63, 115]) != torch.Size([1, 2, 62, 114])",
            "FAIL: test_antialias",
        ),
        "_upsample_nearest_exact",
        "function_libs/torch_lib/ops/nn.py",
        "Ran 2 tests",
    ),
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
def test_fault_before_and_cure_after(change: Change, tmp_path: Path) -> None:
    tests = f"tests/function_libs/torch_lib/{change.tests}"
    root = apply(change.name, tmp_path, ["onnxscript"])
    git_apply(PATCHES / change.name / "change.diff", root, f"--include={tests}")

    before = python(None, str(root / tests))
    assert before.returncode == 1, before.stderr
    assert [text for text in change.said if text not in before.stderr] == []

    after = python(root, tests)
    assert after.returncode == 0, after.stderr
    assert change.count in after.stderr

    check_only_the_copy_is_changed(root, "onnxscript", change.changed, change.added)
