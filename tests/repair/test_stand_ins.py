"""Stand-ins pass for what they stand in for."""

from __future__ import annotations

import builtins
import copy
import dataclasses
import math
import pickle
import typing
from typing import Any

import pytest
import torch
from torch._dynamo.source import ConstantSource
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

from guarddiff.repair.stand_ins import STAND_INS, acting

INT, FLOAT, MATH = (STAND_INS[real] for real in (int, float, math))
PAIRS = [(INT, int), (FLOAT, float)]


def size(hint: int = 6) -> Any:
    """An open size of its own ShapeEnv."""
    env = ShapeEnv()
    symbol = env.create_symbol(hint, source=ConstantSource("size"), dynamic_dim=DimDynamic.DYNAMIC)
    return env.create_symintnode(symbol, hint=hint)


@pytest.mark.parametrize(("stand_in", "real"), PAIRS)
def test_it_is_equal_to_the_real_class(stand_in: Any, real: type) -> None:
    assert stand_in == real and real == stand_in
    assert hash(stand_in) == hash(real)
    assert {real: 1}[stand_in] == 1 and {stand_in: 1}[real] == 1
    assert (stand_in != real) is (real != stand_in) is False
    assert type(real(3)) in (stand_in, str) and str not in (stand_in, FLOAT if real is int else INT)
    assert INT != FLOAT
    assert (repr(stand_in), stand_in.__name__, stand_in.__module__) == (repr(real), real.__name__, "builtins")
    assert copy.deepcopy(stand_in) is stand_in
    assert pickle.loads(pickle.dumps(real(3))) == 3


@pytest.mark.parametrize(("stand_in", "real"), PAIRS)
def test_instances_and_subclasses_are_those_of_the_real_class(stand_in: Any, real: type) -> None:
    other = float if real is int else int
    assert isinstance(real(3), stand_in) and not isinstance(other(3), stand_in) and not isinstance("3", stand_in)
    assert isinstance(3, (INT, FLOAT)) and isinstance(None, stand_in | None) and isinstance(real(3), stand_in | None)
    assert isinstance(True, INT) and issubclass(bool, INT)
    assert issubclass(real, stand_in) and issubclass(stand_in, real) and not issubclass(str, stand_in)
    assert not isinstance(size(), INT) and isinstance(size(), int) is False


def test_classes_derived_from_it() -> None:
    class Size(INT):  # type: ignore[misc, valid-type]
        def half(self) -> int:
            return self // 2

    class Other(INT):  # type: ignore[misc, valid-type]
        pass

    made = Size("12")
    assert type(made) is Size and made == 12 and made.half() == 6
    assert isinstance(made, int) and isinstance(made, INT) and isinstance(made, Size)
    assert not isinstance(12, Size) and not isinstance(made, Other) and not issubclass(int, Size)
    assert issubclass(Size, INT) and len({Size, Other, int, INT}) == 3

    class Old(int):
        pass

    assert isinstance(Old(3), INT) and issubclass(Old, INT)


def test_it_calls_the_real_class() -> None:
    with acting():
        assert [INT(), INT("12"), INT("ff", 16), INT(2.9), INT(-2.9), INT(True)] == [0, 12, 255, 2, -2, 1]
        assert INT(x := "7") == 7 and type(INT(x)) is int and type(FLOAT(1)) is float
        assert INT(torch.tensor(3)) == 3 and FLOAT(torch.tensor(2.5)) == 2.5
        assert math.isinf(FLOAT("inf")) and FLOAT() == 0.0
        assert INT.from_bytes(b"\1\0", "big") == 256 and type(INT.from_bytes(b"\1", "big")) is int
        assert FLOAT.fromhex("0x1p3") == 8.0 and INT.bit_length(8) == 4
        assert list(map(INT, ("1", "2"))) == [1, 2]
        with pytest.raises(ValueError, match="invalid literal"):
            INT("a")
        with pytest.raises(TypeError):
            INT([])


def test_hints_and_patterns() -> None:
    def function(n: INT | None, m: FLOAT | None = None) -> dict[str, INT]:  # type: ignore[valid-type]
        raise NotImplementedError

    hints = typing.get_type_hints(function)
    assert hints["n"] == INT | None and typing.get_args(hints["return"]) == (str, int)

    @dataclasses.dataclass
    class Record:
        n: INT  # type: ignore[valid-type]

    assert Record(3).n == 3
    match 3:
        case INT(n):  # type: ignore[misc]
            assert n == 3
        case _:
            pytest.fail("an int is no int")


def test_open_sizes_stay_open_while_it_acts() -> None:
    n = size()
    with acting():
        kept, made, halved, half = INT(n), FLOAT(n), INT(n * 0.5), FLOAT(n / 2)
        root, power, whole = MATH.sqrt(n), MATH.pow(n, 0.5), MATH.isqrt(n)
    assert kept is n
    assert [type(value) for value in (halved, whole)] == [torch.SymInt] * 2
    assert [type(value) for value in (made, half, root, power)] == [torch.SymFloat] * 4
    assert not n.node.shape_env.guards and "TruncToInt" in str(halved)


def test_elsewhere_it_is_the_real_one() -> None:
    n = size()
    assert type(INT(n)) is int and INT(n) == 6
    assert n.node.shape_env.guards
    assert type(FLOAT(size())) is float and type(MATH.sqrt(size())) is float


def test_max_and_min() -> None:
    n, m = size(), size(4)
    greatest, least = STAND_INS[max], STAND_INS[min]
    with acting():
        assert [greatest(1, 2.5), least([3, 1]), greatest("a", "b"), greatest([], default=7)] == [2.5, 1, "b", 7]
        assert greatest(3, -4, key=abs) == -4 and least(iter((3, 2))) == 2
        assert str(greatest(n * 0.5, 2)).startswith("Max(") and str(least((n, 9, n * 0.5))).startswith("Min(")
        with pytest.raises(ValueError, match="empty"):
            least([])
    assert not n.node.shape_env.guards
    assert greatest(n, m.node.hint) is n and n.node.shape_env.guards


def test_acting_ends_with_an_error_and_nests() -> None:
    with pytest.raises(RuntimeError), acting():
        with acting():
            pass
        assert type(INT(size())) is torch.SymInt
        raise RuntimeError
    assert type(INT(size())) is int


def test_a_size_that_is_a_number_by_now_is_one() -> None:
    n = size()
    assert builtins.int(n) == 6
    with acting():
        assert type(FLOAT(n)) is float


def test_the_math_module() -> None:
    assert MATH.pi == math.pi and MATH.floor is math.floor and dir(MATH) == dir(math)
    assert MATH.sqrt(16) == 4.0 and MATH.log(8, 2) == 3.0 and MATH.isqrt(17) == 4 and MATH.pow(2, 3) == 8.0
    assert STAND_INS[math.sqrt] is MATH.sqrt and MATH.sqrt.__module__ == "math"
    with acting(), pytest.raises(ValueError, match="math domain error"):
        MATH.sqrt(-1)
    with pytest.raises(AttributeError, match="nothing_such"):
        MATH.nothing_such  # noqa: B018
