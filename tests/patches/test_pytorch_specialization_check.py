"""patches/pytorch-specialization-check: silent with the installed torch, a warning with the patch, the same model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.patches.patched import apply, check_only_the_copy_is_changed, check_upstream_tests, installed, results

NAME = "pytorch-specialization-check"
TESTS = "test/onnx/exporter/test_specialization.py"
CHANGED = "onnx/_internal/exporter/_fx_passes.py"

# Exports two models; prints for each what the exporter's loggers warned of, and a digest of the model: of its bytes,
# but for the memory addresses and the place of torch that are in the metadata.
EXPORTS = """
import hashlib, json, logging, os, re
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
warned = []

class Keep(logging.Handler):
    def emit(self, record):
        warned.append(record.getMessage())

logging.getLogger("torch.onnx").addHandler(Keep(logging.WARNING))

class Pool(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size
    def forward(self, x):
        return F.adaptive_avg_pool2d(x, self.size)

image = {0: torch.export.Dim.DYNAMIC, 2: torch.export.Dim.DYNAMIC, 3: torch.export.Dim.DYNAMIC}
block = [nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2), nn.GroupNorm(3, 3)]
models = {
    "pool": (Pool((2, 3)), (2, 3, 6, 6)),
    "convolutions": (nn.Sequential(*block).eval(), (2, 3, 9, 12)),
}
place = os.path.dirname(torch.__file__)
found = {}
for name, (model, shape) in models.items():
    warned.clear()
    program = torch.onnx.export(model, (torch.randn(shape),), dynamic_shapes=(image,), dynamo=True, verbose=False)
    proto = program.model_proto
    for entry in [entry for node in proto.graph.node for entry in node.metadata_props]:
        entry.value = re.sub("0x[0-9a-f]{6,}", "0x", entry.value.replace(place, "torch"))
    data = proto.SerializeToString()
    found[name] = [[text for text in warned if "torchvision" not in text], hashlib.sha256(data).hexdigest()]
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


def test_without_it_nothing_is_said(before: dict[str, Any]) -> None:
    assert [warned for warned, _ in before.values()] == [[], []]


def test_with_it_the_operator_and_the_dimensions_are_named(after: dict[str, Any]) -> None:
    (warning,) = after["pool"][0]
    parts = ["aten._adaptive_avg_pool2d.default", "//2), 3)", "//3), 2)"]
    parts += ["dimension 2 of input 'x'", "dimension 3 of input 'x'"]
    assert [part for part in parts if part not in warning] == []


def test_with_it_a_right_model_gives_no_warning(after: dict[str, Any]) -> None:
    assert after["convolutions"][0] == []


def test_the_exported_models_are_the_same_bytes(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert {name: digest for name, (_, digest) in after.items()} == {n: digest for n, (_, digest) in before.items()}


def test_upstream_tests_pass(patched: Path) -> None:
    check_upstream_tests(NAME, patched, TESTS)


def test_installed_package_is_as_it_was(patched: Path) -> None:
    check_only_the_copy_is_changed(patched, "torch", CHANGED, "_specialization")
    assert not (installed("torch") / "onnx/_internal/exporter/_specialization.py").exists()
