"""The pytest plugin on small suites that really export: in this process, and in fresh ones where that matters."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.pytester import SysModulesSnapshot
from torch.onnx._internal.exporter._registration import ONNXRegistry

import guarddiff
from guarddiff import pytest_plugin
from guarddiff.torch_bridge import hooks

pytestmark = pytest.mark.usefixtures("shared_registry")

pytest_plugins = ("pytester",)

SOURCE = Path(__file__).resolve().parent.parent / "src"
CLAIM = "x[2] (h): declared any size, but the exported model is sure to be right only for exactly 6"

MODELS = """
    import functools, io, threading, unittest
    import pytest, torch
    import torch.nn.functional as F
    from torch import nn
    from torch.onnx import export as old_reference
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    ONNXRegistry.from_torchlib = staticmethod(functools.cache(ONNXRegistry.from_torchlib))  # most of an export's time

    class Pool(nn.Module):
        def forward(self, x):
            return F.adaptive_avg_pool2d(x, (2, 3))

    def export(model=None):
        return old_reference(model or Pool(), (torch.ones(1, 2, 6, 6),), dynamic_shapes=({2: "h"},), verbose=False)
"""


Run = Callable[..., pytest.RunResult]


@pytest.fixture
def kept_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules that a run loads stay loaded, but for the suite's own: torch can't be imported twice."""
    kept = functools.partial(SysModulesSnapshot, lambda name: not name.startswith("test_"))
    monkeypatch.setattr("_pytest.pytester.SysModulesSnapshot", lambda **_: kept())


@pytest.fixture
def pytester(kept_modules: None, pytester: pytest.Pytester) -> pytest.Pytester:
    return pytester


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Runs a suite in this process, without the plugins of the environment."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    registry = ONNXRegistry.__dict__["from_torchlib"]

    def with_plugin(tests: str, *options: str) -> pytest.RunResult:
        pytester.makepyfile(textwrap.dedent(MODELS) + textwrap.dedent(tests))
        given = ("-p", "guarddiff.pytest_plugin", "-p", "no:cacheprovider", "-p", "no:logging", "--tb=short")
        result = pytester.runpytest_inprocess(*given, *options)
        assert hooks.observers() == ()
        assert hooks._users == []
        return result

    yield with_plugin
    ONNXRegistry.from_torchlib = registry  # type: ignore[method-assign]


def summary(result: Any) -> list[str]:
    """The lines of our section."""
    lines = [str(line) for line in result.outlines]
    start = next(index for index, line in enumerate(lines) if re.match(r"-+ guarddiff: ", line))
    end = next((i for i, line in enumerate(lines[start + 1 :], start + 1) if re.match(r"(=|-){3,} ", line)), None)
    return [lines[start].strip("- "), *filter(None, lines[start + 1 : end])]


# --- warn -----------------------------------------------------------------------------------------------


def test_warn_tells_and_fails_nothing(run: Run) -> None:
    result = run(
        """
        @pytest.fixture
        def made():
            return export()

        def test_pool(): export()
        def test_clean(): export(nn.ReLU())
        def test_fixture(made): pass
        def test_thread():
            thread = threading.Thread(target=export)
            thread.start()
            thread.join()
        def test_nothing(): pass
        @pytest.mark.filterwarnings("error::guarddiff.SpecializationWarning")
        def test_no_warning(): export()
        """,
        "--guarddiff=warn",
    )
    result.assert_outcomes(passed=6)
    assert summary(result) == [
        "guarddiff: 5 exports watched, 4 specialized",
        "test_warn_tells_and_fails_nothing.py::test_pool  Pool: specialized",
        f"  confirmed: {CLAIM}",
        "test_warn_tells_and_fails_nothing.py::test_fixture  Pool: specialized",
        f"  confirmed: {CLAIM}",
        "test_warn_tells_and_fails_nothing.py::test_thread  Pool: specialized",
        f"  confirmed: {CLAIM}",
        "test_warn_tells_and_fails_nothing.py::test_no_warning  Pool: specialized",
        f"  confirmed: {CLAIM}",
        "test_warn_tells_and_fails_nothing.py::test_clean  ReLU: clean",
    ]


