from __future__ import annotations

import os
import stat
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from guarddiff.core import files


def test_a_file_is_replaced_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    files.replace(path, b"old")
    path.chmod(0o640)
    files.replace(path, b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "README.md"
    path.write_text("old", encoding="utf-8")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as caught:
        files.replace(path, b"new")
    assert caught.value.filename == str(path)
    assert [(one.name, one.read_bytes()) for one in tmp_path.iterdir()] == [("README.md", b"old")]


def held(folder: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in folder.iterdir()}


def write(path: Path, content: bytes) -> None:
    """A model with its weights beside it."""
    with files.together(path) as waiting:
        waiting.with_name(f"{waiting.name}.data").write_bytes(content)
        waiting.write_bytes(content)


def test_files_that_belong_together(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    write(path, b"old")
    path.chmod(0o640)
    (tmp_path / "link.onnx").symlink_to("m.onnx")
    write(tmp_path / "link.onnx", b"new")
    assert held(tmp_path) == {"m.onnx": b"new", "m.onnx.data": b"new", "link.onnx": b"new"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.parametrize("earlier", [True, False])
@pytest.mark.parametrize("where", ["the block", "the disk", "the last file"])
def test_all_files_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, earlier: bool) -> None:
    path = tmp_path / "m.onnx"
    if earlier:
        write(path, b"old")
    before = held(tmp_path)

    def full(one: Any, other: Any = None, real: Any = os.replace) -> None:
        if where != "the last file" or Path(other) == path:
            raise OSError(28, "No space left on device")
        real(one, other)

    monkeypatch.setattr(os, "replace" if where == "the last file" else "fsync", full)
    with pytest.raises(OSError, match="No space left"), files.together(path) as waiting:
        waiting.with_name("m.onnx.data").write_bytes(b"new")
        if where == "the block":
            raise OSError(28, "No space left on device")
        waiting.write_bytes(b"new")
    assert held(tmp_path) == before


def test_a_folder_in_the_way_stays(tmp_path: Path) -> None:
    (tmp_path / "m.onnx.data").mkdir()
    with pytest.raises(IsADirectoryError):
        write(tmp_path / "m.onnx", b"new")
    assert [one.name for one in tmp_path.iterdir()] == ["m.onnx.data"]


def test_a_device_is_not_replaced() -> None:
    with files.together(Path(os.devnull)) as waiting:
        assert waiting == Path(os.devnull)
    assert not Path(os.devnull).is_file()


def test_reading_has_a_limit(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b"four")
    assert files.read(tmp_path / "m", 4) == b"four"
    with pytest.raises(files.NotRead, match="longer than the limit"):
        files.read(tmp_path / "m", 3)
    with pytest.raises(files.NotRead, match="no plain file"):
        files.read(Path(os.devnull), 3)
    with pytest.raises(FileNotFoundError):
        files.read(tmp_path / "nowhere", 3)


def test_a_small_file_takes_no_more_memory_than_it_has(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b"four")
    tracemalloc.start()
    try:
        assert files.read(tmp_path / "m", 2**31 - 1) == b"four"
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
