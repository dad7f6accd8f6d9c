"""Small exports that take over the running export's registry and decomposition table, and fake runs.

Each ``torch.onnx.export`` rebuilds the operator registry (about 0.5 s of the 0.65 s that one operator takes).
"""

from __future__ import annotations

import contextlib
import copy
import gc
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.utils import _pytree

from guarddiff.core.quiet import quiet
from guarddiff.torch_bridge import hooks, probe
from guarddiff.torch_bridge.probe import PrivateName
from guarddiff.torch_bridge.record import Recording


class _TableReuse(hooks.Bystander):
    """Hands out a decomposition table instead of building it anew."""

    def __init__(self, table: dict[Any, Any] | None) -> None:
        self._table = table

    def around(self, name: PrivateName, call: Callable[[], Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        del args, kwargs
        if name is probe.DECOMPOSITION_TABLE and self._table is not None:
            return dict(self._table)
        return call()


def export_again(
    recording: Recording,
    module: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    dynamic_shapes: Any = None,
    optimize: bool = True,
) -> Any:
    """An ONNXProgram of ``module``, made as the recorded export was. Raises what the exporter raises."""
    with hooks.recording(_TableReuse(recording.decomposition_table)), _young_heap(), quiet():
        return probe.CORE_EXPORT.get()(
            module,
            args,
            kwargs or {},
            registry=recording.registry,
            dynamic_shapes=dynamic_shapes,
            verbose=False,
            optimize=optimize,
            opset_version=recording.opset_version,
        )


def export_otherwise(
    recording: Recording,
    translations: Mapping[Callable[..., Any], Callable[..., Any]],
    into: Recording,
    example: tuple[tuple[Any, ...], dict[str, Any]] | None = None,
    optimize: bool = True,
) -> Any:
    """The recorded export once more, with other translations of some operators and other example inputs (args, kwargs;
    None: the user's own), and without the optimizer where ``optimize`` is False; what happens is recorded ``into``.

    Translations of the user's own stay. Raises what the exporter raises, and LookupError where the call was not seen.
    """
    if recording.core_call is None or recording.registry is None:
        raise LookupError("the exporter's call was not seen")
    args, kwargs = recording.core_call
    if example is not None:
        args, kwargs = args[:1], {**kwargs, "args": example[0], "kwargs": example[1]}
    registry = copy.copy(recording.registry)
    registry.functions = {target: list(known) for target, known in recording.registry.functions.items()}
    for operator, function in translations.items():
        if not any(known.is_custom for known in registry.get_decomps(operator)):
            registry.register_op(operator, function, is_complex=False)
    into.asked, into.model, into._asked = recording.asked, recording.model, True
    with hooks.recording(into), quiet():
        given = {**kwargs, "registry": registry, "verbose": False}
        return probe.CORE_EXPORT.get()(*args, **(given if optimize else {**given, "optimize": False}))


@contextlib.contextmanager
def _young_heap() -> Iterator[None]:
    """Keep the collector from walking what was there before: torch.export collects garbage once per export, and after a
    large export that takes longer than a small one. Objects that somebody froze already stay as they are."""
    if gc.get_freeze_count():
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def fake_accepts(module: Any, call: Callable[[Any], Any]) -> bool | None:
    """Whether ``module`` accepts inputs of given shapes, told without computing: ``call(module)`` runs it on empty
    tensors under FakeTensorMode. None when that can't tell (data-dependent code, no fake kernel).
    """
    mode = probe.FAKE_MODE.get()(allow_non_fake_inputs=True)
    try:
        with mode, torch.no_grad():
            call(module)
    except (RuntimeError, ValueError, IndexError, AssertionError) as error:
        unsure = type(error).__module__.startswith("torch._subclasses") or isinstance(error, NotImplementedError)
        return None if unsure else False
    except KeyboardInterrupt:
        raise
    except BaseException:
        return None
    return True


def flatten_with_tree(value: Any) -> tuple[list[Any], Any]:
    """The leaves of a nested value and its tree, for ``unflatten``."""
    leaves, tree = _pytree.tree_flatten(value)
    return leaves, tree


def unflatten(leaves: Any, tree: Any) -> Any:
    """The nested value with these leaves."""
    return _pytree.tree_unflatten(leaves, tree)


def flatten(value: Any) -> list[Any]:
    """The leaves of a nested value, as torch.export flattens it."""
    return list(_pytree.tree_leaves(value))
