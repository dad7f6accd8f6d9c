"""Numbers worked out from sizes, repaired: as exact as Python's, at sizes where float32 is not."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from math import sqrt as root
from typing import Any

import onnx
import pytest
import torch
from tests.repair.exporting import DYNAMIC, difference, rand
from tests.repair.translating import check_translated, plain_fault, translated
from torch import nn

import guarddiff
from guarddiff.repair import numbers, registry

REPAIRS = numbers.REPAIRS
Function = Callable[..., Any]

WRONG: dict[str, tuple[Function, tuple[int, ...], list[tuple[int, ...]]]] = {
    # Of 100, float32 makes 29 and of 50 14: Python makes 28 and 14.
    "int of a product": (lambda x: x[:, : int(0.29 * x.shape[1])] * 2, (2, 14), [(2, 100), (3, 50), (1, 7), (2, 4)]),
    "int of a size": (lambda x: x * int(x.shape[1]), (2, 4), [(2, 8), (3, 1)]),
    "int of a negative": (lambda x: x * int(-0.5 * x.shape[1]), (2, 4), [(2, 7), (2, 1), (3, 8)]),
    "float": (lambda x: x * float(x.shape[1]), (2, 4), [(2, 8), (1, 1)]),
    "math.sqrt": (lambda x: x / math.sqrt(x.shape[1]), (2, 4), [(2, 8), (1, 1)]),
    "sqrt imported": (lambda x: x / root(x.shape[1]), (2, 4), [(2, 8), (3, 3)]),
    "math.isqrt": (lambda x: x[:, : math.isqrt(x.shape[1])] * 2, (2, 16), [(2, 15), (2, 24), (2, 25), (1, 1)]),
    "math.log": (lambda x: x * math.log(x.shape[1], 512), (2, 4), [(2, 9), (1, 1)]),
    "math.log of two": (lambda x: x * math.log(x.shape[1], x.shape[0]), (2, 4), [(3, 5), (5, 2)]),
    "math.log2": (lambda x: x * math.log2(x.shape[1]), (2, 4), [(2, 9), (1, 1)]),
    "math.exp": (lambda x: x * math.exp(-x.shape[1]), (2, 4), [(2, 9), (1, 1)]),
    "greatest": (lambda x: x * max(1, int(0.29 * x.shape[1])), (2, 14), [(2, 100), (2, 3)]),
    "least": (lambda x: x[:, : min(int(x.shape[1] * 0.7), 4)] * 2, (2, 4), [(2, 9), (2, 1), (2, 10)]),
    "greatest of floats": (lambda x: x * max(0.29 * x.shape[1], 3, x.shape[0]), (2, 14), [(2, 3), (9, 3), (2, 100)]),
    "by map": (lambda x: x.sum() * torch.ones(*map(int, (x.shape[0] * 1.5, x.shape[1] * 0.29))), (4, 14), [(7, 100)]),
    "topk": (lambda x: x.topk(int(0.5 * x.shape[1]), dim=1).values, (2, 4), [(2, 9), (3, 2)]),
    "as_tensor": (lambda x: x.sum() + torch.as_tensor(x.shape), (2, 4), [(3, 9), (1, 1)]),
    "as_tensor of floats": (
        lambda x: x.sum() + torch.as_tensor([[x.shape[0] / 3, 1], [x.shape[1], 0.5]]),
        (2, 4),
        [(3, 9), (1, 1)],
    ),
    "as_tensor in float64": (
        lambda x: torch.as_tensor([x.shape[1] / 3], dtype=torch.float64) * 1e6 % 1,
        (2, 4),
        [(3, 10), (1, 1)],
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_fault_and_cure(name: str) -> None:
    function, example, others = WRONG[name]
    assert plain_fault(function, (rand(*example),), (rand(*others[0]),))
    check_translated(function, (rand(*example),), [(rand(*shape),) for shape in others], REPAIRS)


EXACT: dict[str, Function] = {
    "sum": lambda n: int(n / 3 + 0.1) + int((n - 0.1) * 3.7),
    "of floats": lambda n: int((n / 7) * (n / 3)) - int(-(n / 3)) + int(abs(-n * 0.29)),
    "floor and ceil": lambda n: math.floor(n * 0.07) + math.ceil(n * 0.07) * 1000 + math.floor(-n / 3) * 100_000,
    "trunc": lambda n: math.trunc(n * 1.1) * 3 + round(n * 0.1),
    "root": lambda n: int(math.sqrt(n) * 1000),
    "power": lambda n: int(math.pow(n, 0.25) * 1000) + int(n**0.5 * 1000) + int(n**-1 * 5000) + n**2,
    "remainder": lambda n: int(n * 0.7 % 3 * 1000) + int((n * 0.7 % -3) * 1000) + n % 7 * 100_000,
    "greatest": lambda n: int(max(n * 0.29, 3) * 100),
    "least of a list": lambda n: int(min([n * 0.29, n - 3, 7]) * 100) + max(n, 2),
    "thirds": lambda n: int(n / 3 * 3) + int(n / 49 * 49),
    "halves": lambda n: round(n / 2) + round(n / 4) * 1000 + round(n) * 100_000,
    "to float": lambda n: int(float(n) * 0.29) + int(float(n / 2)),
    "large": lambda n: int((n * 16_777_216 + 1) / 1),
}


@pytest.mark.parametrize("name", EXACT)
def test_every_digit_is_pythons(name: str) -> None:
    compute = EXACT[name]

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.full((1,), compute(x.shape[0]))

    others = [(rand(n),) for n in (*range(1, 32), 49, 50, 98, 100, 103, 200, 300, 413)]
    check_translated(function, (rand(14),), others, REPAIRS)


def test_whole_numbers_are_written_as_torch_writes_them() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        n = x.shape[0]
        return torch.full((1,), ((n + 3) * n - 2) % 7 + n**2 + max(n, 4) + min(n, 9) - abs(3 - n))

    plain, repaired = (onnx.load_from_string(translated(function, (rand(5),), given)) for given in ((), REPAIRS))
    assert [node.op_type for node in repaired.graph.node] == [node.op_type for node in plain.graph.node]
    assert [list(node.input) for node in repaired.graph.node] == [list(node.input) for node in plain.graph.node]


USES: dict[str, Function] = {
    "float16": lambda x: x.half() * (x.shape[1] / 4),
    "float64": lambda x: x.double() * float(x.shape[1] / 3),
    "full": lambda x: x.sum() + torch.full((3,), x.shape[1] / 3),
    "where": lambda x: torch.where(x > 0, x, x.shape[1] / 3),
    "clamp": lambda x: x.clamp(max=x.shape[1] / 30),
    "masked_fill": lambda x: x.masked_fill(x > 0, math.sqrt(x.shape[1])),
    "tensor": lambda x: x.sum() + torch.tensor([x.shape[0] / 4, x.shape[1]]),
    "add": lambda x: torch.add(x, x, alpha=1) + float(x.shape[1]) / 3,
    "divide": lambda x: x / (x.shape[1] / 3) - float(x.shape[0]),
}


@pytest.mark.parametrize("name", USES)
def test_tensors_take_the_numbers(name: str) -> None:
    check_translated(USES[name], (rand(2, 4),), [(rand(2, 100),), (rand(3, 7),), (rand(1, 1),)], REPAIRS)


def test_float64_tensors_get_every_digit() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.scalar_tensor(x.shape[0] / 3, dtype=torch.float64) * 1e9 % 1

    assert "values differ" in plain_fault(function, (rand(4),), (rand(10),))
    check_translated(function, (rand(4),), [(rand(10),)], REPAIRS)


def test_rounding_to_digits_is_refused() -> None:
    with pytest.raises(Exception) as caught:
        translated(lambda x: x * round(x.shape[0] / 3, 2), (rand(4),), REPAIRS)
    assert "round() to digits" in str(caught.value.__cause__.__cause__.__cause__)


def test_a_loop_over_a_size_calls_for_nothing_here() -> None:
    (repair,) = REPAIRS
    assert "range() or index" not in repair.ops
    assert set(registry.translation_table(REPAIRS)) >= {math.floor, round, torch.sym_float, torch.sym_sqrt}


@pytest.mark.parametrize("data", [[1, 2.5], (1, 2), torch.Size((2, 3)), 3, [True], torch.ones(2)])
def test_as_tensor_without_open_sizes_is_torchs_own(data: Any) -> None:
    assert numbers.as_tensor(data) is NotImplemented


class Head(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, : int(0.29 * x.shape[1])] / math.sqrt(x.shape[1])


class Scaled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / math.sqrt(x.shape[1])


@pytest.mark.parametrize(
    ("model", "sizes"),
    [(Head(), {0: DYNAMIC, 1: DYNAMIC}), (Head(), {0: "batch", 1: "length"}), (Scaled(), {0: "batch", 1: "length"})],
)
def test_the_public_calls(model: nn.Module, sizes: dict[int, Any]) -> None:
    """What torch.onnx.export refuses, or fixes at the example, by all repairs there are."""
    with warnings.catch_warnings(), guarddiff.repairs(model=model):
        warnings.simplefilter("ignore")
        table = guarddiff.translation_table()
        program = torch.onnx.export(
            model, (rand(2, 14),), dynamic_shapes=(sizes,), custom_translation_table=table, verbose=False
        )
    for shape in ((2, 14), (3, 100), (1, 7)):
        x = rand(*shape)
        assert difference(program.model_proto.SerializeToString(), model, (x,)) is None


def test_strict_capture_needs_no_stand_ins() -> None:
    sizes = {0: DYNAMIC, 1: DYNAMIC}
    with guarddiff.repairs():
        captured = torch.export.export(Head(), (rand(2, 14),), dynamic_shapes=(sizes,), strict=True)
    program = torch.onnx.export(captured, custom_translation_table=guarddiff.translation_table(), verbose=False)
    assert difference(program.model_proto.SerializeToString(), Head(), (rand(3, 100),)) is None
