"""``guarddiff check TARGET``."""

from __future__ import annotations

import contextlib
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from guarddiff.cli import output, progress
from guarddiff.cli.errors import BY_STATUS, INCOMPLETE, Failed, Wrong, debugging, line, show_traceback, told
from guarddiff.cli.params import Place
from guarddiff.cli.sizes import MOST_POINTS, SizesCommand, sizes_option
from guarddiff.core import files

if TYPE_CHECKING:
    from guarddiff.cli.target import Target
    from guarddiff.report import Report

_HELP = """Export a model and tell at which sizes the result is right.

TARGET is package.module:factory or path/to/file.py:factory, where the factory takes no arguments and returns (model,
args), (model, args, {export keywords}) or a dict with 'model', 'args', perhaps 'kwargs', and export keywords; or a
program saved by torch.export.save, program.pt2.

A factory is Python code and runs with all your rights. A .pt2 file is looked through first and refused where it holds
more than a plain program (pickled objects, compiled code); tensors are unpickled in torch's weights-only mode.

\b
Examples:
  guarddiff check models.py:make
  guarddiff check mypackage.nets:small_vgg --format html --format junit --out reports
  guarddiff check models.py:make --sizes h=224,256 w=224 'x[0]=1,8'
  guarddiff check program.pt2 --replay findings --format json > report.json

\b
Exit codes: 0 clean, 1 specialized, 2 wrong usage, 3 incomplete (also when the export itself raises, or
the model could not be written).
"""

_ASKED = "the sizes that were asked for"
"""The part of a report that is missing where sizes could not be run as the user named them."""

_SIZES = f"""Sizes of your own to be run as well, by the name of the dimension or its place: h=224,256 w=224 x[2]=7.
Every combination is run, at most {MOST_POINTS}; what is not named keeps the example's size."""


@click.command("check", cls=SizesCommand, help=_HELP)
@click.argument("target")
@click.option(
    "--replay",
    type=click.Choice(["findings", "full", "off"]),
    default="full",
    show_default=True,
    help="What is run: what breaks a guard, the whole model at further sizes too, or nothing.",
)
@click.option(
    "--repair",
    is_flag=True,
    help="Export once more with what repairs the findings; taken only when it is proved right.",
)
@sizes_option(_SIZES)
@output.format_option("Format of the report on stdout, text by default; repeat it with --out.")
@output.out_option("Folder for report files, Markdown and JSON unless --format says otherwise.")
@click.option(
    "--save",
    type=Place(dir_okay=False),
    metavar="MODEL.onnx",
    help="Write the exported model too, whatever was found; a file of this name is replaced.",
)
@click.pass_context
def command(ctx: click.Context, target: str, replay: str, repair: bool, sizes: dict[str, list[int]],
            formats: tuple[str, ...], out: Path | None, save: Path | None) -> None:  # fmt: skip
    output.check_asked(formats, out)
    if save is not None and not save.absolute().parent.is_dir():
        raise Wrong(f"--save {save}: the model could not be written: there is no such folder")
    options = {"replay": replay, "repair": repair, "sizes": sizes or None, "on_finding": "ignore"}
    with progress.stdout_kept(), _torch_to_itself(), progress.waiting(f"checking {line(target, 60)}"):
        from guarddiff.cli import target as targets

        report, error = _checked(targets.load(target), options)
    output.emit(report, formats, out)
    if error is not None:
        output.tell(f"guarddiff: the export raised {error}")
    elif save is not None:
        _save(report, save)
    for missing in report.missing:
        if missing.part == _ASKED:
            raise Wrong(f"--sizes: {missing.why}")
    code = BY_STATUS[report.status]
    ctx.exit(code or INCOMPLETE if error is not None else code)


@contextlib.contextmanager
def _torch_to_itself() -> Iterator[None]:
    """Without the warnings in which torch and onnxscript tell each other what will change in them."""
    with warnings.catch_warnings():
        if not debugging():
            warnings.simplefilter("ignore", FutureWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
        yield


def _checked(target: Target, options: dict[str, Any]) -> tuple[Report, str | None]:
    """The report, and what the export raised in words; None where it went well. Raises Wrong for wrong usage."""
    from guarddiff import api

    keywords = {"verbose": False, **target.keywords}
    if target.kwargs is not None:
        keywords["kwargs"] = target.kwargs
    before = api.last_report()
    try:
        return api.check_at(target.model, target.args, **keywords, **options), None
    except Exception as error:
        report = api.last_report()
        if report is not None and not _same(report, before) and any(m.part == _ASKED for m in report.missing):
            return report, None  # the sizes are told of after the report
        if report is None or report.error is None or _same(report, before) or _ours(error):
            raise Wrong(told(error, 600)) from error
        if debugging():
            show_traceback(error)
        return report, told(error)


def _same(report: Report, before: Report | None) -> bool:
    return before is not None and before == report


def _ours(error: Exception) -> bool:
    """Whether guarddiff itself refused what it was given: the sizes, a keyword."""
    if not isinstance(error, (TypeError, ValueError)):
        return False
    frames = list(traceback.walk_tb(error.__traceback__))
    return bool(frames) and str(frames[-1][0].f_globals.get("__name__", "")).startswith("guarddiff.")


def _save(report: Report, path: Path) -> None:
    if report.program is None:
        raise Wrong(f"--save {path}: there is no model to write")
    try:
        with files.together(path) as waiting:
            report.program.save(str(waiting))
    except Exception as error:
        why = getattr(error, "strerror", None) or told(error)
        raise Failed(f"--save {path}: the model could not be written: {why}") from error
    output.tell(f"model:   {path}")
