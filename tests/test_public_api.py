from __future__ import annotations

import importlib
import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import guarddiff

SOURCE = Path(__file__).resolve().parent.parent / "src"

NAMES = {
    "CheckedSession",
    "Contract",
    "ContractError",
    "ContractViolation",
    "Counterexample",
    "DeclarationWarning",
    "Finding",
    "GuarddiffError",
    "Report",
    "ReportFileError",
    "ReportWriteError",
    "SpecializationError",
    "SpecializationWarning",
    "VariantSession",
    "__version__",
    "check",
    "compare_modules",
    "embed_contract",
    "export",
    "export_variants",
    "freeze",
    "install",
    "last_report",
    "load_report",
    "read_contract",
    "repairs",
    "report_of",
    "to_dynamic_shapes",
    "translation_table",
    "uninstall",
    "watch",
}


def fresh(code: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(SOURCE)!r})\n{code}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_names_are_these() -> None:
    assert set(guarddiff.__all__) == NAMES
    assert len(guarddiff.__all__) == len(NAMES)
    assert dir(guarddiff) == sorted(NAMES)


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_name_is_there_and_told_of(name: str) -> None:
    value = getattr(guarddiff, name)
    if name == "__version__":
        assert value.count(".") == 2
        return
    assert inspect.isclass(value) or inspect.isfunction(value)
    assert value.__name__ == name
    assert inspect.getdoc(value)
    assert getattr(guarddiff, name) is value


def test_names_stay_where_they_are_looked_up() -> None:
    for name, place in guarddiff._PLACES.items():
        assert getattr(importlib.import_module(place), name) is getattr(guarddiff, name)
    assert set(guarddiff._PLACES) == NAMES - {"__version__"}


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'guarddiff' has no attribute 'exprot'"):
        guarddiff.exprot  # noqa: B018


OURS = {"on_finding": "warn", "replay": "findings", "repair": False, "report_to": None}


@pytest.mark.parametrize("name", ["export", "check"])
def test_signatures_of_export_and_check(name: str) -> None:
    parameters = inspect.signature(getattr(guarddiff, name)).parameters
    assert list(parameters) == ["args", *OURS, "kwargs"]
    assert parameters["args"].kind is inspect.Parameter.VAR_POSITIONAL
    assert parameters["kwargs"].kind is inspect.Parameter.VAR_KEYWORD
    own = {key: parameters[key] for key in OURS}
    assert {key: parameter.default for key, parameter in own.items()} == OURS
    assert {parameter.kind for parameter in own.values()} == {inspect.Parameter.KEYWORD_ONLY}


def test_our_keywords_are_none_of_torchs() -> None:
    import torch

    assert not set(OURS) & set(inspect.signature(torch.onnx.export).parameters)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("report_of", ["program"]),
        ("last_report", []),
        ("load_report", ["path"]),
        ("watch", ["on_finding", "replay", "report_to", "threads"]),
        ("install", ["on_finding", "replay", "report_to"]),
        ("uninstall", []),
        ("repairs", ["chosen", "model"]),
        ("translation_table", ["repairs"]),
        ("VariantSession", ["manifest", "most", "providers", "session_options", "trust"]),
    ],
)
def test_other_signatures(name: str, parameters: list[str]) -> None:
    assert list(inspect.signature(getattr(guarddiff, name)).parameters) == parameters


def test_kinds_of_errors() -> None:
    assert issubclass(guarddiff.SpecializationWarning, UserWarning)
    assert issubclass(guarddiff.SpecializationError, guarddiff.GuarddiffError)
    assert issubclass(guarddiff.ReportFileError, (guarddiff.GuarddiffError, ValueError))
    assert issubclass(guarddiff.ReportWriteError, guarddiff.GuarddiffError)
    assert issubclass(guarddiff.ReportWriteError, OSError)
    report: Any = object()
    assert guarddiff.SpecializationError("text", report).report is report


@pytest.mark.parametrize("name", ["Report", "load_report", "Finding", "SpecializationWarning", "GuarddiffError"])
def test_torch_is_not_imported_for(name: str) -> None:
    heavy = "{'torch', 'onnx', 'onnxscript', 'onnxruntime', 'sympy'}"
    code = f"import guarddiff; guarddiff.{name}; print(sorted({heavy} & set(sys.modules)))"
    assert fresh(code) == "[]"


def test_import_alone_imports_nothing_of_ours() -> None:
    code = "import guarddiff; print([m for m in sys.modules if m.startswith('guarddiff.')])"
    assert fresh(code) == "[]"


def test_members_of_reports_and_findings() -> None:
    report = guarddiff.Report()
    members = ["status", "findings", "inputs", "stages", "environment", "program", "to_text", "to_markdown", "to_json"]
    assert [name for name in [*members, "write"] if not hasattr(report, name)] == []
    fields = inspect.signature(guarddiff.Finding).parameters
    assert {
        "dims",
        "stage",
        "op",
        "origin",
        "guards",
        "onnx_nodes",
        "verdict",
        "reason",
        "counterexample",
        "repair",
    } <= set(fields)
    assert callable(guarddiff.Finding.admits)
    assert {"sizes", "expected", "got", "kind"} <= set(inspect.signature(guarddiff.Counterexample).parameters)


@pytest.mark.parametrize("first", ["last_report", "check", "watch", "install", "export"])
def test_export_is_the_function_whatever_is_used_first(first: str) -> None:
    code = (
        f"import guarddiff; guarddiff.{first}; from guarddiff import export; "
        "print(callable(export), callable(guarddiff.export))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    assert done.stdout.split() == ["True", "True"]
