"""patches/pytorch-dynamic-axes-names: ``dynamic_axes`` by position with the installed torch, by name with the patch."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.patches.patched import apply, new_tests, python

NAME = "pytorch-dynamic-axes-names"
TESTS = "test/onnx/exporter/test_dynamic_axes_names.py"
CHANGED = "onnx/_internal/exporter/_dynamic_shapes.py"

# Exports with dynamic_axes in another order than the inputs, and for the second input alone; prints the shapes that the
# ONNX inputs have.
EXPORTS = """
import json
import torch

class Pair(torch.nn.Module):
    def forward(self, image, query):
        return image.sum() + query

found = []
for axes in ({"query": {0: "n"}, "image": {1: "channels"}}, {"query": {0: "n"}}):
    program = torch.onnx.export(
        Pair(), (torch.randn(3, 4), torch.randn(5, 6)), input_names=["image", "query"], dynamic_axes=axes,
        dynamo=True, verbose=False,
    )
    found.append([[str(size) for size in value.shape] for value in program.model.graph.inputs])
print("RESULT", json.dumps(found))
"""


@pytest.fixture(scope="module")
def patched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return apply(NAME, tmp_path_factory.mktemp("patched"))


def shapes(root: Path | None) -> list[list[list[str]]]:
    done = python(root, code=EXPORTS)
    assert done.returncode == 0, done.stderr
    found: list[list[list[str]]] = json.loads(done.stdout.rpartition("RESULT ")[2])
    return found


def test_without_it_the_axes_land_on_the_other_input() -> None:
    assert shapes(None) == [[["n", "4"], ["5", "channels"]], [["n", "4"], ["5", "6"]]]


def test_with_it_the_axes_are_where_they_were_asked_for(patched: Path) -> None:
    assert shapes(patched) == [[["3", "channels"], ["n", "6"]], [["3", "4"], ["n", "6"]]]


def test_upstream_tests_pass(patched: Path) -> None:
    new_tests(NAME, patched)
    done = python(patched, "-m", "pytest", "-q", "-p", "no:cacheprovider", TESTS)
    assert done.returncode == 0, done.stdout


def test_installed_package_is_as_it_was(patched: Path) -> None:
    spec = find_spec("torch")
    assert spec is not None and spec.origin is not None
    installed = (Path(spec.origin).parent / CHANGED).read_text(encoding="utf-8")
    assert "match the axes by name" not in installed
    assert "match the axes by name" in (patched / "torch" / CHANGED).read_text(encoding="utf-8")
