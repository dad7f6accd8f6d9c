"""Warnings kept back for a while, in whatever thread, leaving the filters as they were."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Iterator
from typing import Any

from guarddiff.core import locks

# Unlike any filter of others: a pattern that everything matches.
_FILTER: Any = ("ignore", re.compile("(?#guarddiff)", re.IGNORECASE), Warning, None, 0)
_lock = locks.lock()
_users: list[object] = []
_lists: list[list[Any]] = []


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """While this is on, warnings are not shown, in any thread.

    ``warnings.catch_warnings`` puts back whole lists of filters: where two threads use it in turn, what one of them set
    stays for good. Here one filter is put in by the first and taken out by the last, of all lists that have it.
    """
    user = object()
    try:
        _on(user)
        yield
    finally:
        try:
            _off(user)
        except BaseException:  # interrupted: once more
            _off(user)
            raise


def _on(user: object) -> None:
    filters: Any = warnings.filters
    with _lock:
        _users.append(user)
        if not any(found is filters for found in _lists):
            _lists.append(filters)  # another list is in force inside a catch_warnings of others
        if not any(entry is _FILTER for entry in filters):
            filters.insert(0, _FILTER)


def _off(user: object) -> None:
    """Twice is no error."""
    filters: Any = warnings.filters
    with _lock:
        if user in _users:
            _users.remove(user)
        if not _users:
            for known in (*_lists, filters):
                known[:] = [entry for entry in known if entry is not _FILTER]
            _lists.clear()
