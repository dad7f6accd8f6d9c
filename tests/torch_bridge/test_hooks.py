from __future__ import annotations

import concurrent.futures
import contextlib
import io
import logging
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from tests.torch_bridge.exports import AUTO, Branch, Kron, onnx_export
from torch import nn

from guarddiff.core.errors import MEANT
from guarddiff.torch_bridge import hooks, probe, record
from guarddiff.torch_bridge.probe import PrivateName
from guarddiff.torch_bridge.record import Recording

HOOKED = (*hooks.AROUND, probe.LOG_GUARD, hooks.LEGACY_EXPORT)
ORIGINALS = {name: name.get() for name in HOOKED}


class Told:
    """An observer that keeps what it is told."""

    passing = MEANT

    def __init__(self) -> None:
        self.guards: list[str] = []
        self.calls: list[PrivateName] = []
        self.threads: set[int] = set()
        self.failures: list[tuple[str, str]] = []

    def guard(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.threads.add(threading.get_ident())
        self.guards.append(str(args[2]))

    def around(self, name: PrivateName, call: Callable[[], Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.threads.add(threading.get_ident())
        self.calls.append(name)
        return call()

    def failed(self, part: str, error: BaseException) -> None:
        self.failures.append((part, str(error)))


def wrapped() -> list[PrivateName]:
    return [name for name in HOOKED if name.get() is not ORIGINALS[name]]


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    assert wrapped() == []
    yield
    left = wrapped()
    for name in left:
        holder, attribute = name.owner()
        setattr(holder, attribute, ORIGINALS[name])
    assert left == []
    assert hooks.current() is None
    assert hooks._users == []
    assert hooks._installed == []


def capture(size: int = 2) -> torch.export.ExportedProgram:
    """A real capture in which torch adds one guard, ``Eq(s…, size)``."""
    shapes = ({0: AUTO}, None)
    return torch.export.export(Kron(), (torch.ones(size, 3), torch.ones(4, 5)), dynamic_shapes=shapes)


def export(model: nn.Module | None = None) -> Any:
    return onnx_export(model or Branch(), (torch.ones(2, 7),), dynamic_shapes=({1: AUTO},))


def in_a_thread(work: Callable[[], Any]) -> Any:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result(240)


def sizes(told: Told) -> list[str]:
    """The number that each guard fixed."""
    return [guard.rpartition(", ")[2].rstrip(")") for guard in told.guards if guard.startswith("Eq(")]


def test_wrappers_are_there_only_while_something_is_recorded() -> None:
    with hooks.recording(Told()):
        assert wrapped() == list(HOOKED)
    assert wrapped() == []


def test_wrappers_look_like_what_they_wrap() -> None:
    with hooks.recording(Told()):
        for name in HOOKED:
            assert name.get().__name__ == ORIGINALS[name].__name__
            assert name.get().__wrapped__ is ORIGINALS[name]


def test_originals_are_put_back_into_the_very_place() -> None:
    held = {name: name.owner()[0].__dict__[name.owner()[1]] for name in HOOKED}
    with hooks.recording(Told()):
        capture()
    assert {name: name.owner()[0].__dict__[name.owner()[1]] for name in HOOKED} == held


def test_a_whole_export_is_told_in_order() -> None:
    told = Told()
    with hooks.recording(told):
        program = export()
    assert isinstance(program, torch.onnx.ONNXProgram)
    assert told.calls == [
        probe.EXPORT_COMPAT,
        probe.CORE_EXPORT,
        probe.DECOMPOSE,
        probe.DECOMPOSITION_TABLE,
        probe.TRANSLATE,
        probe.OPTIMIZE,
    ]
    assert any(guard.endswith(" > 4") for guard in told.guards)
    assert told.failures == []


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_restored_after_an_exception_in_the_block(kind: type[BaseException]) -> None:
    with pytest.raises(kind), hooks.recording(Told()):
        assert wrapped() == list(HOOKED)
        raise kind
    assert wrapped() == []
    assert hooks.current() is None


class Raises(nn.Module):
    def __init__(self, error: type[BaseException]) -> None:
        super().__init__()
        self.error = error

    def forward(self, x):
        raise self.error("from the model")


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
def test_restored_after_an_exception_in_the_model(kind: type[BaseException]) -> None:
    told = Told()
    raised = KeyboardInterrupt if kind is KeyboardInterrupt else torch.onnx.OnnxExporterError
    with pytest.raises(raised), hooks.recording(told):
        export(Raises(kind))
    assert wrapped() == []
    assert told.calls == [probe.EXPORT_COMPAT, probe.CORE_EXPORT]


def test_nested_recordings_replace_each_other_and_come_back() -> None:
    outer, inner = Told(), Told()
    with hooks.recording(outer):
        capture(2)
        with hooks.recording(inner):
            assert hooks.current() is inner
            capture(3)
        assert hooks.current() is outer
        assert wrapped() == list(HOOKED)
        capture(4)
    assert sizes(outer) == ["2", "4"]
    assert sizes(inner) == ["3"]


def test_a_nested_recording_that_raises_gives_back_the_outer_one() -> None:
    outer = Told()
    with hooks.recording(outer):
        with pytest.raises(ZeroDivisionError), hooks.recording(Told()):
            raise ZeroDivisionError
        capture(5)
    assert sizes(outer) == ["5"]


def test_none_suspends_a_recording() -> None:
    told = Told()
    with hooks.recording(told):
        with hooks.recording(None):
            assert hooks.current() is None
            capture(2)
            with hooks.recording(inner := Told()):
                capture(3)
            capture(4)
        capture(5)
    assert sizes(told) == ["5"]
    assert sizes(inner) == ["3"]


def test_none_alone_installs_nothing() -> None:
    with hooks.recording(None):
        assert wrapped() == []
        capture()


def test_an_inner_recording_that_ends_last_leaves_nothing() -> None:
    outer, inner = Told(), Told()
    first, second = hooks.recording(outer), hooks.recording(inner)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert hooks.current() is inner
    second.__exit__(None, None, None)
    assert hooks.observers() == ()


def test_everywhere_is_told_of_all_threads_that_have_no_observer() -> None:
    shared, newest, own = Told(), Told(), Told()
    with hooks.everywhere(shared):
        in_a_thread(lambda: capture(2))
        with hooks.everywhere(newest):
            in_a_thread(lambda: capture(3))
            with hooks.recording(own):
                assert hooks.observers() == (shared, newest, own)
                capture(4)
                in_a_thread(lambda: capture(5))
            with hooks.recording(None):
                capture(6)
        capture(7)
    assert wrapped() == []
    assert [sizes(told) for told in (shared, newest, own)] == [["2", "7"], ["3", "5"], ["4"]]


def test_everywhere_ends_in_any_order() -> None:
    first, second = hooks.everywhere(one := Told()), hooks.everywhere(other := Told())
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert hooks.observers() == (other,)
    second.__exit__(None, None, None)
    assert one.calls == other.calls == []


def test_an_observer_that_is_on_twice_is_listed_once() -> None:
    told = Told()
    with hooks.everywhere(told), hooks.recording(told):
        assert hooks.observers() == (told,)


class Traced(Told):
    def __init__(self) -> None:
        super().__init__()
        self.traced: list[tuple[int, list[str]]] = []

    def legacy(self, call: Callable[[], Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.traced.append((len(args), sorted(kwargs)))
        return call()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [Told, Traced])
def test_the_torchscript_exporter_is_told_to_those_that_can_hear_of_it(kind: type[Told]) -> None:
    told = kind()
    file = io.BytesIO()
    with hooks.recording(told):
        torch.onnx.export(nn.ReLU(), (torch.ones(2),), file, dynamo=False)
    assert file.getvalue() != b""
    assert told.calls == []
    if isinstance(told, Traced):
        ((count, names),) = told.traced
        assert count == 3
        assert {"kwargs", "dynamic_axes", "input_names"} <= set(names)


class Turns:
    """Threads that work strictly in turn: a fixed interleaving, whatever the scheduler does."""

    def __init__(self) -> None:
        self.order = threading.Condition()
        self.turn = 0
        self.errors: list[str] = []

    @contextlib.contextmanager
    def take(self, number: int) -> Iterator[None]:
        with self.order:
            assert self.order.wait_for(lambda: self.turn == number, timeout=120)
            yield
            self.turn += 1
            self.order.notify_all()

    def run(self, *work: Callable[[], None]) -> None:
        def guarded(one: Callable[[], None]) -> None:
            try:
                one()
            except BaseException:
                self.errors.append(traceback.format_exc())

        threads = [threading.Thread(target=guarded, args=(one,)) for one in work]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(240)
        assert self.errors == []


def test_two_threads_never_mix() -> None:
    turns = Turns()
    first, second = Told(), Told()
    idents: list[int] = []

    def one() -> None:
        idents.append(threading.get_ident())
        with turns.take(0):
            recording = hooks.recording(first)
            recording.__enter__()
        with turns.take(2):
            capture(2)
        with turns.take(4):
            recording.__exit__(None, None, None)

    def other() -> None:
        with turns.take(1):
            recording = hooks.recording(second)
            recording.__enter__()
        with turns.take(3):
            capture(3)
        with turns.take(5):
            assert wrapped() == list(HOOKED)  # the other thread's end took nothing away
            capture(4)
            recording.__exit__(None, None, None)
            assert wrapped() == []

    turns.run(one, other)
    assert sizes(first) == ["2"]
    assert sizes(second) == ["3", "4"]
    assert first.threads == set(idents)
    assert len(second.threads) == 1
    assert first.threads.isdisjoint(second.threads)


def test_a_thread_without_a_recording_is_untouched() -> None:
    told = Told()
    done: list[Any] = []

    def work() -> None:
        done.append(hooks.current())
        capture(3)
        done.append(export())

    with hooks.recording(told):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join(240)
        capture(2)
    assert done[0] is None
    assert isinstance(done[1], torch.onnx.ONNXProgram)
    assert sizes(told) == ["2"]
    assert told.calls == []


class Clumsy(Told):
    def guard(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().guard(args, kwargs)
        raise RuntimeError("a mistake of ours")


def test_an_observer_that_raises_never_breaks_the_export() -> None:
    clumsy = Clumsy()
    with hooks.recording(clumsy):
        program = export()
    assert isinstance(program, torch.onnx.ONNXProgram)
    assert clumsy.guards != []
    assert clumsy.failures == [("guards and their origins", "a mistake of ours")] * len(clumsy.guards)


@pytest.mark.parametrize("after", [False, True])
def test_an_observer_that_fails_around_a_call_never_breaks_the_export(after: bool) -> None:
    class Failing(Told):
        def around(self, name: PrivateName, call: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if after:
                super().around(name, call, args, kwargs)
            raise RuntimeError("a mistake of ours")

    failing = Failing()
    with hooks.recording(failing):
        program = export()
    assert isinstance(program, torch.onnx.ONNXProgram)
    assert {text for _, text in failing.failures} == {"a mistake of ours"}
    assert len(failing.failures) == len(hooks.AROUND)


def test_torchs_error_goes_before_one_of_an_observers() -> None:
    class Failing(Told):
        def around(self, name: PrivateName, call: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            with contextlib.suppress(Exception):
                call()
            raise RuntimeError("a mistake of ours")

    class Refusing(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            raise ZeroDivisionError("the model's own")

    with pytest.raises(torch.onnx.errors.OnnxExporterError) as plain:
        torch.onnx.export(Refusing(), (torch.ones(2),), dynamo=True, verbose=False)
    with hooks.recording(Failing()), pytest.raises(type(plain.value)):
        torch.onnx.export(Refusing(), (torch.ones(2),), dynamo=True, verbose=False)


def test_a_recording_whose_step_fails_tells_of_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no such boundary")

    recording = Recording()
    monkeypatch.setattr(record, "boundary", fail)
    with hooks.recording(recording), caplog.at_level(logging.ERROR, "guarddiff"):
        program = export()
    assert isinstance(program, torch.onnx.ONNXProgram)
    assert recording.program is program
    assert {entry.part: entry.why for entry in recording.missing} == {
        "the snapshot after translation": "RuntimeError: no such boundary",
        "findings before the model file is written": "RuntimeError: no such boundary",
    }
    assert [row.exc_info[0] for row in caplog.records if row.exc_info] == [RuntimeError, RuntimeError]


class Packed:
    """What a newer torch might pass in place of the condition itself."""


@pytest.mark.parametrize("given", [("eval", Packed(), True), ("eval",), ()], ids=["packed", "prefix", "nothing"])
def test_a_signature_that_drifted_is_told(given: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[tuple[Any, ...]] = []
    holder, attribute = probe.LOG_GUARD.owner()
    monkeypatch.setattr(holder, attribute, lambda *args, **kwargs: passed.append(args))
    recording = Recording(stage="capture")
    with hooks.recording(recording):
        probe.LOG_GUARD.get()(*given)
    assert passed == [given]
    assert [entry.part for entry in recording.missing] == ["guards and their origins"]


@pytest.fixture
def theirs() -> Iterator[Callable[[], list[str]]]:
    """Puts somebody else's wrapper over what is there now; gives the list of the guards it saw."""
    holder, attribute = probe.LOG_GUARD.owner()
    original = holder.__dict__[attribute]

    def put() -> list[str]:
        seen: list[str] = []
        below = holder.__dict__[attribute]

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            seen.append(str(args[2]))
            return below(*args, **kwargs)

        setattr(holder, attribute, wrapper)
        return seen

    yield put
    setattr(holder, attribute, original)


def test_somebody_elses_wrapper_over_ours_is_kept(theirs: Callable[[], list[str]]) -> None:
    told = Told()
    with hooks.recording(told):
        seen = theirs()
        their_wrapper = probe.LOG_GUARD.get()
        capture(2)
    assert probe.LOG_GUARD.get() is their_wrapper
    assert [name for name in wrapped() if name is not probe.LOG_GUARD] == []
    before = list(told.guards)
    capture(3)
    assert sizes(told) == ["2"]
    assert told.guards == before
    assert [guard for guard in seen if guard.endswith(", 3)")] != []


def test_a_call_is_told_once_although_an_old_wrapper_of_ours_lies_below_theirs(
    theirs: Callable[[], list[str]],
) -> None:
    with hooks.recording(Told()):
        theirs()
    again = Told()
    with hooks.recording(again):
        capture(2)
    assert sizes(again) == ["2"]


def test_somebody_elses_wrapper_below_ours_is_put_back(theirs: Callable[[], list[str]]) -> None:
    seen = theirs()
    their_wrapper = probe.LOG_GUARD.get()
    told = Told()
    with hooks.recording(told):
        capture(2)
    assert probe.LOG_GUARD.get() is their_wrapper
    assert sizes(told) == ["2"]
    assert seen == told.guards


@pytest.mark.parametrize(
    "gone",
    [
        PrivateName("torch.onnx._internal.exporter._core", "no_such_function", "a"),
        PrivateName("torch._no_such_module", "anything", "b"),
        PrivateName("torch.onnx._internal.exporter._onnx_program", "NoSuchClass.method", "c"),
    ],
    ids=lambda name: f"{name.module.rpartition('.')[2]}.{name.path}",
)
def test_a_name_that_does_not_exist_is_skipped(gone: PrivateName, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "AROUND", (gone, probe.EXPORT_COMPAT, probe.CORE_EXPORT))
    told = Told()
    with hooks.recording(told):
        assert wrapped() == [probe.EXPORT_COMPAT, probe.CORE_EXPORT, probe.LOG_GUARD, hooks.LEGACY_EXPORT]
        capture(2)
    assert sizes(told) == ["2"]


def test_a_module_that_fails_on_import_is_skipped(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fails_on_import.py").write_text("raise RuntimeError('incompatible')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(hooks, "AROUND", (PrivateName("fails_on_import", "anything", "d"), probe.CORE_EXPORT))
    monkeypatch.setattr(hooks, "_users", [])  # put back afterwards, whatever happens
    monkeypatch.setattr(hooks, "_installed", [])
    with hooks.recording(Told()):
        assert wrapped() == [probe.CORE_EXPORT, probe.LOG_GUARD, hooks.LEGACY_EXPORT]
