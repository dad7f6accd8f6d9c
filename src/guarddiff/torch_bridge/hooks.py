"""Stage boundaries: wrap torch's functions, delegate to them, always restore.

The wrappers are installed while at least one observer is on, and do nothing in a thread that nobody observes. An
observer is on in one thread (``recording``) or in all of them (``everywhere``); in a thread that has its own, the
thread's innermost one is told and no other. What a wrapper does for us can never fail the export: an observer's
exception is handed to the recording and the export goes on.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from guarddiff.core import locks
from guarddiff.core.calling import Made
from guarddiff.core.errors import MEANT
from guarddiff.torch_bridge import probe
from guarddiff.torch_bridge.probe import PrivateName


class Observer(Protocol):
    """What a recording is told. Every method gets the arguments of the call as it was made. Of what ``around`` raises
    of its own only ``passing`` goes through to the caller."""

    passing: tuple[type[Exception], ...]

    def guard(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None: ...
    def around(
        self, name: PrivateName, call: Callable[[], Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any: ...
    def failed(self, part: str, error: BaseException) -> None: ...


class Bystander:
    """An observer that lets everything pass; others change what they need."""

    passing: tuple[type[Exception], ...] = MEANT

    def guard(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        del args, kwargs

    def failed(self, part: str, error: BaseException) -> None:
        del part, error

    def around(self, name: PrivateName, call: Callable[[], Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        del name, args, kwargs
        return call()


_local = threading.local()
_lock = locks.lock()
_installed: list[_Wrap] = []
_users: list[_Place] = []
_everywhere: tuple[_Place, ...] = ()
_refused: dict[PrivateName, Exception] = {}


class _Place:
    """Where an observer stands among those of a thread; ``None`` suspends them."""

    def __init__(self, observer: Observer | None) -> None:
        self.observer = observer


@dataclass
class _Wrap:
    """One wrapped function. ``live`` is False once it was taken out: if somebody wrapped it in between it stays in
    place, and does nothing any more."""

    holder: Any
    attribute: str
    original: Any
    wrapper: Any = None
    live: bool = True


AROUND = (
    probe.EXPORT_COMPAT,
    probe.CORE_EXPORT,
    probe.DECOMPOSE,
    probe.DECOMPOSITION_TABLE,
    probe.TRANSLATE,
    probe.OPTIMIZE,
)


LEGACY_EXPORT = PrivateName(
    "torch.onnx._internal.torchscript_exporter.utils", "export", "exports with dynamo=False made by other code"
)
"""Where ``torch.onnx.export(dynamo=False)`` goes. Told to observers that have a method ``legacy``; not among the names
that ``probe`` looks for, since a torch without the TorchScript exporter lacks nothing."""


def current() -> Observer | None:
    """The observer of this thread; None when nothing is recorded here."""
    places = _places()
    if places:
        return places[-1].observer
    shared = _everywhere
    return shared[-1].observer if shared else None


def observers() -> tuple[Observer, ...]:
    """All observers that are on in this thread, outermost first, each once: those of all threads, then its own."""
    found = (place.observer for place in (*_everywhere, *_places()) if place.observer is not None)
    return tuple({id(observer): observer for observer in found}.values())


def around(name: PrivateName, call: Callable[[], Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Make ``call`` as a wrapper of ``name`` would: through the observer of this thread, if there is one. Where that
    fails by a fault of its own, what the call gives or raises is given or raised."""
    observer = current()
    if observer is None:
        return call()
    made = Made(call)
    try:
        return observer.around(name, made, args, kwargs)
    except observer.passing:
        raise
    except Exception as error:
        if error is made.error:
            raise
        observer.failed(name.loss, error)
    if made.error is not None:
        raise made.error
    return made.value if made.done else call()


@contextlib.contextmanager
def recording(observer: Observer | None) -> Iterator[None]:
    """Tell ``observer`` of what happens in this thread; None suspends a recording that is on.

    Nested recordings replace each other. One that ends takes itself away and nothing else, also when it ends out of
    order or in another thread.
    """
    places = _places()
    place = _Place(observer)

    def away() -> None:
        if place in places:
            places.remove(place)
        _release(place)

    try:
        if observer is not None:
            _acquire(place)
            _tell_of_refused(observer)
        places.append(place)
        yield
    finally:
        try:
            away()
        except BaseException:  # interrupted: once more
            away()
            raise


@contextlib.contextmanager
def everywhere(observer: Observer) -> Iterator[None]:
    """Tell ``observer`` of what happens in every thread that has no observer of its own; of several, the newest."""
    place = _Place(observer)

    def away() -> None:
        global _everywhere
        with _lock:
            _everywhere = tuple(other for other in _everywhere if other is not place)
        _release(place)

    global _everywhere
    try:
        _acquire(place)
        with _lock:
            _everywhere = (*_everywhere, place)
        yield
    finally:
        try:
            away()
        except BaseException:  # interrupted: once more
            away()
            raise


def _places() -> list[_Place]:
    """The places of this thread's observers, outermost first."""
    places: list[_Place] | None = getattr(_local, "places", None)
    if places is None:
        places = _local.places = []
    return places


def _acquire(place: _Place) -> None:
    with _lock:
        _users.append(place)
        if len(_users) == 1:
            _refused.clear()
            for name in AROUND:
                _install(name, _around_wrapper)
            _install(probe.LOG_GUARD, _guard_wrapper)
            _install(LEGACY_EXPORT, _legacy_wrapper)


def _release(place: _Place) -> None:
    """Twice is no error."""
    with _lock:
        if place in _users:
            _users.remove(place)
        while _installed and not _users:
            wrap = _installed[-1]
            wrap.live = False
            if wrap.holder.__dict__.get(wrap.attribute) is wrap.wrapper:
                setattr(wrap.holder, wrap.attribute, wrap.original)
            _installed.pop()


def _install(name: PrivateName, make: Callable[[PrivateName, _Wrap], Any]) -> None:
    try:
        holder, attribute = name.owner()
        original = holder.__dict__[attribute] if attribute in holder.__dict__ else getattr(holder, attribute)
    except Exception:  # probe.missing_names() tells of it
        return
    try:
        wrap = _Wrap(holder, attribute, original)
        wrap.wrapper = make(name, wrap)
        _installed.append(wrap)
        setattr(holder, attribute, wrap.wrapper)
    except Exception as error:
        _refused[name] = error


def _tell_of_refused(observer: Observer) -> None:
    for name, error in _refused.items():
        observer.failed(name.loss, error)


def _around_wrapper(name: PrivateName, wrap: _Wrap) -> Any:
    original = wrap.original

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if not wrap.live or current() is None:
            return original(*args, **kwargs)
        return around(name, functools.partial(original, *args, **kwargs), args, kwargs)

    return wrapper


def _legacy_wrapper(name: PrivateName, wrap: _Wrap) -> Any:
    del name
    original = wrap.original

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        told = getattr(current(), "legacy", None) if wrap.live else None
        if told is None:
            return original(*args, **kwargs)
        return told(functools.partial(original, *args, **kwargs), args, kwargs)

    return wrapper


def _guard_wrapper(name: PrivateName, wrap: _Wrap) -> Any:
    original = wrap.original

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        observer = current()
        if observer is not None and wrap.live:
            try:
                observer.guard(args, kwargs)
            except Exception as error:
                observer.failed(name.loss, error)
        return original(*args, **kwargs)

    return wrapper
