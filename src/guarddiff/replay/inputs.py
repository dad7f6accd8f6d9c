"""Inputs at other sizes, in the example's own domain.

Floats are drawn from the example's mean and spread and kept inside its range, integers from its own values,
masks (two values at most) are tiled so that their rows keep their structure, constants stay constant, sorted
inputs stay sorted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

MOST_ELEMENTS = 2**26
"""No single input is made larger than this, whatever the declared range allows."""


_FEW_KERNELS = (torch.uint16, torch.uint32, torch.uint64)
"""dtypes that torch can hold and hardly compute with."""


class TooLarge(ValueError):
    """An input would be larger than the budget; a smaller size must do."""


@dataclass(frozen=True)
class Example:
    """The example inputs: leaves in order, the ONNX name of each (None for those that are no ONNX input), and how to
    put leaves back into (args, kwargs)."""

    leaves: tuple[Any, ...]
    names: tuple[str | None, ...]
    spec: Any
    unflatten: Any

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """ONNX input name to shape, for the tensors."""
        return {
            name: tuple(leaf.shape)
            for name, leaf in zip(self.names, self.leaves)
            if name is not None and isinstance(leaf, torch.Tensor)
        }

    def lively(self) -> Example:
        """The same with varied values where a float input is constant (``torch.zeros``): constants hide differences.
        Itself where none is."""
        generator = torch.Generator().manual_seed(0)
        leaves = tuple(
            torch.randn(tuple(leaf.shape), generator=generator).to(leaf.dtype) if name and _is_dull(leaf) else leaf
            for name, leaf in zip(self.names, self.leaves)
        )
        return self if all(new is old for new, old in zip(leaves, self.leaves)) else replace(self, leaves=leaves)

    @property
    def has_integers(self) -> bool:
        """Whether an ONNX input holds whole numbers, which may be positions or lengths."""
        return any(n is not None and _is_integer(leaf) for n, leaf in zip(self.names, self.leaves))

    def at(self, shapes: dict[str, tuple[int, ...]], seed: int = 0, smallest: bool = False) -> list[Any]:
        """Leaves at these shapes; ``smallest`` makes every whole number the example's smallest one, so that positions
        and lengths fit into smaller sizes. Raises TooLarge."""
        generator = torch.Generator().manual_seed(seed)
        found = []
        for name, leaf in zip(self.names, self.leaves):
            if name in shapes and isinstance(leaf, torch.Tensor):
                made = resized(leaf, shapes[name], generator)
                low = smallest and leaf.numel() and _is_integer(leaf)
                found.append(torch.full_like(made, int(leaf.min())) if low else made)
            else:
                found.append(leaf)
        return found

    def call(self, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """(args, kwargs) holding these leaves."""
        args, kwargs = self.unflatten(list(leaves), self.spec)
        return tuple(args), dict(kwargs)


def _is_dull(leaf: Any) -> bool:
    if not isinstance(leaf, torch.Tensor) or not leaf.is_floating_point() or leaf.numel() < 2:
        return False
    return bool((leaf == leaf.reshape(-1)[0]).all())


def _is_integer(leaf: Any) -> bool:
    if not isinstance(leaf, torch.Tensor) or leaf.dtype in (torch.bool, *_FEW_KERNELS):
        return False
    return not (leaf.is_floating_point() or leaf.is_complex())


def resized(tensor: torch.Tensor, shape: Sequence[int], generator: torch.Generator) -> torch.Tensor:
    """A tensor of this shape with values like those of ``tensor``; its clone where the shape is the same."""
    plain = tensor.detach().cpu()
    if tuple(plain.shape) == tuple(shape):
        return plain.clone()
    total = 1
    for size in shape:
        total *= int(size)
    if total > MOST_ELEMENTS:
        raise TooLarge(f"an input of shape {tuple(shape)} has more than {MOST_ELEMENTS:,} elements")
    if plain.dtype in _FEW_KERNELS:
        return resized(plain.to(torch.int64), shape, generator).to(plain.dtype)
    if plain.numel() == 0:
        return _from_nothing(plain, shape, generator)
    if plain.is_complex():
        real, imag = (resized(part, shape, generator) for part in (plain.real, plain.imag))
        return torch.complex(real.contiguous(), imag.contiguous()).to(plain.dtype)
    values = plain.reshape(-1)
    few = torch.unique(values[:4096])
    if few.numel() <= 2 and values.numel() > 1 and _all_in(values, few):
        return _tiled(plain, shape)
    drawn = _floats(plain, shape, generator) if plain.is_floating_point() else _drawn(values, shape, generator)
    return drawn.sort(-1).values if _is_sorted(plain) else drawn


def _all_in(values: torch.Tensor, few: torch.Tensor) -> bool:
    return bool(torch.isin(values, few).all()) if values.numel() > 4096 else True


def _from_nothing(plain: torch.Tensor, shape: Sequence[int], generator: torch.Generator) -> torch.Tensor:
    if plain.is_floating_point():
        return torch.randn(tuple(shape), generator=generator).to(plain.dtype)
    return torch.zeros(tuple(shape), dtype=plain.dtype)


def _floats(plain: torch.Tensor, shape: Sequence[int], generator: torch.Generator) -> torch.Tensor:
    work = plain.to(torch.float64)  # sums of the largest float32 overflow in float32
    finite = work[torch.isfinite(work)]
    if finite.numel() == 0:
        return _tiled(plain, shape)
    drawn = torch.randn(tuple(shape), generator=generator, dtype=work.dtype)
    if finite.numel() > 1:
        drawn = _folded(drawn.mul_(finite.std()).add_(finite.mean()), finite.min(), finite.max())
    else:
        drawn = drawn.add_(finite.mean())
    return drawn.to(plain.dtype)


def _folded(drawn: torch.Tensor, lowest: torch.Tensor, highest: torch.Tensor) -> torch.Tensor:
    """Values outside the range reflected into it: unlike clamping, that makes no ties."""
    span = highest - lowest
    if not span > 0:
        return torch.full_like(drawn, float(lowest))
    return (lowest + (span - ((drawn - lowest).remainder(2 * span) - span).abs())).clamp(lowest, highest)


def _drawn(values: torch.Tensor, shape: Sequence[int], generator: torch.Generator) -> torch.Tensor:
    return values[torch.randint(values.numel(), tuple(shape), generator=generator)]


def _tiled(plain: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    for axis, size in enumerate(shape):
        plain = plain.index_select(axis, torch.arange(size) % plain.shape[axis])
    return plain.contiguous()


def _is_sorted(plain: torch.Tensor) -> bool:
    """Sorted along the last axis, with enough values for that to be no accident."""
    if plain.dim() == 0 or plain.shape[-1] < 3 or plain.dtype == torch.bool:
        return False
    return bool((plain[..., 1:] >= plain[..., :-1]).all())
