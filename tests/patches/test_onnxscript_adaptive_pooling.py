"""patches/onnxscript-adaptive-pooling: wrong at other sizes with the installed onnxscript, right with the patch."""

from __future__ import annotations

import json
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from tests.patches.patched import PATCHES, apply, check_only_the_copy_is_changed, git_apply, python

NAME = "onnxscript-adaptive-pooling"
TESTS = "tests/function_libs/torch_lib/adaptive_pooling_test.py"
CHANGED = "function_libs/torch_lib/ops/nn.py"

# Exports a network like VGG at 224×224, prints the relative error at each size (None: it doesn't run there). Then runs
# the tests that it is given, in the same process: torch takes long to load.
VGG = """
import json
import sys
import unittest

import torch
from torch import nn

torch.manual_seed(0)
stages = []
for before, after in [(3, 8), (8, 16), (16, 16), (16, 16), (16, 16)]:
    stages += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
model = nn.Sequential(*stages, nn.AdaptiveAvgPool2d(7), nn.Flatten(), nn.Linear(16 * 49, 10)).eval()
shapes = {0: torch.export.Dim.DYNAMIC, 2: torch.export.Dim.DYNAMIC, 3: torch.export.Dim.DYNAMIC}
program = torch.onnx.export(model, (torch.randn(2, 3, 224, 224),), dynamic_shapes=(shapes,), dynamo=True, verbose=False)
errors = {}
for batch, height, width in [(1, 224, 224), (3, 256, 256), (1, 320, 480), (1, 64, 96)]:
    x = torch.randn(batch, 3, height, width)
    with torch.no_grad():
        expected = model(x)
    try:
        (found,) = program(x)
        error = float((found - expected).norm() / expected.norm())
    except Exception:
        error = None
    errors[f"{height}x{width}"] = error
nodes = [node.op_type for node in program.model.graph]
print("RESULT", json.dumps([errors, nodes]), flush=True)
if sys.argv[1:]:
    unittest.main(module=None, argv=sys.argv)
"""


@pytest.fixture(scope="module")
def patched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return apply(NAME, tmp_path_factory.mktemp("patched"), ["onnxscript"])


@pytest.fixture(scope="module")
def after(patched: Path) -> CompletedProcess[str]:
    git_apply(PATCHES / NAME / "change.diff", patched, f"--include={TESTS}")
    return python(patched, TESTS, code=VGG)


def result(done: CompletedProcess[str]) -> tuple[dict[str, float | None], list[str]]:
    assert "RESULT" in done.stdout, done.stderr
    errors, nodes = json.loads(done.stdout.rpartition("RESULT ")[2])
    return errors, nodes


def test_without_it_the_model_is_right_at_the_size_of_the_example_alone() -> None:
    errors, _ = result(python(None, code=VGG))
    error = errors.pop("224x224")
    assert error is not None and error < 1e-5
    assert all(error is None or error > 1e-3 for error in errors.values()), errors


def test_with_it_the_model_is_right_at_every_size(after: CompletedProcess[str]) -> None:
    errors, nodes = result(after)
    assert all(error is not None and error < 1e-5 for error in errors.values()), errors
    assert "AveragePool" not in nodes


def test_upstream_tests_pass(after: CompletedProcess[str]) -> None:
    assert after.returncode == 0, after.stderr
    assert "Ran 6 tests" in after.stderr


def test_installed_package_is_as_it_was(patched: Path) -> None:
    check_only_the_copy_is_changed(patched, "onnxscript", CHANGED, "aten__adaptive_avg_pool2d")
