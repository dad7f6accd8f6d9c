"""The pytest plugin: ``--guarddiff=warn|fail`` watches every export to ONNX that a test suite makes.

Off by default; it then imports nothing but this module. torch is imported when the session starts, in the process that
runs tests (not in the one that hands them out under pytest-xdist).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import threading
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from guarddiff.core.finding import Finding
    from guarddiff.report import Report
    from guarddiff.watching import Ended, Outcome

MODES = ("off", "warn", "fail")
REPLAYS = ("findings", "full", "off")
MARKER = (
    "guarddiff(allow=True): findings of this test's exports are known and fail nothing; allow='aten.pool*', or a list"
)

_KEY = "guarddiff"  # of reports and of a worker's output
_MOST_CLEAN = 20
_MOST_FINDINGS = 8
_OUTSIDE = "(outside the tests)"

Allow = bool | tuple[str, ...]
Entry = dict[str, Any]
"""What the summary says of one export, as plain data that a worker can send: ``test``, ``model``, ``status``,
``findings``, ``problems`` and ``paths`` (texts), ``allowed`` (all its findings are), ``handed`` (see Outcome),
``blamed`` (something failed for it, or nothing has to) and ``collected`` (it was made during collection)."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("guarddiff", "guarddiff: dynamic dimensions that an export to ONNX specialized")
    group.addoption(
        "--guarddiff",
        choices=MODES,
        default=None,
        help="watch exports to ONNX: warn tells of findings in the summary, fail also fails the test (default: off)",
    )
    group.addoption(
        "--guarddiff-replay",
        choices=REPLAYS,
        default="findings",
        help="what to run to prove findings, as for guarddiff.export (default: findings)",
    )
    group.addoption(
        "--guarddiff-report",
        metavar="DIR",
        default=None,
        help="write the report of every export into a folder of its test below DIR; implies --guarddiff=warn",
    )
    parser.addini("guarddiff", "off, warn or fail, where --guarddiff is not given", default="")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)
    mode = _mode(config)
    if mode == "off":
        return
    folder = config.getoption("guarddiff_report")
    if folder is not None:  # workers are given the option as it is now
        folder = config.option.guarddiff_report = os.path.abspath(os.path.join(config.invocation_params.dir, folder))
    config.pluginmanager.register(Watching(config, mode, Path(folder) if folder is not None else None))


def _mode(config: pytest.Config) -> str:
    given = config.getoption("guarddiff")
    if given is not None:
        return str(given)
    ini = str(config.getini("guarddiff")).strip()
    if ini and ini not in MODES:
        raise pytest.UsageError(f"guarddiff must be one of {', '.join(MODES)} in the configuration file, not {ini!r}")
    return ini or ("warn" if config.getoption("guarddiff_report") is not None else "off")


class _Place:
    """What is running now, and the outcomes of the exports that began there."""

    def __init__(self, name: str, node: pytest.Item | pytest.Collector | None = None) -> None:
        self.name = name
        self._node = node
        self._lock = threading.Lock()
        self._new: list[_Export] = []
        self._unsent: list[_Export] = []

    def add(self, export: _Export) -> None:
        with self._lock:
            self._new.append(export)
            self._unsent.append(export)

    def failures(self) -> str:
        """The texts of the exports that something must fail for, which is taken to happen now; empty for none."""
        with self._lock:
            new, self._new = self._new, []
        allow = self.allow()
        found = [export for export in new if export.fails(allow)]
        for export in found:
            export.blamed = True
        return "\n\n".join(export.text for export in found)

    def entries(self) -> list[Entry]:
        """What is to be said of the exports that ended since the last call."""
        with self._lock:
            unsent, self._unsent = self._unsent, []
        allow = self.allow() if unsent else False
        return [export.entry(self.name, self._node, allow) for export in unsent]

    def allow(self) -> Allow:
        """What the nearest marker allows; nothing for one that can't be read."""
        return _marked(self._node)[0] if self._node is not None else False


