"""The catalogue: eager PyTorch runs every entry at all its sizes, and every size that varies is declared."""

from __future__ import annotations

import pytest
import torch
from tests.sweep.catalogue.checks import declares_what_varies, entries_of, named_apart, runs_alike
from torch import nn

from guarddiff.sweep.catalogue import SHELVES, every
from guarddiff.sweep.catalogue.dims import bounded, named, strict, words
from guarddiff.sweep.catalogue.entry import Entry, module, one


@pytest.mark.parametrize("shelf", SHELVES)
@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.filterwarnings("ignore:torch.chain_matmul is deprecated")
@torch.no_grad()
def test_eager_accepts_all_sizes_and_gives_the_same_again(shelf: str) -> None:
    for entry in entries_of(shelf):
        runs_alike(entry)


@pytest.mark.parametrize("shelf", SHELVES)
def test_every_entry_declares_what_its_sizes_need(shelf: str) -> None:
    for entry in entries_of(shelf):
        declares_what_varies(entry)


def test_names() -> None:
    entries = list(every().values())
    named_apart(entries)
    assert len(entries) >= 300


def test_some_declare_names_bounds_and_words() -> None:
    given = [entry.dynamic for entry in every().values() if entry.dynamic is not None]
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


class Noise(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.rand(())


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight


ROWS = ((2, 3), (4, 3), (5, 3))


@pytest.mark.parametrize(
    ("entry", "error"),
    [
        (module("f", "random", Noise, *ROWS), AssertionError),
        (one("f", "not a number", lambda x: x.log(), *ROWS), AssertionError),
        (one("f", "empty", lambda x: x[:, 3:], *ROWS), AssertionError),
        (one("f", "large", lambda x: x.exp() * 1e5, *ROWS), AssertionError),
        (one("f", "a number", lambda x: x.shape[0], *ROWS), AssertionError),
        (module("f", "refused", Counting, (2, 3), (2, 4), (2, 5)), RuntimeError),
    ],
    ids=lambda value: value.name if isinstance(value, Entry) else "",
)
def test_the_check_of_runs_can_fail(entry: Entry, error: type[Exception]) -> None:
    with pytest.raises(error):
        runs_alike(entry)


def test_the_check_of_runs_passes_what_is_fine() -> None:
    runs_alike(module("f", "weights made by seed", Counting, *ROWS))


@pytest.mark.parametrize(
    "entry",
    [
        one("f", "nothing varies", torch.relu, (2, 3), (2, 3), (2, 3)),
        one("f", "no other", torch.relu, (2, 3), dynamic=[{0: torch.export.Dim.AUTO}]),
        one("f", "not declared", torch.relu, (2, 3), (4, 5), (3, 3), dynamic=[{0: torch.export.Dim.AUTO}]),
    ],
    ids=lambda entry: entry.name,
)
def test_the_check_of_declarations_can_fail(entry: Entry) -> None:
    with pytest.raises(AssertionError):
        declares_what_varies(entry)


@pytest.mark.parametrize("names", [("twice", "Twice"), ("a/b",), ("under_score",)])
def test_the_check_of_names_can_fail(names: tuple[str, ...]) -> None:
    with pytest.raises(AssertionError):
        named_apart([one("f", name, torch.relu, *ROWS) for name in names])
