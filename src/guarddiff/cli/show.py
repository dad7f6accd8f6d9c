"""``guarddiff show report.json``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from guarddiff.cli import output
from guarddiff.cli.errors import BY_STATUS, wrong_when
from guarddiff.cli.params import Place

if TYPE_CHECKING:
    from guarddiff.report import Report

_HELP = """Render a saved report in another format. Needs no PyTorch.

\b
Examples:
  guarddiff show guarddiff-report.json
  guarddiff show guarddiff-report.json --format html > report.html
  guarddiff show guarddiff-report.json --format github --format html --out filing

\b
Exit codes, by the report's status: 0 clean, 1 specialized, 3 incomplete; 2 for a file that is no report.
"""


@click.command("show", help=_HELP)
@click.argument("report", type=Place(), metavar="REPORT.json")
@output.format_option("Format, text by default; repeat it with --out.")
@output.out_option("Folder for files in these formats, Markdown and JSON without --format.")
@click.pass_context
def command(ctx: click.Context, report: Path, formats: tuple[str, ...], out: Path | None) -> None:
    output.check_asked(formats, out)
    loaded = load(report)
    output.emit(loaded, formats, out)
    ctx.exit(BY_STATUS[loaded.status])


def load(path: Path) -> Report:
    """The report in a file. Raises Wrong in one line where there is none."""
    from guarddiff.core.errors import ReportFileError
    from guarddiff.report import load_report

    with wrong_when(ReportFileError):
        return load_report(path)
