"""Splits of a dimension whose size is open, repaired; and what has no repair."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.repair.exporting import (
    DYNAMIC,
    as_if_open,
    check_repaired,
    every,
    exported,
    plain_is_wrong,
    rand,
    same_tensors,
)

import guarddiff
from guarddiff.repair import capture, registry, split

ROWS = (rand(6, 4),)


def rows(*sizes: int) -> list[tuple[torch.Tensor]]:
    return [(rand(size, 4),) for size in sizes]


def thirds(x: torch.Tensor) -> Any:
    return [part + 1 for part in torch.tensor_split(x, 3)]


def quarters(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([part.mean(0) for part in x.chunk(4)])


def halves(x: torch.Tensor) -> torch.Tensor:
    first, second = x.split(x.shape[0] // 2)
    return first * second


def test_tensor_split() -> None:
    assert "in place of" in plain_is_wrong(thirds, ROWS, rows(7)[0])
    check_repaired(thirds, ROWS, rows(2, 7, 8, 11, 1), split.REPAIRS)
    check_repaired(thirds, rows(7)[0], rows(6, 8, 3), split.REPAIRS, every(*ROWS, size=DYNAMIC))
    check_repaired(lambda x: x.tensor_split(sections=2, dim=-2), ROWS, rows(5, 1), split.REPAIRS, strict=True)


@pytest.mark.parametrize("strict", [False, True])
def test_chunk(strict: bool) -> None:
    args = rows(8)[0]
    assert plain_is_wrong(quarters, args, rows(12)[0]).startswith("refused")
    check_repaired(quarters, args, rows(4, 7, 11, 12, 23), split.REPAIRS, strict=strict)


def test_split_at_a_computed_length() -> None:
    assert plain_is_wrong(halves, ROWS, rows(8)[0]).startswith("refused")
    check_repaired(halves, ROWS, rows(2, 8, 12), split.REPAIRS)
    check_repaired(lambda x: torch.split(x, (x.shape[0] + 1) // 2, dim=0), ROWS, rows(2, 3, 5, 8), split.REPAIRS)


def test_sizes_that_make_fewer_chunks_stay_reported() -> None:
    model = torch.nn.Module()
    model.forward = lambda x: [part + 1 for part in x.chunk(3)]  # type: ignore[method-assign]
    with capture.repairs(split.REPAIRS):
        report = guarddiff.check(model, ROWS, dynamic_shapes=({0: "n"},), on_finding="ignore", verbose=False)
    (finding,) = report.findings
    assert (finding.verdict, finding.stage, finding.op) == ("confirmed", "capture", "chunk")
    assert [finding.admits({"x": (size, 4)}) for size in (3, 4, 5, 6, 7, 100)] == [True, False, True, True, True, True]


def test_equal_to_eager_at_many_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    as_if_open(monkeypatch, split)
    declined = 0
    for size in range(18):
        x = rand(size, 2)
        for count in range(1, 7):
            same_tensors(split.tensor_split(x, count), torch.tensor_split(x, count))
            same_tensors(split.tensor_split(x.T, sections=count, dim=1), x.T.tensor_split(sections=count, dim=1))
            made = split.chunk(x, count)
            declined += made is NotImplemented
            assert (made is NotImplemented) == (size == 0 or len(x.chunk(count)) < count)
            if made is not NotImplemented:
                same_tensors(made, x.chunk(count))
            if size:
                same_tensors(split.split(x, count, 0), x.split(count, 0))
                same_tensors(split.split(x.T, split_size=count, dim=-1), torch.split(x.T, count, -1))
    assert 0 < declined < 60


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.tensor_split(x, (2, 4)),
        lambda x: torch.tensor_split(x, indices=[1]),
        lambda x: torch.tensor_split(x, torch.tensor(2)),
        lambda x: x.split(3, dim=1),
        lambda x: x.split([1, x.shape[0] - 1]),
        lambda x: x.chunk(2, 1),
    ],
)
def test_what_is_left_to_torch(function: Callable[..., Any]) -> None:
    x = rand(6, 4)
    with capture.repairs(split.REPAIRS):
        same_tensors(function(x), function(x))
    seen = []
    spies = {original: _spy(mine, seen) for original, mine in registry.functions(split.REPAIRS).items()}
    with capture.repairs([registry.Repair("spy", (), "", functions=spies)]):
        torch.export.export(_Model(function), (x,), dynamic_shapes=({0: DYNAMIC},))
    assert seen
    assert all(result is NotImplemented for result in seen)


def _spy(function: Callable[..., Any], seen: list[Any]) -> Callable[..., Any]:
    def spy(*args: Any, **kwargs: Any) -> Any:
        seen.append(function(*args, **kwargs))
        return seen[-1]

    return spy


class _Model(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda x: [row * 2 for row in x], "a Python loop over a size is written out"),
        (lambda x: [part + 1 for part in x.split(2)], "the number of pieces depends on the size"),
    ],
)
def test_no_repair_where_the_size_is_the_number_of_pieces(function: Callable[..., Any], why: str) -> None:
    report = guarddiff.check(
        _Model(function), ROWS, dynamic_shapes=({0: torch.export.Dim.AUTO},), on_finding="ignore", verbose=False
    )
    (finding,) = report.findings
    assert finding.verdict == "confirmed"
    assert not [repair for repair in split.REPAIRS if repair.applies(finding)]
    assert registry.refusal_of(finding).why.startswith(why)
    assert finding.repair is not None
    assert finding.repair.startswith(why)
    assert exported(function, ROWS, None, split.REPAIRS) == exported(function, ROWS)
