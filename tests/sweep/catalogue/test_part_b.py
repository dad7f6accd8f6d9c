"""Attention, recurrent nets, products, masks, indexing, splitting, spectra, norms, sequences: eager runs each entry."""

from __future__ import annotations

import pytest
import torch
from tests.sweep.catalogue.checks import declares_what_varies, entries_of, named_apart, runs_alike
from torch import nn

from guarddiff.sweep.catalogue import SHELVES
from guarddiff.sweep.catalogue.entry import Entry, module, one

MINE = (
    "attention",
    "queries",
    "relations",
    "recurrent",
    "einsum",
    "masks",
    "indexing",
    "scattering",
    "splitting",
    "spectral",
    "normalizing",
    "sequences",
    "tokens",
    "views",
)


@pytest.mark.parametrize("shelf", MINE)
@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.filterwarnings("ignore:torch.chain_matmul is deprecated")
@torch.no_grad()
def test_eager_accepts_all_sizes_and_gives_the_same_again(shelf: str) -> None:
    for entry in entries_of(shelf):
        runs_alike(entry)


@pytest.mark.parametrize("shelf", MINE)
def test_every_entry_declares_what_its_sizes_need(shelf: str) -> None:
    for entry in entries_of(shelf):
        declares_what_varies(entry)


def test_names() -> None:
    entries = [entry for shelf in MINE for entry in entries_of(shelf)]
    named_apart(entries)
    assert len(entries) >= 170


def test_shelves_are_swept() -> None:
    assert [shelf for shelf in SHELVES if shelf in MINE] == list(MINE)


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
