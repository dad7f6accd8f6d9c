"""An error of guarddiff's never fails an export: torch's own result, or its own error, is what the caller gets."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import Any, TypeVar

from guarddiff.core.calling import Made
from guarddiff.core.errors import MEANT
from guarddiff.core.log import say
from guarddiff.torch_bridge import hooks

_Given = TypeVar("_Given")


class TorchsOwn(Exception):
    """Carries an error of another call of torch's exporter through guarddiff to the caller."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def unharmed(
    export: Callable[[], Any], guarded: Callable[[Made], _Given], instead: Callable[[Made, Exception], _Given]
) -> _Given:
    """What ``guarded`` gives of the call. Where it fails by a fault of ours: what ``instead`` gives of the call, which
    is made then if it was not made yet, and of the fault, which is logged. Raises what torch raises, and what the user
    asked for."""
    made = Made(export)
    try:
        return guarded(made)
    except MEANT:
        raise
    except TorchsOwn as passed:
        raise passed.error from None
    except Exception as error:
        if error is made.error:
            raise
        fault = error
    say(logging.ERROR, "guarddiff failed: what the export gives is torch's own", fault)
    _make_alone(made)
    if made.error is not None:
        with contextlib.suppress(Exception):
            instead(made, fault)
        raise made.error
    return instead(made, fault)


def _make_alone(made: Made) -> None:
    """Make the call if it was not made yet, and where that can be done with nobody watching: a watch that failed would
    fail again at each of the exporter's steps."""
    for watched in (hooks.recording, contextlib.nullcontext):
        if not made.done and made.error is None:
            with contextlib.suppress(Exception), watched(None):
                made()
