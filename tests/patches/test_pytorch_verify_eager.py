"""patches/pytorch-verify-eager: ``verify=True`` passes a wrong model with the installed torch, not with the patch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.patches.patched import apply, check_only_the_copy_is_changed, check_upstream_tests, results

NAME = "pytorch-verify-eager"
TESTS = "test/onnx/exporter/test_verification_with_module.py"
CHANGED = "onnx/_internal/exporter/_verification.py"

# Exports a wrong model and a right one with verify=True; prints what the exporter's loggers warned of, what its report
# says of the accuracy, and a digest of the model.
EXPORTS = """
import hashlib, json, logging, pathlib, re, tempfile
import torch
from torch import nn

torch.manual_seed(0)
warned = []

class Keep(logging.Handler):
    def emit(self, record):
        warned.append(record.getMessage())

logging.getLogger("torch.onnx").addHandler(Keep(logging.WARNING))
image = {0: torch.export.Dim.DYNAMIC, 2: torch.export.Dim.DYNAMIC, 3: torch.export.Dim.DYNAMIC}
models = {
    "wrong": nn.AdaptiveAvgPool2d((2, 3)),
    "right": nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)).eval(),
}
found = {}
for name, model in models.items():
    warned.clear()
    with tempfile.TemporaryDirectory() as folder:
        program = torch.onnx.export(
            model, (torch.randn(2, 3, 6, 6),), dynamic_shapes=(image,), dynamo=True, verbose=False,
            verify=True, report=True, artifacts_dir=folder,
        )
        (report,) = pathlib.Path(folder).glob("*.md")
        (accuracy,) = re.findall("(.) Validate model output accuracy", report.read_text(encoding="utf-8"))
    kept = [text for text in warned if "torchvision" not in text]
    nodes = repr([(node.op_type, list(node.input)) for node in program.model_proto.graph.node])
    found[name] = [kept, accuracy, hashlib.sha256(nodes.encode()).hexdigest()]
print("RESULT", json.dumps(found))
"""


def exported(root: Path | None) -> dict[str, Any]:
    found: dict[str, Any] = results(root, EXPORTS)
    return found


@pytest.fixture(scope="module")
def patched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return apply(NAME, tmp_path_factory.mktemp("patched"))


@pytest.fixture(scope="module")
def before() -> dict[str, Any]:
    return exported(None)


@pytest.fixture(scope="module")
def after(patched: Path) -> dict[str, Any]:
    return exported(patched)


def test_without_it_the_wrong_model_is_called_accurate(before: dict[str, Any]) -> None:
    assert [(kept, accuracy) for kept, accuracy, _ in before.values()] == [([], "✅"), ([], "✅")]


def test_with_it_the_wrong_model_is_found(after: dict[str, Any]) -> None:
    kept, accuracy, _ = after["wrong"]
    assert accuracy == "❌"
    assert any("input shapes [[4, 3, 12, 12]]" in text for text in kept), kept
    assert not any("input shapes [[2, 3, 6, 6]]" in text for text in kept), kept


def test_with_it_the_right_model_is_accurate_without_a_word(after: dict[str, Any]) -> None:
    assert after["right"][:2] == [[], "✅"]


def test_the_exported_models_are_the_same(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert {name: found[2] for name, found in after.items()} == {name: found[2] for name, found in before.items()}


def test_upstream_tests_pass(patched: Path) -> None:
    check_upstream_tests(NAME, patched, TESTS)


def test_installed_package_is_as_it_was(patched: Path) -> None:
    check_only_the_copy_is_changed(patched, "torch", CHANGED, "verify_with_module")
