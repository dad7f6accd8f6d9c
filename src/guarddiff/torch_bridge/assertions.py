"""True divisions in the assertions that torch.export makes of guards.

For its graphs torch writes a guard's ``/`` as a sympy expression of FX nodes, which raises TraceError: a model whose
sizes are divided (``h / 14``) and then asked about can't be captured the way that torch.onnx.export does it.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator

from guarddiff.core import locks
from guarddiff.torch_bridge.probe import PrivateName

REFERENCE = PrivateName(
    "torch.utils._sympy.reference", "PythonReferenceAnalysis", "repairs of models that divide sizes and ask about them"
)
_NAMES = ("truediv", "int_truediv")
_lock = locks.lock()
_users = 0
_set: list[str] = []


@contextlib.contextmanager
def divisible() -> Iterator[None]:
    """While this is on, in any thread, such a guard becomes an assertion with Python's ``/``, which is what it says.
    Nothing is done where this torch has no such place, or writes it itself."""
    _change(1)
    try:
        yield
    finally:
        _change(-1)


def _change(by: int) -> None:
    global _users
    try:
        reference = REFERENCE.get()
    except (ImportError, AttributeError):
        return
    with _lock:
        before, _users = _users, _users + by
        for name in _NAMES if not before else ():
            if name not in vars(reference):
                setattr(reference, name, staticmethod(operator.truediv))
                _set.append(name)
        while _set and not _users:
            delattr(reference, _set.pop())
