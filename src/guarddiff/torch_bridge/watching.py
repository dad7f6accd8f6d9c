"""A watcher: hands each call of the exporter to a guard of its own, and does nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from guarddiff.torch_bridge import hooks, probe
from guarddiff.torch_bridge.probe import PrivateName

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
Guarded = Callable[[Callable[[], Any], Arguments | None], Any]
"""Runs one export with a recording of its own. Is given the arguments of a call that went to the TorchScript exporter,
None for another one."""


class Watcher(hooks.Bystander):
    """An observer for ``hooks.recording`` and ``hooks.everywhere``."""

    def __init__(self, guarded: Guarded) -> None:
        self._guarded = guarded

    def around(self, name: PrivateName, call: Callable[[], Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if name is not probe.EXPORT_COMPAT:
            return call()
        return self._guarded(lambda: hooks.around(name, call, args, kwargs), None)

    def legacy(self, call: Callable[[], Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """``torch.onnx.export(dynamo=False)`` was called."""
        return self._guarded(call, (args, {**kwargs, "dynamo": False}))
