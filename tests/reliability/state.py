"""What an export has to leave as it was: of the model, of torch, of the process."""

from __future__ import annotations

import gc
import hashlib
import locale
import logging
import os
import random
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from guarddiff.torch_bridge import hooks, probe

_HOOKS = tuple(name for name in nn.Module().__dict__ if name.endswith(("_hooks", "_hooks_with_kwargs")))


def of_model(model: nn.Module, inputs: Iterable[Any] = ()) -> dict[str, Any]:
    """Parameters, buffers and inputs with their values, training flags, hooks, attributes."""
    found: dict[str, Any] = {}
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    tensors.update({f"input {i}": value for i, value in enumerate(inputs) if isinstance(value, torch.Tensor)})
    for name, tensor in tensors.items():
        found[f"tensor {name}"] = (
            id(tensor),
            str(tensor.dtype),
            tuple(tensor.shape),
            tensor.requires_grad,
            tensor.grad is None,
            _digest(tensor),
        )
    for name, module in model.named_modules():
        found[f"module {name}"] = (type(module), module.training, sorted(map(str, module.__dict__)))
        found[f"hooks {name}"] = [(kind, list(module.__dict__.get(kind) or ())) for kind in _HOOKS]
    return found


def of_process() -> dict[str, Any]:
    """Random numbers, modes, settings, filters, logging, environment, files, threads, and torch's own functions."""
    return {**_torch(), **_python(), **_system()}


def changed(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What is not as it was, by name, in order."""
    nothing = object()
    return sorted(key for key in {**before, **after} if before.get(key, nothing) != after.get(key, nothing))


def _torch() -> dict[str, Any]:
    found: dict[str, Any] = {
        "torch random state": _digest(torch.get_rng_state()),
        "grad mode": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "default dtype": torch.get_default_dtype(),
        "default device": str(torch.get_default_device()),
        "torch threads": (torch.get_num_threads(), torch.get_num_interop_threads()),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "anomaly mode": torch.is_anomaly_enabled(),
        "dispatch modes": torch._C._len_torch_dispatch_stack(),
        "function modes": torch._C._len_torch_function_stack(),
        "torch.onnx.export": id(torch.onnx.export),
        "observers": (hooks.current() is None, len(hooks.observers())),
        "tracing context": torch._guards.TracingContext.try_get() is None,
        "node metadata": torch.fx.traceback.has_preserved_node_meta(),
    }
    for name in (*probe.NAMES, hooks.LEGACY_EXPORT):
        holder, last = name.owner()
        found[f"{name.module}.{name.path}"] = id(holder.__dict__.get(last, getattr(holder, last)))
    for module in ("torch._dynamo.config", "torch.fx.experimental._config", "torch._functorch.config"):
        if module in sys.modules:
            found[module] = repr(sorted(sys.modules[module].get_config_copy().items()))
    return found


def _python() -> dict[str, Any]:
    loggers = {name: one for name, one in logging.root.manager.loggerDict.items() if isinstance(one, logging.Logger)}
    found: dict[str, Any] = {
        "random state": hashlib.sha256(repr(random.getstate()).encode()).hexdigest(),
        "numpy random state": hashlib.sha256(repr(np.random.get_state()).encode()).hexdigest(),
        "numpy errors": tuple(sorted(np.geterr().items())),
        "warning filters": list(warnings.filters),
        "warnings shown by": id(warnings.showwarning),
        "logging disabled": logging.root.manager.disable,
        "root logger": (logging.root.level, [id(handler) for handler in logging.root.handlers]),
        "arguments": list(sys.argv),
        "path": list(sys.path),
        "standard streams": (id(sys.stdin), id(sys.stdout), id(sys.stderr)),
        "exception hook": id(sys.excepthook),
        "trace": (sys.gettrace() is None, sys.getprofile() is None),
        "recursion limit": sys.getrecursionlimit(),
        "switch interval": sys.getswitchinterval(),
        "garbage collection": (gc.isenabled(), gc.get_threshold()),
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "locale": locale.setlocale(locale.LC_ALL),
    }
    for name, logger in loggers.items():
        handlers = [id(handler) for handler in logger.handlers]
        found[f"logger {name}"] = (logger.level, logger.disabled, logger.propagate, handlers, len(logger.filters))
    return found


def _system() -> dict[str, Any]:
    signals = {kind.name: signal.getsignal(kind) for kind in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)}
    found: dict[str, Any] = {
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "signal handlers": signals,
        "temporary files": sorted(os.listdir(tempfile.gettempdir())),
        "files of the folder": sorted(os.listdir(os.getcwd())),
    }
    open_files = Path("/proc/self/fd")
    if open_files.is_dir():
        found["open files"] = sorted(_targets(open_files))
        found["child processes"] = sorted(_children())
    return found


def _targets(folder: Path) -> list[str]:
    """Where the open files lead; the one that reads the folder itself is gone by then."""
    targets = []
    for entry in os.listdir(folder):
        try:
            targets.append(os.readlink(folder / entry))
        except OSError:
            continue
    return targets


def _children() -> list[str]:
    found: list[str] = []
    for task in Path("/proc/self/task").iterdir():
        children = task / "children"
        if children.is_file():
            found += children.read_text(encoding="ascii").split()
    return found


def _digest(tensor: torch.Tensor) -> str:
    if tensor.is_meta or type(tensor) not in (torch.Tensor, nn.Parameter):
        return ""
    with torch.no_grad():
        plain = tensor.detach()
        if plain.is_quantized:
            plain = plain.int_repr()
        if plain.layout is not torch.strided:
            return ""
        whole = plain.resolve_conj().resolve_neg().contiguous()
        raw = whole.reshape(-1).view(torch.uint8) if whole.dim() else whole.reshape(1).view(torch.uint8)
        return hashlib.sha256(raw.numpy().tobytes()).hexdigest()
