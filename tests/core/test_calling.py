from __future__ import annotations

from typing import Any

import pytest

from guarddiff.core.calling import by_parameter


def function(a: int, b: int = 2, *rest: int, c: int = 3, **more: Any) -> None:
    """Every kind of parameter."""


def test_names_are_those_of_the_parameters() -> None:
    assert by_parameter(function, (1,), {}) == {"a": 1}
    assert by_parameter(function, (1, 2, 3, 4), {"d": 5, "c": 6}) == {"a": 1, "b": 2, "rest": (3, 4), "c": 6, "d": 5}
    assert list(by_parameter(function, (), {"b": 1, "a": 2})) == ["a", "b"]


def test_what_does_not_fit() -> None:
    with pytest.raises(TypeError):
        by_parameter(function, (), {})
    with pytest.raises(ValueError, match="signature"):
        by_parameter(dict.update, (), {})
