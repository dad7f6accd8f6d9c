from __future__ import annotations

import dataclasses
import errno
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.render.evidence_fixtures import EVIDENCE
from tests.render.fixtures import SAMPLES, adaptive_pool, hostile, quiet

import guarddiff.report as module
from guarddiff.core import codec
from guarddiff.core.errors import GuarddiffError, ReportFileError, ReportWriteError
from guarddiff.core.report import ReportData
from guarddiff.render import annotations, github, html, json, junit, markdown, text
from guarddiff.report import FORMATS, Report, load_report

ALL = {**SAMPLES, **EVIDENCE}


def report(make: Callable[[], ReportData] = adaptive_pool) -> Report:
    return Report.from_data(make())


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def files(number: str = "") -> list[str]:
    """Names of the files that ``write`` makes unless it is told which."""
    return [f"guarddiff-report{number}{suffix}" for suffix in (".md", ".json", ".html")]


def fail_with(number: int) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def test_formats_are_those_of_render() -> None:
    shown = report(quiet)
    assert shown.to_text() == text.render(quiet())
    assert shown.to_markdown() == markdown.render(quiet())
    assert shown.to_json() == json.render(quiet())
    assert shown.to_github() == github.render(quiet())
    assert shown.to_html() == html.render(quiet())
    assert shown.to_junit() == junit.render(quiet())
    assert shown.to_annotations() == annotations.render(quiet())


def test_render_takes_every_format() -> None:
    shown = report(quiet)
    made = {name: shown.render(name) for name in FORMATS}
    assert made == {
        "text": shown.to_text(),
        "markdown": shown.to_markdown(),
        "github": shown.to_github(),
        "json": shown.to_json(),
        "html": shown.to_html(),
        "junit": shown.to_junit(),
        "github-annotations": shown.to_annotations(),
    }
    assert len(set(FORMATS.values())) == len(FORMATS)


@pytest.mark.parametrize("name", ["pdf", "", "Markdown", "<script>\n"])
def test_an_unknown_format_names_the_known_ones(name: str) -> None:
    with pytest.raises(ValueError) as caught:
        report().render(name)
    assert str(caught.value).isprintable()
    assert all(known in str(caught.value) for known in FORMATS)


def test_every_format_is_written_under_one_number(tmp_path: Path) -> None:
    (tmp_path / "guarddiff-report.junit.xml").write_text("mine")
    made = report()
    paths = made.write(tmp_path, list(FORMATS))
    assert [path.name for path in paths] == [f"guarddiff-report-2{suffix}" for suffix in FORMATS.values()]
    for name, path in zip(FORMATS, paths, strict=True):
        assert path.read_bytes().decode("utf-8") == made.render(name)
    assert len(names(tmp_path)) == len(FORMATS) + 1


def test_what_does_not_fit_into_an_issue_is_written_beside_it(tmp_path: Path) -> None:
    finding = adaptive_pool().findings[0]
    guards = tuple(f"h % {i} == 0 or w % {i} == {'1' * 150}" for i in range(1000))
    long = dataclasses.replace(adaptive_pool(), findings=(dataclasses.replace(finding, guards=guards),))
    made = Report.from_data(long)
    paths = made.write(tmp_path, ["github", "json"])
    assert [path.name for path in paths] == [
        "guarddiff-report.github.md",
        "guarddiff-report.github-attachment.md",
        "guarddiff-report.json",
    ]
    assert paths[1].read_text() == github.attachment(long)
    assert "h % 999 == 0" in paths[1].read_text()
    assert [path.name for path in report().write(tmp_path, ["github"])] == ["guarddiff-report-2.github.md"]


@pytest.mark.parametrize("formats", [["markdown", "pdf"], [], "json"])
def test_formats_that_can_not_be_written(formats: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="markdown, github, json"):
        report().write(tmp_path / "new", formats)
    assert names(tmp_path) == []


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "html"])
def test_only_html_needs_jinja2(name: str) -> None:
    program = (
        "import sys\n"
        "sys.modules['jinja2'] = None\n"
        "from guarddiff.report import Report\n"
        "Report().render(sys.argv[1])\n"
        "try:\n"
        "    Report().render('html')\n"
        "except ImportError:\n"
        "    print('no html')\n"
    )
    assert fresh(program, name) == "no html\n"


