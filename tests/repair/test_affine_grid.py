"""affine_grid for a shape with open sizes, repaired."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.repair.exporting import (
    AUTO,
    DYNAMIC,
    SAMPLED,
    as_if_open,
    check_repaired,
    plain_is_wrong,
    rand,
    same_tensors,
)

from guarddiff.repair import affine_grid

pytestmark = pytest.mark.filterwarnings("ignore:Since version 1.3.0", "ignore:Default grid_sample and affine_grid")
ARGS = (rand(2, 3, 8, 10), rand(2, 2, 3))
OTHERS = [(rand(2, 3, 12, 10), rand(2, 2, 3)), (rand(3, 3, 5, 7), rand(3, 2, 3))]
OPEN = ({0: AUTO, 2: AUTO, 3: AUTO}, {0: AUTO})


def transformed(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.grid_sample(x, F.affine_grid(y, x.size(), align_corners=False), align_corners=False)


def test_fault_and_cure() -> None:
    assert "ONNX Runtime raised" in plain_is_wrong(transformed, ARGS, OTHERS[0], OPEN)
    check_repaired(transformed, ARGS, OTHERS, affine_grid.REPAIRS, OPEN, single=SAMPLED)


@pytest.mark.parametrize(
    ("shapes", "strict"),
    [(({2: DYNAMIC, 3: DYNAMIC}, {}), False), (OPEN, True), (({2: "h", 3: "w"}, {}), False)],
)
def test_declared_and_captured_in_any_way(shapes: Any, strict: bool) -> None:
    check_repaired(transformed, ARGS, OTHERS[:1], affine_grid.REPAIRS, shapes, strict, SAMPLED)


def test_corners_one_place_and_a_list_of_sizes() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.affine_grid(y, [x.shape[0], 1, x.shape[2], 2 * x.shape[3]], align_corners=True)

    others = [(rand(2, 3, 5, 1), rand(2, 2, 3)), (rand(1, 3, 1, 4), rand(1, 2, 3))]
    plain_is_wrong(function, ARGS, others[0], OPEN)
    check_repaired(function, ARGS, others, affine_grid.REPAIRS, OPEN)


def test_volumes() -> None:
    args, other = (rand(2, 3, 4, 8, 10), rand(2, 3, 4)), (rand(3, 3, 7, 2, 9), rand(3, 3, 4))
    shapes = ({0: AUTO, 2: AUTO, 3: AUTO, 4: AUTO}, {0: AUTO})
    check_repaired(lambda x, y: F.affine_grid(y, x.shape), args, [other], affine_grid.REPAIRS, shapes)


@pytest.mark.parametrize("align", [None, False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_to_eager(align: bool | None, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    assert affine_grid.affine_grid(ARGS[1], ARGS[0].shape) is NotImplemented
    as_if_open(monkeypatch, affine_grid, "any_symbolic")
    for h in (1, 2, 3, 8, 33):
        for w in (1, 2, 5):
            flat, solid = rand(2, 2, 3, dtype=dtype), rand(3, 3, 4, dtype=dtype)
            same_tensors(affine_grid.affine_grid(flat, (2, 1, h, w), align), F.affine_grid(flat, (2, 1, h, w), align))
            size = (3, 2, w, h, 4)
            same_tensors(affine_grid.affine_grid(solid, size, align_corners=align), F.affine_grid(solid, size, align))


@pytest.mark.parametrize(
    ("theta", "size"), [((2, 2, 4), (2, 1, 3, 3)), ((2, 3), (2, 1, 3, 3)), ((2, 2, 3), (2, 1, 3))], ids=str
)
def test_what_eager_refuses_is_left_to_it(theta: Any, size: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    as_if_open(monkeypatch, affine_grid, "any_symbolic")
    with pytest.raises((ValueError, NotImplementedError)):
        F.affine_grid(rand(*theta), size)
    assert affine_grid.affine_grid(rand(*theta), size) is NotImplemented
