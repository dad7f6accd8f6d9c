"""Watches and installs on real exports: what is caught, how often it is told of, and what is put back."""

from __future__ import annotations

import concurrent.futures
import contextlib
import io
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.onnx import export as old_reference
from torch.onnx._internal.exporter import _compat

import guarddiff
from guarddiff import watching
from guarddiff.torch_bridge import hooks, probe

pytestmark = pytest.mark.usefixtures("shared_registry", "no_reproductions")

IMAGE = torch.randn(1, 2, 6, 6)
HEIGHT = ({2: "h"},)
OLD = {"dynamo": False, "input_names": ["x"], "dynamic_axes": {"x": {1: "n"}}}


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    def functions() -> list[Any]:
        owners = [name.owner() for name in (*hooks.AROUND, probe.LOG_GUARD, hooks.LEGACY_EXPORT)]
        return [holder.__dict__[attribute] for holder, attribute in owners]

    before = functions()
    yield
    while watching._installed:
        guarddiff.uninstall()
    assert all(one is other for one, other in zip(before, functions()))
    assert hooks.observers() == ()
    assert hooks._users == []


class Pool(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.adaptive_avg_pool2d(x, (2, 3))


class Loop(nn.Module):
    """Right at the example's width only when it is traced."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = x[:, 0]
        for index in range(1, x.shape[1]):
            total = total * 0.5 + x[:, index]
        return total


class Raises(nn.Module):
    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise self.error


def third_party(model: nn.Module | None = None, **options: Any) -> Any:
    """Holds a reference that is older than any watch."""
    return old_reference(model or Pool(), (IMAGE,), dynamic_shapes=HEIGHT, verbose=False, **options)


def traced(file: Any = None) -> Any:
    return old_reference(Loop(), (torch.randn(2, 3),), file if file is not None else io.BytesIO(), **OLD)


@contextlib.contextmanager
def heard() -> Iterator[list[str]]:
    """The first lines of our warnings, in order."""
    said: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield said
    ours = [w for w in caught if issubclass(w.category, guarddiff.SpecializationWarning)]
    said += [str(w.message).splitlines()[0] for w in ours]


def in_a_thread(work: Callable[[], Any]) -> Any:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result(240)


def is_guarded(program: Any) -> bool:
    try:
        return guarddiff.report_of(program).model != ""
    except KeyError:
        return False


# --- watch ----------------------------------------------------------------------------------------------


def test_nested_watches_tell_each_list_once_and_warn_once() -> None:
    with heard() as said, guarddiff.watch(replay="off") as outer:
        with guarddiff.watch(replay="off") as middle, guarddiff.watch(replay="off") as inner:
            third_party()
        third_party(nn.ReLU())
    assert [[report.model for report in reports] for reports in (outer, middle, inner)] == [
        ["Pool", "ReLU"],
        ["Pool"],
        ["Pool"],
    ]
    assert outer[0] is middle[0] is inner[0]
    assert len(said) == 1


def test_the_innermost_options_hold() -> None:
    with guarddiff.watch(on_finding="raise") as outer, guarddiff.watch("ignore", replay="off"), heard() as said:
        third_party()
    assert said == []
    assert [finding.verdict for finding in outer[0].findings] == ["unconfirmed"]
    with guarddiff.watch("ignore"), guarddiff.watch("raise", "off"), pytest.raises(guarddiff.SpecializationError):
        third_party()


def test_a_guarded_export_is_told_once_under_watches_and_an_install(tmp_path: Path) -> None:
    guarddiff.install(report_to=tmp_path / "installed")
    with heard() as said, guarddiff.watch() as outer, guarddiff.watch(report_to=tmp_path / "watched") as inner:
        program = guarddiff.export(
            Pool(), (IMAGE,), dynamic_shapes=HEIGHT, verbose=False, replay="off", report_to=tmp_path / "own"
        )
    assert [len(outer), len(inner), len(said)] == [1, 1, 1]
    assert outer[0].findings == guarddiff.report_of(program).findings
    assert sorted(path.name for path in tmp_path.iterdir()) == ["own"]


def test_watches_that_end_out_of_order_leave_nothing() -> None:
    first, second = guarddiff.watch(replay="off"), guarddiff.watch(replay="off")
    ours, theirs = first.__enter__(), second.__enter__()
    first.__exit__(None, None, None)
    third_party(nn.ReLU())
    second.__exit__(None, None, None)
    assert not is_guarded(third_party(nn.ReLU()))
    assert (len(ours), len(theirs)) == (0, 1)


def test_a_watch_that_another_thread_ends_leaves_nothing() -> None:
    watch = guarddiff.watch(replay="off")
    reports = watch.__enter__()
    in_a_thread(lambda: watch.__exit__(None, None, None))
    third_party(nn.ReLU())
    assert reports == []


def test_an_exception_in_the_block_puts_everything_back() -> None:
    with pytest.raises(ZeroDivisionError), guarddiff.watch(threads=True):
        raise ZeroDivisionError
    assert not is_guarded(third_party(nn.ReLU()))


def test_calls_of_other_threads_are_caught_only_where_that_was_asked() -> None:
    with guarddiff.watch(replay="off") as reports:
        assert not is_guarded(in_a_thread(third_party))
    assert reports == []
    with heard() as said, guarddiff.watch(replay="off", threads=True) as reports:
        assert is_guarded(in_a_thread(third_party))
        third_party()
    assert [report.model for report in reports] == ["Pool", "Pool"]
    assert len(said) == 2


def test_a_watch_of_the_thread_itself_goes_first() -> None:
    def work() -> int:
        with guarddiff.watch(on_finding="ignore", replay="off") as own:
            third_party()
        return len(own)

    with heard() as said, guarddiff.watch(replay="off", threads=True) as reports:
        assert in_a_thread(work) == 1
    assert said == []
    assert len(reports) == 1  # told of as well


def test_threads_must_be_a_truth_value() -> None:
    with pytest.raises(TypeError, match="threads must be True or False, not 2"), guarddiff.watch(threads=2):  # type: ignore[arg-type]
        raise AssertionError("must not be entered")


def test_reports_are_numbered_in_the_folder_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with guarddiff.watch("ignore", "off", report_to="reports", threads=True):
        third_party(nn.ReLU())
        monkeypatch.chdir(tmp_path / "elsewhere")
        third_party(nn.Sigmoid())
        in_a_thread(lambda: third_party(nn.Tanh()))
    found = sorted(path.name for path in (tmp_path / "reports").glob("*.json"))
    assert found == ["guarddiff-report-2.json", "guarddiff-report-3.json", "guarddiff-report.json"]
    models = {guarddiff.load_report(tmp_path / "reports" / name).model for name in found}
    assert models == {"ReLU", "Sigmoid", "Tanh"}


def test_a_folder_that_is_gone_fails_no_watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with guarddiff.watch(report_to="reports") as reports, pytest.warns(RuntimeWarning, match="could not be written"):
        program = torch.onnx.export(nn.ReLU(), (torch.ones(2, 3),), dynamo=True, verbose=False)
    assert program is not None
    assert [(report.status, report.paths) for report in reports] == [("incomplete", ())]


def test_a_wrapper_that_somebody_puts_over_ours_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    with guarddiff.watch("ignore", "off") as reports:
        below = _compat.export_compat

        def theirs(*args: Any, **kwargs: Any) -> Any:
            calls.append(args[0])
            return below(*args, **kwargs)

        with monkeypatch.context() as patch:
            patch.setattr(_compat, "export_compat", theirs)
            third_party()
    assert len(calls) == 1
    assert len(reports) == 1


# --- install --------------------------------------------------------------------------------------------


def test_install_guards_all_threads_until_uninstall() -> None:
    guarddiff.install(replay="off")
    with heard() as said:
        assert is_guarded(third_party())
        assert is_guarded(in_a_thread(third_party))
        assert is_guarded(torch.onnx.export(Pool(), (IMAGE,), dynamic_shapes=HEIGHT, verbose=False))
    assert len(said) == 3
    guarddiff.uninstall()
    assert not is_guarded(third_party())
    assert not is_guarded(in_a_thread(third_party))


def test_uninstall_without_install_does_nothing() -> None:
    guarddiff.uninstall()
    guarddiff.uninstall()
    guarddiff.install(replay="off")
    guarddiff.uninstall()
    guarddiff.uninstall()
    assert not is_guarded(third_party(nn.ReLU()))


def test_installs_nest_and_the_newest_holds() -> None:
    guarddiff.install("ignore", "off")
    guarddiff.install("raise", "off")
    with pytest.raises(guarddiff.SpecializationError):
        third_party()
    with pytest.raises(guarddiff.SpecializationError):
        in_a_thread(third_party)
    guarddiff.uninstall()
    with heard() as said:
        assert is_guarded(third_party())
    assert said == []
    guarddiff.uninstall()
    assert not is_guarded(third_party())


def test_a_watch_goes_before_an_install() -> None:
    guarddiff.install("raise", "off")
    with guarddiff.watch("ignore", "off") as reports:
        third_party()
    assert len(reports) == 1
    with pytest.raises(guarddiff.SpecializationError):
        third_party()


def test_install_refuses_wrong_values_and_is_not_on_then() -> None:
    with pytest.raises(ValueError, match="did you mean 'raise'"):
        guarddiff.install(on_finding="rise")  # type: ignore[arg-type]
    assert hooks.observers() == ()


def test_exports_that_raise_are_restored_and_told() -> None:
    guarddiff.install(replay="off")
    with pytest.raises(torch.onnx.OnnxExporterError):
        third_party(Raises(ValueError("boom")))
    report = guarddiff.last_report()
    assert report is not None
    assert (report.model, report.status) == ("Raises", "incomplete")
    assert len(hooks._users) == 1


def test_an_uninstall_while_an_export_runs_lets_it_end() -> None:
    began, go = threading.Event(), threading.Event()

    class Waits(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            began.set()
            go.wait(120)
            return F.adaptive_avg_pool2d(x, (2, 3))

    guarddiff.install("ignore", "off")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(third_party, Waits())
        assert began.wait(120)
        guarddiff.uninstall()
        go.set()
        program = running.result(240)
    assert len(guarddiff.report_of(program).findings) == 1


# --- dynamo=False ---------------------------------------------------------------------------------------


@pytest.fixture
def last() -> Callable[..., guarddiff.Report]:
    def run(call: Callable[[], Any]) -> guarddiff.Report:
        call()
        report = guarddiff.last_report()
        assert report is not None
        return report

    return run


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("replay", ["findings", "full"])
def test_the_torchscript_exporter_is_watched_as_it_is_guarded(replay: Any, last: Any, tmp_path: Path) -> None:
    def installed() -> None:
        guarddiff.install("ignore", replay)
        try:
            in_a_thread(lambda: traced(tmp_path / "installed.onnx"))
        finally:
            guarddiff.uninstall()

    guarded = last(
        lambda: guarddiff.export(Loop(), (torch.randn(2, 3),), io.BytesIO(), on_finding="ignore", replay=replay, **OLD)
    )
    with guarddiff.watch("ignore", replay, threads=True) as reports:
        assert traced(tmp_path / "watched.onnx") is None
        installed()
    assert len(reports) == 2
    for report in reports:
        assert (report.status, report.model) == (guarded.status, "Loop")
        assert report.inputs == guarded.inputs
        assert [f.stage for f in report.findings] == [f.stage for f in guarded.findings]
        assert [m.part for m in report.missing] == [m.part for m in guarded.missing]
    assert guarded.status == ("specialized" if replay == "full" else "incomplete")
    traced(tmp_path / "plain.onnx")
    assert (tmp_path / "plain.onnx").read_bytes() == (tmp_path / "watched.onnx").read_bytes()


@pytest.mark.filterwarnings("ignore")
def test_a_guarded_torchscript_export_is_told_once() -> None:
    with guarddiff.watch("ignore") as reports:
        guarddiff.export(Loop(), (torch.randn(2, 3),), io.BytesIO(), replay="off", **OLD)
    assert [report.model for report in reports] == ["Loop"]


@pytest.mark.filterwarnings("ignore")
def test_a_watch_that_raises_covers_the_torchscript_exporter() -> None:
    with guarddiff.watch("raise", "full") as reports, pytest.raises(guarddiff.SpecializationError):
        traced()
    assert [report.status for report in reports] == ["specialized"]


@pytest.mark.filterwarnings("ignore")
def test_torchscript_errors_are_torchs_own() -> None:
    with guarddiff.watch() as reports, pytest.raises(ValueError, match="boom"):
        old_reference(Raises(ValueError("boom")), (torch.ones(2),), io.BytesIO(), dynamo=False)
    assert reports[0].error is not None
    assert reports[0].error.startswith("ValueError: raised at test_watching.py:")


def test_an_exportable_module_never_goes_to_the_torchscript_exporter() -> None:
    class Ready(torch.onnx.ExportableModule):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.adaptive_avg_pool2d(x, (2, 3))

        def example_arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
            return (IMAGE,), {}

        def dynamic_shapes(self) -> Any:
            return HEIGHT

        def input_names(self) -> list[str]:
            return ["x"]

        def output_names(self) -> list[str]:
            return ["y"]

    report = guarddiff.check(Ready(), dynamo=False, verbose=False, on_finding="ignore", replay="off")
    assert report.program is not None
    assert [finding.stage for finding in report.findings] == ["decompose"]


# --- listeners ------------------------------------------------------------------------------------------


def listened(work: Callable[[], Any]) -> list[tuple[str, bool] | None]:
    """Model and ``handed`` of the exports that ``work`` makes, in the order in which they end."""
    told: list[tuple[str, bool] | None] = []

    def begun() -> watching.Ended:
        return lambda outcome: told.append((outcome.report.model, outcome.handed) if outcome else None)

    with heard() as said, watching.listen(begun, replay="off"):
        work()
    assert said == []
    return told


def test_a_listener_hears_of_every_export_and_what_its_caller_was_given() -> None:
    keywords: dict[str, Any] = {"dynamic_shapes": HEIGHT, "verbose": False, "on_finding": "ignore", "replay": "off"}

    def work() -> None:
        third_party()
        in_a_thread(third_party)
        guarddiff.export(Pool(), (IMAGE,), **keywords)
        guarddiff.check(Pool(), (IMAGE,), **keywords)
        with guarddiff.watch("ignore", "off"):
            third_party(nn.ReLU())
        with contextlib.suppress(guarddiff.SpecializationError):
            guarddiff.export(Pool(), (IMAGE,), **{**keywords, "on_finding": "raise"})
        with contextlib.suppress(torch.onnx.OnnxExporterError):
            third_party(Raises(ValueError("boom")))
        with contextlib.suppress(KeyboardInterrupt):
            third_party(Raises(KeyboardInterrupt()))

    assert listened(work) == [
        ("Pool", True),
        ("Pool", True),
        ("Pool", True),
        ("Pool", False),
        ("ReLU", True),
        ("Pool", False),
        ("Raises", False),
        None,
    ]


def test_a_listener_that_fails_fails_no_export(caplog: pytest.LogCaptureFixture) -> None:
    def fails(*_: Any) -> Any:
        raise ZeroDivisionError("ours")

    with watching.listen(fails), watching.listen(lambda: fails), guarddiff.watch("ignore", "off") as reports:
        assert isinstance(third_party(nn.ReLU()), torch.onnx.ONNXProgram)
    assert len(reports) == 1
    ours = [row.getMessage() for row in caplog.records if row.name == "guarddiff"]
    assert ours == [
        "guarddiff could not tell that an export begins",
        "guarddiff could not tell what an export showed",
    ]
