"""squeeze(dim) of a dynamic dimension, repaired as far as it can be."""

from __future__ import annotations

import torch
from tests.repair.exporting import AUTO, difference, rand
from tests.repair.translating import check_translated, plain_fault, translated

from guarddiff.core.finding import Finding
from guarddiff.core.origin import Origin
from guarddiff.repair import squeeze

REPAIRS = squeeze.REPAIRS
EXAMPLE, SHAPES = (rand(3, 1, 4),), ({1: AUTO},)
OTHERS = [(rand(3, n, 4),) for n in (2, 3, 7)]


def elementwise(x: torch.Tensor) -> torch.Tensor:
    return torch.relu((x * 2).squeeze(1) + 1)


def test_fault_and_cure_where_either_rank_will_do() -> None:
    assert "Dimension of input 1 must be 1 instead of 2" in plain_fault(elementwise, EXAMPLE, OTHERS[0], SHAPES)
    check_translated(elementwise, EXAMPLE, OTHERS, REPAIRS, SHAPES)


def test_example_of_another_size() -> None:
    assert "Dimension of input 1 must be 1 instead of 2" in plain_fault(elementwise, OTHERS[1], OTHERS[0], SHAPES)
    check_translated(elementwise, OTHERS[1], [*OTHERS, EXAMPLE], REPAIRS, SHAPES)


def test_where_the_rank_matters_sizes_from_two_are_right() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return (x * 2).squeeze(1).transpose(0, -1)

    file = translated(function, OTHERS[0], REPAIRS, SHAPES)
    for inputs in OTHERS:
        assert difference(file, function, inputs) is None
    assert difference(file, function, EXAMPLE) is not None


def test_negative_and_static_dimensions() -> None:
    others = [(rand(2, 3, 5),), (rand(1, 3, 1),), (rand(4, 3, 1),)]
    check_translated(lambda x: x.squeeze(-1) * 2, (rand(2, 3, 1),), others, REPAIRS, ({0: AUTO, 2: AUTO},))
    check_translated(
        lambda x: (x * 2).squeeze(1).squeeze(0), (rand(3, 1, 4),), [(rand(3, 1, 9),)], REPAIRS, ({2: AUTO},)
    )


def test_refusal_names_the_way_out() -> None:
    (refusal,) = squeeze.REFUSALS
    assert refusal.applies(Finding((), "translate", "aten.squeeze.dim", Origin()))
    assert "from 2 up" in refusal.way_out
    assert not refusal.applies(Finding((), "translate", "aten.unsqueeze.default", Origin()))
