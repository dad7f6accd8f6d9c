from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.render.evidence_fixtures import full_evidence, translate_fault
from tests.render.fixtures import SAMPLES, UNKNOWN, adaptive_pool, dim, exactly, incomplete, quiet, report, spec

from guarddiff.core.domain import Admitted, SizeRange, admitted
from guarddiff.core.proof import Try, TryState
from guarddiff.core.report import ReportData
from guarddiff.render.strip import Limits, Scale, Strip, in_words, limits, strip, strips, tried_sizes

PLAIN = dim("x[0]", 6)


def limit(held: Admitted | None, *numbers: int) -> Limits:
    return {held.text if held else "unknown": (held, numbers or (1,))}


def drawn(
    held: Limits | None = None,
    tried: dict[tuple[int, TryState], int] | None = None,
    sizes: SizeRange | None = None,
    unsure: bool = False,
) -> Strip:
    asked = dim("x[0]", 6, sizes=sizes or SizeRange(0, None))
    return strip(asked, held or {}, tried or {}, unsure)


def test_one_strip_per_declared_dimension() -> None:
    assert [found.dim.place for found in strips(adaptive_pool())] == ["x[0]", "x[2]", "x[3]"]


def test_an_admitted_size_covers_its_example_and_nothing_else_that_was_tried() -> None:
    found = drawn(limit(exactly(6)), {(5, "differs"): 1, (6, "agrees"): 1, (7, "differs"): 2})
    (track,) = found.tracks
    (band,) = track.bands
    at = {mark.size: mark.at for mark in found.marks}
    assert track.exact
    assert at[5] < band.start < at[6] == found.example < band.start + band.width < at[7]
    assert track.text == "exactly 6 (finding 1)"


def test_declared_bounds_close_the_bar_and_no_bound_leaves_it_open() -> None:
    closed = drawn(sizes=SizeRange(4, 10))
    assert not closed.open_end
    assert (closed.declared.start, closed.declared.start + closed.declared.width) == (2.0, 98.0)
    assert [tick.label for tick in closed.ticks] == ["4", "6", "10"]
    opened = drawn()
    assert opened.open_end
    assert opened.declared.start + opened.declared.width == 100
    assert "12" not in [tick.label for tick in opened.ticks], "the end of the axis is no bound"


def test_wide_ranges_are_logarithmic_and_close_ones_are_not() -> None:
    assert drawn(sizes=SizeRange(2, 512)).log
    assert not drawn(sizes=SizeRange(4, 64)).log
    first, second, third = (Scale(1, 1000, True).at(size) for size in (9, 99, 999))
    assert second - first == pytest.approx(third - second, abs=0.2)


def test_an_enormous_bound_is_shown_as_open() -> None:
    found = drawn(sizes=SizeRange(0, 10**400))
    assert found.open_end
    assert found.example > 20


def test_what_no_finding_names_is_as_declared_unless_something_is_missing() -> None:
    assert [(t.text, t.exact) for t in drawn().tracks] == [("as declared", True)]
    assert [(t.text, t.exact) for t in drawn(unsure=True).tracks] == [("unknown", False)]
    assert [t.text for found in strips(incomplete()) for t in found.tracks] == ["unknown"]


@pytest.mark.parametrize("held", [None, UNKNOWN, Admitted("equal to y[0]", (), True, False)])
def test_what_is_no_known_range_is_drawn_as_vague(held: Admitted | None) -> None:
    (track,) = drawn(limit(held)).tracks
    assert not track.exact
    assert len(track.bands) == 1


def test_no_size_at_all_draws_nothing() -> None:
    (track,) = drawn(limit(Admitted("no size", (), True, False))).tracks
    assert track.bands == ()
    assert track.text == "no size (finding 1)"


def test_a_pattern_is_drawn_size_by_size_while_it_can_be() -> None:
    held = admitted(["n % 7 == 0"], {"n": SizeRange(0, None)}, {"n": 7})["n"]
    few = strip(dim("x[0]", 7), limit(held), {}, False).tracks[0]
    assert few.exact
    assert len(few.bands) == 3  # 0, 7 and 14
    many = strip(dim("x[0]", 7), limit(held), {(7 * 200, "agrees"): 1}, False).tracks[0]
    assert not many.exact
    assert len(many.bands) == 1


def test_findings_that_disagree_get_a_bar_each() -> None:
    found = drawn({**limit(exactly(6), 1, 3), **limit(UNKNOWN, 2)})
    assert [track.text for track in found.tracks] == ["exactly 6 (finding 1 and 3)", "unknown (finding 2)"]


def test_harmless_findings_restrict_nothing() -> None:
    assert {place: list(own) for place, own in limits(quiet()).items()} == {
        ("x", 1): ["unknown"],
        ("x", 0): ["at most 8"],
    }


