from __future__ import annotations

import pytest

from guarddiff.cli.errors import Wrong
from guarddiff.cli.sizes import combinations, parse, spread


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["t:f", "--sizes", "h=1", "w=2"], ["t:f", "--sizes", "h=1", "--sizes", "w=2"]),
        (["--sizes", "h=1", "w=2", "t:f"], ["--sizes", "h=1", "--sizes", "w=2", "t:f"]),
        (["--sizes", "h=1", "w=2", "x.pt2", "y=3"], ["--sizes", "h=1", "--sizes", "w=2", "x.pt2", "y=3"]),
        (["--sizes=h=1", "w=2"], ["--sizes=h=1", "--sizes", "w=2"]),
        (["--sizes", "h=1", "--out", "a=b"], ["--sizes", "h=1", "--out", "a=b"]),
        (["--sizes", "x[2]=7", "x[3]=8"], ["--sizes", "x[2]=7", "--sizes", "x[3]=8"]),
        (["--sizes", "h=1", "--", "w=2"], ["--sizes", "h=1", "--", "w=2"]),
        (["--sizes", "h=1", "d=1/m.py:f"], ["--sizes", "h=1", "d=1/m.py:f"]),
        (["t:f", "w=2"], ["t:f", "w=2"]),
    ],
)
def test_further_sizes_follow(given: list[str], expected: list[str]) -> None:
    assert spread(given) == expected


def test_parsed_in_order_without_duplicates() -> None:
    assert parse(["h=224,256", "x[2]= 7 , 7", "h=256,1"]) == {"h": [224, 256, 1], "x[2]": [7]}
    assert parse([]) == {}


@pytest.mark.parametrize("text", ["h", "=3", "h=", "h=1,,2", "h=-1", "h=1.5", "h=0", "h=99999999999", "h=²", "h=x"])
def test_refused(text: str) -> None:
    with pytest.raises(Wrong):
        parse([text])


def test_combinations() -> None:
    assert combinations({"h": [1, 2], "w": [3]}) == [{"h": 1, "w": 3}, {"h": 2, "w": 3}]
    assert combinations({}) == []


def test_at_most_sixty_four() -> None:
    eight = ",".join(map(str, range(1, 9)))
    assert len(combinations(parse([f"h={eight}", f"w={eight}"]))) == 64
    with pytest.raises(Wrong, match="72 combinations"):
        parse([f"h={eight},9", f"w={eight}"])
