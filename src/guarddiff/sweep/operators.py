"""Every operator of torch's own database, with all dimensions of its inputs dynamic."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import nn

from guarddiff.sweep.case import Case, Shape, Shapes, Trial
from guarddiff.torch_bridge import operators
from guarddiff.torch_bridge.operators import Sample
from guarddiff.torch_bridge.replaying import flatten, flatten_with_tree, unflatten

MOST_SAMPLES = 4
"""Cases per operator: samples that differ in ranks, in the arguments given, or in their settings."""
SECONDS = 120.0
_PARAMETERS: dict[str, tuple[int, ...]] = {
    **{f"nn.functional.{kind}{n}d": (1, 2) for kind in ("conv", "conv_transpose") for n in (1, 2, 3)},
    "nn.functional.linear": (1, 2),
    "nn.functional.bilinear": (2, 3),
    "nn.functional.prelu": (1,),
    "nn.functional.batch_norm": (1, 2, 3, 4),
    "nn.functional.batch_norm.without_cudnn": (1, 2, 3, 4),
    "nn.functional.layer_norm": (2, 3),
    "nn.functional.rms_norm": (2,),
    "nn.functional.embedding": (0,),
    "nn.functional.embedding_bag": (0,),
    "nn.functional.multi_head_attention_forward": (5, 6, 7, 8, 10, 11, 12),
    "native_batch_norm": (1, 2, 3, 4),
    "native_layer_norm": (2, 3),
    "_native_batch_norm_legit": (1, 2, 3, 4),
    "_batch_norm_with_update": (1, 2, 3, 4),
}
"""Positions of arguments that are parameters in every real model, and stay static: a dynamic kernel is nobody's."""
_PARAMETER_NAMES = frozenset(("weight", "bias", "running_mean", "running_var", "pos_weight", "in_proj_weight"))
_UNDEFINED = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")
"""Operators whose values are whatever the memory held."""
_OF_A_GPU = "jiterator_"
"""How the names of operators begin that need a GPU."""
_SETTINGS = (bool, str, type(None), torch.dtype, torch.layout, torch.memory_format)


def cases(wanted: Callable[[str], bool] | None = None) -> list[Case]:
    """A few cases per operator, in the database's order. Operators without a tensor that has dimensions have none.

    ``wanted``: which operators, by their names; None all. The database makes its samples where it is asked for them.
    """
    names = [name for name in families() if wanted is None or wanted(name)]
    with ThreadPoolExecutor(1) as short:  # the database looks at the whole stack each time, which is short in a thread
        return short.submit(lambda: [_case(name, number) for name in names for number, _ in _chosen(name)]).result()


def families() -> list[str]:
    """The operators that are swept. Raises ImportError where torch's tests need a package that is not installed."""
    return [name for name in operators.names() if not _left_out(name)]


def case(key: str) -> Case:
    """The case of this key. Raises KeyError for an operator that is not in the database."""
    _, name, number = key.split("/", 2)
    if name not in operators.names() or not number.isdecimal():
        raise KeyError(f"{key!r} is no case of an operator")
    return _case(name, int(number))


def trial(case: Case) -> Trial:
    """The operator's call as a module. Raises KeyError for a sample that is not there."""
    number = int(case.name)
    sample = next((sample for place, sample in _chosen(case.family) if place == number), None)
    if sample is None:
        raise KeyError(f"{case.key!r} is no case of this operator")
    model, given = _module(case.family, sample)
    shapes = tuple(tuple(tensor.shape) for tensor in given)
    axes = tuple(dict.fromkeys(range(len(shape)), torch.export.Dim.AUTO) for shape in shapes)
    return Trial(
        model,
        shapes,
        tuple(others(shapes)),
        lambda wanted: (tuple(resized(tensor, shape) for tensor, shape in zip(given, wanted)), {}),
        {"dynamic_shapes": (axes,)},
    )


class Operator(nn.Module):
    """One call of an operator: the tensors come in, settings and parameters are the sample's."""

    def __init__(self, call: Callable[..., Any], leaves: Sequence[Any], spec: Any, parameters: Sequence[int]) -> None:
        super().__init__()
        self._call = call
        self._tree = spec
        self._given = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self._open: list[int] = []
        self._fixed: list[int] = []
        for place, leaf in enumerate(leaves):
            if isinstance(leaf, torch.Tensor) and place in parameters:
                self.register_buffer(f"parameter_{place}", leaf)
                self._fixed.append(place)
            elif isinstance(leaf, torch.Tensor):
                self._open.append(place)

    def forward(self, *tensors: torch.Tensor) -> Any:
        leaves = list(self._given)
        for place, tensor in zip(self._open, tensors):
            leaves[place] = tensor
        for place in self._fixed:
            leaves[place] = getattr(self, f"parameter_{place}")
        args, kwargs = unflatten(leaves, self._tree)
        return self._call(*args, **kwargs)


