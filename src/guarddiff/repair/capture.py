"""Repairs of what goes wrong while a model is captured: other functions are called in place of torch's."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from torch.overrides import TorchFunctionMode

from guarddiff.repair import registry
from guarddiff.repair.registry import Repair


class _Instead(TorchFunctionMode):
    """Calls another function in place of torch's, unless that returns NotImplemented."""

    def __init__(self, functions: Mapping[Callable[..., Any], Callable[..., Any]]) -> None:
        super().__init__()
        self._functions = dict(functions)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        kwargs = kwargs or {}
        instead = self._functions.get(func)
        if instead is not None:
            result = instead(*args, **kwargs)
            if result is not NotImplemented:
                return result
        return func(*args, **kwargs)


@contextlib.contextmanager
def repairs(chosen: Sequence[Repair] | None = None) -> Iterator[None]:
    """While this is on, functions of torch that read concrete sizes (``torch.kron``) are replaced by ones that do not,
    in this thread, for ``torch.export`` and ``torch.onnx.export`` calls inside; ``chosen`` None: all there are.

    Results are those of torch's functions. What needs a translation as well is in ``translation_table()``.
    """
    functions = registry.functions(registry.every() if chosen is None else chosen)
    if not functions:
        yield
        return
    with _Instead(functions):
        yield
