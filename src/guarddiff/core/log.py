"""The logger ``guarddiff``, where what is said can never fail an export, and warnings at the caller's line."""

from __future__ import annotations

import contextlib
import logging
import sys
import warnings
from collections.abc import Callable

_PASSED_OVER = ("guarddiff", "torch", "contextlib")

logger = logging.getLogger("guarddiff")
logger.addHandler(logging.NullHandler())


_forward: Callable[[int, str, BaseException | None], None] | None = None


def forward(to: Callable[[int, str, BaseException | None], None]) -> None:
    """Give ``to`` what this process says from now on, in place of the logger: for a child, whose parent says it."""
    global _forward
    _forward = to


def say(level: int, message: str, error: BaseException | None = None) -> None:
    """Log one message, with the traceback of ``error``; a filter or handler that raises is passed over."""
    with contextlib.suppress(Exception):
        if _forward is None:
            logger.log(level, "%s", message, exc_info=error)
        elif logger.isEnabledFor(level):
            _forward(level, message, error)


def warn(text: str, category: type[Warning]) -> None:
    """Warn at the line that called us: the innermost frame outside guarddiff and torch. Raises the warning where the
    user made it an error."""
    frame = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).split(".")[0] in _PASSED_OVER:
        frame = frame.f_back
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    warnings.warn_explicit(text, category, frame.f_code.co_filename, frame.f_lineno, registry=registry)


def warn_unwritten(text: str) -> None:
    """Warn of a file that could not be written (RuntimeWarning); the export stands, also where warnings are errors."""
    with contextlib.suppress(RuntimeWarning):
        warn(text, RuntimeWarning)