class _Export:
    """One export that ended: what is to be said of it, without its model."""

    def __init__(self, outcome: Outcome, folder: Path | None) -> None:
        report = outcome.report
        self._handed = outcome.handed
        self._loud = [finding for finding in report.findings if finding.warns]
        self.blamed = False
        self.model, self.status, self.text = report.model, report.status, ""
        self.problems = [f"{missing.part}: {missing.why}" for missing in report.missing]
        self.problems += [f"the export raised {report.error}"] if report.error is not None else []
        if self._loud and outcome.handed:
            self.text = report.to_text()
        self.paths = self._write(report, folder) if folder is not None else []

    def _write(self, report: Report, folder: Path) -> list[str]:
        from guarddiff.core.errors import ReportWriteError

        try:
            return [str(path) for path in report.write(folder)]
        except ReportWriteError as error:
            self.problems.append(str(error))
            return []

    def fails(self, allow: Allow) -> bool:
        return self._handed and any(not _allowed(allow, finding) for finding in self._loud)

    def entry(self, name: str, node: pytest.Item | pytest.Collector | None, allow: Allow) -> Entry:
        from guarddiff.render import words

        shown = [_shown(finding, _allowed(allow, finding)) for finding in self._loud[:_MOST_FINDINGS]]
        more = len(self._loud) - len(shown)
        return {
            "test": words.clean(name, 300),
            "model": words.clean(self.model, 80) or "unknown model",
            "status": self.status,
            "findings": [*shown, *([f"{words.count(more, 'more finding')}"] if more else [])],
            "problems": [words.clean(text, 300) for text in self.problems[:_MOST_FINDINGS]],
            "allowed": bool(self._loud) and all(_allowed(allow, finding) for finding in self._loud),
            "handed": self._handed,
            "paths": [words.clean_end(path, 300) for path in self.paths[:1]],
            "blamed": self.blamed or not self.fails(allow),
            "collected": isinstance(node, pytest.Collector),
        }


def _marked(node: pytest.Item | pytest.Collector) -> tuple[Allow, str]:
    """What the nearest marker allows, and what is wrong with it; an empty text for nothing."""
    mark = node.get_closest_marker("guarddiff")
    if mark is None:
        return False, ""
    allow = mark.kwargs.get("allow")
    listed = (allow,) if isinstance(allow, str) else allow
    if not mark.args and set(mark.kwargs) == {"allow"}:
        if isinstance(listed, bool):
            return listed, ""
        if isinstance(listed, (list, tuple, set, frozenset)) and all(isinstance(one, str) for one in listed):
            return tuple(listed), ""
    return (
        False,
        f"the marker guarddiff takes allow=True, an operator or a list of operators, not {mark.args or allow!r}",
    )


def _allowed(allow: Allow, finding: Finding) -> bool:
    from guarddiff.testing import allows

    return allows(allow, finding)


def _shown(finding: Finding, allowed: bool) -> str:
    from guarddiff.render import words

    return f"{finding.verdict}{' (allowed)' if allowed else ''}: {words.headline(finding)}"


