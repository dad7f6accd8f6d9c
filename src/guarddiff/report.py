"""Reports as users hold them: rendered, written to a folder and loaded again, without importing torch."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import secrets
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from guarddiff.core import codec
from guarddiff.core.errors import ReportFileError, ReportWriteError
from guarddiff.core.report import ReportData
from guarddiff.render import json, markdown, text, words

FORMATS: dict[str, str] = {
    "text": ".txt",
    "markdown": ".md",
    "github": ".github.md",
    "json": ".json",
    "html": ".html",
    "junit": ".junit.xml",
    "github-annotations": ".annotations.txt",
}
"""The formats of ``Report.render``, each with the suffix that ``Report.write`` gives its file."""

_ATTACHMENT = ".github-attachment.md"
_NAME = "guarddiff-report"
_MOST_FILES = 100_000
_NO_LINKS = {
    errno.EPERM,
    errno.EACCES,
    errno.ENOSYS,
    errno.EOPNOTSUPP,
    errno.ENOTSUP,
    errno.EMLINK,
    errno.EINVAL,
}


class Report(ReportData):
    """What one export showed, ready to be read, rendered and written.

    ``paths`` are the files that ``report_to=`` wrote; empty where none were.
    """

    paths: tuple[Path, ...] = ()

    @classmethod
    def from_data(cls, data: ReportData) -> Report:
        """A report of the same content, program included."""
        return cls(**{field.name: getattr(data, field.name) for field in dataclasses.fields(ReportData)})

    def with_program(self, program: Any) -> Report:
        """The same report, holding this program (None: none)."""
        copied = Report.from_data(self)
        copied.program, copied.paths = program, self.paths
        return copied

    def __repr__(self) -> str:
        return f"<guarddiff report: {self.status}, {words.count(len(self.findings), 'finding')}>"

    def to_text(self, color: bool = False) -> str:
        """The report for a terminal; ``color`` adds escape sequences for colours."""
        return text.render(self, color)

    def to_markdown(self) -> str:
        """The report as Markdown, for a bug filing."""
        return markdown.render(self)

    def to_github(self) -> str:
        """The report as an issue for PyTorch's bug template, to be completed and filed by a person.

        At most 60,000 characters; ``guarddiff.render.github.attachment`` gives what did not fit.
        """
        from guarddiff.render import github

        return github.render(self)

    def to_html(self) -> str:
        """The report as one self-contained HTML page. Raises ImportError where jinja2 is not installed."""
        from guarddiff.render import html

        return html.render(self)

    def to_json(self) -> str:
        """The report as versioned JSON, which ``load_report`` reads."""
        return json.render(self)

    def to_junit(self) -> str:
        """The report as JUnit XML: one test case for each dimension that was declared dynamic."""
        from guarddiff.render import junit

        return junit.render(self)

    def to_annotations(self) -> str:
        """The report as workflow commands that annotate the user's source lines on GitHub; empty where none warns."""
        from guarddiff.render import annotations

        return annotations.render(self)

    def render(self, format: str) -> str:
        """The report in one of ``FORMATS``; raises ValueError for another name."""
        makers: dict[str, Callable[[], str]] = {
            "text": self.to_text,
            "markdown": self.to_markdown,
            "github": self.to_github,
            "json": self.to_json,
            "html": self.to_html,
            "junit": self.to_junit,
            "github-annotations": self.to_annotations,
        }
        if format not in makers:
            raise ValueError(f"no format named {_quoted(format)}: there are {', '.join(FORMATS)}")
        return makers[format]()

    def write(
        self, directory: str | os.PathLike[str], formats: Sequence[str] = ("markdown", "json", "html")
    ) -> tuple[Path, ...]:
        """Write ``guarddiff-report`` with the suffix of each format into ``directory`` and return the paths.

        ``github`` gives a second file where its text is too long for one issue. The folder is made where it is
        missing. Where a name is taken, all files get the next free number. Raises ValueError for an unknown format or
        for none, and ``ReportWriteError`` where the files can't be written; nothing half-written is left then.
        """
        contents = {suffix: text.encode("utf-8") for suffix, text in self._files(formats).items()}
        try:
            folder = Path(directory)
            folder.mkdir(parents=True, exist_ok=True)
            return _write_together(folder, contents)
        except (OSError, ValueError) as err:
            failure = ReportWriteError(f"the report could not be written to {_shown(directory)}: {_why(err)}")
            failure.errno = getattr(err, "errno", None)
            raise failure from err

    def _files(self, formats: Sequence[str]) -> dict[str, str]:
        """Suffix to text, in the order of ``formats``."""
        if isinstance(formats, str) or not formats:
            raise ValueError(f"formats is {_quoted(formats)}: give a list of one or more of {', '.join(FORMATS)}")
        files: dict[str, str] = {}
        for name in formats:
            rendered = self.render(name)
            files[FORMATS[name]] = rendered
            attached = self._attachment() if name == "github" else None
            if attached is not None:
                files[_ATTACHMENT] = attached
        return files

    def _attachment(self) -> str | None:
        """What did not fit into the text for GitHub; None where everything did."""
        from guarddiff.render import github

        return github.attachment(self)