def others(shapes: Shapes) -> Iterator[Shapes]:
    """Further shapes: all sizes changed, sizes that are equal changed together, one axis changed alone. Most operators
    refuse some of them, which is eager PyTorch's to say."""
    seen = {shapes}
    sizes = sorted({size for shape in shapes for size in shape}, reverse=True)
    together: list[Callable[[int], int]] = [lambda n: 2 * n, lambda n: n + 1, lambda n: 2 * n if n > 1 else 1]
    for change in together:
        yield from _new(tuple(tuple(map(change, shape)) for shape in shapes), seen)
    for size, change in itertools.product(sizes, (lambda n: 2 * n, lambda n: n + 3)):
        yield from _new(tuple(tuple(change(n) if n == size else n for n in shape) for shape in shapes), seen)
    for place, shape in enumerate(shapes):
        for axis, now in enumerate(shape):
            for size in filter(None, (2 * now + 1, now - 1)):
                one = (*shape[:axis], size, *shape[axis + 1 :])
                yield from _new((*shapes[:place], one, *shapes[place + 1 :]), seen)


def resized(tensor: torch.Tensor, shape: Shape) -> torch.Tensor:
    """The sample's values repeated and cut to ``shape``. Floats are moved towards zero by up to a tenth, each by its
    own amount, so that none are equal; whole numbers stay, as they may be positions. What is sorted along its last axis
    stays so: boundaries, offsets."""
    made = tensor.detach()
    if tuple(made.shape) == tuple(shape):
        return made.clone()
    for axis, (size, wanted) in enumerate(zip(made.shape, shape)):
        made = made.index_select(axis, torch.arange(wanted) % max(size, 1))
    if made.is_floating_point() or made.is_complex():
        generator = torch.Generator().manual_seed(math.prod(shape))
        made = made * (1 - 0.1 * torch.rand(tuple(shape), generator=generator)).to(made.dtype)
    if _sorted(tensor):
        made = made.sort(dim=-1).values
    return made.contiguous()


def _sorted(tensor: torch.Tensor) -> bool:
    if not tensor.dim() or tensor.shape[-1] < 2 or tensor.is_complex() or tensor.dtype == torch.bool:
        return False
    return bool((tensor[..., 1:] >= tensor[..., :-1]).all())


def _left_out(name: str) -> bool:
    return name in _UNDEFINED or name.startswith(_OF_A_GPU)


def _new(shapes: Shapes, seen: set[Shapes]) -> Iterator[Shapes]:
    if shapes not in seen:
        seen.add(shapes)
        yield shapes


def _case(name: str, number: int) -> Case:
    return Case("ops", name, str(number), SECONDS)


@functools.lru_cache(maxsize=1)
def _chosen(name: str) -> tuple[tuple[int, Sample], ...]:
    """The samples that are swept, each with its place among all: the first of each kind."""
    found: dict[Any, tuple[int, Sample]] = {}
    for place, sample in enumerate(operators.samples(name)):
        if _varies(name, sample):
            found.setdefault(_kind(sample), (place, sample))
        if len(found) == MOST_SAMPLES:
            break
    return tuple(found.values())


def _varies(name: str, sample: Sample) -> bool:
    """Whether a tensor that is no parameter has dimensions, and all tensors are plain ones with elements."""
    leaves = flatten(sample.values)
    tensors = {place: leaf for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)}
    plain = all(t.numel() and t.layout == torch.strided and not t.is_quantized for t in tensors.values())
    parameters = _parameters(name, sample)
    return plain and any(leaf.dim() for place, leaf in tensors.items() if place not in parameters)


def _kind(sample: Sample) -> tuple[Any, ...]:
    """Ranks of the tensors, names of the keywords, and settings; not the numbers among the arguments."""
    described = tuple(
        leaf.dim() if isinstance(leaf, torch.Tensor) else leaf if isinstance(leaf, _SETTINGS) else type(leaf)
        for leaf in flatten(sample.values)
    )
    return tuple(map(str, described)), tuple(sorted(sample.values[1])), len(sample.values[0])


def _module(name: str, sample: Sample) -> tuple[Operator, list[torch.Tensor]]:
    """The module, and the example's tensors."""
    leaves, spec = flatten_with_tree(sample.values)
    parameters = _parameters(name, sample)
    model = Operator(sample.call, leaves, spec, parameters)
    given = [leaf for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor) and place not in parameters]
    return model.eval(), given


def _parameters(name: str, sample: Sample) -> tuple[int, ...]:
    """Places among the leaves that hold parameters."""
    args, kwargs = sample.values
    marks = [place in _PARAMETERS.get(name, ()) for place, arg in enumerate(args) for _ in flatten(arg)]
    marks += [key in _PARAMETER_NAMES for key in kwargs for _ in flatten(kwargs[key])]
    return tuple(place for place, marked in enumerate(marks) if marked)
