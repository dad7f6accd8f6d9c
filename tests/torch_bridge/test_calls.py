"""Functions written in C, named by the line that calls them."""

from __future__ import annotations

import math
import math as numbers
import sys
from collections.abc import Callable
from math import sqrt as root
from typing import Any

import pytest

from guarddiff.torch_bridge import calls
from guarddiff.torch_bridge.calls import number_function

_KEEP = (root, numbers)


class Asked:
    """Notes the frame that asks for its number."""

    def __init__(self) -> None:
        self.told: list[str | None] = []

    def ask(self) -> int:
        frame = sys._getframe(2)
        self.told.append(number_function(frame.f_code, frame.f_lasti, frame.f_lineno, frame.f_globals))
        return 1

    def __index__(self) -> int:
        return self.ask()

    def __float__(self) -> float:
        return float(self.ask())

    def __gt__(self, other: Any) -> bool:
        return bool(self.ask())

    __lt__ = __gt__


def local_math(n: Any) -> None:
    import math
    import math as numbers

    math.sqrt(n)
    numbers.sqrt(n)


CASES: dict[str, tuple[Callable[[Any], Any], list[str | None]]] = {
    "float": (lambda n: 2 * float(n), ["float()"]),
    "int": (lambda n: [int(n)], ["int()"]),
    "math": (lambda n: 1 / math.sqrt(n), ["math.sqrt()"]),
    "math by another name": (lambda n: numbers.log2(n), ["math.log2()"]),
    "imported": (lambda n: root(n), ["math.sqrt()"]),
    "two on a line": (lambda n: (math.sqrt(n), float(n)), ["math.sqrt()", "float()"]),
    "one in the other": (lambda n: math.sqrt(float(n) + math.floor(2.5)), ["float()"]),
    "over several lines": (
        lambda n: math.pow(
            2,
            n,
        ),
        ["math.pow()"],
    ),
    "with text": (lambda n: ["größer", math.exp(n)], ["math.exp()"]),
    "a loop": (lambda n: [float(2) for _ in range(n)], [None]),
    "an index": (lambda n: [1, float(2)][n], [None]),
    "greatest": (lambda n: max(n, 3), ["max()"]),
    "a comparison": (lambda n: n > max(1, 2), [None]),
    "local": (local_math, ["math.sqrt()", "math.sqrt()"]),
}


@pytest.mark.skipif(sys.version_info < (3, 11), reason="instructions have no positions before Python 3.11")
@pytest.mark.parametrize("name", CASES)
def test_the_call_is_named(name: str) -> None:
    function, expected = CASES[name]
    asked = Asked()
    function(asked)
    assert asked.told == expected


@pytest.mark.parametrize(
    ("name", "expected"), [("float", ["float()"]), ("two on a line", [None, None]), ("greatest", [None])]
)
def test_by_the_line_where_positions_are_not_known(
    name: str, expected: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "_expression", lambda code, instruction: None)
    monkeypatch.setattr(calls.linecache, "getline", lambda file, line: LINES[name])
    asked = Asked()
    CASES[name][0](asked)
    assert asked.told == expected


LINES = {
    "float": "    y = 2 * float(n)\n",
    "two on a line": "y = (math.sqrt(n), float(n))\n",
    "greatest": "y = max(n, 3)\n",
}


def test_text_that_is_no_python() -> None:
    code = compile("float(n)", "<no such file>", "eval")
    assert number_function(code, 0, 1, {}) is None
