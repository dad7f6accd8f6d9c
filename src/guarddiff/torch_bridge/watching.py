"""A watcher: hands each call of the exporter to a guard of its own, and does nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from guarddiff.torch_bridge import probe
from guarddiff.torch_bridge.hooks import Bystander
from guarddiff.torch_bridge.probe import PrivateName


class Watcher(Bystander):
    """An observer for ``hooks.recording``; ``guarded`` runs one export with a recording of its own."""

    def __init__(self, guarded: Callable[[Callable[[], Any]], Any]) -> None:
        self._guarded = guarded

    def around(self, name: PrivateName, call: Callable[[], Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if name is not probe.EXPORT_COMPAT:
            return call()
        wrapper = probe.EXPORT_COMPAT.get()
        return self._guarded(lambda: wrapper(*args, **kwargs))
