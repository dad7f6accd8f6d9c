"""What changed between two sweeps."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from tests.render.fixtures import CONTROL, HOSTILE
from tests.render.parsed import check_markup, rows
from tests.sweep.made_up import CLEAN, ENVIRONMENT, HARMLESS, KRON, POOL, outcomes, right, said, silent

from guarddiff.sweep.changes import to_json, to_markdown, to_text
from guarddiff.sweep.compare import Changes, compare
from guarddiff.sweep.outcome import Outcome, Repaired
from guarddiff.sweep.results import Results

NEWER = {**ENVIRONMENT, "torch": "2.14.1"}
CURED, WRONG = Repaired(True, "", "ok"), Repaired(True, "", "wrong shape")


def results(*cases: Outcome, **environment: Any) -> Results:
    return Results({**ENVIRONMENT, **environment}, {one.key: one for one in cases})


def changes(old: list[Outcome], new: list[Outcome]) -> Changes:
    return compare(results(*old), results(*new, torch="2.14.1"))


def a(state: Any, stage: str | None = None, **more: Any) -> Outcome:
    return Outcome("ops/a/0", state, stage, **more)


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        (a("ok"), a("wrong shape", "capture"), "became_wrong"),
        (a("export error"), a("wrong values", "decompose"), "became_wrong"),
        (a("refused input"), a("runtime error"), "became_wrong"),
        (a("wrong shape", "capture"), a("ok"), "became_right"),
        (a("wrong shape", "capture"), a("export error"), "changed"),
        (a("wrong shape", "capture"), a("wrong shape", "decompose"), "changed"),
        (a("wrong shape", "capture"), a("wrong values", "capture"), "changed"),
        (a("ok"), a("static input"), "changed"),
        (a("ok"), a("timed out"), "unmeasured_now"),
        (a("wrong shape", "capture"), a("crashed"), "unmeasured_now"),
        (a("failed"), a("wrong shape", "capture"), "unmeasured_before"),
        (a("not comparable"), a("ok"), "unmeasured_before"),
        (a("ok"), a("ok"), None),
        (a("crashed"), a("timed out"), None),
    ],
)
def test_a_case_is_told_once(old: Outcome, new: Outcome, where: str | None) -> None:
    found = changes([old], [new])
    lists = ("became_wrong", "became_right", "changed", "unmeasured_now", "unmeasured_before")
    assert [name for name in lists if getattr(found, name)] == ([where] if where else [])
    assert found.same == (0 if where else 1)
    assert found.worse is (where == "became_wrong")
    assert (found.appeared, found.vanished) == ((), ())


def test_appeared_and_vanished() -> None:
    found = changes(
        [right("ops/a/0"), right("ops/b/0")], [right("ops/b/0"), silent("ops/c/0", "wrong shape", "capture")]
    )
    assert [one.key for one in found.appeared] == ["ops/c/0"]
    assert [one.key for one in found.vanished] == ["ops/a/0"]
    assert found.worse is False


def heard(mode: str, warned: bool) -> Outcome:
    told = {"default": CLEAN, "full": CLEAN, **({mode: said(POOL)} if warned else {})}
    return silent("ops/a/0", "wrong shape", "capture", **told)


@pytest.mark.parametrize("mode", ["default", "full"])
def test_detections_lost_and_gained(mode: str) -> None:
    found = changes([heard(mode, True)], [heard(mode, False)])
    assert [(one.mode, one.key, one.reason) for one in found.lost] == [(mode, "ops/a/0", "no finding")]
    assert (found.gained, found.worse) == ((), True)
    back = changes([heard(mode, False)], [heard(mode, True)])
    assert [(one.mode, one.key) for one in back.gained] == [(mode, "ops/a/0")]
    assert (back.lost, back.worse) == ((), False)


def test_a_warning_that_went_with_the_fault_is_no_lost_detection() -> None:
    found = changes([heard("full", True)], [right("ops/a/0")])
    assert (found.lost, found.worse) == ((), False)


def test_false_alarms() -> None:
    quiet, loud = right("ops/a/0"), right("ops/a/0", said(POOL))
    assert [one.mode for one in changes([quiet], [loud]).alarms] == ["default"]
    assert [one.mode for one in changes([loud], [quiet]).alarms_gone] == ["default"]
    unsure = dataclasses.replace(loud, unsure=True)
    assert changes([quiet], [unsure]).alarms == ()


def test_cures() -> None:
    def wrong(repair: Repaired | None) -> Outcome:
        return silent("ops/a/0", "wrong shape", "capture", repair=repair)

    for worse in (WRONG, None, Repaired(False, "none", "wrong shape")):
        found = changes([wrong(CURED)], [wrong(worse)])
        assert (len(found.cures_lost), len(found.cures_gained)) == (1, 0)
        back = changes([wrong(worse)], [wrong(CURED)])
        assert (len(back.cures_lost), len(back.cures_gained)) == (0, 1)
    assert changes([wrong(CURED)], [right("ops/a/0")]).cures_lost == ()


def test_recall_before_and_after() -> None:
    found = changes([heard("full", True)], [heard("full", False)])
    full = {one.new.of: one for one in found.recall if one.new.mode == "full"}
    assert sorted(full) == ["all", "capture"]
    assert (full["all"].old.warned_share, full["all"].new.warned_share) == (1.0, 0.0)


def test_the_same_environment_is_said() -> None:
    (caveat,) = compare(results(right("ops/a/0")), results(right("ops/a/0"), runs=[])).caveats
    assert "the same versions (torch 2.13.0, guarddiff 0.1.0)" in caveat
    assert changes([right("ops/a/0")], [right("ops/a/0")]).caveats == ()


def test_other_caveats() -> None:
    both = compare(results(a("ok")), results(a("ok"), torch="2.14.1", guarddiff="0.2.0"))
    assert both.environment == (("torch", "2.13.0", "2.14.1"), ("guarddiff", "0.1.0", "0.2.0"))
    assert ["both changed" in one for one in both.caveats] == [True]
    assert changes([a("ok")], []).caveats == ("no case is in both: nothing was compared",)
    lacking = changes([a("crashed"), right("ops/b/0")], [a("failed"), right("ops/b/0")]).caveats
    assert lacking == ("1 case of the old sweep was not measured", "1 case of the new sweep was not measured")


def everything() -> Changes:
    old = [
        *outcomes(),
        right("ops/x/wrong"),
        silent("ops/x/lost", "wrong shape", "capture", default=said(POOL), full=said(POOL), repair=CURED),
        right("ops/x/alarm"),
        right("ops/x/gone"),
    ]
    moved = {
        "ops/pool/0": lambda one: dataclasses.replace(one, state="ok", stage=None, wrong=()),
        "ops/squeeze/0": lambda one: dataclasses.replace(one, default=said(POOL), repair=CURED),
        "ops/kron/0": lambda one: dataclasses.replace(one, stage="decompose"),
        "ops/mul/0": lambda one: dataclasses.replace(one, default=CLEAN),
        "ops/add/0": lambda one: dataclasses.replace(one, state="crashed", text="signal 11"),
        "models/timm/slow": lambda one: dataclasses.replace(one, state="ok"),
        "ops/x/wrong": lambda one: silent(one.key, "wrong values", "translate", default=CLEAN, full=CLEAN),
        "ops/x/lost": lambda one: dataclasses.replace(one, default=said(HARMLESS, warned=False), repair=None),
        "ops/x/alarm": lambda one: dataclasses.replace(one, full=said(KRON)),
        "ops/x/gone": lambda one: dataclasses.replace(one, key="ops/x/came"),
    }
    new = [moved.get(one.key, lambda same: same)(one) for one in old]
    return compare(results(*old), results(*new, torch="2.14.1"))


def test_text() -> None:
    text = to_text(everything())
    assert text.startswith(
        "guarddiff sweep compare: something got worse; "
        "cases with results in the old sweep only: 2\n"
        "Cases: 1 became silently wrong, 1 became right"
    )
    titles = [line for line in text.splitlines() if line.endswith(":") and not line.startswith((" ", "-"))]
    assert titles == [
        "Caution:",
        "Environment:",
        "Became silently wrong (1):",
        "Detections that guarddiff lost (1):",
        "Became right (1):",
        "Changed state or stage (1):",
        "Detections that guarddiff gained (1):",
        "New false alarms (1):",
        "False alarms that are gone (1):",
        "Cured before and not now (1):",
        "Cured now and not before (1):",
        "Not measured now: changed or not is unknown (1):",
        "Not measured before (1):",
        "Appeared (1):",
        "Vanished (1):",
        "Recall:",
    ]
    assert "- ops/x/wrong: ok → wrong values at translate (1×2×7×7): 3×3 instead of 3×4" in text
    assert "- torch 2.13.0 → 2.14.1" in text
    assert "- full: capture: warned 3 of 3 (100 %) → 2 of 2 (100 %)" in text
    assert max(map(len, text.splitlines())) <= 110


def test_markdown() -> None:
    text = to_markdown(everything())
    check_markup(text)
    assert "## Became silently wrong (1)" in text
    assert ["`ops/x/lost`", "cured → not asked"] in rows(text)
    assert "- torch `2.13.0` → `2.14.1`" in text


def test_json() -> None:
    data = json.loads(to_json(everything()))
    assert (data["format"], data["version"], data["worse"]) == ("guarddiff-sweep-diff", 1, True)
    assert data["became_wrong"] == [
        {
            "key": "ops/x/wrong",
            "old": {"key": "ops/x/wrong", "state": "ok", "stage": None},
            "new": {"key": "ops/x/wrong", "state": "wrong values", "stage": "translate"},
        }
    ]
    (lost,) = data["lost"]
    assert (lost["mode"], lost["old"], lost["new"]) == ("default", "confirmed", "harmless")
    assert lost["reason"].startswith("harmless aten.mul.Tensor")
    assert {field.name for field in dataclasses.fields(Changes)} <= data.keys()


def test_nothing_changed() -> None:
    same = changes(outcomes(), outcomes())
    assert (same.worse, same.same) == (False, 22)
    assert "nothing got worse\nCases: 22 the same." in to_text(same)


@pytest.mark.parametrize("hostile", [HOSTILE, CONTROL, "|", "`", "a\nb"])
def test_hostile_names_break_nothing(hostile: str) -> None:
    key = f"ops/a/{hostile}"
    told = dataclasses.replace(said(POOL, missing=(hostile,)), warned=False)
    old = [right(key), *(right(f"{key}{n}") for n in range(30))]
    new = [silent(one.key, "wrong shape", None, default=told, full=told) for one in old]
    found = compare(results(*old, torch=hostile), results(*new, timm=hostile))
    check_markup(to_markdown(found))
    assert "<summary>31 cases</summary>" in to_markdown(found)
    assert all(line.isprintable() for line in to_text(found).split("\n"))
    json.loads(to_json(found))
