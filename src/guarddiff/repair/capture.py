"""Repairs of what goes wrong while a model is captured: other functions are called in place of torch's."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from torch.overrides import TorchFunctionMode

from guarddiff.repair import registry
from guarddiff.repair.registry import Repair
from guarddiff.repair.shadowing import namespaces, shadowed
from guarddiff.repair.stand_ins import acting


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
def repairs(chosen: Sequence[Repair] | None = None, *, model: Any = None) -> Iterator[None]:
    """While this is on, functions of torch that read concrete sizes (``torch.kron``) are replaced by ones that do not,
    in this thread, for ``torch.export`` and ``torch.onnx.export`` calls inside; ``chosen`` None: all there are.

    ``model``: the module, or function, that is exported. In the modules that hold its code, and what that calls by
    name, ``int``, ``float``, ``max``, ``min`` and ``math`` lead to stand-ins that keep sizes open (``int(0.5 * h)``);
    torch, numpy and the standard library keep theirs, and so does what a function imports itself. Other threads find
    the stand-ins too, where they do what the real ones do. ``type(n) is int`` is False in such a module. None: no name
    is touched, and such numbers stay those of the example; ``strict=True`` of ``torch.export`` keeps them open by
    itself and wants it so.

    Results are those of torch's functions. What needs a translation as well is in ``translation_table()``.
    """
    known = registry.every() if chosen is None else chosen
    functions, stand_ins = registry.functions(known), registry.stand_ins(known)
    with contextlib.ExitStack() as on:
        if stand_ins and model is not None:
            on.enter_context(acting())
            on.enter_context(shadowed(namespaces(model), stand_ins))
        if functions:
            on.enter_context(_Instead(functions))
        yield
