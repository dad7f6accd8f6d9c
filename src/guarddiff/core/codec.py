"""Reports as JSON: versioned, strict, and the same text for the same report.

``records`` says how each field is read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from guarddiff.core import records
from guarddiff.core.errors import ReportFileError
from guarddiff.core.report import ReportData

FORMAT = "guarddiff-report"
VERSION = 1
MAX_SIZE = 64 * 1024 * 1024
"""Longest text that is read, in characters; a file may have as many bytes."""


def to_dict(report: ReportData) -> dict[str, Any]:
    """The report as JSON-ready data: every field but ``program``, with the format's name and version."""
    return {"format": FORMAT, "version": VERSION, **records.encode(report, ReportData)}


def from_dict(mapping: Mapping[str, Any]) -> ReportData:
    """The report that ``mapping`` holds; raises ``ReportFileError`` where it holds none that can be read."""
    fault = records.unheaded(mapping, FORMAT, VERSION, "report")
    if fault:
        raise ReportFileError(fault)
    try:
        report: ReportData = records.decode(ReportData, mapping, "report")
    except records.RecordError as err:
        raise ReportFileError(f"not a readable report: {err}") from None
    return report


def dumps(report: ReportData) -> str:
    """The report as JSON text in ASCII, ending in a newline.

    Fields are sorted by name; sizes of inputs keep the order of the inputs.
    """
    return json.dumps(to_dict(report), indent=1, allow_nan=False, ensure_ascii=True) + "\n"


def loads(text: str) -> ReportData:
    """The report that ``text`` holds; raises ``ReportFileError`` with one line that says what is wrong."""
    if len(text) > MAX_SIZE:
        raise ReportFileError(f"not read: longer than the limit of {MAX_SIZE // 1024**2} MB for a report")
    try:
        mapping = records.parse(text)
    except records.JsonError as err:
        raise ReportFileError(str(err)) from None
    return from_dict(mapping)
