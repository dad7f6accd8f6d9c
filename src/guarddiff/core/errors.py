"""Exceptions and warnings that users may catch."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from guarddiff.core.report import ReportData


class GuarddiffError(Exception):
    """Base of the errors that guarddiff itself raises."""


class SpecializationWarning(UserWarning):
    """A dimension that was declared dynamic is right at fewer sizes than were declared."""


class DeclarationWarning(UserWarning):
    """What was declared for the dimensions is very probably a mistake: torch ignores it, or reads it otherwise."""


class SpecializationError(GuarddiffError):
    """Raised with ``on_finding="raise"``; the model file has not been written.

    ``report`` holds what was found.
    """

    def __init__(self, message: str, report: ReportData) -> None:
        super().__init__(message)
        self.report = report


class ReportFileError(GuarddiffError, ValueError):
    """A file is no report of ours, is torn, or comes from a newer guarddiff."""


class ReportWriteError(GuarddiffError, OSError):
    """A report could not be written (no space left, read-only folder, a file in the way)."""


class ContractError(GuarddiffError, ValueError):
    """A contract can't be made, read or trusted: no evidence, a torn file, a newer version, another model."""


class ContractViolation(GuarddiffError, ValueError):
    """Inputs that a contract does not admit. ``broken`` holds every broken condition, as text."""

    def __init__(self, message: str, broken: tuple[str, ...]) -> None:
        super().__init__(message)
        self.broken = broken