def test_a_suite_without_exports_is_told_of_in_one_line(run: Run) -> None:
    result = run("def test_nothing(): pass", "--guarddiff=fail")
    assert result.ret == 0
    assert summary(result) == ["guarddiff: 0 exports watched"]


def test_exports_that_raise_or_can_not_be_read_are_incomplete(run: Run) -> None:
    result = run(
        """
        class Boom(nn.Module):
            def forward(self, x):
                raise ValueError("\\x1b[31mboom")

        def test_raises():
            with pytest.raises(torch.onnx.OnnxExporterError):
                export(Boom())

        @pytest.mark.filterwarnings("ignore")
        def test_traced():
            axes = {"x": {0: "n"}}
            old_reference(nn.ReLU(), (torch.ones(2),), io.BytesIO(), dynamo=False, input_names=["x"], dynamic_axes=axes)
        """,
        "--guarddiff=fail",
    )
    result.assert_outcomes(passed=2)
    lines = summary(result)
    assert lines[0] == "guarddiff: 2 exports watched, 2 incomplete"
    assert [line.split("  ")[1] for line in lines[1:] if not line.startswith(" ")] == [
        "Boom: incomplete",
        "ReLU: incomplete",
    ]
    assert any(line.startswith("  the export raised ") for line in lines)
    assert any(line.startswith("  guards: the TorchScript exporter leaves none") for line in lines)
    assert "\x1b" not in "".join(lines)


def test_many_clean_exports_are_counted_and_listed_on_request(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pytest_plugin, "_MOST_CLEAN", 1)
    tests = "def test_three():\n    for model in (nn.ReLU(), nn.Tanh(), nn.Sigmoid()): export(model)"
    lines = summary(run(tests, "--guarddiff=warn"))
    assert [line.partition("  ")[2] for line in lines[1:2]] == ["ReLU: clean"]
    assert lines[2:] == ["2 more clean exports (-v lists them)"]
    assert len(summary(run(tests, "--guarddiff=warn", "-v"))) == 4


# --- fail -----------------------------------------------------------------------------------------------


FAILING = """
    @pytest.fixture
    def made():
        return export()

    @pytest.fixture
    def late():
        yield
        export()

    def test_pool(): export()
    def test_clean(): export(nn.ReLU())
    def test_fixture(made): pass
    def test_thread():
        thread = threading.Thread(target=export)
        thread.start()
        thread.join()
    def test_teardown(late): pass
    def test_skipped(made): pytest.skip("not here")
    def test_own_failure():
        export()
        raise ValueError("mine")
    def test_checked():
        import guarddiff
        report = guarddiff.check(
            Pool(), (torch.ones(1, 2, 6, 6),), dynamic_shapes=({2: "h"},), verbose=False, on_finding="ignore"
        )
        assert report.findings
    class TestCase(unittest.TestCase):
        def test_unit(self): export()
        def test_unit_skipped(self):
            export()
            self.skipTest("not here")
"""


def test_fail_fails_the_test_that_exported(run: Run) -> None:
    result = run(FAILING, "--guarddiff=fail", "-rA")
    text = result.stdout.str()
    found = {
        (match[2], match[1]) for match in re.finditer(r"^([A-Z]+) \S+?\.py::(?:TestCase::)?(\w+)", text, re.MULTILINE)
    }
    assert found >= {
        ("test_pool", "FAILED"),
        ("test_clean", "PASSED"),
        ("test_fixture", "FAILED"),
        ("test_thread", "FAILED"),
        ("test_teardown", "ERROR"),
        ("test_skipped", "ERROR"),
        ("test_own_failure", "FAILED"),
        ("test_checked", "PASSED"),
        ("test_unit", "FAILED"),
        ("test_unit_skipped", "ERROR"),
    }
    result.assert_outcomes(failed=5, passed=3, skipped=2, errors=3)
    assert text.count("guarddiff report of Pool: specialized") >= 8
    assert "ValueError: mine" in text
    assert "Captured guarddiff call" in text  # beside the test's own failure
    assert "Pool: specialized, left to the test" in text


