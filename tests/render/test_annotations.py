from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.render.evidence_fixtures import EVIDENCE, translate_fault
from tests.render.fixtures import SAMPLES, adaptive_pool, clean_with_notes, incomplete, quiet, snapshot, untried

from guarddiff.core.finding import Finding
from guarddiff.core.origin import Origin, SourceLine
from guarddiff.core.report import ReportData
from guarddiff.render import text
from guarddiff.render.annotations import render

ALL = {**SAMPLES, **EVIDENCE}
COMMAND = re.compile(r"::(error|warning|notice) ([^:]*)::(.*)")


def unescaped(shown: str) -> str:
    return re.sub("%(25|0D|0A|3A|2C)", lambda m: chr(int(m[1], 16)), shown)


def read(line: str) -> tuple[str, dict[str, str], str]:
    """Level, properties and message of one command, as the runner reads them."""
    match = COMMAND.fullmatch(line)
    assert match is not None, line
    pairs = [pair.split("=", 1) for pair in match[2].split(",")]
    return match[1], {name: unescaped(value) for name, value in pairs}, unescaped(match[3])


def commands(report: ReportData, folder: Path | None = None) -> list[tuple[str, dict[str, str], str]]:
    return [read(line) for line in render(report, folder).splitlines()]


def at(report: ReportData, source: SourceLine | None) -> ReportData:
    """The report with its only finding at another source line."""
    origin = dataclasses.replace(report.findings[0].origin, source=source)
    return dataclasses.replace(report, findings=(dataclasses.replace(report.findings[0], origin=origin),))


@pytest.mark.parametrize("name", ALL)
def test_looks_as_reviewed(name: str) -> None:
    snapshot(f"{name}.annotations.txt", render(ALL[name]()))


@pytest.mark.parametrize("name", ALL)
def test_every_line_is_a_command(name: str) -> None:
    shown = render(ALL[name]())
    assert not shown or shown.endswith("\n")
    for line in shown.split("\n")[:-1]:
        assert line.isprintable()
        level, properties, message = read(line)
        assert level in ("error", "warning")
        assert set(properties) in ({"file", "line", "title"}, {"title"})
        assert properties["title"].startswith("guarddiff: ")
        assert message


def test_a_confirmed_finding_is_an_error_at_the_users_line() -> None:
    ((level, properties, message),) = commands(adaptive_pool())
    assert level == "error"
    assert properties == {
        "file": "models/pool.py",
        "line": "12",
        "title": "guarddiff: aten._adaptive_avg_pool2d.default, specialized by the decomposition pass",
    }
    assert message == text.warning_text(adaptive_pool().findings[0])


def test_an_unconfirmed_finding_is_a_warning() -> None:
    assert [level for level, _, _ in commands(untried())] == ["warning"]


def test_what_warns_of_nothing_is_not_told() -> None:
    assert render(clean_with_notes()) == ""
    assert len(commands(quiet())) == 1


def test_what_stands_for_the_whole_export_is_told() -> None:
    (raised, missing) = commands(incomplete())
    assert raised == (
        "error",
        {"title": "guarddiff: the export raised"},
        "TorchExportError: Failed to export the model",
    )
    assert missing[0] == "warning"
    assert "unknown, not fine" in missing[2]
    assert "deferred runtime asserts: torch 2.16.0" in missing[2]


def test_at_most_ten_and_the_rest_is_counted() -> None:
    one = adaptive_pool().findings[0]
    other = dataclasses.replace(one, verdict="unconfirmed", reason="no time")
    report = dataclasses.replace(adaptive_pool(), findings=(other,) * 5 + (one,) * 8, error="boom")
    found = commands(report)
    assert [level for level, _, _ in found] == ["error"] * 9 + ["warning"] + ["notice"]
    assert found[-1][2] == "4 more in the report: 4 unconfirmed"
    ten = dataclasses.replace(report, findings=(one,) * 10, error=None)
    assert [level for level, _, _ in commands(ten)] == ["error"] * 10


@pytest.mark.parametrize(
    ("file", "shown"),
    [
        ("models/net.py", "models/net.py"),
        ("./models/../net.py", "net.py"),
        ("/work/project/models/net.py", "models/net.py"),
        ("/elsewhere/net.py", "/elsewhere/net.py"),
        ("a,b:c%20d.py", "a,b:c%20d.py"),
    ],
)
def test_files_are_relative_to_the_working_folder(file: str, shown: str) -> None:
    ((_, properties, _),) = commands(at(adaptive_pool(), SourceLine(file, 3)), Path("/work/project"))
    assert properties["file"] == shown


def test_the_working_folder_is_the_one_it_runs_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ((_, properties, _),) = commands(at(adaptive_pool(), SourceLine(str(tmp_path / "net.py"), 3)))
    assert properties["file"] == "net.py"


def test_a_finding_without_a_line_has_no_place() -> None:
    for source in (None, SourceLine("net.py", 0)):
        ((_, properties, _),) = commands(at(adaptive_pool(), source))
        assert set(properties) == {"title"}


def test_the_first_differing_node_gives_the_line_where_the_origin_has_none() -> None:
    ((_, properties, _),) = commands(at(translate_fault(), None))
    assert (properties["file"], properties["line"]) == ("models/squeeze.py", "9")


TEXT = st.text(st.sampled_from("%:,=\r\n0ADC25 ab"), max_size=20) | st.text(max_size=20)


@given(TEXT, TEXT)
def test_any_text_comes_back_as_it_was(op: str, file: str) -> None:
    source = SourceLine(file or "x", 7)
    finding = Finding((), "run", op, Origin(source=source), verdict="unconfirmed", reason="no time")
    line = render(ReportData(findings=(finding,)), Path("/nowhere")).removesuffix("\n")
    assert line.isprintable()
    _, properties, message = read(line)
    assert properties["line"] == "7"
    assert message == text.warning_text(finding)
