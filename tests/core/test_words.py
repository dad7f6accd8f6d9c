"""Parts of what is said of sizes; the words themselves are in test_domain.py."""

from __future__ import annotations

import pytest

from guarddiff.core import words


@pytest.mark.parametrize(
    ("text", "own", "relation"),
    [
        ("even sizes, where max(h, w) < 8", "even sizes", "where max(h, w) < 8"),
        ("multiples of 7, at least 14, equal to w", "multiples of 7, at least 14", "equal to w"),
        ("any size, where min(h + (4 - h % 4) % 4, w) > 2", "any size", "where min(h + (4 - h % 4) % 4, w) > 2"),
        ("2, 4 or 6", "2, 4 or 6", ""),
    ],
)
def test_commas_within_parentheses_part_nothing(text: str, own: str, relation: str) -> None:
    assert words.parted(text) == (own, relation)
