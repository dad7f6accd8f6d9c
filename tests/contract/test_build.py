from __future__ import annotations

import dataclasses

import pytest
from tests.contract.exports import Exported

import guarddiff
from guarddiff.contract.build import because, contract_of
from guarddiff.core.dims import InputSpec
from guarddiff.core.errors import ContractError
from guarddiff.core.origin import Origin, SourceLine
from guarddiff.core.report import Change, Missing
from guarddiff.core.snapshot import Guard


def changed(exported: Exported, **fields: object) -> guarddiff.Report:
    report = guarddiff.Report.from_data(exported.report)
    for name, value in fields.items():
        setattr(report, name, value)
    return report


def test_conditions_are_the_guards_of_what_was_found(pooled: Exported) -> None:
    contract = contract_of(pooled.report)
    (finding,) = pooled.report.findings
    (condition,) = contract.conditions
    assert condition.guards == finding.guards
    assert condition.verdict == "confirmed"
    assert condition.because.startswith("adaptive_avg_pool2d at ")
    assert condition.because.endswith(f":{finding.origin.source.line if finding.origin.source else 0}")
    assert {d.name: str(d.admitted) for d in contract.inputs[0].dims} == {
        "batch": "any size",
        "height": "exactly 6",
        "width": "exactly 6",
    }
    assert contract.inputs[0].dtype == "float32"


@pytest.mark.parametrize(("verdict", "repaired", "kept"), [
    ("inherent", False, True), ("unconfirmed", False, True), ("harmless", False, False), ("confirmed", True, False),
])  # fmt: skip
def test_what_is_known_to_be_right_is_no_condition(pooled: Exported, verdict: str, repaired: bool, kept: bool) -> None:
    finding = dataclasses.replace(pooled.report.findings[0], verdict=verdict, repaired=repaired)  # type: ignore[arg-type]
    assert bool(contract_of(changed(pooled, findings=(finding,))).conditions) is kept


def test_a_finding_without_guards_holds_its_dimensions_to_the_example(pooled: Exported) -> None:
    finding = dataclasses.replace(pooled.report.findings[0], guards=(), stage="translate")
    contract = contract_of(changed(pooled, findings=(finding,)))
    assert contract.conditions[0].guards == ("height == 6", "width == 6")
    assert not contract.admits({"images": (1, 3, 6, 7)})
    assert contract.admits({"images": (5, 3, 6, 6)})


def test_a_finding_that_names_nothing_is_missing_evidence(pooled: Exported) -> None:
    finding = dataclasses.replace(
        pooled.report.findings[0], dims=(), guards=(), counterexample=None, verdict="unconfirmed", reason="no runtime"
    )
    with pytest.raises(ContractError, match="a finding that names no dimension: aten.*: no runtime"):
        contract_of(changed(pooled, findings=(finding,)))
    assert contract_of(changed(pooled, findings=(finding,)), allow_incomplete=True).missing


def test_lower_bounds_of_the_stages_belong_to_it(pooled: Exported) -> None:
    change = Change("capture", (Guard("batch >= 1", "guard"), Guard("u0 >= 2", "guard", unbacked=True)), "lower")
    contract = contract_of(changed(pooled, changes=(change,)))
    assert ("batch >= 1",) in [condition.guards for condition in contract.conditions]
    assert not contract.admits({"images": (0, 3, 6, 6)})


def test_no_contract_without_evidence(pooled: Exported) -> None:
    report = changed(pooled, missing=(Missing("guards", "a name of torch is gone"),))
    with pytest.raises(ContractError, match=r"lacks evidence \(guards: a name of torch is gone\); allow_incomplete"):
        contract_of(report)
    assert contract_of(report, allow_incomplete=True).missing == ("guards: a name of torch is gone",)


def test_a_report_that_could_not_be_written_lacks_no_evidence(pooled: Exported) -> None:
    unwritten = changed(pooled, missing=(Missing("the written report", "no space left"),))
    assert contract_of(unwritten) == contract_of(pooled.report)


def test_a_guard_that_can_not_be_evaluated_is_missing_evidence(pooled: Exported) -> None:
    finding = dataclasses.replace(pooled.report.findings[0], guards=("nobody == 3", "height == 6"))
    with pytest.raises(ContractError, match="a guard that can't be evaluated: nobody == 3"):
        contract_of(changed(pooled, findings=(finding,)))
    contract = contract_of(changed(pooled, findings=(finding,)), allow_incomplete=True)
    assert contract.conditions[0].guards == ("height == 6", "width == 6")  # at other sizes nothing is known


def test_a_guard_that_the_example_breaks_is_none(pooled: Exported) -> None:
    finding = dataclasses.replace(pooled.report.findings[0], guards=("height == 7", "width == 6"))
    contract = contract_of(changed(pooled, findings=(finding,)))
    assert contract.conditions[0].guards == ("width == 6",)


def test_no_contract_for_what_is_wrong_at_the_example(pooled: Exported) -> None:
    finding = dataclasses.replace(pooled.report.findings[0], dims=(), guards=())
    with pytest.raises(ContractError, match="wrong at the example's own sizes"):
        contract_of(changed(pooled, findings=(finding,)))
    with pytest.raises(ContractError, match="the export raised"):
        contract_of(changed(pooled, error="RuntimeError"))


def test_the_report_of_another_model_is_refused(pooled: Exported) -> None:
    with pytest.raises(ContractError, match="input pictures"):
        contract_of(pooled.report, [InputSpec("pictures", "float32", ("n", 3, "h", "w"))])
    with pytest.raises(ContractError, match="another model"):
        contract_of(pooled.report, [InputSpec("images", "float16", ("n", 3, "h", "w"))])
    with pytest.raises(ContractError, match="another model"):
        contract_of(pooled.report, [InputSpec("images", "float32", ("n", 3, "h"))])


def test_settings_have_to_be_json(pooled: Exported) -> None:
    settings = {"size": [2, 3], "mode": "area"}
    assert contract_of(pooled.report, settings=settings).settings == settings
    with pytest.raises(ContractError, match="preprocessing is no JSON"):
        contract_of(pooled.report, preprocessing={"mean": object()})
    with pytest.raises(ContractError, match="settings is no JSON"):
        contract_of(pooled.report, settings={"scale": float("nan")})
    with pytest.raises(ContractError, match="settings has to be a mapping"):
        contract_of(pooled.report, settings=[1])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("origin", "text"),
    [
        (None, ""),
        (Origin(), ""),
        (Origin(op="aten._adaptive_avg_pool2d.default"), "adaptive_avg_pool2d"),
        (Origin(op="int()", source=SourceLine("a.py", 3)), "int() at a.py:3"),
        (Origin(op="aten.view.default", module_path="avgpool", source=SourceLine("a.py", 3)), "avgpool at a.py:3"),
        (Origin(op="aten.view.default", module_path="", source=SourceLine("a.py", 3)), "view at a.py:3"),
    ],
)
def test_because(origin: Origin | None, text: str) -> None:
    assert because(origin) == text
