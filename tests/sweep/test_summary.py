"""The figures, against what is counted by hand in tests/sweep/made_up.py."""

from __future__ import annotations

import dataclasses
import json

import pytest
from tests.sweep.made_up import CLEAN, POOL, RULE, outcomes, right, said, silent

from guarddiff.sweep.figures import Repairs, Summary, share
from guarddiff.sweep.outcome import STATES, Outcome, Repaired
from guarddiff.sweep.summary import summarize


@pytest.fixture(scope="module")
def summary() -> Summary:
    return summarize(outcomes())


def test_every_state_is_made_up() -> None:
    assert {one.state for one in outcomes()} == set(STATES)


def test_counts(summary: Summary) -> None:
    total = summary.total
    assert (total.cases, total.measured, total.exported, total.silent) == (22, 18, 17, 8)
    assert total.silent_share == round(8 / 17, 6)
    assert [(one.group, one.cases, one.measured, one.exported, one.silent) for one in summary.groups] == [
        ("ops", 14, 13, 12, 7),
        ("catalogue", 4, 3, 3, 0),
        ("models", 4, 2, 2, 1),
    ]
    assert total.states["ok"] == 7
    assert sum(total.states.values()) == 22


def test_classes_by_stage(summary: Summary) -> None:
    assert summary.total.classes == {
        "capture": {"wrong shape": 1, "runtime error": 1},
        "decompose": {"wrong shape": 1, "wrong values": 1},
        "translate": {"wrong shape": 1},
        "optimize": {"wrong values": 1},
        "example": {"wrong values": 1},
        "unknown": {"wrong values": 1},
    }


@pytest.mark.parametrize(
    ("mode", "of", "cases", "warned", "confirmed"),
    [
        ("default", "decompose", 2, 2, 2),
        ("default", "capture", 2, 2, 1),
        ("default", "translate", 1, 0, 0),
        ("default", "optimize", 1, 0, 0),
        ("default", "all", 6, 4, 3),
        ("default", "example", 1, 0, 0),
        ("default", "unknown", 1, 0, 0),
        ("full", "decompose", 2, 2, 2),
        ("full", "capture", 2, 2, 2),
        ("full", "translate", 1, 1, 1),
        ("full", "optimize", 1, 0, 0),
        ("full", "all", 6, 5, 5),
        ("full", "example", 1, 1, 0),
        ("full", "unknown", 1, 0, 0),
    ],
)
def test_recall(summary: Summary, mode: str, of: str, cases: int, warned: int, confirmed: int) -> None:
    found = summary.recalled(mode, of)
    assert (found.cases, found.warned, found.confirmed) == (cases, warned, confirmed)
    assert found.warned_share == round(warned / cases, 6)
    assert found.confirmed_share == round(confirmed / cases, 6)


@pytest.mark.parametrize(("mode", "warned", "confirmed"), [("default", 2, 0), ("full", 1, 1)])
def test_false_alarms(summary: Summary, mode: str, warned: int, confirmed: int) -> None:
    found = summary.rightly(mode)
    assert (found.cases, found.warned, found.confirmed, found.unsure) == (6, warned, confirmed, 1)
    assert summary.unsure == ("ops/topk/0",)


def test_misses_say_why(summary: Summary) -> None:
    harmless = "harmless aten.mul.Tensor at capture: 3 sizes that break the guard agree"
    assert [(one.mode, one.key, one.stage, one.verdict, one.reason) for one in summary.missed] == [
        ("default", "ops/squeeze/0", "translate", "none", "no finding"),
        ("default", "ops/fold/0", "optimize", "harmless", harmless),
        ("default", "ops/div/0", "example", "none", "no finding; missing: replay: no onnxruntime"),
        ("default", "ops/where/0", "unknown", None, "guarddiff was not asked"),
        ("full", "ops/fold/0", "optimize", "harmless", harmless),
        ("full", "ops/where/0", "unknown", None, "guarddiff was not asked"),
    ]


