"""How a call fits a signature."""

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