def test_a_wrong_run_tells_of_the_dimension_that_left_the_admitted_sizes() -> None:
    found = tried_sizes(full_evidence())
    assert found["x", 2] == {(256, "differs"): 2, (255, "agrees"): 1, (240, "agrees"): 1, (1024, "unknown"): 1}
    assert (224, "differs") not in found["x", 3]
    assert found["x", 3][448, "differs"] == 1
    assert ("x", 1) not in found, "declared fixed"


def test_without_admitted_sizes_a_wrong_run_tells_of_what_left_the_example() -> None:
    found = tried_sizes(translate_fault())
    assert found["x", 1] == {(3, "differs"): 1, (1, "agrees"): 1}
    assert (4, "differs") not in found["x", 0]


def test_a_counterexample_counts_where_no_run_holds_it() -> None:
    assert tried_sizes(adaptive_pool())["x", 2] == {(7, "differs"): 1}
    assert tried_sizes(translate_fault())["x", 1][3, "differs"] == 1


def test_a_wrong_run_at_the_example_itself_marks_it() -> None:
    broken = report(inputs=(spec("x", PLAIN),), tries=(Try({"x": (6,)}, "differs"), Try({"y": (3,)}, "agrees")))
    assert tried_sizes(broken) == {("x", 0): {(6, "differs"): 1}}


def test_an_operator_by_itself_tells_of_the_model_that_it_is_wrong_and_nothing_else() -> None:
    states: tuple[TryState, ...] = ("agrees", "rejected", "unknown", "differs")
    tries = [Try({"x": (size,)}, state, "operator") for size, state in enumerate(states, 7)]
    found = tried_sizes(report(inputs=(spec("x", PLAIN),), tries=(*tries, Try({"x": (7,)}, "differs"))))
    assert found == {("x", 0): {(10, "differs"): 1, (7, "differs"): 1}}


def test_marks_that_would_cover_each_other_are_stacked() -> None:
    found = drawn(tried={(6, "agrees"): 1, (6, "differs"): 1, (6, "unknown"): 1, (11, "agrees"): 1})
    assert sorted(mark.level for mark in found.marks) == [0, 0, 1, 2]
    assert found.levels == 3


def test_too_many_marks_keep_the_wrong_ones() -> None:
    found = drawn(tried={**{(n, "agrees"): 1 for n in range(1, 500)}, (501, "differs"): 1})
    assert len(found.marks) == 60
    assert (501, "differs") in [(mark.size, mark.state) for mark in found.marks]
    assert [mark.at for mark in found.marks] == sorted(mark.at for mark in found.marks)


def test_the_same_in_words() -> None:
    tried: dict[tuple[int, TryState], int] = {(7, "differs"): 1, (3, "agrees"): 2, (1, "rejected"): 1, (9, "agrees"): 1}
    assert in_words(tried) == "Tried: wrong at 7; refused by eager PyTorch at 1; right at 3 and 9."
    assert in_words({}) == "Not tried."
    assert in_words({(n, "agrees"): 1 for n in range(20)}).endswith("7 and 12 more.")


SIZES = st.one_of(st.integers(0, 50), st.integers(0, 10**6), st.integers(0, 10**30))
STATES = st.sampled_from(["agrees", "differs", "rejected", "unknown"])


@given(
    SIZES,
    SIZES,
    st.none() | SIZES,
    st.dictionaries(st.tuples(SIZES, STATES), st.integers(1, 3), max_size=12),
    st.none() | st.lists(st.tuples(SIZES, SIZES), max_size=4),
)
def test_everything_stays_inside(example, lower, above, tried, spans) -> None:  # type: ignore[no-untyped-def]
    upper = None if above is None else lower + above
    held = Admitted("some", tuple((a, a + b) for a, b in sorted(spans)), True, False) if spans else UNKNOWN
    asked = dim("x[0]", example, sizes=SizeRange(lower, upper))
    found = strip(asked, limit(held), tried, False)
    bands = [found.declared, *(band for track in found.tracks for band in track.bands)]
    assert all(band.start >= 0 and band.width > 0 and band.start + band.width <= 100.7 for band in bands)
    assert all(2 <= at <= 98 for at in (found.example, *(m.at for m in found.marks), *(t.at for t in found.ticks)))
    order = sorted(found.marks, key=lambda mark: mark.size)
    assert [mark.at for mark in order] == sorted(mark.at for mark in order)
    assert str(min(example, 2**63 - 1)) in [tick.label for tick in found.ticks], "the example is always written"


@pytest.mark.parametrize("name", SAMPLES)
def test_all_samples_can_be_drawn(name: str) -> None:
    sample: ReportData = SAMPLES[name]()
    declared = [d for given in sample.inputs for d in given.dims if d.declared]
    assert [found.dim for found in strips(sample)] == declared


def test_a_derived_dimension_is_drawn_by_its_own_sizes() -> None:
    twice = dataclasses.replace(dim("x[0]", 12, exactly(12)), name="2*h", size="2*h")
    found = list(strips(report(inputs=(spec("x", twice),), tries=(Try({"x": (14,)}, "agrees"),))))
    assert [mark.size for mark in found[0].marks] == [14]
