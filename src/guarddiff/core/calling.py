"""Calls: how one fits a signature, and what came of one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def by_parameter(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """What is given in a call, by the names of parameters in the order of the signature; what goes to ``**kwargs``
    has its own names. Raises TypeError where it does not fit, ValueError where there is no signature."""
    signature = inspect.signature(function)
    given: dict[str, Any] = {}
    for name, value in signature.bind(*args, **kwargs).arguments.items():
        if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            given.update(value)
        else:
            given[name] = value
    return given


class Made:
    """A call of torch's, to be made once.

    Attributes:
        done: Whether it returned.
        value: What it returned.
        error: What it raised; None where it did not, or was not made.
    """

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self.done = False
        self.value: Any = None
        self.error: BaseException | None = None

    def __call__(self) -> Any:
        try:
            self.value = self._call()
        except BaseException as error:
            self.error = error
            raise
        self.done = True
        return self.value
