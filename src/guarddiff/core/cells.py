"""Numbers at many points at once: what guard text computes with.

A cell holds one value and one validity per point.  Integers are int64 and floor like Python's; a result that
leaves the safe range, divides by zero or is not a number makes its point invalid instead of wrong.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_LIMIT = 2**62  # integers beyond this are not trusted
_EXACT = 2**53  # integers up to this are exact as floats

_Array = NDArray[Any]


class Cell(NamedTuple):
    """A value at every point: bool, int64 or float64; ``bound`` limits the magnitude of integers."""

    value: _Array
    valid: _Array
    bound: int = 1


YES: _Array = np.asarray(True)
COMPARE: dict[type[ast.cmpop], Any] = {
    ast.Eq: np.equal, ast.NotEq: np.not_equal, ast.Lt: np.less,
    ast.LtE: np.less_equal, ast.Gt: np.greater, ast.GtE: np.greater_equal,
}  # fmt: skip


def as_integer(cell: Cell) -> Cell:
    return Cell(cell.value.astype(np.int64), cell.valid, 1) if cell.value.dtype.kind == "b" else cell


def _float(cell: Cell) -> Cell:
    return cell if cell.value.dtype.kind == "f" else Cell(cell.value.astype(np.float64), cell.valid)


def _is_float(*cells: Cell) -> bool:
    return any(cell.value.dtype.kind == "f" for cell in cells)


def _kept(value: _Array, valid: _Array, ok: _Array, bound: int) -> Cell:
    """The value where ok, else 0 and invalid."""
    if np.all(ok):
        return Cell(value, valid, bound)
    return Cell(np.where(ok, value, value.dtype.type(0)), valid & ok, bound)


def _integers(value: _Array, valid: _Array, bound: int, shadow: Callable[[], _Array]) -> Cell:
    """An integer result; where it might leave the safe range, ``shadow`` is its magnitude as a float."""
    if bound <= _LIMIT:
        return Cell(value, valid, bound)
    return _kept(value, valid, np.abs(shadow()) <= _LIMIT, _LIMIT)


def _floats(value: _Array, *operands: Cell) -> Cell:
    """A float result: invalid where it is not a number, or infinite although no operand is."""
    valid = reduce(np.logical_and, (cell.valid for cell in operands))
    ok = np.isfinite(value)
    if not np.all(ok):
        from_infinite = reduce(np.logical_or, (np.isinf(_float(cell).value) for cell in operands))
        ok = ok | (np.isinf(value) & from_infinite)
    return _kept(value, valid, ok, 1)


def _linear(operation: Any) -> Callable[[Cell, Cell], Cell]:
    def run(a: Cell, b: Cell) -> Cell:
        if _is_float(a, b):
            return _floats(operation(_float(a).value, _float(b).value), a, b)
        a, b = as_integer(a), as_integer(b)
        bound = a.bound * b.bound if operation is np.multiply else a.bound + b.bound
        shadow = lambda: operation(_float(a).value, _float(b).value)  # noqa: E731
        return _integers(operation(a.value, b.value), a.valid & b.valid, bound, shadow)

    return run


def _quotient(operation: Any) -> Callable[[Cell, Cell], Cell]:
    """Division of any kind: a zero divisor is invalid."""

    def run(a: Cell, b: Cell) -> Cell:
        nonzero = b.value != 0
        b = b._replace(valid=b.valid & nonzero)
        if operation is np.true_divide or _is_float(a, b):
            whole = [cell for cell in (a, b) if not _is_float(cell)]
            done = _floats(operation(_float(a).value, _float(b).value), a, b)
            if operation is not np.true_divide or all(cell.bound <= _EXACT for cell in whole):
                return done
            exact = reduce(np.logical_and, (np.abs(_float(cell).value) <= _EXACT for cell in whole))
            return _kept(done.value, done.valid, exact, 1)
        a, b = as_integer(a), as_integer(b)
        bound = a.bound if operation is np.floor_divide else b.bound
        return Cell(operation(a.value, b.value), a.valid & b.valid, bound)

    return run


def _power(a: Cell, b: Cell) -> Cell:
    if _is_float(a, b):
        return elementwise(lambda x, y: x**y)(a, b)
    a, b = as_integer(a), as_integer(b)
    exponent = np.maximum(b.value, 0)
    valid = a.valid & b.valid & (b.value >= 0)
    small = b.bound * max(a.bound, 2).bit_length() <= 62
    bound = int(max(a.bound, 2) ** b.bound) if small else _LIMIT + 1
    shadow = lambda: np.power(_float(a).value, exponent.astype(np.float64))  # noqa: E731
    return _integers(np.power(a.value, exponent), valid, bound, shadow)


def elementwise(function: Callable[..., Any]) -> Callable[..., Cell]:
    """Python's own float function at every point, for results equal to Python's to the last bit."""

    def at(*numbers: float) -> float:
        try:
            result = function(*numbers)
        except (ValueError, OverflowError, ZeroDivisionError):
            return math.nan
        return result if isinstance(result, float) else math.nan

    def run(*cells: Cell) -> Cell:
        arrays = np.broadcast_arrays(*(_float(cell).value for cell in cells))
        points = zip(*(array.ravel().tolist() for array in arrays), strict=True)
        results = [at(*point) for point in points]
        return _floats(np.asarray(results, np.float64).reshape(arrays[0].shape), *cells)

    return run


def _to_integer(rounding: Any) -> Callable[[Cell], Cell]:
    def run(cell: Cell) -> Cell:
        if not _is_float(cell):
            return as_integer(cell)
        ok = np.abs(cell.value) <= _LIMIT
        value = np.where(ok, rounding(cell.value), 0.0).astype(np.int64)
        return bounded(value, cell.valid & ok)

    return run


def bounded(value: _Array, valid: _Array) -> Cell:
    bound = max(abs(int(value.min())), abs(int(value.max()))) if value.size else 0
    return Cell(value, valid, bound)


def _extreme(operation: Any) -> Callable[..., Cell]:
    def pair(a: Cell, b: Cell) -> Cell:
        convert = _float if _is_float(a, b) else as_integer
        a, b = convert(a), convert(b)
        return Cell(operation(a.value, b.value), a.valid & b.valid, max(a.bound, b.bound))

    return lambda *cells: reduce(pair, cells)


def negative(cell: Cell) -> Cell:
    cell = as_integer(cell)
    return cell._replace(value=np.negative(cell.value))


def _magnitude(cell: Cell) -> Cell:
    cell = as_integer(cell)
    return cell._replace(value=np.abs(cell.value))


def _truth(cell: Cell) -> Cell:
    return cell if cell.value.dtype.kind == "b" else Cell(cell.value != 0, cell.valid)


def negation(cell: Cell) -> Cell:
    cell = _truth(cell)
    return cell._replace(value=~cell.value)


def all_of(a: Cell, b: Cell) -> Cell:
    """Three-valued "and": false where either side is known to be false."""
    false = (a.valid & ~a.value) | (b.valid & ~b.value)
    return Cell(a.value & b.value & ~false, (a.valid & b.valid) | false)


def any_of(a: Cell, b: Cell) -> Cell:
    """Three-valued "or": true where either side is known to be true."""
    true = (a.valid & a.value) | (b.valid & b.value)
    return Cell(true | a.value | b.value, (a.valid & b.valid) | true)


def compare(operation: Any, a: Cell, b: Cell) -> Cell:
    valid = a.valid & b.valid
    if _is_float(a) != _is_float(b):  # Python compares an integer with a float exactly, numpy rounds
        whole = b if _is_float(a) else a
        if whole.bound > _EXACT:
            valid = valid & (np.abs(_float(whole).value) <= _EXACT)
    return Cell(operation(a.value, b.value), valid)


def choose(condition: Cell, a: Cell, b: Cell) -> Cell:
    if a.value.dtype != b.value.dtype:
        convert = _float if _is_float(a, b) else as_integer
        a, b = convert(a), convert(b)
    condition = _truth(condition)
    valid = condition.valid & np.where(condition.value, a.valid, b.valid)
    return Cell(np.where(condition.value, a.value, b.value), valid, max(a.bound, b.bound))


def _shift_left(a: Cell, b: Cell) -> Cell:
    return _linear(np.multiply)(a, _power(_TWO, b))


def _shift_right(a: Cell, b: Cell) -> Cell:
    return _quotient(np.floor_divide)(a, _power(_TWO, b))


_TWO = Cell(np.asarray(2, np.int64), YES, 2)
BINARY: dict[type[ast.operator], Callable[[Cell, Cell], Cell]] = {
    ast.Add: _linear(np.add), ast.Sub: _linear(np.subtract), ast.Mult: _linear(np.multiply),
    ast.FloorDiv: _quotient(np.floor_divide), ast.Mod: _quotient(np.remainder),
    ast.Div: _quotient(np.true_divide), ast.Pow: _power,
    ast.LShift: _shift_left, ast.RShift: _shift_right,
}  # fmt: skip
_ROUNDING = {"trunc": np.trunc, "floor": np.floor, "ceil": np.ceil, "int": np.trunc}


def function(name: str, kind: str) -> tuple[str, Callable[..., Cell]]:
    """The kind of the result of a function whose arguments are of ``kind``, and how it is computed."""
    if name in _ROUNDING:
        return "i", _to_integer(_ROUNDING[name])
    if name == "round":
        return "i", _to_integer(np.rint)
    if name == "abs":
        return kind, _magnitude
    if name in ("min", "max"):
        return kind, _extreme(np.minimum if name == "min" else np.maximum)
    if name in ("bool", "not"):
        return "b", _truth if name == "bool" else negation
    if name == "float":
        return "f", _float
    return "f", elementwise(getattr(math, name))
