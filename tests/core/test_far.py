"""Where guards turn beyond the sizes that are all looked at."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guarddiff.core.domain import Admitted, SizeRange, admitted, effect, parse
from guarddiff.core.far import LIMIT, turns

ANY = SizeRange()


def turns_of(guard: str, start: int = 16384, stop: int = LIMIT) -> list[int]:
    return turns(parse(guard), lambda sizes: {"h": sizes}, start, stop)


def solve(*guards: str, declared: SizeRange = ANY, example: int = 8) -> Admitted:
    return admitted(guards, {"h": declared}, {"h": example})["h"]


@pytest.mark.parametrize(
    ("guard", "expected"),
    [
        ("h < 20000", [20000]),
        ("h <= 20000", [20001]),
        ("h < 2**30", [2**30]),
        ("h*1000*2 < 50000000", [25000]),
        ("h*h < 1000000000000", [1_000_000]),
        ("h // 30000 == 0", [30000, 59998]),
        ("h != 40000", [40000]),
        ("h % 7 == 0 or h > 40000", [40001, 40006]),
        ("h // 32 % 7 == 0", []),
        ("h % 30000 < 20000", []),
        ("h % 30000 >= 0", []),
        ("h > 5", []),
        ("2 * (h // 3) != h", []),
        ("h <= 2147483647", []),
        ("3 * h < 9223372036854775807", []),
        ("h % (h - 1) == 1", []),
        ("20000 // h >= 1", [20001]),
        ("2*h + 1000 != 81000", [40000]),
        ("h < 20000 or h % 1000 != 500", [20500]),
    ],
)
def test_where_a_guard_turns(guard: str, expected: list[int]) -> None:
    assert turns_of(guard) == expected


@pytest.mark.parametrize(
    ("guard", "stop", "first"),
    [("h*h < 400000000", 20_000, 20_000), ("h // 1000 < 20", 20_030, 20_000), ("h*h < 268600000", 16_400, 16_390)],
)
def test_the_end_of_a_range(guard: str, stop: int, first: int) -> None:
    assert turns_of(guard, stop=stop)[:1] == [first]
    assert effect([guard], {"h": SizeRange(0, stop)}, {"h": 8}) == "restricts"
    found = solve(guard, declared=SizeRange(0, stop))
    assert (found.whole, found.text) == (False, f"at most {first - 1}")


@pytest.mark.parametrize("guard", ["h % 20001 != 0", "h % 32768 != 0", "h % 5000 != 3"])
def test_a_single_size_of_a_long_period(guard: str) -> None:
    assert effect([guard], {"h": ANY}, {"h": 8}) == "restricts"
    period, place = (int(part) for part in guard.removeprefix("h % ").split(" != "))
    found = solve(guard)
    assert [size in found for size in (place + period, 5 * period + place, 5 * period + place + 1)] == [
        False,
        False,
        True,
    ]


def test_sparse_sizes_go_on_after_a_hole() -> None:
    found = solve("h % 100 == 0", "h != 20000", example=100)
    assert [size in found for size in (19_900, 20_000, 20_100)] == [True, False, True]
    given = ["h % 100 == 0", "h != 20000"]
    assert effect(["h < 50000"], {"h": ANY}, {"h": 100}, given=given) == "restricts"


def test_many_intervals_are_told_in_words_alone() -> None:
    found = solve("h % 2 == 0", "h != 65536")
    assert found.known
    assert not found.whole
    assert found.intervals is None


def test_only_between_the_bounds() -> None:
    assert turns_of("h < 20000", stop=19999) == []
    assert turns_of("h < 20000", start=20000) == []
    assert turns_of("h < 20000", start=50, stop=20000) == [20000]
    assert turns_of("h < 20000", start=7, stop=7) == []


@pytest.mark.parametrize(
    ("guards", "text", "members", "strangers"),
    [
        (("h < 20000",), "at most 19999", (19_999,), (20_000, 10**9)),
        (("h < 2**30",), "at most 1073741823", (2**30 - 1,), (2**30,)),
        (("3 < h", "h < 1000000000"), "4–999999999", (4, 999_999_999), (3, 10**9)),
        (("h != 40000",), "any size but 40000", (39_999, 40_001), (40_000,)),
        (("h % 7 == 0", "h < 50000"), "multiples of 7 up to 49999", (49_994,), (49_995, 50_001)),
        (("h % 30000 < 20000",), "0–19999 more than a multiple of 30000", (19_999, 930_000), (20_000, 959_999)),
        (("h % 7 == 0",), "multiples of 7", (7 * 10**8,), (7 * 10**8 + 1,)),
    ],
)
def test_admitted_sizes(guards: tuple[str, ...], text: str, members: Any, strangers: Any) -> None:
    found = solve(*guards)
    assert found.text == text
    assert not found.whole
    assert [size in found for size in (*members, *strangers)] == [True] * len(members) + [False] * len(strangers)
    assert effect(guards, {"h": ANY}, {"h": 8}) == "restricts"


@pytest.mark.parametrize(
    ("guards", "example", "text", "members", "strangers"),
    [
        (("h < 20000 or (30000 < h and h < 40000)",), 8, "at most 19999 or 30001–39999", (39_999,), (25_000, 40_000)),
        (("(h - 20000)*(h - 30000)*(h - 40000) < 0",), 8, "at most 19999 or 30001–39999", (30_001,), (25_000,)),
        (
            ("4*h < 1000000", "1000*(h//511) >= 3*(h//5) + 20001", "2*(h//5) <= 20000"),
            14_900,
            "14819–14999 or 15330–50004",
            (29_640, 50_004),
            (15_000, 50_005),
        ),
        (("h // 10 != 5000",), 8, "at most 49999 or at least 50010", (50_010,), (50_000, 50_009)),
        (("(h + 31) // 32 != 1250",), 8, "at most 39968 or at least 40001", (39_968,), (39_969, 40_000)),
        (("h // 1000 // 1000 < 1",), 8, "at most 999999", (999_999,), (10**6,)),
        (("(h//32)*(h//32)*(h//32)*(h//32) < 10**12",), 8, "at most 31999", (31_999,), (32_000,)),
        (("h // 2 + h // 4 + h // 8 + h // 16 + h // 32 + h // 64 < 40000",), 8, "at most 40639", (40_639,), (40_640,)),
    ],
)
def test_holes_and_long_divisions(
    guards: tuple[str, ...], example: int, text: str, members: tuple[int, ...], strangers: tuple[int, ...]
) -> None:
    found = solve(*guards, example=example)
    assert found.text == text
    assert [size in found for size in (*members, *strangers)] == [True] * len(members) + [False] * len(strangers)
    assert effect(guards, {"h": ANY}, {"h": example}) == "restricts"


@pytest.mark.parametrize(
    ("guard", "given", "example"),
    [
        ("h < 20000", ["h % 7 == 0"], {"h": 7}),
        ("h < 50001", ["h % 100 == 0"], {"h": 100}),
        ("h < 20000", ["h == 7*w"], {"h": 7, "w": 1}),
        ("h < 20000", ["h == 4*w + 1"], {"h": 9, "w": 2}),
        ("h < 20000", ["h == 7*w", "w % 5 == 0"], {"h": 35, "w": 5}),
        ("h + w < 40000", ["h % 14 == 0", "w % 14 == 0"], {"h": 14, "w": 14}),
        ("h*h < 400000000", ["h*h < 401000000"], {"h": 8}),
    ],
)
def test_beside_guards_that_leave_few_sizes(guard: str, given: list[str], example: dict[str, int]) -> None:
    assert effect([guard], dict.fromkeys(example, ANY), example, given=given) == "restricts"


def test_dimensions_of_size_one_at_most_count() -> None:
    assert effect(["h*w < 20000"], {"h": ANY, "w": SizeRange(0, 1)}, {"h": 8, "w": 1}) == "restricts"


def test_guards_that_are_entailed_far_away() -> None:
    for known in (["h < 20000"], ["2*h < 40000"], ["h < 10000"], ["h == 7*w", "w < 2000"]):
        example = {"h": 7, "w": 1}
        assert effect(["h < 20001"], dict.fromkeys(example, ANY), example, given=known) == "none"


@pytest.mark.parametrize("horizon", [60, 61, 62, 63, 16384, 16385])
@pytest.mark.parametrize("guard", ["h < 10 or h % 4 != 3", "not ((h % 4 < h % 3) and (h - 5 > h // 2))"])
def test_what_repeats_after_another_beginning_does_not_go_on(guard: str, horizon: int) -> None:
    found = admitted([guard], {"h": ANY}, {}, horizon=horizon)["h"]
    true = parse(guard).evaluate({"h": np.arange(40_000)})[0]
    assert not [size for size in range(40_000) if size in found and not true[size]]


def test_periods_that_are_too_long_together() -> None:
    """Each repeats, but not within the sizes that can be looked at together."""
    assert not solve("h % 3 != 1", "h % 200000 != 60000", example=3).known
    assert not solve("h % 7 != 1", "h // 300 % 300 != 100", example=7).known
    for last in (100, 8192, 16_000, 16_384, 16_385, 40_000):  # what has ended before is known
        assert solve(f"h <= {last}", "(h - 8) % 668 == 0", "(h - 8) % 785 == 0").text == "exactly 8"
    given = ["h % 163 == 34"]
    assert effect(["h // 60 % 293 != 229"], {"h": ANY}, {"h": 34}, given=given) == "restricts"
    assert effect(["h // 51 % 55 != 0"], {"h": ANY}, {"h": 224}, given=["h % 224 == 0"]) == "restricts"


@pytest.mark.parametrize("lower", [2**31, 2**33, 2**40])
def test_ranges_that_begin_beyond_what_is_looked_at(lower: int) -> None:
    assert effect(["h > 5"], {"h": SizeRange(lower)}, {"h": lower}) == "none"


def test_what_is_not_clear_is_unknown() -> None:
    assert not solve("h != 5000000").known
    assert effect(["h != 5000000"], {"h": ANY}, {"h": 8}) == "restricts"


def test_a_range_that_is_declared() -> None:
    assert solve("h < 2**30", declared=SizeRange(0, 2**40)).text == "at most 1073741823"
    assert solve("h < 20000", declared=SizeRange(2, 30_000)).text == "2–19999"
    within = solve("h < 20000", declared=SizeRange(0, 19_999))
    assert (within.whole, within.intervals) == (True, ((0, 19_999),))
    assert effect(["h < 20000"], {"h": SizeRange(0, 19_999)}, {"h": 8}) == "none"


@pytest.mark.parametrize(
    "guard", ["h*w < 300000000", "h + w < 40000", "h*w < 2**29", "h < w + 20000", "h + w < 5000000"]
)
def test_dimensions_that_are_tied_far_away(guard: str) -> None:
    both = {"h": ANY, "w": ANY}
    found = admitted([guard], both, {"h": 8, "w": 8})
    assert [one.text for one in found.values()] == [f"where {guard}"] * 2
    assert effect([guard], both, {"h": 8, "w": 8}) == "restricts"
    assert effect([guard], both, {"h": 8, "w": 1}) == "restricts"


def test_equal_dimensions() -> None:
    found = admitted(["h == w", "w < 20000"], {"h": ANY, "w": ANY}, {"h": 8, "w": 8})
    assert [one.text for one in found.values()] == ["at most 19999, equal to w", "at most 19999, equal to h"]
    assert effect(["w < 20000"], {"h": ANY, "w": ANY}, {"h": 8, "w": 8}, given=["h == w"]) == "restricts"
    assert effect(["w < 20000"], {"h": ANY, "w": ANY}, {"h": 8, "w": 8}, given=["h == w", "h < 10000"]) == "none"
    declared = admitted(["h == w"], {"h": SizeRange(0, 10**6), "w": ANY}, {"h": 8, "w": 8})
    assert declared["w"].text == "at most 1000000, equal to h"


def test_beside_a_tie() -> None:
    """The bound is that of a dimension which another guard ties to a third."""
    names = {"h": ANY, "w": ANY}
    assert effect(["w < 20000"], names, {"h": 8, "w": 9}, given=["h < w"]) == "restricts"
    assert effect(["h < 20000"], names, {"h": 8, "w": 9}, given=["h < w"]) == "restricts"
    assert effect(["w < 3000000"], names, {"h": 8, "w": 9}, given=["h < w"]) == "restricts"
    assert effect(["w < 3000000"], names, {"h": 8, "w": 9}, given=["h < w", "w < 10000"]) == "none"


bounds = st.builds(lambda size, by, op: f"{by}*h {op} {by * size}", st.integers(100, 10**7), st.integers(1, 40),
                   st.sampled_from(["<", "<="]))  # fmt: skip
holes = st.builds(lambda size: f"h != {size}", st.integers(100, 60_000))
others = st.one_of(
    st.builds(lambda n: f"h >= {n}", st.integers(0, 8)),
    st.builds(lambda a, b: f"h // {a} % {b} == {8 // a % b}", st.integers(1, 64), st.integers(2, 9)),
    st.builds(lambda b: f"(h - 8) % {b} == 0", st.integers(2, 1000)),
)
uppers = st.one_of(st.none(), st.integers(17_000, 10**6))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.one_of(bounds, holes), st.lists(others, max_size=2), uppers)
def test_against_brute_force(bound: str, more: list[str], upper: int | None) -> None:
    guards, span = [bound, *more], SizeRange(0, upper)
    found = solve(*guards, declared=span)
    edge = int(bound.split()[-1]) // (int(bound.split("*")[0]) if "*" in bound else 1)
    looked_at = np.concatenate([np.arange(1, 900), np.arange(max(edge - 1100, 1), edge + 1100), [2 * edge, 10**9]])
    looked_at = np.concatenate([looked_at, np.arange((upper or 10**6) - 1100, (upper or 10**6) + 1)])
    looked_at = looked_at[looked_at <= (upper or 10**9)]
    true = np.logical_and.reduce([parse(guard).evaluate({"h": looked_at})[0] for guard in guards])
    if "…" in found.text:  # nothing is said of what is larger than all that was looked at
        looked_at, true = looked_at[looked_at <= (found.horizon or 0)], true[looked_at <= (found.horizon or 0)]
    if found.known and found.intervals is not None:
        said = np.asarray([size in found for size in looked_at.tolist()])
        near = looked_at <= (found.horizon or 0)
        assert looked_at[near & (said != true)].tolist() == []
        assert looked_at[said & ~true].tolist() == []
        if "up to" in found.text or ("at most" in found.text and len(more) < 2):
            assert looked_at[said != true].tolist() == []
    assert found.known or "!=" in bound or edge > 2**20
    if not true[looked_at > 1].all():
        assert effect(guards, {"h": span}, {"h": 8}) == "restricts"
        assert not found.whole


ALL = np.arange(2**18)
sums = st.builds(lambda a, b, size: f"h // {a} + h // {b} < {size}", st.integers(1, 64), st.integers(1, 64),
                 st.integers(100, 20_000))  # fmt: skip
quotients = st.builds(lambda a, size: f"h // {a} != {size}", st.integers(1, 64), st.integers(200, 4000))
two = st.builds(lambda a, b, c: f"h < {a} or ({a + b} < h and h < {a + b + c})", st.integers(100, 60_000),
                st.integers(1, 60_000), st.integers(2, 60_000))  # fmt: skip
multiples = st.builds(lambda b: f"h % {b} == 0", st.sampled_from([2, 3, 5, 7, 14, 16, 32, 100, 224]))
remainders = st.builds(lambda b, c: f"h % {b} != {c % b}", st.integers(2, 3000), st.integers(0, 3000))
long_remainders = st.builds(lambda a, b, c: f"h // {a} % {b} != {c % b}", st.integers(2, 300), st.integers(2, 300),
                            st.integers(0, 300))  # fmt: skip
conditions = st.one_of(bounds, holes, sums, quotients, two, multiples, remainders, long_remainders)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(conditions, st.lists(conditions, max_size=3))
def test_effect_against_every_size(guard: str, before: list[str]) -> None:
    """What is true of all sizes up to a quarter of a million, given other guards, is found."""

    def holds(text: str) -> Any:
        return parse(text).evaluate({"h": ALL})[0]

    inside = np.logical_and.reduce([ALL >= 2, *map(holds, before)])
    if not inside.any():
        return
    example = {"h": int(ALL[inside][0])}
    excluded = inside & ~holds(guard)
    found = effect([guard], {"h": ANY}, example, given=before)
    if excluded.any():
        assert found == "restricts"
    elif found == "restricts":
        larger = np.arange(2**18, 2**24)
        inside = np.logical_and.reduce([parse(text).evaluate({"h": larger})[0] for text in [*before, "h > 1"]])
        assert (inside & ~parse(guard).evaluate({"h": larger})[0]).any()


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(conditions, min_size=1, max_size=3))
def test_admitted_against_every_size(guards: list[str]) -> None:
    found = solve(*guards)
    true = np.logical_and.reduce([parse(guard).evaluate({"h": ALL})[0] for guard in guards])
    assert not (found.whole and not true.all())
    if not found.known or found.intervals is None:
        return
    most = len(ALL) - 1 if "…" not in found.text else found.horizon or 0
    turned = np.flatnonzero(np.diff(true))[:2000, None] + np.arange(-1, 3)
    looked_at = np.unique(np.concatenate([turned.ravel(), ALL[::97], ALL[-300:]])).clip(0, min(most, len(ALL) - 1))
    assert [size for size in looked_at.tolist() if (size in found) != true[size]] == []
