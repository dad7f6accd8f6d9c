"""one_hot with a number of classes that is a size, repaired."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.repair.exporting import AUTO, DYNAMIC, as_if_open, check_repaired, plain_is_wrong, rand, same_tensors

from guarddiff.repair import one_hot


def labels(count: int, classes: int) -> torch.Tensor:
    return torch.arange(count) * 7 % classes


def assigned(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.one_hot(y, x.shape[0]).to(x.dtype) @ x


ARGS = (rand(6, 3), labels(10, 6))
OTHERS = [(rand(9, 3), labels(10, 9)), (rand(2, 3), labels(21, 2)), (rand(5, 3), labels(3, 5))]


def test_fault_and_cure() -> None:
    open_rows = ({0: AUTO}, {0: AUTO})
    assert "ONNX Runtime raised" in plain_is_wrong(assigned, ARGS, OTHERS[0], open_rows)
    check_repaired(assigned, ARGS, OTHERS, one_hot.REPAIRS, open_rows)


@pytest.mark.parametrize(
    ("shapes", "strict"),
    [(({0: DYNAMIC}, {0: DYNAMIC}), False), (({0: AUTO}, {0: AUTO}), True), (({0: "k"}, {}), False)],
)
def test_declared_and_captured_in_any_way(shapes: Any, strict: bool) -> None:
    check_repaired(assigned, ARGS, OTHERS[:1], one_hot.REPAIRS, shapes, strict)


def test_twice_the_size_and_more_axes() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.one_hot(input=y.reshape(2, -1), num_classes=2 * x.shape[0])

    check_repaired(function, ARGS, [(rand(7, 3), labels(12, 14))], one_hot.REPAIRS)


def test_equal_to_eager(monkeypatch: pytest.MonkeyPatch) -> None:
    assert one_hot.one_hot(labels(3, 2), 2) is NotImplemented
    assert one_hot.one_hot(labels(3, 2)) is NotImplemented
    as_if_open(monkeypatch, one_hot)
    for classes in (1, 2, 7):
        for given in (labels(5, classes), labels(6, classes).reshape(2, 1, 3), torch.tensor(0), labels(0, 1)):
            same_tensors(one_hot.one_hot(given, classes), F.one_hot(given, classes))
    assert one_hot.one_hot(labels(3, 2).int(), 2) is NotImplemented  # which eager refuses
