"""``docs/cli.md`` is what the commands say of themselves."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from guarddiff.cli import output
from guarddiff.cli.app import app
from guarddiff.cli.reference import reference
from guarddiff.report import FORMATS

DOCS = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
COMMANDS = app.list_commands(click.Context(app))


def test_the_page_is_current() -> None:
    assert DOCS.read_text(encoding="utf-8") == reference(), "python -m guarddiff.cli.reference > docs/cli.md"


def test_every_command_and_option_is_on_the_page() -> None:
    text = reference()
    context = click.Context(app)
    for name in COMMANDS:
        assert f"## guarddiff {name}\n" in text
        command = app.get_command(context, name)
        assert command is not None
        for option in command.params:
            if isinstance(option, click.Option):
                assert option.help, f"{name} {option.opts} has no help"
                assert all(f"`{spelled}`" in text for spelled in option.opts)


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_has_examples_and_exit_codes(name: str) -> None:
    result = CliRunner().invoke(app, [*filter(None, [name]), "--help"])
    assert result.exit_code == 0
    assert "Examples:" in result.output
    assert f"  guarddiff {name}".rstrip() in result.output
    assert "Exit codes" in result.output


def test_formats_are_those_of_the_report() -> None:
    assert tuple(FORMATS) == output.FORMATS


def test_the_page_says_what_is_trusted() -> None:
    assert "TORCH_FORCE_WEIGHTS_ONLY_LOAD" in reference()