EXPECTED = """
    @pytest.fixture
    def made():
        return export()

    @pytest.mark.xfail(reason="mine")
    def test_passes(): export()
    @pytest.mark.xfail(reason="mine")
    def test_fixture(made): pass
    @pytest.mark.xfail(reason="mine")
    def test_fails():
        export()
        raise ValueError("mine")
"""


def test_what_is_expected_to_fail_is_left_to_pytest(run: Run) -> None:
    result = run(EXPECTED, "--guarddiff=fail", "-rA")
    result.assert_outcomes(xpassed=2, xfailed=1)
    assert result.ret == 0
    assert summary(result)[0] == "guarddiff: 3 exports watched, 3 specialized"
    strict = EXPECTED.replace("xfail(", "xfail(strict=True, ")
    result = run(strict, "--guarddiff=fail", "-rA")
    result.assert_outcomes(failed=2, xfailed=1)
    result.stdout.fnmatch_lines(["*[[]XPASS(strict)] mine*"])
    assert summary(result)[0] == "guarddiff: 3 exports watched, 3 specialized"


def test_what_is_expected_to_fail_elsewhere_fails_as_others_do(run: Run) -> None:
    elsewhere = EXPECTED.replace("xfail(", "xfail(False, ")
    result = run(elsewhere, "--guarddiff=fail", "-rA")
    result.assert_outcomes(failed=3)
    assert result.stdout.str().count("guarddiff report of Pool: specialized") >= 3
    assert "Captured guarddiff call" in result.stdout.str()


def test_known_findings_can_be_allowed(run: Run) -> None:
    result = run(
        """
        @pytest.mark.guarddiff(allow=True)
        def test_all(): export()
        @pytest.mark.guarddiff(allow="aten._adaptive_avg_pool2d.*")
        def test_operator(): export()
        @pytest.mark.guarddiff(allow=["aten.kron", "aten.*pool2d*"])
        def test_operators(): export()
        @pytest.mark.guarddiff(allow="aten.kron*")
        def test_another_operator(): export()
        @pytest.mark.guarddiff(allow=True)
        class TestGroup:
            def test_group(self): export()
            @pytest.mark.guarddiff(allow=False)
            def test_nearest(self): export()
        """,
        "--guarddiff=fail",
        "--strict-markers",
    )
    result.assert_outcomes(passed=4, failed=2)
    lines = summary(result)
    assert sum("Pool: specialized, allowed" in line for line in lines) == 4
    assert lines.count(f"  confirmed (allowed): {CLAIM}") == 4


@pytest.mark.parametrize("marker", ["'x'", "", "allow=3", "allow=[3]", "allow=True, other=1"])
def test_a_marker_that_can_not_be_read_fails_its_test(marker: str, run: Run) -> None:
    result = run(
        f"""
        @pytest.mark.guarddiff({marker})
        def test_marked(): pass
        def test_other(): pass
        """,
        "--guarddiff=warn",
    )
    result.assert_outcomes(errors=1, passed=1)
    result.stdout.fnmatch_lines(["*the marker guarddiff takes allow=True, an operator or a list of operators*"])


def test_an_export_during_collection_fails_the_collection(run: Run) -> None:
    result = run("export()\ndef test_nothing(): pass", "--guarddiff=fail")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*ERROR collecting*", "guarddiff report of Pool: specialized"])
    assert len(summary(result)) == 3
    allowed = run(
        "export()\npytestmark = pytest.mark.guarddiff(allow=True)\ndef test_nothing(): pass", "--guarddiff=fail"
    )
    allowed.assert_outcomes(passed=1)
    assert "Pool: specialized, allowed" in summary(allowed)[1]


