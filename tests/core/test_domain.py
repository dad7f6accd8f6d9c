"""Admitted sets in words and intervals, relations, and the effect of new guards."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guarddiff.core.domain import Admitted, SizeRange, admitted, effect
from guarddiff.core.words import describe

ANY = SizeRange()


def solve(*guards: str, example: int | None = None, declared: SizeRange = ANY, **options: int) -> Admitted:
    return admitted(guards, {"h": declared}, {} if example is None else {"h": example}, **options)["h"]


def solve_two(*guards: str, h: SizeRange = ANY, w: SizeRange = ANY, at: Sequence[int] = ()) -> list[Admitted]:
    example = dict(zip("hw", at, strict=False))
    return list(admitted(guards, {"h": h, "w": w}, example).values())


# --- ranges ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lower", "upper", "text"),
    [
        (0, None, "any size"),
        (1, None, "any size"),
        (2, None, "at least 2"),
        (4, 512, "4–512"),
        (1, 9, "at most 9"),
        (0, 9, "at most 9"),
        (6, 6, "exactly 6"),
        (0, 0, "exactly 0"),
        (3, 2, "no size"),
    ],
)
def test_range_in_words(lower: int, upper: int | None, text: str) -> None:
    assert str(SizeRange(lower, upper)) == text


def test_range_contains() -> None:
    assert [size for size in range(12) if size in SizeRange(4, 9)] == [4, 5, 6, 7, 8, 9]
    assert 10**9 in SizeRange(4)
    assert 3 not in SizeRange(4)


# --- one dimension --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("guards", "text"),
    [
        ([], "any size"),
        (["h >= 0"], "any size"),
        (["h // 32 % 7 == 0", "h // 32 // 7 == 1"], "224–255"),
        (["1 <= h // 224", "h // 32 <= 7"], "224–255"),
        (["h % 2 == 0", "h // 2 == 3"], "exactly 6"),
        (["h == 6"], "exactly 6"),
        (["h % 6 == 0", "h // 6 == 1"], "exactly 6"),
        (["h <= 4"], "at most 4"),
        (["1 <= h and h <= 4"], "at most 4"),
        (["h >= 8"], "at least 8"),
        (["h != 1"], "at least 2"),
        (["h >= 16000"], "at least 16000"),
        (["h == 1 or h == 3"], "1 or 3"),
        (["h <= 6", "h % 2 == 0"], "2, 4 or 6"),
        (["h % 7 == 0"], "multiples of 7"),
        (["h % 2 == 0"], "even sizes"),
        (["h % 2 == 1"], "odd sizes"),
        (["h != 4"], "any size but 4"),
        (["h != 4", "h != 9"], "any size but 4 and 9"),
        (["h != 4", "h != 9", "not (h == 11)"], "any size but 4, 9 and 11"),
        (["h % 32 == 4"], "4 more than a multiple of 32"),
        (["h % 32 == 4", "h > 4"], "4 more than a multiple of 32, at least 36"),
        (["h % 7 == 0", "h >= 10"], "multiples of 7, at least 14"),
        (["h % 7 == 0", "h <= 700"], "multiples of 7, at most 700"),
        (["h // 2 % 7 == 0"], "0–1 more than a multiple of 14"),
        (["h // 32 % 7 == 0"], "0–31 more than a multiple of 224"),
        (["h % 4096 == 0"], "multiples of 4096"),
        (["6 <= h <= 8 or 12 <= h <= 14"], "6–8 or 12–14"),
        (["h < 4 or h > 8"], "at most 3 or at least 9"),
        (["h % 2 == 0 or h % 3 == 0"], "2–4, 6, 8–10, … (10,923 of the first 16,384 sizes)"),
        (["h > 3", "h < 2"], "no size"),
        (["h == 0"], "exactly 0"),
        (["3 % (h % 3) != 0"], "2 more than a multiple of 3"),
        (["h == 2*(h // 3) + 4"], "8, 10 or 12"),
        (["math.trunc(1.5*float(h)) == 12"], "exactly 8"),
        (["math.trunc(1.5*torch.sym_float(h)) == 12"], "exactly 8"),
        (["round(0.5*float(h)) == 4"], "7–9"),
        (["max(4, h) <= 16"], "at most 16"),
        (["math.sqrt(float(h)) == 2.0"], "exactly 4"),
        (["h / 2 == 3.0"], "exactly 6"),
        (["2 ** h < 40"], "at most 5"),
        (["1 == 1"], "any size"),
        (["1 == 2"], "no size"),
        (["12 % h == 0"], "at most 4, 6 or 12"),
    ],
)
def test_words(guards: list[str], text: str) -> None:
    found = solve(*guards, example=224)
    assert str(found) == found.text == text
    assert found.known


@pytest.mark.parametrize(
    ("guards", "declared", "text"),
    [
        ([], SizeRange(4, 512), "4–512"),
        (["h > 3"], SizeRange(4, 512), "4–512"),
        (["h > 8"], SizeRange(4, 512), "9–512"),
        (["h < 8"], SizeRange(4, 512), "4–7"),
        (["h != 7"], SizeRange(4, 512), "4–512 but 7"),
        (["h != 7"], SizeRange(1, 40), "any size but 7"),
        (["h % 7 == 0"], SizeRange(4, 512), "multiples of 7"),
        (["h % 100 == 0"], SizeRange(4, 512), "100, 200, 300, 400 or 500"),
        (["h < 8"], SizeRange(1, 40), "at most 7"),
        (["h >= 8"], SizeRange(2), "at least 8"),
        (["h % 7 == 0"], SizeRange(20_000), "multiples of 7"),
        ([], SizeRange(0, 0), "exactly 0"),
        ([], SizeRange(5, 4), "no size"),
        (["h < 4"], SizeRange(4, 512), "no size"),
    ],
)
def test_words_within_a_declared_range(guards: list[str], declared: SizeRange, text: str) -> None:
    assert solve(*guards, declared=declared).text == text


def test_intervals_keep_zero_and_go_on() -> None:
    assert solve("h != 4").intervals == ((0, 3), (5, None))
    assert solve("h // 32 % 7 == 0", "h // 32 // 7 == 1").intervals == ((224, 255),)
    assert solve("h > 3", "h < 2").intervals == ()
    assert solve(declared=SizeRange(4, 512)).intervals == ((4, 512),)
    assert solve("h >= 1").intervals == ((1, None),)


def test_whole_counts_the_small_sizes() -> None:
    assert solve("h >= 0").whole
    assert not solve("h >= 1").whole
    assert solve("h >= 1").text == "any size"
    assert solve("h >= 1", declared=SizeRange(1)).whole
    assert not solve("h != 1").whole
    assert not solve("h == 6").whole


def test_membership() -> None:
    some = solve("h == 6 or h >= 20")
    assert [size for size in range(25) if size in some] == [6, 20, 21, 22, 23, 24]
    assert 10**9 in some
    assert -1 not in some


def test_membership_follows_the_period_beyond_the_horizon() -> None:
    found = solve("h // 32 % 7 == 0")
    assert [size for size in (100_000, 100_128, 224_000, 224_031, 224_032) if size in found] == [
        size for size in (100_000, 100_128, 224_000, 224_031, 224_032) if size // 32 % 7 == 0
    ]
    assert 10**9 not in solve("h % 7 == 0", "h <= 700")


def test_horizon_follows_the_example() -> None:
    assert solve("h % 2 == 0 or h % 3 == 0").horizon == 16384
    assert solve("h <= 100000", example=50_000).text == "at most 100000"
    assert solve("h <= 60", horizon=100).text == "at most 60"
    assert solve("h >= 60", horizon=100).text == "at least 60"
    assert "first 100 sizes" in solve("h % 2 == 0 or h % 3 == 0", horizon=100).text


def test_an_example_beyond_what_is_solved_is_unknown() -> None:
    assert not solve("h % 7 == 0", example=10**9).known


@pytest.mark.parametrize(
    "guard",
    ["h.foo == 3", "foo(h)", "h == ", "u0 >= h", "h % (h - h) == 0", "???", "9**9**9 == 3", "h == 10**30"],
)
def test_unknown_is_never_a_guess(guard: str) -> None:
    found = solve("h >= 2", guard)
    assert (found.text, found.intervals, found.known, found.whole) == ("unknown", None, False, False)
    with pytest.raises(ValueError, match="unknown"):
        assert 3 in found


def test_unknown_stays_in_its_component() -> None:
    declared = dict.fromkeys(("h", "w", "n", "x[0]", "x[1]"), ANY)
    found = admitted(["h == w", "foo(h)", "n == 6", "bar(x[1]) == 2"], declared, {})
    assert {name: str(sizes) for name, sizes in found.items()} == {
        "h": "unknown",
        "w": "unknown",
        "n": "exactly 6",
        "x[0]": "any size",
        "x[1]": "unknown",
    }


def test_an_unreadable_guard_on_a_whole_input_touches_its_axes() -> None:
    found = admitted(["x.size == 3"], {"x[0]": ANY, "y[0]": ANY}, {})
    assert [found["x[0]"].known, found["y[0]"].known] == [False, True]


def test_guards_on_undeclared_symbols_alone_say_nothing() -> None:
    assert solve("u0 >= 3").whole


def test_no_dimensions() -> None:
    assert admitted(["1 == 2"], {}, {}) == {}


# --- several dimensions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("guards", "h", "w"),
    [
        (["h == w"], "equal to w", "equal to h"),
        (["not (h != w)"], "equal to w", "equal to h"),
        (["h <= w", "w <= h"], "equal to w", "equal to h"),
        (["h == w", "h % 7 == 0"], "multiples of 7, equal to w", "multiples of 7, equal to h"),
        (["h == w", "w == 6"], "exactly 6", "exactly 6"),
        (["h == 2*w"], "even sizes, where h == 2*w", "where h == 2*w"),
        (["h == 2*w + 1"], "odd sizes, where h == 2*w + 1", "where h == 2*w + 1"),
        (["h == 1024*w"], "where h == 1024*w", "where h == 1024*w"),
        (["h*w % 2 == 0"], "h*w even", "h*w even"),
        (["((h*w) % 2) == 1"], "odd sizes, h*w odd", "odd sizes, h*w odd"),
        (["h*w % 7 == 0"], "h*w a multiple of 7", "h*w a multiple of 7"),
        (["h < w"], "where h < w", "where h < w"),
        (["h + w <= 600"], "at most 600, where h + w <= 600", "at most 600, where h + w <= 600"),
        (["h*w == 37", "1 < w"], "exactly 1", "exactly 37"),
        (["1 <= h // 6 and 1 <= w // 6"], "at least 6", "at least 6"),
        (["h*w == h*w"], "any size", "any size"),
        (["1 < 3*h*w"], "any size", "any size"),
        (["h == w + 1", "h < 3", "w == 4"], "no size", "no size"),
        (["h != w or h == 3"], "where h != w or h == 3", "where h != w or h == 3"),
        (["1 % (h - w) == 5"], "no size", "no size"),
        (
            ["h < w", "h*w % 2 == 0", "w < 3*h"],
            "where h < w and w < 3*h…",
            "at least 2, where h < w and w < 3*h…",
        ),
    ],
)
def test_two_dimensions(guards: list[str], h: str, w: str) -> None:
    assert [found.text for found in solve_two(*guards, at=(8, 8))] == [h, w]


def test_relations_have_no_intervals() -> None:
    h, w = solve_two("h == w")
    assert (h.intervals, h.known, h.whole) == (None, True, False)
    with pytest.raises(ValueError, match="equal to w"):
        assert 3 in h
    assert solve_two("h == w", "h % 7 == 0")[0].intervals is not None


def test_guards_that_only_exclude_zero() -> None:
    h, _ = solve_two("1 < 3*h*w")
    assert (h.text, h.intervals, h.whole) == ("any size", ((1, None),), False)
    assert solve_two("1 < 3*h*w", h=SizeRange(1), w=SizeRange(1))[0].whole
    assert not solve_two("h + w > 0")[0].whole


def test_broadcast_guard() -> None:
    guard = "h == 1 or h == w"
    assert [found.text for found in solve_two(guard, h=SizeRange(2), w=SizeRange(2))] == [
        "equal to w",
        "equal to h",
    ]
    assert [found.text for found in solve_two(guard)] == [f"where {guard}"] * 2


def test_zero_may_break_an_equality() -> None:
    h, w = solve_two("h % 3 == w % 3", h=SizeRange(0, 3), w=SizeRange(1, 3))
    assert (h.known, w.known) == (True, True)
    assert "equal" not in h.text
    assert solve_two("12 // h == 12 // w", h=SizeRange(0, 3), w=SizeRange(0, 3))[0].text == "equal to w"


def test_equal_dimensions_share_their_ranges() -> None:
    h, w = solve_two("h == w", w=SizeRange(4, 512))
    assert [h.text, w.text] == ["4–512, equal to w", "equal to h"]
    assert h.intervals == ((4, 512),)
    assert [found.text for found in solve_two("h == w", h=SizeRange(1, 4), w=SizeRange(5, 9))] == ["no size"] * 2


def test_many_equal_dimensions() -> None:
    names = [f"x{number}[0]" for number in range(12)]
    guards = [f"{first} == {second}" for first, second in zip(names, names[1:], strict=False)]
    found = admitted([*guards, "x3[0] % 8 == 0"], dict.fromkeys(names, ANY), {})
    assert str(found["x0[0]"]) == "multiples of 8, equal to x1[0]"
    assert str(found["x7[0]"]) == "multiples of 8, equal to x0[0]"


def test_three_dimensions() -> None:
    declared = dict.fromkeys("abc", ANY)
    example = {"a": 3, "b": 4, "c": 7}
    assert {str(found) for found in admitted(["a + b == c"], declared, example).values()} == {"where a + b == c"}
    found = admitted(["a*b*c % 2 == 1"], declared, {"a": 3, "b": 3, "c": 3})
    assert {sizes.text for sizes in found.values()} == {"odd sizes, a*b*c odd"}
    assert admitted(["a*b*c == a*b*c"], declared, {})["b"].whole


def test_many_tied_dimensions_stay_bounded() -> None:
    names = [f"d{number}" for number in range(20)]
    guards = [f"{first} < {second}" for first, second in zip(names, names[1:], strict=False)]
    found = admitted(guards, dict.fromkeys(names, ANY), {})
    assert str(found["d0"]) == "where d0 < d1"


# --- effect ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("guards", "expected"),
    [
        ([], "none"),
        (["h >= 0"], "none"),
        (["5 % h < 7"], "none"),
        (["h != 1"], "small"),
        (["h >= 2"], "small"),
        (["1 < 3*h*w"], "small"),
        (["h + w > 0"], "small"),
        (["h == 1"], "restricts"),
        (["h % 2 == 0"], "restricts"),
        (["h == 1 or w == h"], "restricts"),
        (["h == w"], "restricts"),
        (["h // 32 % 7 == 0", "1 < 3*h*w"], "restricts"),
        (["u0 > 3"], "unknown"),
        (["u0 > 3", "h != 1"], "unknown"),
        (["u0 > 3", "h == 3"], "restricts"),
        (["foo(h)"], "unknown"),
        (["5 % (h - h) == 0"], "unknown"),
        (["9**9**9 == 3"], "unknown"),
        (["1 == 2"], "restricts"),
        (["1 == 1"], "none"),
    ],
)
def test_effect(guards: list[str], expected: str) -> None:
    assert effect(guards, {"h": ANY, "w": ANY}, {"h": 8, "w": 8}) == expected


@pytest.mark.parametrize(
    ("guards", "before", "expected"),
    [
        (["h <= 9"], ["h < 8"], "none"),
        (["h < 8"], ["h <= 9"], "restricts"),
        (["h != 1"], ["h != 1"], "none"),
        (["h == n"], ["h == w", "w == n"], "none"),
        (["h == n"], ["h == 2*w", "2*w == n"], "none"),
        (["h == n"], ["h == 2*w"], "restricts"),
        (["h % 2 == 0"], ["h == 2*w"], "none"),
        (["h % 4 == 0"], ["h == 2*w"], "restricts"),
        (["h % 4 == 0"], ["h == 2*w", "w % 2 == 0"], "none"),
        (["h < 8"], ["foo(h)"], "unknown"),
        (["h >= 0"], ["foo(h)"], "none"),
        (["h < 8"], ["foo(w)"], "restricts"),
        (["h < 8"], ["h < 0"], "none"),
        (["h < 8"], ["5 % (h - h) == 0"], "none"),
    ],
)
def test_effect_beyond_given_guards(guards: list[str], before: list[str], expected: str) -> None:
    assert effect(guards, dict.fromkeys("hwn", ANY), {"h": 6, "w": 3, "n": 6}, given=before) == expected


def test_effect_within_the_declared_range() -> None:
    assert effect(["h != 1"], {"h": SizeRange(2)}, {}) == "none"
    assert effect(["1 < 3*h"], {"h": SizeRange(1)}, {}) == "none"
    assert effect(["h <= 512"], {"h": SizeRange(4, 512)}, {}) == "none"
    assert effect(["h <= 511"], {"h": SizeRange(4, 512)}, {}) == "restricts"
    assert effect(["h == 0"], {"h": SizeRange(0, 1)}, {}) == "restricts"
    assert effect(["h == 1 or w == 3"], {"h": SizeRange(0, 1), "w": ANY}, {}) == "restricts"


# --- against brute force --------------------------------------------------------------------------------

Truth = Callable[[dict[str, int]], "bool | None"]
TERMS = [
    "{v}",
    "{v} // 2",
    "{v} % 3",
    "{v} % 4",
    "2*{v} + 1",
    "12 % {v}",
    "{v} // 3 % 2",
    "max(4, {v})",
    "{v} - 5",
]
PAIRS = ["h + w", "h*w", "h - w", "h // w", "h % w", "h*w % 3", "(h + w) % 2"]


def _leaf(text: str) -> tuple[str, Truth]:
    def at(sizes: dict[str, int]) -> bool | None:
        try:
            return bool(eval(text, {}, sizes))
        except ZeroDivisionError:
            return None

    return text, at


def _both(left: tuple[str, Truth], right: tuple[str, Truth]) -> tuple[str, Truth]:
    def at(sizes: dict[str, int]) -> bool | None:
        values = (left[1](sizes), right[1](sizes))
        return False if False in values else None if None in values else True

    return f"({left[0]}) and ({right[0]})", at


def _either(left: tuple[str, Truth], right: tuple[str, Truth]) -> tuple[str, Truth]:
    def at(sizes: dict[str, int]) -> bool | None:
        values = (left[1](sizes), right[1](sizes))
        return True if True in values else None if None in values else False

    return f"({left[0]}) or ({right[0]})", at


def _negated(part: tuple[str, Truth]) -> tuple[str, Truth]:
    def at(sizes: dict[str, int]) -> bool | None:
        value = part[1](sizes)
        return None if value is None else not value

    return f"not ({part[0]})", at


def guards_over(terms: Sequence[str]) -> st.SearchStrategy[list[tuple[str, Truth]]]:
    comparison = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
    leaf = st.builds(
        lambda left, sign, right: _leaf(f"{left} {sign} {right}"),
        st.sampled_from(terms),
        comparison,
        st.sampled_from(terms) | st.integers(0, 9).map(str),
    )
    guard = st.recursive(
        leaf,
        lambda inner: st.builds(_both, inner, inner) | st.builds(_either, inner, inner) | inner.map(_negated),
        max_leaves=3,
    )
    return st.lists(guard, min_size=1, max_size=3)


def _members(found: Admitted, span: SizeRange) -> set[int]:
    assert span.upper is not None
    return {size for size in range(span.lower, span.upper + 1) if size in found}


RANGES = st.tuples(st.integers(0, 3), st.integers(3, 20)).map(lambda ends: SizeRange(*ends))


@given(guards_over([term.format(v="h") for term in TERMS]), RANGES)
@settings(max_examples=200, deadline=None)
def test_one_dimension_against_brute_force(guards: list[tuple[str, Truth]], span: SizeRange) -> None:
    assert span.upper is not None
    sizes = range(span.lower, span.upper + 1)
    expected = {size for size in sizes if all(at({"h": size}) is True for _, at in guards)}
    found = admitted([text for text, _ in guards], {"h": span}, {})["h"]
    if found.known:
        assert _members(found, span) == expected
        assert found.whole == (expected == set(sizes))
    else:
        assert not expected


@given(guards_over([term.format(v="h") for term in TERMS]))
@settings(max_examples=100, deadline=None)
def test_one_unbounded_dimension_against_brute_force(guards: list[tuple[str, Truth]]) -> None:
    expected = {size for size in range(150) if all(at({"h": size}) is True for _, at in guards)}
    found = admitted([text for text, _ in guards], {"h": ANY}, {}, horizon=60)["h"]
    if found.known:
        goes_on = found.period is not None or any(upper is None for _, upper in found.intervals or ())
        seen = range(150 if goes_on or found.horizon is None else min(150, found.horizon + 1))
        assert {size for size in seen if size in found} == expected & set(seen)


@given(
    guards_over([term.format(v=name) for name in "hw" for term in TERMS[:6]] + PAIRS * 2),
    st.tuples(RANGES, RANGES),
)
@settings(max_examples=200, deadline=None)
def test_two_dimensions_against_brute_force(
    guards: list[tuple[str, Truth]], spans: tuple[SizeRange, SizeRange]
) -> None:
    h, w = spans
    assert h.upper is not None and w.upper is not None
    pairs = [(a, b) for a in range(h.lower, h.upper + 1) for b in range(w.lower, w.upper + 1)]
    good = [(a, b) for a, b in pairs if all(at({"h": a, "w": b}) is True for _, at in guards)]
    result = admitted([text for text, _ in guards], {"h": h, "w": w}, {})
    for axis, (name, span) in enumerate((("h", h), ("w", w))):
        found = result[name]
        expected = {pair[axis] for pair in good}
        if not found.known:
            continue
        assert span.upper is not None
        if found.intervals is None:
            assert expected >= set(range(max(span.lower, 1), span.upper + 1))
        elif not good:
            assert "no size" in (result["h"].text, result["w"].text) or not _members(found, span)
        else:
            assert _members(found, span) == expected
    if all(found.whole for found in result.values()):
        assert good == pairs


@given(
    guards_over([term.format(v=name) for name in "hw" for term in TERMS[:6]] + PAIRS),
    guards_over([term.format(v=name) for name in "hw" for term in TERMS[:6]] + PAIRS),
    st.tuples(RANGES, RANGES),
)
@settings(max_examples=200, deadline=None)
def test_effect_against_brute_force(
    guards: list[tuple[str, Truth]],
    before: list[tuple[str, Truth]],
    spans: tuple[SizeRange, SizeRange],
) -> None:
    h, w = spans
    assert h.upper is not None and w.upper is not None
    pairs = [(a, b) for a in range(h.lower, h.upper + 1) for b in range(w.lower, w.upper + 1)]
    points = [{"h": a, "w": b} for a, b in pairs]
    points = [point for point in points if all(at(point) is True for _, at in before)]
    lost = [point for point in points if any(at(point) is False for _, at in guards)]
    expected = "restricts" if any(min(p.values()) >= 2 for p in lost) else "small" if lost else "none"
    found = effect([text for text, _ in guards], {"h": h, "w": w}, {}, given=[text for text, _ in before])
    if found == "unknown":
        return
    if any(min(point.values()) >= 2 for point in points):
        assert found == expected
    elif points:  # a dimension that only takes 0 and 1 may have nothing to do with the new guards
        assert (found == "none") == (expected == "none")


def test_describe_never_claims_an_end_it_did_not_see() -> None:
    import numpy as np

    sizes = np.arange(100)
    assert describe(sizes % 10 == 9, 0, True, ANY).text == "9 more than a multiple of 10"
    assert describe(sizes >= 40, 0, True, ANY).intervals == ((40, None),)
    assert describe(sizes >= 40, 0, False, SizeRange(0, 99)).intervals == ((40, 99),)
