from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Say = Callable[..., tuple[int, str, str]]


def test_it_hands_on_the_folder_and_the_result(say: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []

    def main(arguments: list[str]) -> int:
        seen.append(arguments)
        return 1

    monkeypatch.setattr("guarddiff.demo.main", main)
    assert say("demo", "--out", tmp_path / "made")[0] == 1
    assert seen == [["--out", str(tmp_path / "made")]]


def test_a_folder_that_can_not_be_made(say: Say, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, _, err = say("demo", "--out", tmp_path / "file" / "x")
    assert code == 2
    assert len(err.splitlines()) == 1
