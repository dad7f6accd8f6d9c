"""The logger ``guarddiff``: what is said there can never fail an export."""

from __future__ import annotations

import contextlib
import logging

logger = logging.getLogger("guarddiff")
logger.addHandler(logging.NullHandler())


def say(level: int, message: str, error: BaseException | None = None) -> None:
    """Log one message, with the traceback of ``error``; a filter or handler that raises is passed over."""
    with contextlib.suppress(Exception):
        logger.log(level, "%s", message, exc_info=error)