def test_false_alarms_say_why(summary: Summary) -> None:
    alarm = "unconfirmed aten.mul.Tensor at capture: too large to be run"
    assert [(one.mode, one.key, one.stage, one.reason) for one in summary.alarms] == [
        ("default", "ops/mul/0", None, alarm),
        ("default", "ops/conv/0", None, alarm),
        ("full", "ops/conv/0", None, "confirmed aten.convolution.default at capture"),
    ]


def test_many_findings_are_cut() -> None:
    told = said(POOL, POOL, POOL, POOL, POOL, warned=False)
    (first, _) = summarize([silent("ops/a/0", "wrong shape", "capture", default=told, full=told)]).missed
    assert first.reason.endswith("; 2 more findings")


def test_what_is_loud_counts_neither_way(summary: Summary) -> None:
    assert [(one.state, one.cases, one.warned_default, one.warned_full) for one in summary.apart] == [
        ("refused input", 1, 0, 1),
        ("static input", 1, 1, 1),
        ("export error", 1, 0, 0),
    ]


def test_repairs(summary: Summary) -> None:
    assert [one for one in summary.repairs if one.asked] == [
        Repairs("ops", "pool", 2, 2, 2, 1),
        Repairs("ops", "kron", 1, 1, 0, 0),
        Repairs("models", "timm", 1, 1, 1, 1),
    ]
    assert summary.repaired == Repairs("all", "all", 8, 4, 3, 2)
    assert summary.repaired.cured_share == 0.25
    assert Repairs.of("ops", summary.repairs) == Repairs("ops", "all", 7, 3, 2, 1)


def test_wrong_repairs_of_right_cases_are_seen_too(summary: Summary) -> None:
    assert [(one.key, one.state, one.text) for one in summary.bad_repairs] == [
        ("ops/pool/1", "wrong values", "off by 0.5"),
        ("ops/pool/2", "wrong shape", "1×2 instead of 1×3"),
    ]


@pytest.mark.parametrize("repair", [Repaired(False, "no", "wrong shape"), Repaired(True, "", "not comparable"), None])
def test_models_that_were_not_repaired_or_not_run_are_no_wrong_repairs(repair: Repaired | None) -> None:
    found = summarize([silent("ops/a/0", "wrong shape", "capture", repair=repair)])
    assert found.bad_repairs == ()
    assert found.repaired.cured == 0


def test_families(summary: Summary) -> None:
    assert [(one.group, one.family, one.silent, one.cases) for one in summary.families] == [
        ("ops", "pool", 2, 3),
        ("ops", "div", 1, 1),
        ("ops", "fold", 1, 1),
        ("ops", "kron", 1, 1),
        ("ops", "squeeze", 1, 1),
        ("ops", "where", 1, 1),
        ("models", "timm", 1, 1),
    ]
    pool = summary.families[0]
    assert pool.stages == {"decompose": 2}
    assert (pool.op, pool.rule, pool.source, pool.guard) == (POOL.op, RULE, "models/net.py:12", "h % 2 == 0")
    assert (pool.typical, pool.right, pool.wrong) == ("ops/pool/0", ((1, 2, 6, 6),), ((1, 2, 7, 7),))
    div = summary.families[1]
    assert (div.right, div.wrong, div.missed_default, div.missed_full) == ((), ((1, 2, 6, 6),), 1, 0)
    fold = summary.families[2]
    assert (fold.op, fold.missed_default, fold.missed_full) == (None, 1, 1), "what is harmless is no origin"
    where = summary.families[5]
    assert (where.op, where.rule, where.source, where.guard, where.wrong) == (None, None, None, None, ())


def test_the_typical_origin_is_that_of_most_cases() -> None:
    other = said(dataclasses.replace(POOL, op="aten.other"))
    told = [other, said(POOL), CLEAN, CLEAN, CLEAN, said(POOL)]
    cases = [silent(f"ops/a/{n}", "wrong shape", "decompose", default=one, full=one) for n, one in enumerate(told)]
    (found,) = summarize(cases).families
    assert (found.op, found.typical, found.missed_full) == (POOL.op, "ops/a/1", 3)


