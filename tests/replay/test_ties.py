"""Relations between dimensions that points keep."""

from __future__ import annotations

import pytest

from guarddiff.core.domain import SizeRange
from guarddiff.replay.ties import apart, mended, ties_of

ANY = SizeRange()


def test_only_equalities_between_dimensions_that_hold_are_ties() -> None:
    guards = ["t + p == tp", "h == 6", "t < p", "t + p == 9", "no(guard", "t + p == tp", "a == b or a == 1"]
    example = {"t": 3, "p": 5, "tp": 8, "h": 6, "a": 2, "b": 2}
    assert ties_of(guards, example) == ["t + p == tp", "a == b or a == 1"]


def test_a_point_is_mended_by_moving_another_dimension() -> None:
    assert mended({"t": 4, "p": 5, "tp": 8}, ["t + p == tp"], ["t"], {}) == {"t": 4, "p": 4, "tp": 8}
    assert mended({"t": 4, "p": 5, "tp": 8}, ["t + p == tp"], ["t", "p"], {}) == {"t": 4, "p": 5, "tp": 9}


def test_several_ties_are_mended_in_rounds() -> None:
    ties = ["2 * a == b", "b + 1 == c"]
    assert mended({"a": 5, "b": 6, "c": 7}, ties, ["a"], {}) == {"a": 5, "b": 10, "c": 11}


def test_a_tie_that_cannot_be_mended_stays_broken() -> None:
    point = {"t": 4, "p": 5, "tp": 8}
    assert mended(point, ["t + p == tp"], ["t"], {"p": SizeRange(5, 5), "tp": SizeRange(1, 8)}) == point
    assert mended(point, ["t + p == tp"], ["t", "p", "tp"], {}) == point


@pytest.mark.parametrize(
    ("own", "others", "sizes", "found"),
    [
        (["n <= 400"], ["n % 4 == 0"], ANY, 404),
        (["n == 12"], [], ANY, 24),
        (["n == 12"], ["n % 5 == 0"], ANY, 25),
        (["n <= 400"], ["n % 4 == 0"], SizeRange(1, 402), None),
        (["n <= 400"], ["n <= 300"], ANY, None),
        (["unread("], [], ANY, None),
    ],
)
def test_a_size_that_breaks_one_finding_alone(
    own: list[str], others: list[str], sizes: SizeRange, found: int | None
) -> None:
    assert apart({"n": 12}, "n", own, others, sizes) == found