class Watching:
    """What is registered with pytest while the option is on."""

    def __init__(self, config: pytest.Config, mode: str, folder: Path | None) -> None:
        self._fail = mode == "fail"
        self._folder = folder
        self._off = contextlib.ExitStack()
        self._outside = self._place = _Place(_OUTSIDE)
        self._running: dict[object, str] = {}
        self._places: dict[_Place, None] = {}  # where exports began, in order
        self._entries: list[Entry] = []  # told with the reports of tests
        self._loose: list[Entry] = []  # and what came too late for one
        self._remarks: dict[str, None] = {}

    # --- what is watched ---

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        if session.config.pluginmanager.hasplugin("dsession"):  # the tests run in pytest-xdist's workers
            return
        try:
            from guarddiff import watching

            self._off.enter_context(watching.listen(self._begun, replay=session.config.getoption("guarddiff_replay")))
        except Exception as error:  # no torch, or one that can't be loaded
            self._remarks[f"nothing was watched: {type(error).__name__}: {error}"] = None

    def pytest_unconfigure(self) -> None:
        self._off.close()

    def _begun(self) -> Ended:
        place, key = self._place, object()
        self._running[key] = place.name
        self._places[place] = None

        def ended(outcome: Outcome | None) -> None:
            try:
                if outcome is not None:
                    folder = self._folder / _file_name(place.name) if self._folder is not None else None
                    place.add(_Export(outcome, folder))
            finally:
                self._running.pop(key, None)

        return ended

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._place = _Place(item.nodeid, item)
        try:
            return (yield)
        finally:
            self._place = self._outside

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        before, self._place = self._place, _Place(collector.nodeid or _OUTSIDE, collector)
        try:
            report = yield
            failures = self._place.failures() if self._fail and report.outcome == "passed" else ""
        finally:
            self._place = before
        if failures:
            report.outcome, report.longrepr = "failed", failures
        return report

    # --- what fails ---

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        wrong = _marked(item)[1]
        if wrong:
            pytest.fail(wrong, pytrace=False)
        return (yield from self._beside(item, "setup"))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        return (yield from self._beside(item, "call"))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        return (yield from self._beside(item, "teardown"))

    def _beside(self, item: pytest.Item, when: str) -> Generator[None, object, object]:
        """Run a phase. One that failed by itself shows what was found beside; one that passed is failed for it, but the
        setup leaves that to the call. What a skipped test found is left to the teardown, as is what one of unittest's
        found that did not pass, which pytest tells of in another way. One that is expected to fail is left to pytest,
        which would take this for what was expected."""
        try:
            result = yield
        except pytest.skip.Exception:
            raise
        except BaseException:
            failures = self._place.failures() if self._fail else ""
            if failures:
                item.add_report_section(when, "guarddiff", failures)
            raise
        elsewhere = getattr(item, "_excinfo", None) or item.get_closest_marker("xfail")
        left = when == "setup" or (when == "call" and elsewhere)
        failures = self._place.failures() if self._fail and not left else ""
        if failures:
            pytest.fail(failures, pytrace=False)
        return result

    # --- what is said ---

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if self._fail and report.when == "call" and item.get_closest_marker("xfail") and not report.skipped:
            failures = self._place.failures()
            if failures and report.passed and not hasattr(report, "wasxfail"):  # the mark's condition did not hold
                report.outcome, report.longrepr = "failed", failures
        entries = self._place.entries() if report.when == "teardown" else []
        if entries:
            report.__dict__[_KEY] = entries  # reaches the process that prints, also from a worker
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._entries += report.__dict__.get(_KEY, [])

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """A worker of pytest-xdist has ended."""
        told = getattr(node, "workeroutput", {}).get(_KEY)
        if told is None:
            self._remarks["a worker ended without telling of its last exports"] = None
            return
        self._remarks.update(dict.fromkeys(told["remarks"]))
        for entry in told["entries"]:
            if not (entry["collected"] and any(_alike(entry, known) for known in self._loose)):
                self._loose.append(entry)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        for place in list(self._places):
            self._loose += place.entries()
        for name in list(self._running.values()):
            self._remarks[f"an export of {name} was not at its end"] = None
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[_KEY] = {"entries": self._loose, "remarks": list(self._remarks)}
        unblamed = any(not entry["blamed"] for entry in (*self._entries, *self._loose))
        if self._fail and unblamed and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        entries = [*self._entries, *self._loose]
        every = terminalreporter.config.get_verbosity() > 0
        terminalreporter.section(_title(entries), sep="-")
        for loud, line in _lines(entries, self._remarks, every):
            terminalreporter.write_line(line, **({"red" if self._fail else "yellow": True} if loud else {}))


def _alike(one: Entry, other: Entry) -> bool:
    """Whether two workers tell of the same export: where its report was written does not count."""
    return {**one, "paths": []} == {**other, "paths": []}


def _title(entries: Sequence[Entry]) -> str:
    counts = {status: sum(e["status"] == status for e in entries) for status in ("specialized", "incomplete")}
    parts = ["1 export watched" if len(entries) == 1 else f"{len(entries)} exports watched"]
    return ", ".join([f"guarddiff: {parts[0]}", *(f"{number} {status}" for status, number in counts.items() if number)])


def _lines(entries: Sequence[Entry], remarks: Iterable[str], every: bool) -> Generator[tuple[bool, str], None, None]:
    """The lines of the summary, and whether each is one to notice. Clean exports come last, without ``every`` some."""
    from guarddiff.render import words

    for remark in remarks:
        yield True, words.clean(remark, 400)
    clean = [entry for entry in entries if entry["status"] == "clean"]
    for entry in entries:
        if entry["status"] != "clean":
            yield from _entry_lines(entry)
    shown = clean if every else clean[:_MOST_CLEAN]
    for entry in shown:
        yield from _entry_lines(entry)
    if len(shown) < len(clean):
        yield False, f"{words.count(len(clean) - len(shown), 'more clean export')} (-v lists them)"


def _entry_lines(entry: Entry) -> Generator[tuple[bool, str], None, None]:
    notes = [entry["status"]]
    notes += ["allowed"] if entry["allowed"] else []
    notes += ["left to the test"] if entry["findings"] and not entry["handed"] else []
    loud = bool(entry["findings"]) and not entry["allowed"] and entry["handed"]
    yield loud, f"{entry['test']}  {entry['model']}: {', '.join(notes)}"
    for text in (*entry["findings"], *entry["problems"]):
        yield loud, f"  {text}"
    for path in entry["paths"]:
        yield False, f"  report: {path}"


def _file_name(name: str) -> str:
    """A folder's name for a test: its own as far as that can be one, and what tells those apart that look alike."""
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{re.sub(r'[^A-Za-z0-9._-]+', '_', name)[-100:].strip('._-')}-{digest}"
