"""Whether a module that was rewritten for fixed sizes does what the original does: results, gradients, ONNX Runtime."""

from __future__ import annotations

import copy
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from guarddiff.contract import tensors
from guarddiff.core.calling import by_parameter
from guarddiff.core.errors import in_words

_SEED = 0
_Named = dict[str, torch.Tensor | None]


@dataclass(frozen=True)
class Difference:
    """How two tensors differ.

    Attributes:
        name: Which tensor: ``output``, ``output[1]``, an input or a parameter.
        largest: Largest absolute difference of two elements; infinite where the shapes differ or one is not there.
        relative: L2 norm of the difference over that of the reference (0 where both are 0).
        text: What differs besides values: the shapes, or that one has no gradient; empty otherwise.
    """

    name: str
    largest: float
    relative: float
    text: str = ""


@dataclass(frozen=True)
class Equivalence:
    """How an adapted module compares with the original one. The parts stand apart: one being equal replaces no other.

    Attributes:
        dtype: Floating-point type of the first three parts.
        outputs: The results of ``forward``.
        input_gradients: Gradients of the inputs that have any, of a sum of all outputs with fixed random weights.
        parameter_gradients: Those of the parameters that both modules have by the same name and shape; as with the
            inputs, where one of the two has a gradient.
        onnx: The adapted module, exported in its own dtype and run in ONNX Runtime, against the original in ``dtype``;
            None where that was not asked for.
        onnx_dtype: Floating-point type of the exported module.
        unshared: Parameters that only one of the modules has, or that differ in shape.
        error: Why nothing could be compared: what the adapted module (or its export) raised; empty otherwise.
    """

    dtype: str
    outputs: tuple[Difference, ...] = ()
    input_gradients: tuple[Difference, ...] = ()
    parameter_gradients: tuple[Difference, ...] = ()
    onnx: tuple[Difference, ...] | None = None
    onnx_dtype: str = ""
    unshared: tuple[str, ...] = ()
    error: str = ""

    @property
    def exact(self) -> bool:
        """Whether outputs, input gradients and gradients of shared parameters are equal to the last bit."""
        parts = (*self.outputs, *self.input_gradients, *self.parameter_gradients)
        return not self.error and bool(self.outputs) and all(part.largest == 0 for part in parts)

    def within(self, largest: float = 0.0, relative: float = 1e-6) -> bool:
        """Whether no element of the first three parts differs by more than ``largest``, and ONNX Runtime's relative L2
        error is at most ``relative``. False where ONNX Runtime was not run."""
        parts = (*self.outputs, *self.input_gradients, *self.parameter_gradients)
        if self.error or not self.outputs or self.onnx is None:
            return False
        return all(part.largest <= largest for part in parts) and all(part.relative <= relative for part in self.onnx)

    def to_text(self) -> str:
        """One line for each part."""
        if self.error:
            return f"not comparable: {self.error}"
        parts = {
            "outputs": self.outputs,
            "input gradients": self.input_gradients,
            "parameter gradients": self.parameter_gradients,
        }
        lines = [f"{name} in {self.dtype}: {_worst(part)}" for name, part in parts.items()]
        if self.onnx is not None:
            worst = max(self.onnx, key=lambda part: part.relative, default=None)
            told = "none" if worst is None else f"relative L2 error {worst.relative:.3g} ({worst.name})"
            lines.append(f"ONNX Runtime in {self.onnx_dtype}: {told}{worst.text if worst is not None else ''}")
        if self.unshared:
            lines.append(f"parameters that are not shared: {', '.join(self.unshared)}")
        return "\n".join(lines)


