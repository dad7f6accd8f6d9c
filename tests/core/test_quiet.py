from __future__ import annotations

import threading
import warnings

import pytest

from guarddiff.core.quiet import quiet


def shown() -> int:
    with pytest.MonkeyPatch.context() as patch:
        seen: list[object] = []
        patch.setattr(warnings, "showwarning", lambda *args, **_: seen.append(args))
        warnings.warn("one", stacklevel=1)
    return len(seen)


@pytest.fixture(autouse=True)
def _always() -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        yield


def test_nothing_is_shown_and_the_filters_are_as_they_were() -> None:
    before = list(warnings.filters)
    assert shown() == 1
    with quiet():
        assert shown() == 0
        with quiet():
            assert shown() == 0
        assert shown() == 0
    assert shown() == 1
    assert list(warnings.filters) == before


def test_what_the_user_ignores_stays_ignored() -> None:
    warnings.simplefilter("ignore")
    before = list(warnings.filters)
    with quiet():
        pass
    assert list(warnings.filters) == before


def test_after_an_error() -> None:
    before = list(warnings.filters)
    with pytest.raises(KeyError), quiet():
        raise KeyError
    assert list(warnings.filters) == before


def test_two_threads_in_turn_with_catch_warnings_of_others_between() -> None:
    before = list(warnings.filters)
    entered, go, left = threading.Event(), threading.Event(), threading.Event()

    def other() -> None:
        with quiet(), warnings.catch_warnings():
            entered.set()
            go.wait(5)
        left.set()

    with quiet():
        thread = threading.Thread(target=other)
        thread.start()
        entered.wait(5)
    go.set()
    left.wait(5)
    thread.join()
    assert list(warnings.filters) == before
    assert shown() == 1
