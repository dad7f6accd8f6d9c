"""guarddiff: ``torch.onnx.export`` that says when a dynamic dimension was specialized, and proves it.

Public names are loaded at first use, so that a saved report renders without importing torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from guarddiff.api import check, export, install, last_report, report_of, uninstall, watch
    from guarddiff.contract.contract import Contract
    from guarddiff.contract.embed import read_contract
    from guarddiff.contract.equivalence import compare_modules
    from guarddiff.contract.freeze import freeze
    from guarddiff.contract.session import CheckedSession
    from guarddiff.contract.variant_session import VariantSession
    from guarddiff.contracts import embed_contract
    from guarddiff.core.errors import (
        ContractError,
        ContractViolation,
        DeclarationWarning,
        GuarddiffError,
        ReportFileError,
        ReportWriteError,
        SpecializationError,
        SpecializationWarning,
    )
    from guarddiff.core.finding import Counterexample, Finding
    from guarddiff.repair.capture import repairs
    from guarddiff.repair.registry import translation_table
    from guarddiff.report import Report, load_report
    from guarddiff.torch_bridge.dynamic_shapes import to_dynamic_shapes
    from guarddiff.variants.exporting import export_variants

__version__ = "0.1.0"

_PLACES = {
    "CheckedSession": "guarddiff.contract.session",
    "Contract": "guarddiff.contract.contract",
    "ContractError": "guarddiff.core.errors",
    "ContractViolation": "guarddiff.core.errors",
    "DeclarationWarning": "guarddiff.core.errors",
    "GuarddiffError": "guarddiff.core.errors",
    "ReportFileError": "guarddiff.core.errors",
    "ReportWriteError": "guarddiff.core.errors",
    "SpecializationError": "guarddiff.core.errors",
    "SpecializationWarning": "guarddiff.core.errors",
    "Counterexample": "guarddiff.core.finding",
    "Finding": "guarddiff.core.finding",
    "Report": "guarddiff.report",
    "load_report": "guarddiff.report",
    "VariantSession": "guarddiff.contract.variant_session",
    "check": "guarddiff.api",
    "compare_modules": "guarddiff.contract.equivalence",
    "freeze": "guarddiff.contract.freeze",
    "embed_contract": "guarddiff.contracts",
    "read_contract": "guarddiff.contract.embed",
    "export": "guarddiff.api",
    "export_variants": "guarddiff.variants.exporting",
    "install": "guarddiff.api",
    "last_report": "guarddiff.api",
    "report_of": "guarddiff.api",
    "uninstall": "guarddiff.api",
    "watch": "guarddiff.api",
    "repairs": "guarddiff.repair.capture",
    "to_dynamic_shapes": "guarddiff.torch_bridge.dynamic_shapes",
    "translation_table": "guarddiff.repair.registry",
}

__all__ = [
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
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_PLACES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
