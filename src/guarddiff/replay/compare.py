"""Compare what eager PyTorch gives with what ONNX Runtime gives."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from guarddiff.core.finding import DifferenceKind

Array = np.ndarray[Any, Any]

TOLERANCES = {
    "float16": 2e-2,
    "bfloat16": 6e-2,
    "float32": 1e-3,
    "float64": 1e-5,
    "complex64": 1e-3,
    "complex128": 1e-5,
}
"""Relative tolerance by eager's dtype; the absolute one is a tenth of it times the reference's root mean square
(1 at least): reductions and convolutions of another library sum in another order."""

_FEW = 1e-3
"""Share of whole-number elements that may differ by one in large outputs: rounding at the last digit."""


@dataclass(frozen=True)
class Result:
    """One output: its array (complex as real pairs, bfloat16 as float32) and the dtype it really has."""

    array: Array
    dtype: str
    is_tensor: bool = True


@dataclass(frozen=True)
class Difference:
    """``expected`` and ``got`` say in words what eager and ONNX Runtime gave; they hold no tensor values."""

    kind: DifferenceKind
    expected: str
    got: str


def results(leaves: Sequence[Any]) -> list[Result]:
    """The tensors and numbers among the leaves of an eager result."""
    found = []
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            tensor = leaf.detach().cpu().resolve_conj().resolve_neg()
            dtype = str(tensor.dtype).removeprefix("torch.")
            tensor = torch.view_as_real(tensor) if tensor.is_complex() else tensor
            array = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
            found.append(Result(array, dtype))
        elif isinstance(leaf, (bool, int, float)):
            found.append(Result(np.asarray(leaf), type(leaf).__name__, is_tensor=False))
    return found


def align(expected: list[Result], count: int) -> list[Result]:
    """The eager results that the ONNX outputs stand for: numbers that do not depend on sizes are no ONNX outputs."""
    tensors = [result for result in expected if result.is_tensor]
    return tensors if len(tensors) == count else expected


def difference(
    expected: list[Result], got: Sequence[Any], dtypes_differ: Container[int] = frozenset()
) -> Difference | None:
    """The first difference that matters; None where everything agrees.

    ``dtypes_differ`` are outputs whose dtype differs at the example's own sizes already.
    """
    if len(expected) != len(got):
        return Difference("shape", f"{len(expected)} outputs", f"{len(got)} outputs")
    wrong = other_dtypes(expected, got)
    for index, (reference, raw) in enumerate(zip(expected, got)):
        array = plain(raw)
        if reference.array.shape != array.shape:
            return Difference("shape", f"output {index}: {_shape(reference.array)}", f"output {index}: {_shape(array)}")
        place = f"output {index}: shape {_shape(reference.array)}"
        if index in wrong and index not in dtypes_differ:
            return Difference("values", f"{place}, dtype {reference.dtype}", f"{place}, dtype {wrong[index]}")
        text = unequal(reference, array)
        if text is not None:
            return Difference("values", f"{place}, dtype {reference.dtype}", f"{place}, {text}")
    return None


def other_dtypes(expected: list[Result], got: Sequence[Any]) -> dict[int, str]:
    """Index of each tensor output whose dtype is not eager's → the dtype it has."""
    same = {"complex64": "float32", "complex128": "float64"}
    found = {}
    for index, (result, array) in enumerate(zip(expected, got)):
        dtype = str(np.asarray(array).dtype)
        if result.is_tensor and dtype not in (result.dtype, same.get(result.dtype)):
            found[index] = dtype
    return found


def unequal(reference: Result, array: Array) -> str | None:
    """How the values differ, in words; None when they are equal within the tolerance. NaN equals NaN."""
    want, have = reference.array, array
    if want.size == 0:
        return None
    if want.dtype.kind not in "fc" and have.dtype.kind not in "fc":
        wrong = int(np.count_nonzero(want != have))
        few = want.size > 1000 and wrong <= _FEW * want.size and _off_by_one(want, have)
        return None if wrong == 0 or few else f"{wrong:,} of {want.size:,} elements differ"
    if want.dtype == have.dtype and np.array_equal(want, have, equal_nan=True):
        return None
    want, have = want.astype(np.float64), have.astype(np.float64)
    relative = TOLERANCES.get(reference.dtype, 1e-3)
    finite = want[np.isfinite(want)]
    scale = max(1.0, float(np.sqrt(np.mean(finite**2)))) if finite.size else 1.0
    close = np.isclose(have, want, rtol=relative, atol=relative / 10 * scale, equal_nan=True)
    if close.all():
        return None
    with np.errstate(invalid="ignore"):
        gap = np.abs(have - want)
    largest = float(np.nanmax(gap)) if np.isfinite(gap).any() else float("inf")
    wrong = int(close.size - np.count_nonzero(close))
    return f"{wrong:,} of {close.size:,} elements differ, by up to {largest:.3g}"


def _off_by_one(want: Array, have: Array) -> bool:
    """Whether whole numbers differ by one at most, as rounding at the last digit makes them; never true of bools."""
    if want.dtype.kind == "b" or have.dtype.kind == "b":
        return False
    return bool((np.abs(want.astype(np.int64) - have.astype(np.int64)) <= 1).all())


def plain(array: Any) -> Array:
    """The array with half precision as float32."""
    found = np.asarray(array)
    return found.astype(np.float32) if found.dtype.name in ("bfloat16", "float16") else found


def _shape(array: Array) -> str:
    return str(tuple(array.shape))
