"""Results as they come: one file per sweep, a line of JSON for each outcome, only ever appended to.

The first line says what was swept and with which versions. Of two lines with one key the later one counts: a case is
measured again only on purpose. A last line that is torn, because writing it was interrupted, is no line.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from guarddiff.core import files
from guarddiff.render import words
from guarddiff.sweep.case import Group
from guarddiff.sweep.outcome import Outcome
from guarddiff.sweep.versions import differing, versions

try:
    import fcntl
except ImportError:  # not there on Windows: nothing keeps a second sweep away
    fcntl = None  # type: ignore[assignment]

FORMAT, VERSION = "guarddiff-sweep", 1
_LONGEST = 120
_MOST_BYTES = 2**30


class JournalError(ValueError):
    """The file is no journal, is broken, belongs to another sweep or can't be written; the message names it."""


@dataclass(frozen=True)
class Journal:
    """What is in a file.

    Attributes:
        group: ``ops``, ``catalogue`` or ``models``.
        environment: Versions by name; ``platform``; ``started``, the date and time at which the
            sweep began, UTC; ``jobs``, how many cases were measured at a time, None where that is not known; and
            ``seconds``, how long it took, all its runs together, None where no run has ended.
        outcomes: Key → outcome, in the order in which they were measured first.
    """

    group: str
    environment: dict[str, Any]
    outcomes: dict[str, Outcome]


@dataclass
class _Content:
    """A file as it is: ``size`` is where the next line goes; ``unended`` that a newline is missing there."""

    header: dict[str, Any] | None = None
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    seconds: float | None = None
    size: int = 0
    unended: bool = False


def read(path: Path) -> Journal:
    """What is in the file. Raises JournalError where it is no journal or a line is broken, OSError where it can't be
    read."""
    try:
        content = _parsed(path, files.read(path, _MOST_BYTES))
    except files.NotRead as error:
        raise JournalError(f"{str(path)!r}: {error}") from None
    if content.header is None:
        raise JournalError(f"{str(path)!r} holds no results: it has no whole first line")
    return Journal(content.header["group"], _environment(content), content.outcomes)


class Writer:
    """A file that is being written; one process at a time, where the system can lock files. Close it.

    Attributes:
        path: The file.
        outcomes: Key → outcome: what it holds.
    """

    def __init__(self, path: Path, group: Group, *, resume: bool = False, jobs: int | None = None) -> None:
        """Open a new file, or with ``resume`` go on with one if it is there.

        Raises JournalError: the file is there and ``resume`` was not asked for; it is another sweep's (group or
        versions differ), broken, or being written by somebody else; or it can't be written.
        """
        self.path = path
        self._begun = time.monotonic()
        if path.exists() and not resume:
            raise JournalError(f"{str(path)!r} is there: go on with it by --resume, or choose another folder")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
            self._file = os.open(path, flags | (0 if resume else os.O_EXCL), 0o666)
        except OSError as error:
            raise JournalError(f"{str(path)!r} can't be written: {error.strerror or error}") from error
        try:
            self._lock()
            content = _parsed(path, path.read_bytes())
            self._size, self.outcomes = content.size, content.outcomes
            os.ftruncate(self._file, self._size)
            if content.header is None:
                self._begin(group, jobs)
            else:
                self._go_on(content, group)
        except OSError as error:
            os.close(self._file)
            raise JournalError(f"{str(path)!r} can't be written: {error.strerror or error}") from error
        except BaseException:
            os.close(self._file)
            raise

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, outcome: Outcome) -> None:
        """Append; it is on the disk when this returns. Raises JournalError, and the file is then as it was before."""
        self._append(outcome.to_data())
        self.outcomes[outcome.key] = outcome

    def close(self) -> None:
        """Note how long this run took, where that can still be written, and let the file go."""
        with contextlib.suppress(JournalError):
            self._append({"seconds": round(time.monotonic() - self._begun, 1)})
        os.close(self._file)

    def _lock(self) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                return  # a file system without locks
            raise JournalError(f"{str(self.path)!r} is being written by another sweep") from None

    def _begin(self, group: Group, jobs: int | None) -> None:
        now = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
        about = {**versions(), "platform": f"{platform.system()} {platform.machine()}", "started": now, "jobs": jobs}
        self._append({"format": FORMAT, "version": VERSION, "group": group, "environment": about})

    def _go_on(self, content: _Content, group: Group) -> None:
        header = content.header or {}
        if header["group"] != group:
            raise JournalError(f"{str(self.path)!r} holds results of {header['group']}, not of {group}")
        wrong = differing(header["environment"], versions())
        if wrong:
            raise JournalError(
                f"{str(self.path)!r} was begun with other versions ({', '.join(wrong)}): results of both can't be "
                "mixed; choose another folder"
            )
        if content.unended:
            self._put(b"\n")

    def _append(self, content: Mapping[str, Any]) -> None:
        self._put(json.dumps(content, separators=(",", ":")).encode() + b"\n")

    def _put(self, data: bytes) -> None:
        """All of it, or nothing."""
        try:
            done = 0
            while done < len(data):
                done += os.write(self._file, data[done:])
            _sync(self._file)
        except BaseException as error:  # interruption too
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._size)
            if not isinstance(error, OSError):
                raise
            why = f"{str(self.path)!r} can't be written: {error.strerror or error}"
            kept = words.count(len(self.outcomes), "outcome")
            raise JournalError(f"{why}; it stays readable, with {kept}") from error
        self._size += len(data)


def _sync(file: int) -> None:
    try:
        os.fsync(file)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EROFS):  # a file system that can't
            raise


def _parsed(path: Path, data: bytes) -> _Content:
    """Raises JournalError."""
    content = _Content()
    lines = data.split(b"\n")
    tail = lines.pop()
    for number, line in enumerate(lines, 1):
        try:
            _take(content, line)
        except ValueError as error:
            rest = "; without that line --resume measures its case again" if content.header is not None else ""
            raise JournalError(f"{str(path)!r}, line {number}: {error}{rest}") from None
        content.size += len(line) + 1
    if tail:
        with contextlib.suppress(ValueError):  # else it is torn
            _take(content, tail)
            content.size += len(tail)
            content.unended = True
    return content


def _take(content: _Content, line: bytes) -> None:
    """One line into the content. Raises ValueError in words."""
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ValueError("no JSON object")
    if content.header is None:
        _check_header(found)
        content.header = found
    elif "key" in found:
        outcome = Outcome.from_data(found)
        content.outcomes[outcome.key] = outcome
    elif isinstance(found.get("seconds"), (int, float)):
        content.seconds = (content.seconds or 0.0) + found["seconds"]
    else:
        raise ValueError("neither an outcome nor the end of a run")


def _check_header(found: Mapping[str, Any]) -> None:
    if found.get("format") != FORMAT:
        raise ValueError("not the first line of a sweep's results")
    if found.get("version") != VERSION:
        version = str(found.get("version"))[:_LONGEST]
        raise ValueError(f"version {version!r} of the format, which this guarddiff can't read")
    if not isinstance(found.get("group"), str) or not isinstance(found.get("environment"), dict):
        raise ValueError("no group and no environment")


def _environment(content: _Content) -> dict[str, Any]:
    about = dict((content.header or {})["environment"])
    return {**about, "jobs": about.get("jobs"), "seconds": content.seconds}
