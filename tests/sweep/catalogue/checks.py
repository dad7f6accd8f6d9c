"""What is asked of every shelf of the catalogue."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib import import_module
from typing import Any

import torch
from torch.utils import _pytree

from guarddiff.sweep.case import Shapes
from guarddiff.sweep.catalogue.entry import Entry

LARGEST = 1000
"""Results are close enough to one that float32 keeps four digits behind the point."""


def entries_of(shelf: str) -> list[Entry]:
    """The entries of a shelf by its name."""
    found: list[Entry] = import_module(f"guarddiff.sweep.catalogue.{shelf}").entries()
    return found


def runs_alike(entry: Entry) -> None:
    """Eager PyTorch accepts all sizes and gives finite results; a new module gives the same at the example, bit for
    bit, whatever the state of the random numbers is."""
    sizes = (entry.example, *entry.others)
    found = _results(entry, sizes, seed=1)
    for results in found:
        assert results, entry.name
        for result in results:
            assert isinstance(result, torch.Tensor), entry.name
            assert torch.isfinite(result).all(), entry.name
            assert result.numel(), entry.name
            assert result.dtype == torch.bool or result.abs().max() < LARGEST, entry.name
    again = _results(entry, (entry.example,), seed=2)
    for one, other in zip(found[0], again[0], strict=True):
        assert torch.equal(one, other), entry.name


def declares_what_varies(entry: Entry) -> None:
    """At least one axis is dynamic, and each that has another size elsewhere is."""
    declared = entry.declared()
    assert len(declared) == len(entry.example), entry.name
    assert any(declared), entry.name
    assert 1 <= len(entry.others) <= 4, entry.name
    for shapes in entry.others:
        for example, other, axes in zip(entry.example, shapes, declared, strict=True):
            changed = {axis for axis, size in enumerate(example) if other[axis] != size}
            assert changed <= set(axes or {}), f"{entry.name}: {changed} vary, {axes} is declared"


def named_apart(entries: Iterable[Entry]) -> None:
    """No two have one name, whether letters are large or small, and all names can be names of files."""
    seen: set[str] = set()
    for entry in entries:
        assert re.fullmatch(r"[A-Za-z0-9 ,().-]+", entry.family), entry.family
        assert re.fullmatch(r"[A-Za-z0-9 ,().-]+", entry.name), entry.name
        key = f"{entry.family}/{entry.name}".lower()
        assert key not in seen, key
        seen.add(key)


def _results(entry: Entry, sizes: Iterable[Shapes], seed: int) -> list[list[Any]]:
    trial = entry.trial()
    torch.manual_seed(seed)
    found = []
    for shapes in sizes:
        args, kwargs = trial.at(shapes)
        assert tuple(tuple(arg.shape) for arg in args) == shapes, entry.name
        found.append(_pytree.tree_leaves(trial.model(*args, **kwargs)))
    return found
