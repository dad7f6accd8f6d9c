from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from guarddiff.options import Options


def test_defaults() -> None:
    assert dataclasses.astuple(Options()) == ("warn", "findings", False, None, (), False)


@pytest.mark.parametrize("on_finding", ["warn", "raise", "ignore"])
@pytest.mark.parametrize("replay", ["findings", "full", "off"])
def test_every_word_is_taken(on_finding: Any, replay: Any) -> None:
    options = Options(on_finding, replay)
    assert (options.on_finding, options.replay) == (on_finding, replay)


@pytest.mark.parametrize("report_to", [None, "reports", Path("reports")])
@pytest.mark.parametrize("repair", [True, False])
def test_every_kind_is_taken(report_to: Any, repair: bool) -> None:
    options = Options(report_to=report_to, repair=repair)
    assert (options.report_to, options.repair) == (report_to, repair)


FINDINGS = "on_finding must be one of 'warn', 'raise', 'ignore', not "
REPLAY = "replay must be one of 'findings', 'full', 'off', not "


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"on_finding": "wran"}, FINDINGS + "'wran'; did you mean 'warn'?"),
        ({"on_finding": "warning"}, FINDINGS + "'warning'; did you mean 'warn'?"),
        ({"on_finding": "RAISE"}, FINDINGS + "'RAISE'; did you mean 'raise'?"),
        ({"on_finding": "xyz"}, FINDINGS + "'xyz'"),
        ({"on_finding": ""}, FINDINGS + "''"),
        ({"replay": "finding"}, REPLAY + "'finding'; did you mean 'findings'?"),
        ({"replay": "ful"}, REPLAY + "'ful'; did you mean 'full'?"),
    ],
)
def test_another_word_is_a_value_error_that_names_the_nearest(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        Options(**keywords)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"on_finding": None}, FINDINGS + "None"),
        ({"on_finding": True}, FINDINGS + "True"),
        ({"on_finding": ["warn"]}, FINDINGS + "['warn']"),
        ({"replay": False}, REPLAY + "False"),
        ({"replay": 3}, REPLAY + "3"),
        ({"repair": None}, "repair must be True or False, not None"),
        ({"repair": 1}, "repair must be True or False, not 1"),
        ({"report_to": 3}, "report_to must be a folder's path or None, not 3"),
        ({"report_to": b"reports"}, "report_to must be a folder's path or None, not b'reports'"),
        ({"report_to": True}, "report_to must be a folder's path or None, not True"),
    ],
)
def test_another_kind_is_a_type_error(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError) as caught:
        Options(**keywords)
    assert str(caught.value) == message


def test_options_do_not_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Options().replay = "full"  # type: ignore[misc]