def test_an_export_that_ends_after_its_test_fails_the_run(run: Run) -> None:
    result = run(
        """
        began, go = threading.Event(), threading.Event()

        class Slow(nn.Module):
            def forward(self, x):
                began.set()
                go.wait(100)
                return F.adaptive_avg_pool2d(x, (2, 3))

        thread = threading.Thread(target=lambda: export(Slow()))

        def test_begins():
            thread.start()
            assert began.wait(100)

        def test_ends():
            go.set()
            thread.join()
        """,
        "--guarddiff=fail",
    )
    result.assert_outcomes(passed=2)
    assert result.ret == 1
    assert re.search(r"::test_begins  Slow: specialized$", summary(result)[1])


# --- reports --------------------------------------------------------------------------------------------


def test_reports_are_written_for_each_test(run: Run, pytester: pytest.Pytester) -> None:
    tests = """
        @pytest.mark.parametrize("name", ["a/../b", "a b"])
        def test_named(name):
            export(nn.ReLU())
            export()
    """
    for _ in range(2):
        result = run(tests, "--guarddiff-report", "out")
        result.assert_outcomes(passed=2)
    folders = sorted((pytester.path / "out").iterdir())
    assert len(folders) == 2
    assert all(re.fullmatch(r"test_reports\w+\.py_test_named_a[._b]*-[0-9a-f]{8}", folder.name) for folder in folders)
    for folder in folders:
        names = sorted(path.name for path in folder.glob("*.json"))
        assert names == [f"guarddiff-report{n}.json" for n in ("-2", "-3", "-4", "")]
        models = [guarddiff.load_report(folder / name).model for name in names]
        assert models == ["Pool", "ReLU", "Pool", "ReLU"]
    assert sum(line.startswith("  report: ") for line in summary(result)) == 4


def test_a_folder_that_can_not_be_written_fails_nothing(run: Run, pytester: pytest.Pytester) -> None:
    (pytester.path / "out").write_text("a file")
    result = run("def test_clean(): export(nn.ReLU())", "--guarddiff=fail", "--guarddiff-report=out")
    result.assert_outcomes(passed=1)
    assert any("the report could not be written" in line for line in summary(result))


@pytest.mark.parametrize("name", ["a::b", "a/b", "x" * 500, "é\ud800", "..", ""])
def test_names_of_folders(name: str) -> None:
    made = pytest_plugin._file_name(name)
    assert re.fullmatch(r"[A-Za-z0-9._-]*-[0-9a-f]{8}", made)
    assert len(made) < 120
    assert not made.startswith(".")
    assert made != pytest_plugin._file_name(name + "_")


# --- options --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ini", "options", "watched"),
    [
        ("guarddiff = warn", (), True),
        ("guarddiff = warn", ("--guarddiff=off",), False),
        ("guarddiff = off", ("--guarddiff=warn",), True),
        ("guarddiff =", (), False),
        ("guarddiff = off", ("--guarddiff-report=out",), False),
        ("", ("--guarddiff-report=out",), True),
    ],
)
def test_the_command_line_goes_before_the_file(
    ini: str, options: tuple[str, ...], watched: bool, run: Run, pytester: pytest.Pytester
) -> None:
    pytester.makeini(f"[pytest]\n{ini}\n")
    result = run("def test_nothing(): pass", *options)
    assert ("guarddiff: 0 exports watched" in result.stdout.str()) is watched


def test_wrong_values_are_usage_errors(run: Run, pytester: pytest.Pytester) -> None:
    assert run("", "--guarddiff=loud").ret == pytest.ExitCode.USAGE_ERROR
    pytester.makeini("[pytest]\nguarddiff = loud\n")
    result = run("")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*guarddiff must be one of off, warn, fail in the configuration file, not 'loud'*"])


def test_what_is_run_can_be_chosen(run: Run) -> None:
    result = run("def test_pool(): export()", "--guarddiff=warn", "--guarddiff-replay=off")
    assert summary(result)[2].startswith("  unconfirmed: ")


# --- fresh processes ------------------------------------------------------------------------------------