def fresh(program: str, *args: str) -> str:
    """What ``program`` prints in a fresh process."""
    source = str(Path(module.__file__).parent.parent)
    run = subprocess.run(
        [sys.executable, "-c", program, *args],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": source},
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_from_data_keeps_everything() -> None:
    data = adaptive_pool()
    data.program = object()
    made = Report.from_data(data)
    assert made.program is data.program
    assert codec.to_dict(made) == codec.to_dict(data)
    assert Report.from_data(made) == made


def test_repr_is_short() -> None:
    assert repr(report()) == "<guarddiff report: specialized, 1 finding>"


@pytest.mark.parametrize("name", ALL)
def test_written_and_loaded(name: str, tmp_path: Path) -> None:
    made = report(ALL[name])
    paths = made.write(tmp_path / "new" / "folder")
    assert [path.name for path in paths] == files("")
    assert paths[0].read_bytes().decode("utf-8") == made.to_markdown()
    again = load_report(paths[1])
    assert again == made
    assert isinstance(again, Report)
    assert again.to_markdown() == made.to_markdown()
    assert names(paths[0].parent) == sorted(files(""))


def test_folder_as_text_and_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    paths = report().write(".")
    assert paths[0].exists()
    assert load_report("guarddiff-report.json").status == "specialized"


def test_permissions_are_the_usual_ones(tmp_path: Path) -> None:
    (tmp_path / "usual").write_text("")
    for path in report().write(tmp_path):
        assert path.stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    first = report().write(tmp_path)
    before = [path.read_bytes() for path in first]
    second = report(quiet).write(tmp_path)
    third = report(hostile).write(tmp_path)
    assert [path.read_bytes() for path in first] == before
    assert [p.name for p in second] == files("-2")
    assert [p.name for p in third] == files("-3")
    assert load_report(second[1]) == report(quiet)


@pytest.mark.parametrize("taken", ["guarddiff-report.md", "guarddiff-report.json", "guarddiff-report.html"])
def test_all_files_share_the_number_where_one_name_is_taken(taken: str, tmp_path: Path) -> None:
    (tmp_path / taken).write_text("mine")
    paths = report().write(tmp_path)
    assert [path.name for path in paths] == files("-2")
    assert (tmp_path / taken).read_text() == "mine"
    assert names(tmp_path) == sorted([taken, *files("-2")])


def test_a_folder_or_a_dangling_link_of_that_name(tmp_path: Path) -> None:
    (tmp_path / "guarddiff-report.md").mkdir()
    (tmp_path / "guarddiff-report-2.json").symlink_to(tmp_path / "nowhere")
    paths = report().write(tmp_path)
    assert paths[0].name == "guarddiff-report-3.md"
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("links", [True, False])
def test_threads_never_share_a_name(links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not links:
        monkeypatch.setattr(os, "link", fail_with(errno.EPERM))
    start = threading.Barrier(8)
    written: list[tuple[int, tuple[Path, ...]]] = []

    def work(number: int) -> None:
        own = Report(model=f"model {number}")
        start.wait()
        written.extend((number, own.write(tmp_path)) for _ in range(5))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({path for _, paths in written for path in paths}) == 120
    for number, paths in written:
        assert paths[0].stem == paths[1].stem == paths[2].stem
        assert load_report(paths[1]).model == f"model {number}"
        assert f"model {number}" in paths[0].read_text()
        assert f"model {number}" in paths[2].read_text()
    assert len(names(tmp_path)) == 120


def test_a_name_taken_between_two_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def meddle(source: Path, target: Path) -> None:
        if Path(target).name == "guarddiff-report.json":
            Path(target).write_text("another export's")
        link(source, target)

    monkeypatch.setattr(os, "link", meddle)
    paths = report().write(tmp_path)
    assert [path.name for path in paths] == files("-2")
    assert names(tmp_path) == sorted([*files("-2"), "guarddiff-report.json"])
    assert (tmp_path / "guarddiff-report.json").read_text() == "another export's"


def test_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", fail_with(errno.EOPNOTSUPP))
    report().write(tmp_path)
    assert report(quiet).write(tmp_path)[0].name == "guarddiff-report-2.md"
    monkeypatch.delattr(os, "link")
    assert report(quiet).write(tmp_path)[0].name == "guarddiff-report-3.md"
    assert len(names(tmp_path)) == 9


def refused(folder: Path) -> str:
    """The one line with which writing into ``folder`` fails."""
    with pytest.raises(ReportWriteError) as caught:
        report().write(folder)
    message = str(caught.value)
    assert message.startswith("the report could not be written to '")
    assert message.isprintable()
    return message


def test_a_file_in_the_way(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("mine")
    refused(blocked)
    assert "it is a file, or lies below one, and no folder" in refused(blocked / "below")
    assert blocked.read_text() == "mine"


@pytest.mark.parametrize("step", ["fsync", "link", "mkdir", "open"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO, errno.EDQUOT])
def test_a_full_or_read_only_disk(step: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if step == "open":
        monkeypatch.setattr(module, "open", fail_with(number), raising=False)
    else:
        monkeypatch.setattr(os, step, fail_with(number))
    message = refused(tmp_path / "new") if step == "mkdir" else refused(tmp_path)
    monkeypatch.undo()
    assert os.strerror(number) in message
    assert names(tmp_path) == []


@pytest.mark.parametrize("links", [True, False])
def test_a_failure_at_the_second_file_takes_back_the_first(
    links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = "link" if links else "replace"
    original = getattr(os, step)
    if not links:
        monkeypatch.setattr(os, "link", fail_with(errno.EPERM))

    def fail_second(source: Path, target: Path) -> None:
        if str(target).endswith(".json"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        original(source, target)

    monkeypatch.setattr(os, step, fail_second)
    assert "No space left" in refused(tmp_path)
    assert names(tmp_path) == []


def test_an_interrupt_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "link", interrupt)
    with pytest.raises(KeyboardInterrupt):
        report().write(tmp_path)
    assert names(tmp_path) == []


def test_a_write_error_is_what_callers_expect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", fail_with(errno.ENOSPC))
    with pytest.raises(OSError) as caught:
        report().write(tmp_path)
    assert isinstance(caught.value, GuarddiffError)
    assert caught.value.errno == errno.ENOSPC
    assert "\n" not in str(caught.value)


def test_a_name_that_no_file_can_have() -> None:
    refused(Path("a\x00b"))


def not_loaded(path: str | Path) -> str:
    """The one line with which ``path`` is refused."""
    with pytest.raises(ReportFileError) as caught:
        load_report(path)
    message = str(caught.value)
    assert message.isprintable()
    assert "'" in message
    return message


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not valid JSON"),
        (b"{", "torn"),
        (b"\xff\xfe{}", "not UTF-8"),
        (b"\x80\x02}q\x00.", "not UTF-8"),
        (b"[1, 2]", "not a guarddiff report"),
        (b'{"format": "guarddiff-report", "version": 99}', "newer guarddiff"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_bad_files(content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    message = not_loaded(path)
    assert said in message
    assert "bad.json" in message


def test_no_file_and_a_folder(tmp_path: Path) -> None:
    assert "No such file" in not_loaded(tmp_path / "missing.json")
    assert "directory" in not_loaded(tmp_path)
    not_loaded("a\x00b")
    assert "missing.json" in not_loaded(b"missing.json")


def test_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = report().write(tmp_path)[1]
    monkeypatch.setattr(module, "open", fail_with(errno.EACCES), raising=False)
    assert "Permission denied" in not_loaded(path)


def test_a_huge_file_is_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = report().write(tmp_path)[1]
    monkeypatch.setattr(codec, "MAX_SIZE", 50)
    assert "limit" in not_loaded(path)


def test_a_file_that_an_editor_saved_with_a_mark(tmp_path: Path) -> None:
    path = tmp_path / "marked.json"
    path.write_bytes(b"\xef\xbb\xbf" + report().to_json().replace("\n", "\r\n").encode())
    assert load_report(path) == report()


def test_a_saved_report_renders_without_torch(tmp_path: Path) -> None:
    path = report().write(tmp_path)[1]
    program = (
        "import sys\n"
        "from guarddiff.report import FORMATS, load_report\n"
        "r = load_report(sys.argv[1])\n"
        "r.write(sys.argv[2], list(FORMATS))\n"
        "print([m for m in ('torch', 'onnx', 'onnxruntime', 'sympy') if m in sys.modules])\n"
    )
    assert fresh(program, str(path), str(tmp_path / "again")) == "[]\n"
    assert len(names(tmp_path / "again")) == len(FORMATS)
