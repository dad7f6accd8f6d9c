"""Locks that a forked child finds free."""

from __future__ import annotations

import os
import threading


def lock() -> threading.Lock:
    """A lock for a whole module. No other thread holds it while this process is forked: a child has no such thread, and
    would wait for it for ever."""
    made = threading.Lock()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=made.acquire, after_in_parent=made.release, after_in_child=made.release)
    return made
