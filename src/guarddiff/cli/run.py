"""``guarddiff run script.py ARGS…``: somebody else's export script, every export inside watched."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from guarddiff.cli import output
from guarddiff.cli.errors import CLEAN, INCOMPLETE, SPECIALIZED, Wrong, line, told

if TYPE_CHECKING:
    from guarddiff.report import Report

_HELP = """Run a Python script that exports models, unchanged, and watch every torch.onnx.export inside.

SCRIPT runs as it would under python: its arguments, its folder on the path, __name__ == "__main__", its own output on
stdout. With -m, SCRIPT is the name of a module. Options of guarddiff stand before SCRIPT. Warnings come as the exports
happen; the summary comes last, on stderr.

\b
Examples:
  guarddiff run export_model.py --checkpoint net.pth
  guarddiff run --out reports --replay full export_model.py model.onnx
  guarddiff run -m mypackage.export --size 224

torch is imported before the script runs: environment variables that torch reads at import (OMP_NUM_THREADS) are set
outside. Exports in processes that the script starts are not seen.

Exit codes: 1 when an export is specialized, else 3 when one is incomplete, the script failed or nothing was exported,
else 0; 2 when there is no such script. The script's own exit code is told, not handed on.
"""


_LONGEST = 64 * 1024 * 1024  # bytes of a script


@dataclass(frozen=True)
class _Ending:
    """How the script ended: in words, empty where it ended well; ``interrupted`` by the user."""

    words: str = ""
    interrupted: bool = False


@click.command("run", help=_HELP, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("-m", "as_module", is_flag=True, help="SCRIPT is the name of a module, as in python -m.")
@click.option(
    "--replay",
    type=click.Choice(["findings", "full", "off"]),
    default="full",
    show_default=True,
    help="What is run: what breaks a guard, the whole model at further sizes too, or nothing.",
)
@output.format_option("Formats of the files in --out, Markdown and JSON by default.")
@output.out_option("Folder for the reports, one for each export.")
@click.argument("script")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def command(ctx: click.Context, as_module: bool, replay: str, formats: tuple[str, ...], out: Path | None,
            script: str, arguments: tuple[str, ...]) -> None:  # fmt: skip
    if formats and out is None:
        raise Wrong("--format says what is written into a folder: add --out DIR")
    start = _module(script) if as_module else _file(script)
    import guarddiff

    out = out.absolute() if out is not None else None  # the script may change the folder
    with guarddiff.watch(on_finding="warn", replay=replay, threads=True) as reports:  # type: ignore[arg-type]
        ending = _ended(start, script, arguments)
    _summary(reports, ending)
    if out is not None:
        for report in reports:
            for path in output.write(report, out, formats):
                output.tell(f"report:  {path}")
    if ending.interrupted:
        raise KeyboardInterrupt
    ctx.exit(_code(reports, ending))


# --- running it ---


def _file(script: str) -> Callable[[], Any]:
    path = os.path.abspath(script)
    if os.path.isdir(path):
        raise Wrong(f"{script!r} is a folder and no script")
    try:
        with open(path, "rb") as file:
            source = file.read(_LONGEST + 1)
        if len(source) > _LONGEST:
            raise Wrong(f"{script!r} is too long for a script")
        compile(source, script, "exec", dont_inherit=True)
    except OSError as error:
        raise Wrong(f"{script!r} can't be read: {error.strerror or error}") from error
    except SyntaxError as error:
        raise Wrong(f"{script!r} is no Python script: {error.msg} (line {error.lineno or 1})") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise Wrong(f"{script!r} is no Python script: {told(error)}") from error

    def start() -> Any:
        sys.path.insert(0, os.path.dirname(path))
        return runpy.run_path(script, run_name="__main__")

    return start


def _module(name: str) -> Callable[[], Any]:
    from importlib.util import find_spec

    if not all(name.split(".")):
        raise Wrong(f"-m {name}: it is no module's whole name, such as package.module (for a file leave out -m)")
    sys.path.insert(0, os.getcwd())
    try:
        spec = find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = find_spec(f"{name}.__main__")
    except (ImportError, ValueError, AttributeError) as error:
        raise Wrong(f"-m {name}: {told(error)}") from error
    if spec is None:
        raise Wrong(f"-m {name}: there is no such module that can be run (for a file leave out -m)")
    return lambda: runpy.run_module(name, run_name="__main__", alter_sys=True)


def _ended(start: Callable[[], Any], script: str, arguments: Sequence[str]) -> _Ending:
    """Run it with its own arguments; how it ended. What the process had before is put back."""
    before, path = sys.argv, list(sys.path)
    sys.argv = [script, *arguments]
    try:
        start()
    except SystemExit as error:
        return _exited(error.code)
    except KeyboardInterrupt:
        return _Ending("was interrupted", interrupted=True)
    except BrokenPipeError:
        raise
    except Exception as error:
        _show(error)
        return _Ending(f"raised {told(error, 400)}")
    finally:
        sys.argv, sys.path[:] = before, path
    return _Ending()


def _exited(code: Any) -> _Ending:
    if code is None or code == 0:
        return _Ending()
    if isinstance(code, int):
        return _Ending(f"exited with code {code}")
    click.echo(str(code), err=True)  # as Python does
    return _Ending("exited with code 1")


def _show(error: Exception) -> None:
    """The script's own traceback, as Python shows it: without the frames that started the script."""
    inner = error.__traceback__
    while inner is not None and inner.tb_frame.f_globals.get("__name__") in (__name__, "runpy"):
        inner = inner.tb_next
    while inner is not None and inner.tb_frame.f_code.co_filename == "<frozen runpy>":
        inner = inner.tb_next
    click.echo(
        "".join(traceback.format_exception(type(error), error, inner or error.__traceback__)), err=True, nl=False
    )


# --- telling ---


def _summary(reports: Sequence[Report], ending: _Ending) -> None:
    from guarddiff.render import words

    count = words.count(len(reports), "export")
    output.tell(f"guarddiff: {count} watched" if reports else "guarddiff: nothing was exported with torch.onnx.export")
    for number, report in enumerate(reports, 1):
        output.tell(f"  {number}. {line(report.model, 80) or 'a model'}: {report.status}. {words.summary(report)}")
        for finding in report.findings:
            if finding.warns:
                output.tell(f"     {finding.verdict}: {words.headline(finding)}")
        for missing in report.missing:
            output.tell(f"     missing: {missing.part}: {missing.why}")
    if ending.words:
        output.tell(f"guarddiff: the script {ending.words}")


def _code(reports: Sequence[Report], ending: _Ending) -> int:
    states = {report.status for report in reports}
    if "specialized" in states:
        return SPECIALIZED
    if ending.words or not reports or "incomplete" in states:
        return INCOMPLETE
    return CLEAN
