from __future__ import annotations

import json

import pytest
from tests.render.evidence_fixtures import EVIDENCE
from tests.render.fixtures import SAMPLES, snapshot

from guarddiff.core import codec
from guarddiff.render.json import render

ALL = {**SAMPLES, **EVIDENCE}


@pytest.mark.parametrize("name", ["adaptive_pool", "untried", "incomplete", "full_evidence"])
def test_looks_as_reviewed(name: str) -> None:
    snapshot(f"{name}.json", render(ALL[name]()))


@pytest.mark.parametrize("name", ALL)
def test_holds_the_whole_report(name: str) -> None:
    report = ALL[name]()
    text = render(report)
    assert text.isascii()
    assert text.endswith("}\n")
    assert json.loads(text)["status"] == report.status
    assert codec.loads(text) == report