@pytest.fixture
def fresh(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a suite in a fresh process in which the plugin is installed as an entry point."""
    site = tmp_path / "site" / "guarddiff_of_this_test-0.dist-info"
    site.mkdir(parents=True)
    (site / "METADATA").write_text("Metadata-Version: 2.1\nName: guarddiff-of-this-test\nVersion: 0\n")
    (site / "entry_points.txt").write_text("[pytest11]\nguarddiff = guarddiff.pytest_plugin\n")
    suite = tmp_path / "suite"
    suite.mkdir()

    def start(tests: str, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
        (suite / "test_suite.py").write_text(textwrap.dedent(tests))
        (suite / "pytest.ini").write_text("[pytest]\n")
        paths = [environment.pop("first", ""), str(site.parent), str(SOURCE)]
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:logging", *options],
            cwd=suite,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(filter(None, paths)),
                "OMP_NUM_THREADS": "1",
                **environment,
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=1500,
        )

    return start


Fresh = Callable[..., subprocess.CompletedProcess[str]]
NOT_LOADED = """
    import sys

    def test_nothing_is_loaded():
        ours = [m for m in sys.modules if m.split(".")[0] in ("torch", "onnx", "onnxruntime", "numpy")]
        ours += [m for m in sys.modules if m.startswith("guarddiff.") and m != "guarddiff.pytest_plugin"]
        assert ours == []
        assert {loaded} == ("guarddiff.pytest_plugin" in sys.modules)
"""


def test_off_costs_nothing(fresh: Fresh) -> None:
    done = fresh(NOT_LOADED.replace("{loaded}", "True"))
    assert done.returncode == 0, done.stdout
    assert "guarddiff:" not in done.stdout


def test_the_plugin_can_be_left_out(fresh: Fresh) -> None:
    done = fresh(NOT_LOADED.replace("{loaded}", "False"), "-p", "no:guarddiff")
    assert done.returncode == 0, done.stdout


def test_without_torch_the_tests_run_and_the_summary_says_why_nothing_was_watched(fresh: Fresh, tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "torch.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\")\n")
    done = fresh("def test_one(): pass", "--guarddiff=fail", first=str(tmp_path / "broken"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing was watched: ModuleNotFoundError: No module named 'torch'" in done.stdout
    assert "1 passed" in done.stdout


def test_workers_of_xdist_tell_the_controller(fresh: Fresh, tmp_path: Path) -> None:
    pytest.importorskip("xdist")
    tests = textwrap.dedent(MODELS) + textwrap.dedent(
        """
            import sys
            export(nn.Tanh())

            @pytest.fixture(scope="session", autouse=True)
            def at_the_end():
                yield
                export(nn.Sigmoid())

            def test_one(): export()
            def test_two(): export(nn.ReLU())
            @pytest.mark.guarddiff(allow=True)
            def test_three(): export()
            """
    )
    done = fresh(tests, "-n", "2", "--guarddiff=fail", "--guarddiff-report=out", "-p", "xdist")
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"1 failed, 2 passed", done.stdout), done.stdout

    class Lines:
        outlines = done.stdout.splitlines()

    lines = summary(Lines)
    assert re.fullmatch(r"guarddiff: [56] exports watched, 2 specialized", lines[0])
    told = {line.split("::")[-1] for line in lines if line.startswith("test_suite.py")}
    assert told >= {
        "test_one  Pool: specialized",
        "test_two  ReLU: clean",
        "test_three  Pool: specialized, allowed",
        "test_suite.py  Tanh: clean",
    }
    assert sum("Tanh" in line for line in lines) == 1  # both workers collected
    assert any("Sigmoid: clean" in line for line in lines)
    assert "guarddiff report of Pool: specialized" in done.stdout
    folders = {path.parent.name.rpartition("-")[0] for path in (tmp_path / "suite" / "out").rglob("*.json")}
    assert {"test_suite.py_test_one", "test_suite.py_test_two", "test_suite.py_test_three"} <= folders
