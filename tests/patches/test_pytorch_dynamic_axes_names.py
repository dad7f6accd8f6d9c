"""patches/pytorch-dynamic-axes-names: ``dynamic_axes`` by position with the installed torch, by name with the patch."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.patches.patched import apply, check_only_the_copy_is_changed, check_upstream_tests, results

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
    found: list[list[list[str]]] = results(root, EXPORTS)
    return found


def test_without_it_the_axes_land_on_the_other_input() -> None:
    assert shapes(None) == [[["n", "4"], ["5", "channels"]], [["n", "4"], ["5", "6"]]]


def test_with_it_the_axes_are_where_they_were_asked_for(patched: Path) -> None:
    assert shapes(patched) == [[["3", "channels"], ["n", "6"]], [["3", "4"], ["n", "6"]]]


def test_upstream_tests_pass(patched: Path) -> None:
    check_upstream_tests(NAME, patched, TESTS)


def test_installed_package_is_as_it_was(patched: Path) -> None:
    check_only_the_copy_is_changed(patched, "torch", CHANGED, "match the axes by name")
