"""``dynamo=False``: the TorchScript exporter leaves no guards, so only a run at further sizes tells.

The exported file is run against eager PyTorch at further sizes of the dimensions that ``dynamic_axes`` declares,
with ``replay="full"``. What differs is a finding of stage ``run``: where it arose can't be told.
"""

from __future__ import annotations

import copy
import io
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from guarddiff import apart
from guarddiff.core.dims import Dimension, InputSpec
from guarddiff.core.domain import SizeRange
from guarddiff.core.finding import Finding
from guarddiff.core.report import Missing
from guarddiff.replay import own_points, prove, search
from guarddiff.replay.inputs import Example
from guarddiff.replay.tools import Tools
from guarddiff.torch_bridge import declarations, intent, replaying


@dataclass(frozen=True)
class Call:
    """What was given to ``torch.onnx.export(..., dynamo=False)``."""

    model: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    file: Any
    dynamic_axes: Mapping[str, Any] | None
    input_names: Sequence[str] | None
    output_names: Sequence[str] | None = None
    dynamic_shapes: Any = None

    @property
    def asked(self) -> dict[str, Any]:
        """What was said of the dimensions, as keywords of ``torch.onnx.export``."""
        names = ("dynamic_axes", "dynamic_shapes", "input_names", "output_names")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Found:
    """The inputs with their declared dimensions, the findings, and what could not be tried."""

    inputs: tuple[InputSpec, ...] = ()
    findings: tuple[Finding, ...] = ()
    missing: tuple[Missing, ...] = ()


class _File:
    """An exported ONNX file, opened as an ONNXProgram is."""

    def __init__(self, file: Any) -> None:
        self._model: str | bytes = file.getvalue() if isinstance(file, io.BytesIO) else os.fspath(file)

    def initialize_inference_session(self, initializer: Callable[[Any], Any]) -> None:
        initializer(self._model)

    def release(self) -> None:
        return


def call_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call | None:
    """The call, if it goes to the TorchScript exporter; None otherwise. (torch changes ``dynamic_axes`` in place.)"""
    given = dict(zip(("model", "args", "f"), args)) | dict(kwargs)
    if given.get("dynamo", True) is not False or isinstance(given.get("model"), torch.export.ExportedProgram):
        return None
    example, named = declarations.split(given.get("args", ()), given.get("kwargs"))
    return Call(
        given.get("model"),
        example,
        dict(named),
        given.get("f"),
        copy.deepcopy(given.get("dynamic_axes")),
        given.get("input_names"),
        given.get("output_names"),
        given.get("dynamic_shapes"),
    )


def run(call: Call, full: bool, asked: Sequence[Mapping[str, int]] = ()) -> Found:
    """Read the declarations, and run the file at the sizes that were ``asked`` for and, with ``full``, at further ones.
    Raises what reading it raises."""
    arguments = intent.bind(call.model, call.args, call.kwargs)
    leaves = intent.leaves_of(arguments)
    intent.declare(leaves, arguments, dynamic_axes=call.dynamic_axes, input_names=call.input_names)
    tensors = [leaf for leaf in leaves if leaf.is_tensor]
    names = list(call.input_names or ())[: len(tensors)]
    names += [leaf.path for leaf in tensors[len(names) :]]
    inputs = tuple(_spec(name, leaf) for name, leaf in zip(names, tensors))
    if not any(spec.dims for spec in inputs) and not asked:
        return Found(inputs)
    why = 'the TorchScript exporter leaves none; replay="full" runs the exported file at further sizes'
    unread = () if full and call.file is not None else (Missing("guards", why),)
    if call.file is None or not (full or asked):
        return Found(inputs, (), (*unread, *_not_opened(asked)))
    found = apart.run(lambda: _searched(_prover(call, leaves, names, inputs), full, asked))
    findings = tuple(replace(finding, stage="run", op="torch.onnx.export(dynamo=False)") for finding in found.findings)
    return Found(inputs, findings, (*unread, *found.missing))


def _searched(prover: prove.Prover, full: bool, asked: Sequence[Mapping[str, int]]) -> search.Found:
    own, wrong = own_points.named(asked, prover.dims, prover.sizes)
    found = search.search(prover, (), (), own, full)
    found.missing += [Missing(search.ASKED, wrong)] if wrong else []
    found.missing += search.not_run(prover, own) if not found.missing else []
    return found


def _not_opened(asked: Sequence[Mapping[str, int]]) -> tuple[Missing, ...]:
    return (Missing(search.NOT_RUN, "no file was written that could be run"),) if asked else ()


def _spec(name: str, leaf: intent.Leaf) -> InputSpec:
    dims = tuple(
        Dimension(name, axis, place, place, int(leaf.value.shape[axis]), asked.declared)
        for axis, asked in sorted(leaf.declared.items())
        for place in [asked.name if asked.name and asked.name.isidentifier() else f"{leaf.path}[{axis}]"]
    )
    sizes = {dim.axis: dim.size for dim in dims}
    shape = tuple(sizes.get(axis, int(size)) for axis, size in enumerate(leaf.value.shape))
    return InputSpec(name, str(leaf.value.dtype), shape, dims)


def _prover(
    call: Call, leaves: Sequence[intent.Leaf], names: Sequence[str], inputs: Sequence[InputSpec]
) -> prove.Prover:
    tensor_names = iter(names)
    onnx = tuple(next(tensor_names) if leaf.is_tensor else None for leaf in leaves)
    flat, tree = replaying.flatten_with_tree((call.args, dict(call.kwargs)))
    by_value = {id(leaf.value): name for leaf, name in zip(leaves, onnx)}
    example = Example(tuple(flat), tuple(by_value.get(id(value)) for value in flat), tree, replaying.unflatten)
    tools = Tools(
        program=_File(call.file),
        captured=None,
        size_text=lambda size: int(size),
        export_operator=_no_operator,
        fake_accepts=replaying.fake_accepts,
        flatten=replaying.flatten,
    )
    dims = [dim for spec in inputs for dim in spec.dims]
    declared = {dim.name: dim.declared.sizes if dim.declared else SizeRange() for dim in dims}
    return prove.Prover(tools, call.model, example, dims, declared, {dim.name: dim.example for dim in dims})


def _no_operator(module: Any, args: tuple[Any, ...], shapes: Any) -> Any:
    raise NotImplementedError("the TorchScript exporter's operators are not taken out one by one")
