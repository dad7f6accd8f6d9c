"""``guarddiff probe model.onnx``."""

from __future__ import annotations

from pathlib import Path

import click

from guarddiff.cli import output, progress
from guarddiff.cli.errors import CLEAN, INCOMPLETE, SPECIALIZED, Wrong, line
from guarddiff.cli.params import Place, Seconds
from guarddiff.cli.sizes import MOST_POINTS, SizesCommand, combinations, sizes_option

_HELP = """Run an ONNX model at several sizes of its dynamic inputs. Needs no PyTorch.

Tells where ONNX Runtime fails, which outputs have other shapes than declared, and which nodes can't fit every size.
Without the source model nothing can be proved: values are not compared, and what fails may fail in the source model
too. `guarddiff check` compares with it.

ONNX Runtime runs in a process of its own. Inputs are random numbers; whole numbers are 0 and 1, so that positions
exist.

\b
Examples:
  guarddiff probe model.onnx
  guarddiff probe model.onnx --sizes height=224,256 width=224 'input[0]=1,8'
  guarddiff probe model.onnx --format json > probe.json

\b
Exit codes: 0 nothing was seen, 1 something is suspected, 2 for a file that is no model, 3 it could not be run,
or not at all sizes that were asked for.
"""

_SIZES = f"""Sizes of your own to be run as well, by symbol or place: h=224,256 x[2]=7. Every combination is run, at
most {MOST_POINTS}."""

_CODES = {"clean": CLEAN, "suspected": SPECIALIZED, "incomplete": INCOMPLETE}


@click.command("probe", cls=SizesCommand, help=_HELP)
@click.argument("model", type=Place(), metavar="MODEL.onnx")
@sizes_option(_SIZES)
@click.option(
    "--format", "format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Format."
)
@click.option(
    "--seconds",
    type=Seconds(),
    default=120.0,
    show_default=True,
    help="How long all runs may take together.",
)
@click.pass_context
def command(ctx: click.Context, model: Path, sizes: dict[str, list[int]], format: str, seconds: float) -> None:
    from guarddiff.cli import probe_text
    from guarddiff.replay import probing

    try:
        with progress.stepping(f"probing {line(model.name, 60)}", 1) as told:
            found = probing.probe(str(model), combinations(sizes), told, seconds)
    except probing.NoModel as error:
        raise Wrong(f"{str(model)!r}: {error}") from error
    except ValueError as error:
        raise Wrong(f"--sizes: {error}") from error
    output.say(probe_text.to_json(found) if format == "json" else probe_text.to_text(found, model.name))
    ctx.exit(_CODES[found.status])