def compare_modules(
    original: nn.Module,
    adapted: nn.Module,
    inputs: Any,
    kwargs: Mapping[str, Any] | None = None,
    *,
    dtype: torch.dtype = torch.float64,
    onnx: bool = True,
) -> Equivalence:
    """Compare a module that was rewritten for fixed sizes with the original one.

    Both are copied, so nothing of theirs changes. Random numbers are drawn from the same seed. Compared are, each by
    itself: the outputs and the gradients of inputs and of shared parameters in ``dtype``, and then the adapted module
    exported in its own dtype and run in ONNX Runtime, against the original in ``dtype`` (so that the error told is
    that of the export alone, not that of eager PyTorch in a narrow dtype).

    Args:
        original: The module as it was, such as one that computes a pooling size from its input.
        adapted: The module that is to do the same at these sizes.
        inputs: Inputs of both: a tuple of positional ones, or one tensor.
        kwargs: Inputs by keyword.
        dtype: Floating-point type of the comparison.
        onnx: Whether to export and run the adapted module too.

    Returns:
        The differences. Where the adapted module raises at these sizes, ``.error`` tells.

    Raises:
        TypeError: One of the modules is none, or the inputs are no tuple, tensor or mapping.
        ValueError: The original raises at these inputs, so there is nothing to compare with.
    """
    original, adapted = tensors.module(original, "original"), tensors.module(adapted, "adapted")
    given, named = tensors.inputs(inputs, kwargs, "inputs")
    own = _floating(adapted, given, named)
    shared, unshared = _shared(original, adapted)
    try:
        wanted = _run(original, given, named, dtype, shared)
    except Exception as err:
        raise ValueError(f"the original module rejects these inputs: {in_words(err)}") from err
    told = str(dtype).removeprefix("torch.")
    try:
        found = _run(adapted, given, named, dtype, shared)
    except Exception as err:
        return Equivalence(told, unshared=unshared, error=f"the adapted module rejects these inputs: {in_words(err)}")
    parts = (tuple(_differences(want, have)) for want, have in zip(wanted, found))
    outputs, of_inputs, of_parameters = parts
    result = Equivalence(told, outputs, of_inputs, of_parameters, unshared=unshared)
    if not onnx:
        return result
    name = str(own).removeprefix("torch.")
    try:
        values = _in_onnx_runtime(adapted, given, named)
    except Exception as err:
        return replace(result, onnx_dtype=name, error=f"the adapted module could not be exported: {in_words(err)}")
    got: _Named = dict(zip(wanted[0], values)) if len(values) == len(wanted[0]) else {}
    return replace(result, onnx=tuple(_differences(wanted[0], got)), onnx_dtype=name)


def _floating(module: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.dtype:
    """The floating-point type that a module computes in: that of its first parameter, buffer or input."""
    given = (tensor for _, tensor in tensors.named((args, dict(kwargs)), ""))
    for tensor in (*module.parameters(), *module.buffers(), *given):
        if tensor.is_floating_point():
            return tensor.dtype
    return torch.get_default_dtype()


def _shared(original: nn.Module, adapted: nn.Module) -> tuple[tuple[str, ...], tuple[str, ...]]:
    here = {name: tuple(value.shape) for name, value in original.named_parameters()}
    there = {name: tuple(value.shape) for name, value in adapted.named_parameters()}
    shared = tuple(name for name, shape in here.items() if there.get(name) == shape)
    return shared, tuple(sorted((here.keys() | there.keys()) - set(shared)))


def _run(
    module: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], dtype: torch.dtype, shared: Sequence[str]
) -> tuple[_Named, _Named, _Named]:
    """Outputs, gradients of the inputs, and gradients of the shared parameters."""
    copied = copy.deepcopy(module).to(dtype)
    given_args, given_kwargs = tensors.mapped((tuple(args), dict(kwargs)), lambda tensor: _leaf(tensor, dtype))
    arguments = by_parameter(copied.forward, given_args, given_kwargs)
    leaves = {name: tensor for key in arguments for name, tensor in tensors.named(arguments[key], key)}
    leaves = {name: tensor for name, tensor in leaves.items() if tensor.requires_grad}
    parameters = dict(copied.named_parameters())
    held = {name: parameters[name] for name in shared if parameters[name].requires_grad}
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(_SEED)
        # copies, which forward may change in place; a leaf it may not
        own_args, own_kwargs = tensors.mapped((given_args, given_kwargs), torch.Tensor.clone)
        outputs = dict(tensors.named(copied(*own_args, **own_kwargs), "output"))
        differentiable = [value for value in outputs.values() if value.requires_grad]
        gradients: list[torch.Tensor | None] = [None] * (len(leaves) + len(held))
        sources = [*leaves.values(), *held.values()]
        if differentiable and sources:
            parts = [torch.view_as_real(value) if value.is_complex() else value for value in differentiable]
            total = torch.stack([(part * _weights(part)).sum().to(dtype) for part in parts]).sum()
            gradients = list(torch.autograd.grad(total, sources, allow_unused=True))
    detached: _Named = {name: value.detach() for name, value in outputs.items()}
    by_input = dict(zip(leaves, gradients))
    return detached, by_input, dict(zip(held, gradients[len(leaves) :]))


