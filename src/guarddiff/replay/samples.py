"""Python text that makes a tensor like a given one: its shape, dtype and pattern, none of its values."""

from __future__ import annotations

import torch

from guarddiff.replay.script import TensorLeaf


def like(tensor: torch.Tensor, other: torch.Tensor | None = None) -> TensorLeaf:
    """How to make an input like ``tensor`` in the example and like ``other`` at the other sizes."""
    second = tensor if other is None else other
    return TensorLeaf(recipe(tensor, second), (tuple(tensor.shape), tuple(second.shape)))


def constant(tensor: torch.Tensor) -> str:
    """The text of a weight or buffer."""
    return like(tensor).text(0)


def recipe(tensor: torch.Tensor, other: torch.Tensor) -> str:
    """The text with ``{sizes}``, ``{shape}`` or ``{last}`` for the shape.

    Whole numbers stay below the largest one, and are never smaller than 1 where none is.
    """
    one, two = tensor.detach().cpu(), other.detach().cpu()
    if one.dtype == torch.bool:
        return _bools(one, two)
    if one.is_complex():
        return f"torch.randn({{sizes}}, dtype={one.dtype})"
    if one.is_floating_point():
        return _floats(one, two)
    return _integers(one, two)


def of_dtype(dtype: torch.dtype) -> str:
    """The text for a tensor of which only the dtype is known."""
    typed = "" if dtype in (torch.float32, torch.int64) else f", dtype={dtype}"
    if dtype == torch.bool:
        return "torch.rand({sizes}) > 0.5"
    if dtype.is_floating_point or dtype.is_complex:
        return "torch.randn({sizes}" + typed + ")"
    return "torch.randint(0, 2, {shape}" + typed + ")"


def _typed(dtype: torch.dtype) -> str:
    return "" if dtype in (torch.float32, torch.int64) else f", dtype={dtype}"


def _bools(one: torch.Tensor, two: torch.Tensor) -> str:
    if bool(one.all()) and bool(two.all()):
        return "torch.ones({shape}, dtype=torch.bool)"
    if not bool(one.any()) and not bool(two.any()):
        return "torch.zeros({shape}, dtype=torch.bool)"
    for name in ("tril", "triu"):
        if all(t.dim() >= 2 and torch.equal(t, getattr(torch.ones_like(t), name)()) for t in (one, two)):
            return f"torch.ones({{sizes}}).{name}().bool()"
    return "torch.rand({sizes}) > 0.5"


def _floats(one: torch.Tensor, two: torch.Tensor) -> str:
    dtype = _typed(one.dtype)
    made = "torch.randn({sizes}" + dtype + ")"
    for size, text in ((0, "zeros"), (1, "ones")):
        if one.numel() and bool((one == size).all()) and bool((two == size).all()):
            return f"torch.{text}({{sizes}}{dtype})"
    if not one.numel():
        return made
    if not bool(torch.isfinite(one).all()):
        return f"torch.zeros({{sizes}}{dtype})"
    if one.numel() > 1 and bool(((one == 0) | (one == 1)).all()):
        cast = ".float()" if one.dtype == torch.float32 else f".to({one.dtype})"
        return f"(torch.rand({{sizes}}) > 0.5){cast}"
    low, high = float(one.min()), float(one.max())
    if low >= 0 and high <= 1:
        made = "torch.rand({sizes}" + dtype + ")"
    elif low > 0:
        made = f"(torch.rand({{sizes}}{dtype}) + 0.5)"
    ordered = one.dim() > 0 and one.shape[-1] >= 3 and bool((one[..., 1:] >= one[..., :-1]).all())
    return f"{made}.sort().values" if ordered else made


def _integers(one: torch.Tensor, two: torch.Tensor) -> str:
    dtype = _typed(one.dtype)
    for size, text in ((0, "zeros"), (1, "ones")):
        if bool((one == size).all()) and bool((two == size).all()):
            return f"torch.{text}({{shape}}, dtype={one.dtype})"
    if all(t.dim() and t.shape[-1] > 1 and _counts(t) for t in (one, two)):
        return f"torch.arange({{last}}{dtype}).expand({{shape}})" if one.dim() > 1 else f"torch.arange({{last}}{dtype})"
    values = [t for t in (one, two) if t.numel()]
    least = max(0, min(int(t.min()) for t in values))
    most = max(min(int(t.max()) for t in values), least)
    return f"torch.randint({min(least, 1)}, {most + 1}, {{shape}}{dtype})"


def _counts(tensor: torch.Tensor) -> bool:
    return bool((tensor == torch.arange(tensor.shape[-1], dtype=tensor.dtype)).all())
