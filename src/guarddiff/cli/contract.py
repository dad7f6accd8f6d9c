"""``guarddiff contract model.onnx``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from guarddiff.cli.errors import CLEAN, SPECIALIZED, Wrong, line, unread, wrong_when
from guarddiff.cli.params import Place

if TYPE_CHECKING:
    from guarddiff.contract.contract import Contract

_HELP = """Show the contract of an ONNX file, or tell whether it admits inputs of some shapes. Needs no PyTorch.

\b
Examples:
  guarddiff contract model.onnx
  guarddiff contract model.onnx --shape images=1,3,256,256
  guarddiff contract model.contract.json --trust

\b
Exit codes: 0 shown, or the shapes are admitted; 1 they are not; 2 no contract that can be trusted, or wrong usage.
"""
_SHAPE = re.compile(r"(?P<name>.+)=(?P<sizes>|[0-9]{1,19}(,[0-9]{1,19})*)")


@click.command("contract", help=_HELP)
@click.argument("model", type=Place(), metavar="MODEL.onnx")
@click.option(
    "--shape", "shapes", multiple=True, metavar="NAME=N,N,…", help="Shape of an input; one for each that it has."
)
@click.option("--trust", is_flag=True, help="Do not compare the contract's hash with the model and its weights.")
@click.pass_context
def command(ctx: click.Context, model: Path, shapes: tuple[str, ...], trust: bool) -> None:
    from guarddiff.contract.embed import read_contract
    from guarddiff.core.errors import ContractError
    from guarddiff.render import words

    given = _given(shapes)
    with wrong_when(ContractError), unread(model):
        contract = read_contract(model, trust=trust)
    if not given:
        click.echo("\n".join(words.clean(text, 1000) for text in _lines(contract)))
        return
    broken = contract.check(given)
    for one in broken:
        click.echo(words.clean(str(one), 1000))
    if not broken:
        click.echo("admitted")
    ctx.exit(SPECIALIZED if broken else CLEAN)


def _given(shapes: Sequence[str]) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for name, shape in map(_read, shapes):
        if name in found:
            raise Wrong(f"--shape gives {name} twice: one shape for each input")
        found[name] = shape
    return found


def _read(text: str) -> tuple[str, tuple[int, ...]]:
    found = _SHAPE.fullmatch(text)
    if found is None:
        raise Wrong(f"--shape {line(text, 80)}: write NAME=N,N,…, such as images=1,3,224,224 (a scalar: NAME=)")
    sizes = found["sizes"]
    return found["name"], tuple(int(size) for size in sizes.split(",")) if sizes else ()


def _lines(contract: Contract) -> list[str]:
    """What stands in a contract, line by line."""
    lines = [f"contract of {contract.model or 'a model'} (SHA-256 {contract.hash[:16] or 'not embedded'})"]
    for spec in contract.inputs:
        lines.append(f"  {spec.name}: {spec.dtype}[{', '.join(map(str, spec.shape))}]")
        lines += [
            f"    {dim.place} ({dim.name}): declared {dim.declared}, admitted {dim.admitted}"
            for dim in spec.dims
            if dim.declared is not None
        ]
    lines += [
        f"  right only where {' and '.join(condition.guards)}"
        + (f", because of {condition.because}" if condition.because else "")
        + (f" ({condition.verdict})" if condition.verdict else "")
        for condition in contract.conditions
    ]
    for name, mapping in (("settings", contract.settings), ("preprocessing", contract.preprocessing)):
        lines += [f"  {name}: {key} = {value!r}" for key, value in mapping.items()]
    return lines + [f"  missing evidence: {part}" for part in contract.missing]
