"""Files that are read as far as they may be long, and written whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_CHUNK = 2**20


class NotRead(ValueError):
    """What is no plain file, or a longer one than is read; the message says which."""


def read(path: Path, most: int) -> bytes:
    """The bytes of a plain file. Raises NotRead for a pipe or a device, which may have no end, and for more than
    ``most`` bytes; OSError where it can't be read."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise NotRead("not read: it is no plain file")
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        content = file.read(min(size, most) + 1)
        length, more = len(content), []
        while length > size and length <= most and (part := file.read(_CHUNK)):  # it grows, or has no size
            more.append(part)
            length += len(part)
    if max(size, length) > most:
        raise NotRead(f"not read: longer than the limit of {most / 1024**2:,.0f} MB")
    return b"".join([content, *more]) if more else content


def replace(path: Path, content: bytes) -> None:
    """Write a file whole or not at all; one that is there is replaced, and its mode kept. Raises OSError, which names
    ``path``, and what was there is unchanged then."""
    waiting = path.with_name(f".{path.name}-{secrets.token_hex(8)}.tmp")
    try:
        with open(waiting, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        with suppress(OSError):
            os.chmod(waiting, path.stat().st_mode & 0o7777)
        os.replace(waiting, path)
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        with suppress(OSError):
            os.unlink(waiting)


@contextmanager
def together(path: Path) -> Iterator[Path]:
    """Where to write a file of this name and others that belong to it, which are moved to where ``path`` is when the
    block has ended: all of them, in place of those that are there, or none. Raises OSError where they can't be.

    What is there and is no plain file (a device, a pipe) is written to itself.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        yield path
        return
    waiting = path.with_name(f".{path.name}-{secrets.token_hex(8)}.tmp")
    waiting.mkdir()
    try:
        yield waiting / path.name
        for file in waiting.iterdir():
            _flush(file)
        with suppress(OSError):
            os.chmod(waiting / path.name, path.stat().st_mode & 0o7777)
        _move(waiting, path)
    finally:
        shutil.rmtree(waiting, ignore_errors=True)


def _flush(file: Path) -> None:
    with open(file, "rb+") as opened:
        os.fsync(opened.fileno())


def _move(waiting: Path, path: Path) -> None:
    """Move what waits, the file called as ``path`` is last; what the others replaced comes back where that fails."""
    others = [file for file in waiting.iterdir() if file.name != path.name]
    earlier = waiting / "earlier"
    earlier.mkdir()
    moved: list[Path] = []
    try:
        for file in others:
            target = path.with_name(file.name)
            if target.is_dir():
                raise IsADirectoryError(errno.EISDIR, "a folder is in the way", str(target))
            with suppress(FileNotFoundError):
                os.replace(target, earlier / file.name)
            os.replace(file, target)
            moved.append(target)
        os.replace(waiting / path.name, path)
    except BaseException:
        for target in moved:
            os.unlink(target)
        for kept in earlier.iterdir():
            os.replace(kept, path.with_name(kept.name))
        raise
