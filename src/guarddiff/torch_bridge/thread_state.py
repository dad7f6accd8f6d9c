"""What torch keeps for each thread: taken in one, entered in another."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import torch

from guarddiff.torch_bridge.probe import PrivateName

FUNCTION_MODES = PrivateName("torch._C", "_len_torch_function_stack", "runs in a process of their own")
DISPATCH_MODES = PrivateName("torch._C", "_len_torch_dispatch_stack", "runs in a process of their own")
"""Both are not among the names that ``probe`` looks for: without them what is run is run in this process."""

Entered = Callable[[], AbstractContextManager[None]]


def taken() -> Entered | None:
    """A context in which another thread computes as this one does: default device, autocast, grad and inference mode.
    None where that can't be told: a mode of the user's (such as FakeTensorMode) is on, or an accelerator is in use."""
    if _accelerated():
        return None
    device = torch.get_default_device()
    given = device != torch.device("cpu")
    functions, dispatches = FUNCTION_MODES.find(), DISPATCH_MODES.find()
    if functions is None or dispatches is None or dispatches() or functions() > given:
        return None
    autocast = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"), torch.is_autocast_cache_enabled()
    grad, inference = torch.is_grad_enabled(), torch.is_inference_mode_enabled()

    @contextlib.contextmanager
    def entered() -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            if given:
                stack.enter_context(device)
            stack.enter_context(torch.inference_mode(inference))
            stack.enter_context(torch.set_grad_enabled(grad and not inference))
            enabled, dtype, cached = autocast
            stack.enter_context(torch.autocast("cpu", dtype, enabled, cached))
            yield

    return entered


def _accelerated() -> bool:
    """Whether this process uses a device whose driver does not outlive a fork."""
    for name in ("cuda", "xpu", "mtia", "hpu"):
        module = getattr(torch, name, None)
        started = getattr(module, "is_initialized", None)
        if started is not None and started():
            return True
    return False
