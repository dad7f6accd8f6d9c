"""Stage boundaries: wrap torch's functions, delegate to them, always restore.

The wrappers are installed while at least one recording is active in any thread, and do nothing in a thread
that records nothing. What a wrapper does for us can never fail the export: an observer's exception is handed
to the recording and the export goes on.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from guarddiff.torch_bridge import probe
from guarddiff.torch_bridge.probe import PrivateName


class Observer(Protocol):
    """What a recording is told. Every method gets the arguments of the call as it was made."""

    def guard(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None: ...
    def around(
        self, name: PrivateName, call: Callable[[], Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any: ...
    def failed(self, part: str, error: BaseException) -> None: ...


class Bystander:
    """An observer that lets everything pass; others change what they need."""

    def guard(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        del args, kwargs

    def failed(self, part: str, error: BaseException) -> None:
        del part, error

    def around(self, name: PrivateName, call: Callable[[], Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        del name, args, kwargs
        return call()


_local = threading.local()
_lock = threading.Lock()
_installed: list[_Wrap] = []
_users = 0


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


def current() -> Observer | None:
    """The observer of this thread; None when nothing is recorded here."""
    return getattr(_local, "observer", None)


@contextlib.contextmanager
def recording(observer: Observer | None) -> Iterator[None]:
    """Tell ``observer`` of what happens in this thread; None suspends a recording that is on.

    Nested recordings replace each other and are put back in order.
    """
    before = current()
    if observer is not None:
        _acquire()
    _local.observer = observer
    try:
        yield
    finally:
        _local.observer = before
        if observer is not None:
            _release()


def _acquire() -> None:
    global _users
    with _lock:
        _users += 1
        if _users == 1:
            for name in AROUND:
                _install(name, _around_wrapper)
            _install(probe.LOG_GUARD, _guard_wrapper)


def _release() -> None:
    global _users
    with _lock:
        _users -= 1
        while _installed and not _users:
            wrap = _installed.pop()
            wrap.live = False
            if wrap.holder.__dict__.get(wrap.attribute) is wrap.wrapper:
                setattr(wrap.holder, wrap.attribute, wrap.original)


def _install(name: PrivateName, make: Callable[[PrivateName, _Wrap], Any]) -> None:
    try:
        holder, attribute = name.owner()
        original = holder.__dict__[attribute] if attribute in holder.__dict__ else getattr(holder, attribute)
        wrap = _Wrap(holder, attribute, original)
        wrap.wrapper = make(name, wrap)
        setattr(holder, attribute, wrap.wrapper)
    except Exception:  # probe.missing_names() tells of it
        return
    _installed.append(wrap)


def _around_wrapper(name: PrivateName, wrap: _Wrap) -> Any:
    original = wrap.original

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        observer = current()
        if observer is None or not wrap.live:
            return original(*args, **kwargs)
        return observer.around(name, functools.partial(original, *args, **kwargs), args, kwargs)

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
