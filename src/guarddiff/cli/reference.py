"""``docs/cli.md``, made from the commands themselves: ``python -m guarddiff.cli.reference > docs/cli.md``."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

from guarddiff.cli.app import app

_HEAD = """# Command line

<!-- Made by `python -m guarddiff.cli.reference` from the code: change it there. -->
"""

_TRUST = """## What is trusted

| what | what happens with it |
|---|---|
| a factory (`check`), a script or module (`run`) | Python code: it runs with all your rights |
| a report (`show`, `diff`) | data: read as JSON of at most 64 MB, field by field; nothing in it is run |
| an ONNX model (`probe`) | data: run by ONNX Runtime in a process of its own, without custom operators |
| a saved program, `.pt2` (`check`) | data: looked through and then loaded as below, and run by torch |

`torch.export.load` of torch 2.13 and 2.14 is not made for files from strangers, and its documentation says so: where
weights-only unpickling fails it unpickles in full; it unpickles custom objects; it hands sizes to sympy, which
evaluates them as Python; it calls any function below `torch` that the file names; and it runs the file's guards as
Python. So guarddiff reads the archive first, without torch, and refuses in one line a file

- with pickled constants that are no tensors, compiled code, several programs, or entries larger than the file,
- that calls what is no operator (`torch.ops…`, arithmetic), or an operator that reads or writes files,
- with sizes or guards that are no plain expressions, or names that are no names.

It is then loaded with `TORCH_FORCE_WEIGHTS_ONLY_LOAD=1`, under which torch unpickles tensors and plain containers
alone: programs whose example inputs are of other classes are refused thereby. This closes what is known; it is no
sandbox. Check a program of somebody whom you do not trust at all in a container.
"""


def reference() -> str:
    """The text of ``docs/cli.md``."""
    context = click.Context(app, info_name="guarddiff")
    parts = [_HEAD, *_command(app, context)]
    for name in app.list_commands(context):
        command = app.get_command(context, name)
        if command is not None:
            parts += _section(command, click.Context(command, context, name), 2)
    return "\n".join([*parts, _TRUST])


def _section(command: click.Command, context: click.Context, level: int) -> Iterator[str]:
    """The command under a heading, and below it those that it holds."""
    yield f"{'#' * level} {context.command_path}\n"
    yield from _command(command, context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None:
                yield from _section(inner, click.Context(inner, context, name), level + 1)


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    pieces = " ".join(command.collect_usage_pieces(context))
    yield f"```text\n{context.command_path} {pieces}\n```\n"
    yield from _paragraphs(command.help or "")
    options = [param for param in command.params if isinstance(param, click.Option)]
    if options:
        rows = [f"| {_names(option)} | {_about(option, context)} |" for option in options]
        yield "\n".join(["| option | |", "|---|---|", *rows]) + "\n"


def _paragraphs(text: str) -> Iterator[str]:
    """Paragraphs as they are; those that keep their lines (after ``\\b``) as a block, with their titles before it."""
    for paragraph in text.strip().split("\n\n"):
        lines = paragraph.strip("\n").splitlines()
        if lines and lines[0].strip() == "\b":
            rest = lines[1:]
            if rest and rest[0].rstrip().endswith(":"):
                yield f"{rest[0].strip()}\n\n```text\n" + "\n".join(line.strip() for line in rest[1:]) + "\n```\n"
            else:
                yield _prose("\n".join(rest)) + "\n"
        else:
            yield _prose("\n".join(lines)) + "\n"


def _names(option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in option.opts)
    if option.is_flag:
        return names
    if isinstance(option.type, click.Choice):
        return f"{names} " + " \\| ".join(f"`{choice}`" for choice in option.type.choices)
    return f"{names} `{option.metavar or option.type.name.upper()}`"


def _about(option: click.Option, context: click.Context) -> str:
    text = _prose(" ".join((option.help or "").split()))
    if not option.show_default:
        return text
    return f"{text} Default: `{option.get_default(context)}`."


def _prose(text: str) -> str:
    return re.sub(r"([*_<>|\[\]])", r"\\\1", text)


if __name__ == "__main__":
    click.echo(reference(), nl=False)
