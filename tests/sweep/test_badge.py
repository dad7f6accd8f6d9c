"""The badge: shields.io's endpoint, and the picture."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest
from tests.render.fixtures import CONTROL, HOSTILE
from tests.sweep.made_up import outcomes, right, silent

from guarddiff.sweep import badge
from guarddiff.sweep.figures import Counts
from guarddiff.sweep.outcome import Outcome
from guarddiff.sweep.summary import summarize

NAMESPACE = "{http://www.w3.org/2000/svg}"


def counts(silent: int, exported: int) -> Counts:
    return Counts("all", exported, exported, exported, silent, {}, {})


def test_message_separates_thousands() -> None:
    assert badge.message(counts(237, 1915), {"torch": "2.13.0"}) == "237 of 1,915 (torch 2.13.0)"
    assert badge.message(counts(0, 0), {}) == "0 of 0 (torch unknown)"


def test_endpoint() -> None:
    assert json.loads(badge.endpoint(summarize(outcomes()).total, {"torch": "2.13.0"})) == {
        "schemaVersion": 1,
        "label": "silently wrong exports",
        "message": "8 of 17 (torch 2.13.0)",
        "color": "red",
    }


@pytest.mark.parametrize(
    ("cases", "color"),
    [
        ([], "lightgrey"),
        ([Outcome("ops/a/0", "export error")], "lightgrey"),
        ([right("ops/a/0")], "brightgreen"),
        ([silent("ops/a/0", "wrong shape", "capture"), *(right(f"ops/b/{n}") for n in range(24))], "orange"),
        ([silent("ops/a/0", "wrong shape", "capture"), right("ops/a/1")], "red"),
    ],
)
def test_color(cases: list[Outcome], color: str) -> None:
    assert json.loads(badge.endpoint(summarize(cases).total, {}))["color"] == color


@pytest.mark.parametrize("torch", ["2.13.0", "2.15.0.dev20260101+cpu", HOSTILE, CONTROL, '"><script>', "漢" * 90])
def test_picture_is_one_line_of_text_that_fits(torch: str) -> None:
    text = badge.svg(counts(237, 1915), {"torch": torch})
    root = ElementTree.fromstring(text)
    assert root.tag == f"{NAMESPACE}svg"
    assert {node.tag.removeprefix(NAMESPACE) for node in root.iter()} == {
        "svg",
        "title",
        "clipPath",
        "rect",
        "g",
        "text",
    }
    label, message = root.iter(f"{NAMESPACE}text")
    assert (label.text, message.text) == (badge.LABEL, badge.message(counts(237, 1915), {"torch": torch}))
    width = int(root.attrib["width"])
    assert int(message.attrib["x"]) + int(message.attrib["textLength"]) < width < 900
    assert int(label.attrib["x"]) + int(label.attrib["textLength"]) < int(message.attrib["x"])
    assert root.attrib["aria-label"] == f"{label.text}: {message.text}"


def test_picture_needs_nothing_from_elsewhere() -> None:
    text = badge.svg(counts(1, 2), {"torch": "2.13.0"})
    assert "href" not in text and text.count("http") == 1 and "url(#edge)" in text
