"""Torch's own operator database: each operator with sample inputs, as torch's tests use them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from guarddiff.core.quiet import quiet
from guarddiff.torch_bridge.probe import PrivateName

_DATABASE = PrivateName(
    "torch.testing._internal.common_methods_invocations", "op_db", "the sweep over torch's operators"
)


@dataclass(frozen=True)
class Sample:
    """One call of an operator: ``call(*values[0], **values[1])``, with the sample's ``input`` first."""

    call: Callable[..., Any]
    values: tuple[tuple[Any, ...], dict[str, Any]]


@cache
def _operators() -> dict[str, Any]:
    """Name (with its variant where there is one) → entry, in the database's order; the first one of a name."""
    found: dict[str, Any] = {}
    try:
        database = _DATABASE.get()
    except ModuleNotFoundError as error:
        why = f"torch's operator database can't be loaded without {error.name or 'a package that is not installed'}"
        raise ImportError(f'{why}: pip install "guarddiff[sweep]"') from error
    for entry in database:
        variant = entry.variant_test_name
        found.setdefault(f"{entry.name}.{variant}" if variant else entry.name, entry)
    return found


def names() -> tuple[str, ...]:
    """Names of the operators. Raises ImportError where torch's tests need a package that is not installed."""
    return tuple(_operators())


def samples(name: str) -> Iterator[Sample]:
    """The samples of one operator, always the same; none for an operator that has no dtype on a CPU.

    Raises KeyError for an unknown name, and what the database raises.
    """
    entry = _operators()[name]
    dtype = _dtype(entry)
    if dtype is None:
        return
    state = torch.get_rng_state()
    torch.manual_seed(0)
    try:
        with quiet():  # about operators and layouts that are old or new
            made = list(entry.sample_inputs("cpu", dtype, requires_grad=False))
    finally:
        torch.set_rng_state(state)
    for sample in made:
        yield Sample(entry.op, ((sample.input, *sample.args), dict(sample.kwargs)))


def _dtype(entry: Any) -> torch.dtype | None:
    """float32 where the operator takes it, else int64, bool, complex64, or any other."""
    known = set(entry.supported_dtypes("cpu"))
    for dtype in (torch.float32, torch.int64, torch.bool, torch.complex64):
        if dtype in known:
            return dtype
    return min(known, key=str) if known else None
