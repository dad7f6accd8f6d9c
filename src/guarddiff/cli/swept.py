"""``guarddiff sweep page`` and ``guarddiff sweep compare``: what is made of results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from guarddiff.cli import output
from guarddiff.cli.errors import CLEAN, INCOMPLETE, SPECIALIZED, Failed, Wrong, wrong_when
from guarddiff.cli.params import Place
from guarddiff.core.files import replace

if TYPE_CHECKING:
    from guarddiff.sweep.figures import Summary
    from guarddiff.sweep.results import Results

_PAGE = """Make a readable page of the results in a folder. Needs no PyTorch.

Reads every results-*.jsonl there and writes README.md, summary.json, badge.json (for shields.io), badge.svg and
classes.svg beside them; files of these names are replaced.

\b
Examples:
  guarddiff sweep page docs/compatibility/torch-2.13.0
  guarddiff sweep page results --out pages/index.md --no-plot

\b
Exit codes: 0 made, 2 for a folder without results or a broken file, 3 where the files can't be written.
"""

_COMPARE = """Tell what changed between two sweeps: what became wrong or right, what guarddiff says. Needs no PyTorch.

A and B are folders with results-*.jsonl, or single files of results; A is the old one. Cases are matched by their keys.

\b
Examples:
  guarddiff sweep compare docs/compatibility/torch-2.13.0 docs/compatibility/torch-2.14.1
  guarddiff sweep compare old/results-ops.jsonl new/results-ops.jsonl --format markdown

\b
Exit codes: 0 nothing got worse, 1 a case became silently wrong or a detection was lost, 2 for what holds no results,
3 nothing got worse, and some cases of A were not measured in B.
"""


@click.command("page", help=_PAGE)
@click.argument("folder", type=Place(file_okay=False), metavar="DIR")
@click.option(
    "--out",
    type=Place(dir_okay=False),
    metavar="FILE",
    help="The page's file instead of DIR/README.md; the other files are written beside it.",
)
@click.option("--no-plot", is_flag=True, help="Make no classes.svg, which needs matplotlib.")
def page(folder: Path, out: Path | None, no_plot: bool) -> None:
    from guarddiff.sweep import plot, results, summary

    if not folder.is_dir():
        raise Wrong(f"no folder {str(folder)!r}")
    with wrong_when(results.ResultsError):
        found = results.load(folder)
    figures = summary.summarize(found.outcomes.values())
    target = out or folder / "README.md"
    try:
        files = _files(found, figures, target.name, not no_plot)
    except plot.PlotError as error:
        raise Wrong(f"{error}; or leave the picture out with --no-plot") from error
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            replace(target.parent / name, content)
    except OSError as error:
        raise Failed(f"the page could not be written to {str(target.parent)!r}: {error.strerror or error}") from error
    for name in files:
        output.tell(f"written: {target.parent / name}")


def _files(found: Results, figures: Summary, name: str, with_plot: bool) -> dict[str, bytes]:
    """Name → content; the page comes last, so that what it shows is there before it."""
    from guarddiff.sweep import badge, plot
    from guarddiff.sweep import page as pages

    environment = found.environment
    files = {
        "summary.json": _summary(environment, figures).encode(),
        "badge.json": badge.endpoint(figures.total, environment).encode(),
        "badge.svg": badge.svg(figures.total, environment).encode(),
    }
    pictures = [(f"{badge.LABEL}: {badge.message(figures.total, environment)}", "badge.svg")]
    if with_plot:
        files["classes.svg"] = plot.svg(figures, environment)
        pictures.append(("silently wrong exports by stage and class", "classes.svg"))
    if name in files:
        raise Wrong(f"--out {name} is the name of another file that is written")
    text = pages.render(figures, found.outcomes.values(), environment, pictures)
    return {**files, name: text.encode()}


def _summary(environment: Any, figures: Summary) -> str:
    data = {"format": "guarddiff-sweep-summary", "version": 1, "environment": dict(environment), **figures.to_data()}
    return json.dumps(data, indent=1, ensure_ascii=True) + "\n"


@click.command("compare", help=_COMPARE)
@click.argument("old", type=Place(), metavar="A")
@click.argument("new", type=Place(), metavar="B")
@click.option(
    "--format",
    "format",
    type=click.Choice(["text", "markdown", "json"]),
    default="text",
    show_default=True,
    help="Format.",
)
@click.pass_context
def compare(ctx: click.Context, old: Path, new: Path, format: str) -> None:
    from guarddiff.sweep import changes, results
    from guarddiff.sweep.compare import compare as compared

    with wrong_when(results.ResultsError):
        found = compared(results.load(old), results.load(new))
    made = {"text": changes.to_text, "markdown": changes.to_markdown, "json": changes.to_json}
    output.say(made[format](found))
    ctx.exit(SPECIALIZED if found.worse else INCOMPLETE if found.vanished or found.unmeasured_now else CLEAN)
