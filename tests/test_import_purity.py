"""A saved report can be read and rendered without torch: heavy packages load only when they are used."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("torch", "onnx", "onnxscript", "onnx_ir", "onnxruntime", "sympy")


def loaded(code: str) -> list[str]:
    """The heavy packages that `code` has loaded, in a fresh interpreter."""
    spec = importlib.util.find_spec("guarddiff")
    if spec is None or not spec.submodule_search_locations:
        pytest.fail("guarddiff can't be found as a package")
    source = str(Path(spec.submodule_search_locations[0]).parent)
    path = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH", "")]))
    tail = f"import json, sys; print(json.dumps([n for n in {HEAVY!r} if n in sys.modules]))"
    result = subprocess.run(
        [sys.executable, "-c", f"{code}\n{tail}"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
    )
    if result.returncode:
        pytest.fail(f"`{code}` fails by itself:\n{result.stderr}")
    names: list[str] = json.loads(result.stdout.splitlines()[-1])
    return names


@pytest.mark.parametrize(
    "code",
    [
        "import guarddiff",
        "import guarddiff; dir(guarddiff)",
        "import guarddiff.core.finding",
        "import guarddiff.render",
        "import guarddiff; guarddiff.load_report",
    ],
)
def test_loads_nothing_heavy(code: str) -> None:
    assert loaded(code) == []


def test_would_notice() -> None:
    assert "onnx" in loaded("import guarddiff, onnx")


def test_py_typed_is_beside_the_package() -> None:
    spec = importlib.util.find_spec("guarddiff")
    assert spec is not None and spec.submodule_search_locations
    assert (Path(spec.submodule_search_locations[0]) / "py.typed").is_file()