def _leaf(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    if not tensor.is_floating_point():
        return tensor.detach().clone()
    return tensor.detach().to(dtype, copy=True).requires_grad_()


def _weights(value: torch.Tensor) -> torch.Tensor:
    generator = torch.Generator().manual_seed(_SEED)
    return torch.rand(value.shape, generator=generator, dtype=torch.float64).to(value.dtype) + 0.5


def _differences(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[Difference]:
    """How each tensor differs that one of the two has."""
    for name in dict.fromkeys((*wanted, *found)):
        if wanted.get(name) is not None or found.get(name) is not None:
            yield _difference(name, wanted.get(name), found.get(name))


def _difference(name: str, wanted: torch.Tensor | None, found: torch.Tensor | None) -> Difference:
    if wanted is None or found is None:
        return Difference(name, float("inf"), float("inf"), " (only one of the two has it)")
    if wanted.shape != found.shape:
        text = f" (shape {tuple(found.shape)} instead of {tuple(wanted.shape)})"
        return Difference(name, float("inf"), float("inf"), text)
    if _kind(wanted) != _kind(found):
        text = f" (dtype {str(found.dtype)[6:]} instead of {str(wanted.dtype)[6:]})"
        return Difference(name, float("inf"), float("inf"), text)
    same = np.asarray(_same(wanted.detach(), found.detach()).cpu()).ravel()
    if same.all():
        return Difference(name, 0.0, 0.0)
    a, b = (np.asarray(value.detach().to(_widest(value)).cpu()).ravel() for value in (wanted, found))
    apart = np.where(same, 0, b - a)
    if np.isnan(apart).any():
        return Difference(name, float("inf"), float("inf"), " (only one of the two is a number)")
    if not apart.any():  # whole numbers that float64 can't tell apart
        apart = np.where(same, 0, np.spacing(np.abs(a)))
    norm = float(np.linalg.norm(np.where(np.isfinite(a), a, 0)))
    distance = float(np.linalg.norm(apart))
    return Difference(name, float(np.abs(apart).max()), distance / norm if norm else float("inf"))


def _kind(value: torch.Tensor) -> str:
    if value.dtype == torch.bool:
        return "bool"
    return "complex" if value.is_complex() else "floating" if value.is_floating_point() else "whole"


def _same(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Where two tensors of one kind are equal; not a number is equal to itself. Whole numbers stay whole."""
    if _kind(a) in ("bool", "whole"):
        return a == b
    a, b = a.to(_widest(a)), b.to(_widest(b))
    return (a == b) | ((a != a) & (b != b))


def _widest(value: torch.Tensor) -> torch.dtype:
    return torch.complex128 if value.is_complex() else torch.float64


def _worst(part: Sequence[Difference]) -> str:
    if not part:
        return "none to compare"
    worst = max(part, key=lambda one: one.largest)
    if worst.largest == 0:
        return f"equal to the last bit ({len(part)} compared)"
    return f"largest difference {worst.largest:.3g} ({worst.name}){worst.text}"


def _in_onnx_runtime(module: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
    """The outputs of a static export, in the order in which they stand."""
    import onnxruntime

    copied = copy.deepcopy(module)
    program: Any = torch.onnx.export(copied, tuple(args), kwargs=dict(kwargs), dynamo=True, verbose=False)
    buffer = io.BytesIO()
    program.save(buffer)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(buffer.getvalue(), options, providers=["CPUExecutionProvider"])
    arguments = by_parameter(copied.forward, args, kwargs)
    given = [tensor for key in arguments for _, tensor in tensors.named(arguments[key], key)]
    names = [value.name for value in session.get_inputs()]
    if len(given) != len(names):
        raise ValueError(f"the exported model has {len(names)} inputs, and {len(given)} tensors are given")
    feeds = {name: tensor.detach().cpu().numpy() for name, tensor in zip(names, given)}
    return [torch.from_numpy(np.asarray(value)) for value in session.run(None, feeds)]