def load_report(path: str | os.PathLike[str]) -> Report:
    """The report in the JSON file at ``path``; raises ``ReportFileError`` where none can be read from it."""
    try:
        with open(path, "rb") as file:
            content = file.read(codec.MAX_SIZE + 1)
        return Report.from_data(codec.loads(content.decode("utf-8-sig")))
    except ReportFileError as err:
        raise ReportFileError(f"{_shown(path)}: {err}") from None
    except UnicodeDecodeError:
        raise ReportFileError(f"{_shown(path)}: not a guarddiff report: it is not UTF-8 text") from None
    except (OSError, ValueError) as err:
        raise ReportFileError(f"{_shown(path)}: can't be read: {_why(err)}") from None


def _write_together(folder: Path, contents: dict[str, bytes]) -> tuple[Path, ...]:
    """Write all of ``contents`` (suffix to bytes) under one free name, or nothing at all."""
    waiting: dict[str, Path] = {}
    try:
        for suffix, content in contents.items():
            waiting[suffix] = folder / f".{_NAME}-{secrets.token_hex(8)}.tmp"
            _write_new(waiting[suffix], content)
        for number in range(1, _MOST_FILES):
            name = _NAME if number == 1 else f"{_NAME}-{number}"
            paths = _claim(waiting, {suffix: folder / f"{name}{suffix}" for suffix in contents})
            if paths:
                return paths
        raise OSError(errno.EEXIST, "every name for a report is taken")
    finally:
        try:
            _remove(waiting.values())
        except BaseException:  # interrupted: once more
            _remove(waiting.values())
            raise


def _write_new(path: Path, content: bytes) -> None:
    """Write a file that doesn't exist yet, through to the disk."""
    with open(path, "xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _claim(waiting: dict[str, Path], targets: dict[str, Path]) -> tuple[Path, ...]:
    """Give the waiting files their names, or no name and an empty result where one of the names is taken."""
    done: list[Path] = []
    kept = False
    try:
        for suffix, target in targets.items():
            _name_file(waiting[suffix], target)
            done.append(target)
        kept = True
    except FileExistsError:
        return ()
    finally:
        if not kept:
            try:
                _remove(done)
            except BaseException:  # interrupted: once more
                _remove(done)
                raise
    return tuple(done)


def _name_file(source: Path, target: Path) -> None:
    """Make ``source`` appear as ``target``, whole and at once; ``FileExistsError`` where that is taken."""
    try:
        os.link(source, target)
    except FileExistsError:
        raise
    except (OSError, AttributeError, NotImplementedError) as err:
        if isinstance(err, OSError) and err.errno not in _NO_LINKS:
            raise
        _reserve_and_replace(source, target)


def _reserve_and_replace(source: Path, target: Path) -> None:
    """For file systems without hard links: the name is taken by an empty file, which is then replaced."""
    with open(target, "xb"):
        pass
    try:
        os.replace(source, target)
    except BaseException:
        try:
            _remove([target])
        except BaseException:  # interrupted: once more
            _remove([target])
            raise
        raise


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            os.unlink(path)


def _shown(path: str | os.PathLike[str]) -> str:
    return f"'{words.clean_end(os.fsdecode(path), 200)}'"


def _quoted(given: object) -> str:
    return words.clean(repr(given), 80)


def _why(err: Exception) -> str:
    if isinstance(err, (FileExistsError, NotADirectoryError)):
        return "it is a file, or lies below one, and no folder"
    return words.clean((getattr(err, "strerror", None) or str(err)), 200)
