"""What an export was asked for, as one hash: a finished variant is kept where it is the same."""

from __future__ import annotations

import hashlib
import inspect
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from guarddiff.torch_bridge import probe
from guarddiff.variants.examples import Example

_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]+|\b0x[0-9a-fA-F]{6,}")
_PLAIN = (str, int, float, bool, type(None))
_DEPTH = 8


def fingerprint(model: torch.nn.Module) -> str:
    """Hash of a module: classes with their source, settings, parameters, buffers and other tensors that it holds.

    What it holds that is neither tensor nor plain data counts by its text alone, without addresses.
    """
    digest = hashlib.sha256()
    sources: set[type] = set()
    for name, module in model.named_modules():
        kind = type(module)
        digest.update(f"{name}:{kind.__module__}.{kind.__qualname__}:{module.training}:{module.extra_repr()}".encode())
        if kind not in sources:
            sources.add(kind)
            digest.update(source(kind).encode())
        held = {key: value for key, value in vars(module).items() if not key.startswith("_")}
        for key, value in sorted(held.items()):
            digest.update(f"{key}={plain(value)}".encode())
    for name, tensor in (*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)):
        digest.update(f"{name}:{_told(tensor)}".encode())
    return digest.hexdigest()


def source(code: Any) -> str:
    """The source of a class or function; empty where it is not known."""
    try:
        return inspect.getsource(code)
    except (OSError, TypeError):
        return ""


def keys(
    model: torch.nn.Module, examples: Sequence[Example], keywords: Mapping[str, Any], told: Mapping[str, Any]
) -> list[str]:
    """A hash for each example: the module, the inputs' shapes, dtypes and values that are no tensors, the arguments of
    the export, what is told in the contract, and the versions of the packages that take part."""
    common = [fingerprint(model), plain(keywords), plain(told), plain(probe.versions())]
    return [hashlib.sha256(json.dumps([*common, *_inputs(example)]).encode()).hexdigest() for example in examples]


def _inputs(example: Example) -> Iterator[str]:
    yield plain([[name, str(t.dtype), list(t.shape)] for name, t in zip(example.shapes, example.tensors)])
    yield plain([example.args, example.kwargs], values=False)


def plain(value: Any, depth: int = _DEPTH, *, values: bool = True) -> str:
    """A text that is equal for equal values, in whichever process. ``values``: whether those of tensors count."""
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, torch.Tensor):
        return _told(value) if values else "tensor"
    if depth and isinstance(value, Mapping):
        parts = sorted((plain(k, depth - 1), plain(v, depth - 1, values=values)) for k, v in value.items())
        return "{" + ", ".join(f"{key}: {part}" for key, part in parts) + "}"
    if depth and isinstance(value, (set, frozenset)):
        return "{" + ", ".join(sorted(plain(part, depth - 1, values=values) for part in value)) + "}"
    if depth and isinstance(value, (list, tuple)):
        return "[" + ", ".join(plain(part, depth - 1, values=values) for part in value) + "]"
    if inspect.isfunction(value) or inspect.isclass(value):
        return f"{value.__module__}.{value.__qualname__} {source(value)}"
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    try:
        return f"{kind} {_ADDRESS.sub('', repr(value))}"
    except Exception:
        return kind


def _told(tensor: torch.Tensor) -> str:
    """Shape, dtype and hash of the values; those that can't be read as plain bytes count by shape and dtype."""
    about = f"{tuple(tensor.shape)} {tensor.dtype} {tensor.layout}"
    if tensor.device.type == "meta" or tensor.layout is not torch.strided or tensor.is_quantized:
        return about
    flat = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1)
    return f"{about} {hashlib.sha256(flat.view(torch.uint8).numpy().data).hexdigest()}"