def test_the_finding_that_tells_most_is_the_proved_one() -> None:
    loose = dataclasses.replace(POOL, verdict="unconfirmed", op="aten.loose")
    elsewhere = dataclasses.replace(POOL, stage="capture", op="aten.elsewhere")
    told = said(loose, elsewhere, POOL)
    (found,) = summarize([silent("ops/a/0", "wrong shape", "decompose", default=told)]).families
    assert found.op == POOL.op


def test_unmeasured_are_listed_with_their_reason(summary: Summary) -> None:
    assert [(one.key, one.state) for one in summary.unmeasured] == [
        ("ops/bernoulli/0", "not comparable"),
        ("catalogue/resizing/half", "crashed"),
        ("models/timm/slow", "timed out"),
        ("models/transformers/canine", "failed"),
    ]
    assert summary.unmeasured[1].text == "the process ended with signal 11"


def test_times(summary: Summary) -> None:
    times = summary.times
    # 8 silent at 2 s, 7 right at 1.5 s, and 0.1, 0.2, 90 and 120 s
    assert times.seconds == pytest.approx(8 * 2 + 7 * 1.5 + 0.3 + 210)
    assert times.per_minute == pytest.approx(60 * 22 / times.seconds, abs=1e-3)
    assert times.repair == 2.0
    assert [one.key for one in times.slowest[:3]] == [
        "models/timm/slow",
        "catalogue/resizing/half",
        "models/timm/vgg11",
    ]
    assert len(times.slowest) == 10
    assert times.memory == 2**30


def test_of_nothing() -> None:
    nothing = summarize([])
    assert nothing.total.silent_share is None
    assert nothing.recalled("full", "all").warned_share is None
    assert nothing.rightly("default").warned_share is None
    assert (nothing.groups, nothing.families, nothing.times.memory, nothing.times.per_minute) == ((), (), None, None)
    assert share(0, 3) == 0.0


def test_a_group_of_its_own_is_not_lost() -> None:
    assert [one.group for one in summarize([right("zoo/a/b"), right("ops/a/b")]).groups] == ["ops", "zoo"]


def test_data_is_plain_and_holds_the_shares(summary: Summary) -> None:
    data = summary.to_data()
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert data["total"]["silent_share"] == round(8 / 17, 6)
    assert [one["warned_share"] for one in data["recall"] if one["of"] == "all"] == [round(4 / 6, 6), round(5 / 6, 6)]
    assert data["families"][0]["wrong"] == [[1, 2, 7, 7]]
    assert data["missed"][0]["reason"] == "no finding"


def test_unknown_names_are_refused(summary: Summary) -> None:
    with pytest.raises(KeyError):
        summary.recalled("full", "declare")
    with pytest.raises(KeyError):
        summary.rightly("off")


def test_figures_survive_the_file() -> None:
    again = [Outcome.from_data(json.loads(json.dumps(one.to_data()))) for one in outcomes()]
    assert summarize(again) == summarize(outcomes())


def test_what_guarddiff_alone_has_found_counts_apart() -> None:
    """Its own counterexamples can't tell how much it misses: a case that only they show wrong is in no recall."""
    found = silent("ops/stack/0", "wrong shape", "decompose", default=CLEAN, full=said(POOL), beyond=True)
    summary = summarize([found])
    for of in ("decompose", "all"):
        assert summary.recalled("full", of).cases == 0
    apart = {mode: summary.recalled(mode, "beyond") for mode in ("default", "full")}
    assert [(apart[mode].cases, apart[mode].warned) for mode in apart] == [(1, 0), (1, 1)]
    assert summary.total.silent == 1 and summary.total.classes == {"decompose": {"wrong shape": 1}}
    (missed,) = summary.missed
    assert missed.mode == "default" and missed.reason.startswith("wrong only at a size that guarddiff found; ")


def test_a_model_that_is_repaired_in_part_is_no_bad_repair() -> None:
    """Its findings that remain still warn."""
    part = Repaired(True, "but for the findings that remain", "wrong shape", remaining=True)
    cases = [
        silent(f"ops/stack/{n}", "wrong shape", "decompose", full=said(POOL), repair=one)
        for n, one in enumerate((part, dataclasses.replace(part, remaining=False)))
    ]
    assert [one.key for one in summarize(cases).bad_repairs] == ["ops/stack/1"]
