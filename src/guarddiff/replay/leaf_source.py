"""Modules of torch.nn as the expressions that make them."""

from __future__ import annotations

import ast
import inspect
import warnings
from collections.abc import Callable
from typing import Any

import torch

from guarddiff.replay.python_source import Unwritable, expression

_PLAIN = (bool, int, float, str, tuple, list, type(None))


def text(module: torch.nn.Module, kind: type | None = None) -> ast.expr:
    """The call that makes such a module: by its repr, by what it keeps of its arguments, or by what is known of it.

    The first that evaluates to a module whose weights have the same shapes. Raises Unwritable.
    """
    return _text(module, type(module) if kind is None else kind)


def _text(module: torch.nn.Module, kind: type) -> ast.expr:
    if getattr(torch.nn, kind.__name__, None) is not kind:
        return _elsewhere(module, kind)
    for way in (_by_repr, _known, _by_arguments):
        made = _quietly(way, module, kind)
        if made is not None and _fits(made, module):
            return expression(made)
    raise Unwritable(f"a {kind.__name__} can't be written")


def _elsewhere(module: torch.nn.Module, kind: type) -> ast.expr:
    """A module class of torch that is not in torch.nn: a private kind of a public one (NonDynamicallyQuantizableLinear,
    parametrized modules)."""
    base = next(
        (t for t in kind.__mro__[1:] if getattr(torch.nn, t.__name__, None) is t and t is not torch.nn.Module), None
    )
    if base is None:
        raise Unwritable(f"a {kind.__name__} can't be written")
    return text(module, base)


def _quietly(way: Callable[[Any, type], str | None], module: torch.nn.Module, kind: type) -> str | None:
    try:
        return way(module, kind)
    except Exception:  # a module whose parts are not what such a module has
        return None


def _by_repr(module: Any, kind: type) -> str | None:
    return f"torch.nn.{kind.__name__}({module.extra_repr()})" if not list(module.children()) else None


def _by_arguments(module: Any, kind: type) -> str | None:
    parts = []
    for parameter in list(inspect.signature(kind).parameters.values()):
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        value = _argument(module, parameter.name)
        default = parameter.default
        if value is not inspect.Parameter.empty and (default is parameter.empty or value != default):
            parts.append(f"{parameter.name}={value!r}")
    return f"torch.nn.{kind.__name__}({', '.join(parts)})"


def _argument(module: torch.nn.Module, name: str) -> Any:
    value = getattr(module, name, inspect.Parameter.empty)
    if name == "bias" and not isinstance(value, bool):
        return any("bias" in key for key in module.state_dict())
    return value if isinstance(value, _PLAIN) else inspect.Parameter.empty


def _known(module: Any, kind: type) -> str | None:
    """Modules that keep their arguments in parts of them."""
    name = f"torch.nn.{kind.__name__}"
    if kind is torch.nn.TransformerEncoderLayer or kind is torch.nn.TransformerDecoderLayer:
        attention = module.self_attn
        sizes = f"{attention.embed_dim}, {attention.num_heads}, {module.linear1.out_features}"
        activation = ", activation='gelu'" if "gelu" in str(module.activation).lower() else ""
        return f"{name}({sizes}{activation}, batch_first={attention.batch_first}, norm_first={module.norm_first})"
    if kind is torch.nn.TransformerEncoder or kind is torch.nn.TransformerDecoder:
        layer = ast.unparse(text(module.layers[0]))
        norm = f", norm={ast.unparse(text(module.norm))}" if module.norm is not None else ""
        return f"{name}({layer}, {len(module.layers)}{norm})"
    if kind is torch.nn.Transformer:
        layer = module.encoder.layers[0]
        sizes = f"{module.d_model}, {module.nhead}, {len(module.encoder.layers)}, {len(module.decoder.layers)}"
        return f"{name}({sizes}, {layer.linear1.out_features}, batch_first={module.batch_first})"
    return None


def _fits(made: str, module: torch.nn.Module) -> bool:
    try:
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings(), torch.device("meta"):
            warnings.simplefilter("ignore")
            new = eval(made, {"torch": torch})
    except Exception:
        return False
    ours = {key: tuple(value.shape) for key, value in new.state_dict().items()}
    return ours == {key: tuple(value.shape) for key, value in module.state_dict().items()}
