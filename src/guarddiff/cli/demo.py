"""``guarddiff demo``."""

from __future__ import annotations

from pathlib import Path

import click

from guarddiff.cli.errors import Wrong
from guarddiff.cli.params import Place

_HELP = """The main job on three small models: export them, warn, prove, write models and reports.

\b
Examples:
  guarddiff demo
  guarddiff demo --out /tmp/guarddiff-demo

\b
Exit codes: 0 when each fault was found and proved, 1 otherwise.
"""


@click.command("demo", help=_HELP)
@click.option(
    "--out",
    type=Place(file_okay=False),
    default=Path("guarddiff-demo"),
    show_default=True,
    metavar="DIR",
    help="Folder for models and reports.",
)
@click.pass_context
def command(ctx: click.Context, out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Wrong(f"--out {out}: {error.strerror or error}") from error
    from guarddiff import demo

    ctx.exit(demo.main(["--out", str(out)]))
