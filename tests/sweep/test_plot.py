"""The picture of classes by stage."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.render.fixtures import CONTROL, HOSTILE
from tests.sweep.made_up import ENVIRONMENT, outcomes, right

from guarddiff.sweep import plot
from guarddiff.sweep.summary import summarize

SOURCE = Path(__file__).resolve().parents[2] / "src"
NAMESPACE = "{http://www.w3.org/2000/svg}"


def words(picture: bytes) -> list[str]:
    return ["".join(node.itertext()).strip() for node in ElementTree.fromstring(picture).iter(f"{NAMESPACE}text")]


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(plot.PlotError, match=r"pip install 'guarddiff\[sweep\]'"):
        plot.svg(summarize(outcomes()), ENVIRONMENT)


class TestWithMatplotlib:
    @pytest.fixture(autouse=True)
    def _needed(self) -> None:
        pytest.importorskip("matplotlib")

    def test_a_panel_for_each_group_and_a_bar_for_each_stage(self) -> None:
        shown = words(plot.svg(summarize(outcomes()), ENVIRONMENT))
        assert shown[-4] == "Silently wrong exports by stage, torch 2.13.0"
        assert shown[-3:] == ["wrong shape", "wrong values", "runtime error"]
        assert {"ops: 7 of 12", "catalogue: 0 of 3", "models: 1 of 2"} <= set(shown)
        assert shown.count("translate") == 3

    def test_bars_are_as_long_as_their_figures(self) -> None:
        root = ElementTree.fromstring(plot.svg(summarize(outcomes()[:4]), ENVIRONMENT))
        bars = [node.attrib["d"] for node in root.iter(f"{NAMESPACE}path") if "clip-path" in node.attrib]
        numbers = [[float(part) for part in bar.split() if part not in "MLz"] for bar in bars]
        lengths = [max(xs := row[::2]) - min(xs) for row in numbers if len(row) >= 8]
        known = [length for length in lengths if length > 0]
        # pool/0: shape at decompose, pool/1: values at decompose, kron/0: error at capture: three of one length
        assert len(known) == 3
        assert max(known) == pytest.approx(min(known))

    def test_the_same_bytes_whatever_the_settings_are(self) -> None:
        import matplotlib

        first = plot.svg(summarize(outcomes()), ENVIRONMENT)
        with matplotlib.rc_context({"font.size": 30, "axes.grid": True, "svg.hashsalt": None, "lines.linewidth": 9}):
            before = dict(matplotlib.rcParams)
            assert plot.svg(summarize(outcomes()), ENVIRONMENT) == first
            assert dict(matplotlib.rcParams) == before
        assert b"date" not in first.lower()

    def test_of_nothing_and_of_right_ones_alone(self) -> None:
        assert "all: 0 of 0" in words(plot.svg(summarize([]), {}))
        assert "ops: 0 of 1" in words(plot.svg(summarize([right("ops/a/0")]), {}))

    @pytest.mark.parametrize("hostile", [HOSTILE, CONTROL, "$x$", "$\\frac{", "<script>"])
    def test_hostile_names_are_text(self, hostile: str) -> None:
        picture = plot.svg(summarize([right(f"{hostile.replace('/', '')}/a/0")]), {"torch": hostile})
        assert {node.tag for node in ElementTree.fromstring(picture).iter()}.isdisjoint(
            {f"{NAMESPACE}script", "script"}
        )
        if hostile == "$x$":
            assert "Silently wrong exports by stage, torch $x$" in words(picture)

    def test_readable_on_light_and_dark(self) -> None:
        picture = plot.svg(summarize(outcomes()), ENVIRONMENT).decode()
        assert "#ffffff" not in picture.lower().replace("stroke: #ffffff", "")
        assert "opacity: 0" in picture

    def test_pyplot_is_not_loaded(self) -> None:
        code = (
            "import sys\nfrom guarddiff.sweep import plot, summary\n"
            "assert plot.svg(summary.summarize([]), {}).startswith(b'<?xml')\n"
            "print(sorted({'matplotlib.pyplot', 'torch'} & sys.modules.keys()))"
        )
        env = {**os.environ, "PYTHONPATH": str(SOURCE)}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=120)
        assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr
