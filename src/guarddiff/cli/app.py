"""The group of commands, and what is done about errors that reach the top."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

import click

from guarddiff.cli import errors

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF)
"""What writing to standard output says when it can't."""
_COMMANDS = ("check", "run", "probe", "show", "diff", "contract", "sweep", "demo")

_HELP = """Find, prove and report sizes that an exported ONNX model silently fixed.

\b
Examples:
  guarddiff check models.py:make --format html --out reports
  guarddiff run export_model.py --checkpoint net.pth
  guarddiff probe model.onnx
  guarddiff diff reports/old.json reports/new.json

\b
Exit codes:
  0    clean
  1    specialized: a size was lost (diff: something got worse; probe: something is suspected)
  2    wrong usage, or a file that is missing, broken or no file of the kind that is asked for
  3    incomplete: something could not be looked at, so that it is unknown and not fine
  130  interrupted, 141 the reader of the output went away
"""


class Commands(click.Group):
    """Each command's module is loaded when the command is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = import_module(f"guarddiff.cli.{cmd_name}").command
        return command


def _version(ctx: click.Context, param: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from guarddiff import __version__

        click.echo(f"guarddiff {__version__}")
        ctx.exit()


@click.group(
    cls=Commands, help=_HELP, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.option("--debug", is_flag=True, help="Show the traceback behind a message.")
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version and exit."
)
def app(debug: bool) -> None:
    errors.set_debug(debug)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line on ``arguments`` (None: those of the process) and return its exit code."""
    errors.set_debug(False)
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError, OSError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        code = _run(arguments)
        with suppress(AttributeError, ValueError):  # there is no standard output, or a script has closed it
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        _silence()
        return errors.BROKEN_PIPE
    except OSError as error:
        _silence()
        return _unwritten(error)


def _run(arguments: Sequence[str] | None) -> int:
    try:
        if "_GUARDDIFF_COMPLETE" in os.environ:
            app.main(prog_name="guarddiff")  # the shell asks what it could complete
        # Not app.main: it ends the process itself where a pipe is closed.
        with app.make_context("guarddiff", list(sys.argv[1:] if arguments is None else arguments)) as context:
            app.invoke(context)
        return errors.CLEAN
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("guarddiff: interrupted", err=True)
        return errors.INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return errors.WRONG
    except click.ClickException as error:
        errors.show_traceback(error)
        _show(error)
        return error.exit_code if isinstance(error, errors.Wrong) else errors.WRONG
    except BrokenPipeError:
        raise
    except Exception as error:
        errors.show_traceback(error)
        if isinstance(error, OSError) and error.errno in _FULL:
            return _unwritten(error)
        hint = "" if errors.debugging() else "; `guarddiff --debug` shows where"
        click.echo(f"guarddiff: an error of its own: {errors.told(error)}{hint}", err=True)
        return errors.INCOMPLETE


def _show(error: click.ClickException) -> None:
    """One line, and where help is."""
    if isinstance(error, errors.Wrong):
        error.show()
        return
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "guarddiff"
    click.echo(f"guarddiff: {errors.line(error.format_message())} (`{path} --help` tells more)", err=True)


def _unwritten(error: OSError) -> int:
    with suppress(AttributeError, ValueError, OSError):
        click.echo(f"guarddiff: the output could not be written: {error.strerror or error}", err=True)
    return errors.INCOMPLETE


def _silence() -> None:
    """Nobody reads any more: what is still in the buffers goes nowhere, without a word."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
