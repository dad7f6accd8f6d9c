"""A report as JSON text."""

from __future__ import annotations

from guarddiff.core import codec
from guarddiff.core.report import ReportData


def render(report: ReportData) -> str:
    """Versioned JSON of the whole report but its program; ``guarddiff.load_report`` reads it."""
    return codec.dumps(report)
