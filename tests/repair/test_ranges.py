"""Evenly spaced values, windows and indices of triangles by a size, repaired."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.repair.exporting import AUTO, DYNAMIC, as_if_open, check_repaired, every, plain_is_wrong, rand, same_tensors
from torch.signal import windows

from guarddiff.repair import ranges

ARGS = (rand(3, 4),)
OTHERS = [(rand(2, size),) for size in (9, 2, 1, 3, 16)]
SQUARE, SQUARES = (rand(4, 4),), [(rand(size, size),) for size in (2, 1, 9, 40)]


def coordinates(x: torch.Tensor) -> torch.Tensor:
    return x + torch.linspace(-1, 1, x.shape[1])


def tapered(x: torch.Tensor) -> torch.Tensor:
    return x * torch.hann_window(x.shape[1], periodic=False)


def lower(x: torch.Tensor) -> torch.Tensor:
    rows, columns = torch.tril_indices(x.shape[1], x.shape[1])
    return x[rows, columns]


@pytest.mark.parametrize(
    ("function", "args", "others"), [(coordinates, ARGS, OTHERS), (tapered, ARGS, OTHERS), (lower, SQUARE, SQUARES)]
)
def test_fault_and_cure(function: Callable[..., Any], args: Any, others: Any) -> None:
    plain_is_wrong(function, args, others[0])
    check_repaired(function, args, others, ranges.REPAIRS)


@pytest.mark.parametrize(("size", "strict"), [(DYNAMIC, False), (AUTO, True)])
def test_declared_and_captured_in_any_way(size: Any, strict: bool) -> None:
    check_repaired(
        lambda x: (coordinates(x), tapered(x)), ARGS, OTHERS, ranges.REPAIRS, every(*ARGS, size=size), strict
    )
    check_repaired(lower, SQUARE, SQUARES, ranges.REPAIRS, ({0: "n", 1: "n"},))


def numbers(x: torch.Tensor) -> Any:
    size = x.shape[1]
    return (
        torch.linspace(0.5, size - 0.5, size),
        torch.linspace(0, size - 1, 5, dtype=torch.float64),
        torch.linspace(start=-3, end=10, steps=size),
        torch.linspace(x[0, 0], x[1, 0], steps=size),
        torch.logspace(-1, 1, size, base=2),
    )


def window_functions(x: torch.Tensor) -> Any:
    size = x.shape[1]
    return (
        torch.hann_window(window_length=size, dtype=torch.float64),
        torch.hamming_window(size),
        torch.hamming_window(size, False, 0.6, beta=0.3),
        torch.blackman_window(size, False),
        torch.bartlett_window(size),
        torch.bartlett_window(size - 1, periodic=False),
    )


def triangles(x: torch.Tensor) -> Any:
    size = x.shape[0]
    return (
        torch.tril_indices(size, size, offset=-1, dtype=torch.int32),
        torch.triu_indices(size, size),
        torch.triu_indices(row=size, col=size, offset=1),
    )


@pytest.mark.parametrize("function", [numbers, window_functions])
def test_every_function_in_onnx(function: Callable[..., Any]) -> None:
    check_repaired(function, ARGS, OTHERS, ranges.REPAIRS)


def test_every_triangle_in_onnx() -> None:
    plain_is_wrong(triangles, SQUARE, SQUARES[0])
    check_repaired(triangles, SQUARE, SQUARES, ranges.REPAIRS)


def test_windows_of_torch_signal_are_made_of_linspace() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x * windows.hann(x.shape[1]) + windows.blackman(x.shape[1], sym=False)

    plain_is_wrong(function, ARGS, OTHERS[0])
    check_repaired(function, ARGS, [(rand(2, size),) for size in (9, 2, 16)], ranges.REPAIRS)


# --- equal to eager -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [None, torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_linspace(dtype: torch.dtype | None, monkeypatch: pytest.MonkeyPatch) -> None:
    as_if_open(monkeypatch, ranges, "any_symbolic")
    for steps in (0, 1, 2, 3, 4, 5, 8, 33, 100):
        for start, end in ((-1, 1), (0, 10), (3.5, -2.25), (1, 1), (0.1, 0.7), (-7, 20)):
            mine, eager = (
                ranges.linspace(start, end, steps, dtype=dtype),
                torch.linspace(start, end, steps, dtype=dtype),
            )
            same_tensors(mine, eager)
            tensors = torch.tensor(float(start)), torch.tensor(float(end))
            mine = ranges.linspace(*tensors, steps=steps, dtype=dtype)
            same_tensors(mine, torch.linspace(*tensors, steps=steps, dtype=dtype))


@pytest.mark.parametrize("base", [10.0, 2, 0.5])
def test_logspace(base: float, monkeypatch: pytest.MonkeyPatch) -> None:
    as_if_open(monkeypatch, ranges, "any_symbolic")
    for steps in (0, 1, 2, 7, 30):
        for dtype in (None, torch.float64):
            same_tensors(
                ranges.logspace(-2, 1, steps, base, dtype=dtype), torch.logspace(-2, 1, steps, base, dtype=dtype)
            )
    assert ranges.logspace(0, 2, 3, dtype=torch.int64) is NotImplemented


@pytest.mark.parametrize("name", ["hann_window", "hamming_window", "blackman_window", "bartlett_window"])
@pytest.mark.parametrize("periodic", [True, False])
def test_windows(name: str, periodic: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    as_if_open(monkeypatch, ranges)
    eager = getattr(torch, name)
    mine = registered(eager)
    for length in (0, 1, 2, 3, 4, 5, 8, 33, 100):
        same_tensors(mine(length), eager(length))
        for dtype in (torch.float32, torch.float64):
            same_tensors(mine(length, periodic, dtype=dtype), eager(length, periodic, dtype=dtype))
        half, exact = (mine(length, periodic, dtype=dtype) for dtype in (torch.float16, torch.float64))
        same_tensors(half, exact.half())  # eager's own is a few units off: it computes in float16
    if name == "hamming_window":
        same_tensors(mine(9, periodic, 0.6, 0.3), eager(9, periodic, 0.6, 0.3))
        same_tensors(mine(9, periodic, alpha=0.6), eager(9, periodic, alpha=0.6))


def registered(original: Callable[..., Any]) -> Callable[..., Any]:
    (found,) = [repair.functions[original] for repair in ranges.REPAIRS if original in repair.functions]
    return found


@pytest.mark.parametrize("dtype", [None, torch.int32])
def test_triangles(dtype: torch.dtype | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "symbolic", lambda size: size > 1)  # sizes, not offsets
    more = {} if dtype is None else {"dtype": dtype}
    for size in (2, 3, 4, 5, 8, 31, 64, 200):
        for offset in (0, 1):
            below, above = -offset, offset
            same_tensors(ranges.tril_indices(size, size, below, **more), torch.tril_indices(size, size, below, **more))
            same_tensors(ranges.triu_indices(size, size, above, **more), torch.triu_indices(size, size, above, **more))
    assert ranges.tril_indices(4, 4, 1) is NotImplemented
    assert ranges.tril_indices(4, 4, -2) is NotImplemented
    assert ranges.triu_indices(4, 5) is NotImplemented


@pytest.mark.parametrize("function", [torch.linspace, torch.hann_window, torch.tril_indices])
def test_known_sizes_and_rare_options_are_left_to_torch(
    function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    args = {torch.linspace: (0, 1, 3), torch.hann_window: (3,), torch.tril_indices: (3, 3)}[function]
    assert registered(function)(*args) is NotImplemented
    as_if_open(monkeypatch, ranges, "symbolic", "any_symbolic")
    assert registered(function)(*args, requires_grad=True) is NotImplemented
    assert registered(function)(*args, out=torch.empty(3)) is NotImplemented
    assert ranges.linspace(0, 1j, 3) is NotImplemented
    assert ranges.linspace(0, 1, 3, dtype=torch.complex64) is NotImplemented
    assert ranges.linspace(0, 9, 3, dtype=torch.int64) is NotImplemented
