from __future__ import annotations

import pytest

from guarddiff.core.dims import Dimension
from guarddiff.replay import own_points


def test_named_sizes() -> None:
    dims = (
        Dimension("x", 0, "n", "n", 2),
        Dimension("x", 2, "x[2]", "x[2]", 8),
        Dimension("y", 0, "y[0]", "2*n", 4),
    )
    example = {"n": 2, "x[2]": 8}
    wanted = ({"n": 5}, {"x[2]": 9, "n": 3}, {"x[0]": 5}, {"y[0]": 6}, {})
    points, wrong = own_points.named(wanted, dims, example)
    assert wrong == ""
    assert points == [
        {"n": 5, "x[2]": 8},
        {"n": 3, "x[2]": 9},
        {"n": 3, "x[2]": 8},
        {"n": 2, "x[2]": 8},
    ]


@pytest.mark.parametrize(
    ("text", "size", "root"),
    [("2*n", 2**31, 2**30), ("2*n - 1", 7, 4), ("3*n + 4", 10**12 + 3, (10**12 - 1) // 3), ("n - 1", 9, 10)],
)
def test_a_derived_size_of_any_length(text: str, size: int, root: int) -> None:
    dims = (Dimension("x", 0, "n", "n", 2), Dimension("y", 0, "y[0]", text, 4))
    assert own_points.named(({"y[0]": size},), dims, {"n": 2}) == ([{"n": root}], "")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"q": 3}, "there is no dimension 'q' (known: n, x[0], y[0])"),
        ({"y[0]": 7}, "y[0] is 2*n, which can't be 7"),
    ],
)
def test_named_sizes_that_cannot_be_made(asked: dict[str, int], words: str) -> None:
    dims = (Dimension("x", 0, "n", "n", 2), Dimension("y", 0, "y[0]", "2*n", 4))
    points, wrong = own_points.named(({"n": 5}, asked), dims, {"n": 2})
    assert points == []
    assert wrong == words
