"""What is written stays readable: torn ends, full disks, two writers, other versions."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from guarddiff.sweep import journal as journals
from guarddiff.sweep.journal import JournalError, Writer, read
from guarddiff.sweep.outcome import Outcome, Said
from guarddiff.sweep.versions import differing, versions

A, B, C = (Outcome(f"ops/add/{name}", "ok", example=((2, 3),), tried=4, seconds=1.5) for name in "abc")
WRONG = Outcome("ops/add/a", "wrong shape", default=Said("specialized", "confirmed", True))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results" / "results-ops.jsonl"


@pytest.fixture
def written(path: Path) -> Path:
    with Writer(path, "ops", jobs=2) as writer:
        writer.add(A)
        writer.add(B)
    return path


def test_what_is_written_is_read(written: Path) -> None:
    found = read(written)
    assert found.group == "ops"
    assert found.outcomes == {A.key: A, B.key: B}
    assert found.environment["torch"] == versions()["torch"]
    assert found.environment["jobs"] == 2
    assert found.environment["started"].endswith(" UTC")
    assert found.environment["seconds"] >= 0


def test_each_outcome_is_there_at_once(path: Path) -> None:
    with Writer(path, "ops") as writer:
        writer.add(A)
        assert list(read(path).outcomes) == [A.key]
        assert read(path).environment["seconds"] is None


def test_the_later_of_two_counts(written: Path) -> None:
    with Writer(written, "ops", resume=True) as writer:
        writer.add(WRONG)
    assert read(written).outcomes == {A.key: WRONG, B.key: B}


def test_going_on(written: Path) -> None:
    before = written.read_bytes()
    with Writer(written, "ops", resume=True) as writer:
        assert list(writer.outcomes) == [A.key, B.key]
        writer.add(C)
    assert written.read_bytes().startswith(before)
    assert list(read(written).outcomes) == [A.key, B.key, C.key]


def test_going_on_with_nothing_begins(path: Path) -> None:
    with Writer(path, "ops", resume=True) as writer:
        writer.add(A)
    assert list(read(path).outcomes) == [A.key]


def test_what_is_there_is_kept(written: Path) -> None:
    before = written.read_bytes()
    with pytest.raises(JournalError, match="is there: go on with it by --resume"):
        Writer(written, "ops")
    assert written.read_bytes() == before


@pytest.mark.parametrize("cut", [1, 7, 60])
def test_a_torn_end_is_dropped_and_mended(written: Path, cut: int) -> None:
    whole = written.read_bytes()[: written.read_bytes().rindex(b'{"seconds"')]
    written.write_bytes(whole[:-cut])
    kept = [A.key, B.key] if cut == 1 else [A.key]  # without its newline alone it is whole
    assert list(read(written).outcomes) == kept
    with Writer(written, "ops", resume=True) as writer:
        assert list(writer.outcomes) == kept
        writer.add(C)
    assert list(read(written).outcomes) == [*kept, C.key]
    assert all(json.loads(line) for line in written.read_text().splitlines())


def test_a_torn_first_line_is_no_result(path: Path) -> None:
    path.parent.mkdir()
    path.write_text('{"format": "guarddiff-sw')
    with pytest.raises(JournalError, match="holds no results"):
        read(path)
    with Writer(path, "ops", resume=True) as writer:
        writer.add(A)
    assert list(read(path).outcomes) == [A.key]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda lines: [lines[0], lines[1][:-5], *lines[2:]], "line 2: no JSON object"),
        (lambda lines: [lines[0], "", *lines[1:]], "line 2: no JSON object"),
        (lambda lines: [lines[0], "[1]", *lines[1:]], "line 2: no JSON object"),
        (lambda lines: [lines[0], '{"some": 1}', *lines[1:]], "line 2: neither an outcome"),
        (lambda lines: [*lines[:2], '{"key": "a", "state": "ok"}'], "line 3: not an outcome"),
        (lambda lines: [*lines[:2], '{"key": "a/b/c", "state": "fine"}'], "line 3: not an outcome"),
        (lambda lines: [*lines[:2], '{"key": "a/b/c", "state": "ok", "more": 1}'], "line 3: not an outcome"),
        (lambda lines: lines[1:], "line 1: not the first line"),
        (lambda lines: [lines[0].replace('"version":1', '"version":2'), *lines[1:]], "line 1: version '2'"),
        (lambda lines: [lines[0].replace('"group":"ops"', '"group":7'), *lines[1:]], "line 1: no group"),
    ],
)
def test_what_is_broken_is_named(written: Path, change: Callable[[list[str]], list[str]], told: str) -> None:
    written.write_text("\n".join(change(written.read_text().splitlines())) + "\n")
    before = written.read_bytes()
    with pytest.raises(JournalError, match=told) as error:
        read(written)
    assert "results-ops.jsonl" in str(error.value)
    with pytest.raises(JournalError, match=told):
        Writer(written, "ops", resume=True)
    assert written.read_bytes() == before


def test_other_versions_are_not_mixed(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = written.read_bytes()
    other = {**versions(), "torch": "9.9", "onnxscript": "0.0"}
    monkeypatch.setattr(journals, "versions", lambda: other)
    with pytest.raises(JournalError, match=rf"torch {versions()['torch'].replace('+', '.')} and 9\.9, onnxscript"):
        Writer(written, "ops", resume=True)
    assert written.read_bytes() == before


def test_another_groups_file_is_refused(written: Path) -> None:
    with pytest.raises(JournalError, match="holds results of ops, not of models"):
        Writer(written, "models", resume=True)


def test_versions_that_differ() -> None:
    assert differing({"torch": "2", "timm": "1"}, {"torch": "3", "timm": "1"}) == ["torch 2 and 3"]
    assert differing({"torch": "2"}, {"torch": "2", "timm": "1"}) == ["timm absent and 1"]
    assert differing(versions(), versions()) == []


def test_a_second_sweep_into_the_same_file_is_refused(path: Path) -> None:
    pytest.importorskip("fcntl")
    with Writer(path, "ops") as writer:
        writer.add(A)
        code = "import sys\nfrom pathlib import Path\nfrom guarddiff.sweep.journal import *\n"
        code += (
            "try:\n    Writer(Path(sys.argv[1]), 'ops', resume=True)\nexcept JournalError as error:\n    print(error)"
        )
        source = str(Path(__file__).resolve().parents[2] / "src")
        done = subprocess.run(
            [sys.executable, "-c", code, str(path)],
            env={**os.environ, "PYTHONPATH": source},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert "is being written by another sweep" in done.stdout
        writer.add(B)
    with Writer(path, "ops", resume=True) as writer:
        assert list(writer.outcomes) == [A.key, B.key]


def full_after(monkeypatch: pytest.MonkeyPatch, most: int, error: BaseException) -> None:
    """Writing fails when so many more bytes were written."""
    real, left = os.write, most

    def write(file: int, data: bytes) -> int:
        nonlocal left
        if not left:
            raise error
        done = real(file, data[:left])
        left -= done
        return done

    monkeypatch.setattr(journals.os, "write", write)


def test_a_full_disk_is_one_error_and_nothing_is_lost(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Writer(path, "ops") as writer:
        writer.add(A)
        before = path.read_bytes()
        full_after(monkeypatch, 10, OSError(errno.ENOSPC, "No space left on device"))
        with pytest.raises(JournalError, match="No space left on device; it stays readable, with 1 outcome"):
            writer.add(B)
        assert list(writer.outcomes) == [A.key]
        assert path.read_bytes() == before
    monkeypatch.undo()
    assert list(read(path).outcomes) == [A.key]


def test_a_disk_that_is_full_from_the_start(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full_after(monkeypatch, 10, OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(JournalError, match="No space left on device"):
        Writer(path, "ops")
    monkeypatch.undo()
    with Writer(path, "ops", resume=True) as writer:
        writer.add(A)
    assert list(read(path).outcomes) == [A.key]


def test_a_write_is_synchronized_or_fails(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(code: int) -> Callable[[int], None]:
        def fsync(file: int) -> None:
            raise OSError(code, os.strerror(code))

        return fsync

    with Writer(path, "ops") as writer:
        monkeypatch.setattr(journals.os, "fsync", failing(errno.EINVAL))
        writer.add(A)
        monkeypatch.setattr(journals.os, "fsync", failing(errno.EIO))
        with pytest.raises(JournalError):
            writer.add(B)
    assert list(read(path).outcomes) == [A.key]


def test_an_interruption_leaves_no_half_line(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Writer(path, "ops") as writer:
        writer.add(A)
        full_after(monkeypatch, 10, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            writer.add(B)
        monkeypatch.undo()
        assert path.read_bytes().endswith(b"\n")
        writer.add(C)
    assert list(read(path).outcomes) == [A.key, C.key]


def test_what_can_not_be_written_is_told(path: Path) -> None:
    path.parent.write_text("a file where the folder should be")
    with pytest.raises(JournalError, match="can't be written"):
        Writer(path, "ops")


def test_reading_what_is_not_there(path: Path) -> None:
    with pytest.raises(OSError):
        read(path)
