"""``guarddiff diff old.json new.json``."""

from __future__ import annotations

from pathlib import Path

import click

from guarddiff.cli import output
from guarddiff.cli.params import Place
from guarddiff.cli.show import load

_HELP = """Tell what changed between two saved reports: what a new torch version fixed or broke. Needs no PyTorch.

Findings are matched by stage, operator, origin and dimensions. Worse is: a new finding that warns, a verdict that warns
now, fewer admitted sizes, evidence that is missing now.

\b
Examples:
  guarddiff diff torch-2.13/guarddiff-report.json torch-2.14/guarddiff-report.json
  guarddiff diff old.json new.json --format json

\b
Exit codes: 0 nothing got worse, 1 something got worse, 2 for a file that is no report.
"""


@click.command("diff", help=_HELP)
@click.argument("old", type=Place(), metavar="OLD.json")
@click.argument("new", type=Place(), metavar="NEW.json")
@click.option(
    "--format", "format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Format."
)
@click.pass_context
def command(ctx: click.Context, old: Path, new: Path, format: str) -> None:
    from guarddiff.core.compare_reports import compare
    from guarddiff.render import report_diff

    found = compare(load(old), load(new))
    output.say(report_diff.to_json(found) if format == "json" else report_diff.to_text(found))
    ctx.exit(1 if found.worse else 0)
