"""Pooling, resizing, padding, arithmetic, branches, windows, positions, vision: that eager PyTorch runs every entry."""

from __future__ import annotations

import re
from importlib import import_module

import pytest
import torch

from guarddiff.sweep.catalogue import SHELVES
from guarddiff.sweep.catalogue.dims import bounded, named, strict, words
from guarddiff.sweep.catalogue.entry import Entry

MINE = (
    "pooling",
    "pyramids",
    "resizing",
    "padding",
    "arithmetic",
    "branches",
    "windows",
    "positions",
    "vision",
    "detection",
)


def _of(shelf: str) -> list[Entry]:
    found: list[Entry] = import_module(f"guarddiff.sweep.catalogue.{shelf}").entries()
    return found


def _results(entry: Entry) -> list[list[torch.Tensor]]:
    """What a new module gives at the example and at all other sizes."""
    trial = entry.trial()
    found = []
    for shapes in (trial.shapes, *trial.others):
        args, kwargs = trial.at(shapes)
        assert tuple(arg.shape for arg in args) == shapes
        given = trial.model(*args, **kwargs)
        found.append([given] if isinstance(given, torch.Tensor) else list(given))
    return found


@pytest.mark.parametrize("shelf", MINE)
@torch.no_grad()
def test_eager_accepts_all_sizes_and_gives_the_same_twice(shelf: str) -> None:
    for entry in _of(shelf):
        first, second = _results(entry), _results(entry)
        for one, other in zip(first, second, strict=True):
            assert len(one) == len(other) > 0
            for a, b in zip(one, other, strict=True):
                assert torch.equal(a, b), entry.name
                assert torch.isfinite(a).all(), entry.name
                assert a.numel(), entry.name
                # Close enough to one that float32 keeps four digits behind the point.
                assert a.abs().max() < 1000, entry.name


@pytest.mark.parametrize("shelf", MINE)
def test_every_entry_declares_what_its_sizes_need(shelf: str) -> None:
    for entry in _of(shelf):
        declared = entry.declared()
        assert len(declared) == len(entry.example), entry.name
        assert any(declared), entry.name
        assert entry.others, entry.name
        for shapes in entry.others:
            for example, other, axes in zip(entry.example, shapes, declared, strict=True):
                changed = {axis for axis, size in enumerate(example) if other[axis] != size}
                assert changed <= set(axes or {}), f"{entry.name}: {changed} vary, {axes} is declared"


def test_names() -> None:
    entries = [entry for shelf in MINE for entry in _of(shelf)]
    names = [f"{entry.family}/{entry.name}".lower() for entry in entries]
    assert len(set(names)) == len(names)
    for entry in entries:
        assert re.fullmatch(r"[A-Za-z0-9 ,().-]+", entry.family), entry.family
        assert re.fullmatch(r"[A-Za-z0-9 ,().-]+", entry.name), entry.name
    assert len(entries) >= 190


def test_shelves_are_swept() -> None:
    assert [shelf for shelf in SHELVES if shelf in MINE] == list(MINE)


def test_some_declare_names_bounds_and_words() -> None:
    given = [entry.dynamic for shelf in MINE for entry in _of(shelf) if entry.dynamic is not None]
    kinds = {type(dim).__name__ for dynamic in given for axes in dynamic if axes for dim in axes.values()}
    assert {"Dim", "str"} <= kinds
    assert any(
        dim is torch.export.Dim.DYNAMIC for dynamic in given for axes in dynamic if axes for dim in axes.values()
    )


def test_one_name_is_one_dimension() -> None:
    first, second = named(2, height=2, width=3)
    assert first is not None
    assert second is not None
    assert first is not second
    assert first[2] is second[2]
    assert first[2] is not first[3]
    assert [dim.__name__ for dim in first.values()] == ["height", "width"]


def test_bounds_words_and_strict_dimensions() -> None:
    (axes,) = bounded(5, 16, rows=0)
    assert axes is not None
    assert (axes[0].min, axes[0].max) == (5, 16)
    assert words(2, batch=0) == [{0: "batch"}, {0: "batch"}]
    assert strict(1, 0, 2) == [{0: torch.export.Dim.DYNAMIC, 2: torch.export.Dim.DYNAMIC}]
