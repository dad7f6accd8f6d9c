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
_users = 0
_lists: list[list[Any]] = []


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """While this is on, warnings are not shown, in any thread.

    ``warnings.catch_warnings`` puts back whole lists of filters: where two threads use it in turn, what one of them set
    stays for good. Here one filter is put in by the first and taken out by the last, of all lists that have it.
    """
    _change(1)
    try:
        yield
    finally:
        _change(-1)


def _change(by: int) -> None:
    global _users
    filters: Any = warnings.filters
    with _lock:
        _users += by
        if not any(found is filters for found in _lists):
            _lists.append(filters)  # another list is in force inside a catch_warnings of others
        if by > 0:
            if not any(entry is _FILTER for entry in filters):
                filters.insert(0, _FILTER)
        elif not _users:
            for known in _lists:
                known[:] = [entry for entry in known if entry is not _FILTER]
            _lists.clear()
