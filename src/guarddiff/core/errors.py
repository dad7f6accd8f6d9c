"""Exceptions and warnings that users may catch, and how one is told in a line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from guarddiff.core.causes import cause

if TYPE_CHECKING:
    from guarddiff.core.report import ReportData


def in_words(error: BaseException, most: int = 300) -> str:
    """Type of an exception and the line of its text that names the cause, cut to ``most`` characters: for who made the
    call, not for a file."""
    said = cause(str(error))
    text = f"{type(error).__name__}: {said}" if said else type(error).__name__
    return text if len(text) <= most else text[: most - 1] + "…"


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


MEANT: tuple[type[Exception], ...] = (SpecializationError, Warning)
"""What the user asked for: ``on_finding="raise"``, and warnings that are errors."""


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
