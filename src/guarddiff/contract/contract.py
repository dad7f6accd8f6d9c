"""The input contract: for which inputs an exported model is known to be right, as plain data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from guarddiff.contract.feeds import Fed, fed
from guarddiff.core import domain, guard_text
from guarddiff.core.dims import Dimension, InputSpec
from guarddiff.core.finding import Verdict, dimension_sizes


@dataclass(frozen=True)
class Condition:
    """Guards of one root cause: outside them the model is not known to be right.

    Attributes:
        guards: Text over the names of dimensions; all have to hold.
        because: Where they come from: ``avgpool at models/vgg.py:66``; empty where that is not known.
        dims: The dimensions that they restrict, each with what they admit.
        verdict: What is known of sizes outside; None where none was tried (a lower bound).
    """

    guards: tuple[str, ...]
    because: str = ""
    dims: tuple[Dimension, ...] = ()
    verdict: Verdict | None = None


@dataclass(frozen=True)
class Broken:
    """One broken condition: the ``input`` it is about (empty for several), and what is wrong, as ``text``."""

    input: str
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Contract:
    """For which inputs a model is known to be right.

    Attributes:
        inputs: Every input: name, dtype (``float32``), per axis the size or the text of a symbolic one, and the
            dimensions with what was declared and what all conditions together admit.
        conditions: One per root cause.
        model: Class name of the exported model.
        hash: SHA-256 of the ONNX model that it belongs to, external data included; empty before it is embedded.
        settings: What the model was constructed with, as the user tells it.
        preprocessing: What is done to the inputs before (resizing, cropping, padding), as the user tells it.
        missing: Parts of the evidence that could not be read, where a contract was asked for all the same.
        environment: Versions of the export.
    """

    inputs: tuple[InputSpec, ...]
    conditions: tuple[Condition, ...] = ()
    model: str = ""
    hash: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    preprocessing: dict[str, Any] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)

    @cached_property
    def _dims(self) -> tuple[Dimension, ...]:
        return tuple(dim for spec in self.inputs for dim in spec.dims)

    def check(self, feeds: Mapping[str, Any]) -> tuple[Broken, ...]:
        """Every condition that ``feeds`` break; none where the model is known to be right.

        Args:
            feeds: Input name to array, tensor, OrtValue, or shape (a tuple of sizes: its dtype is not checked).
        """
        given = {name: fed(value) for name, value in feeds.items()}
        broken = list(self._inputs_broken(given))
        shapes = {name: one.shape for name, one in given.items() if one.shape is not None}
        if broken:
            return tuple(broken)
        broken += self._ranges_broken(shapes)
        sizes, consistent = dimension_sizes(self._dims, shapes)
        broken += self._ties_broken(shapes)
        if not consistent and not broken:
            broken.append(Broken("", f"{_places(self._dims, shapes)}: these sizes don't go together"))
        if consistent:
            for condition in self.conditions:
                broken += self._guards_broken(condition, sizes, shapes)
        return tuple(dict.fromkeys(broken))

    def admits(self, feeds: Mapping[str, Any]) -> bool:
        """Whether ``check`` finds nothing broken."""
        return not self.check(feeds)

    def _inputs_broken(self, given: Mapping[str, Fed]) -> Iterator[Broken]:
        """Names, dtypes, ranks and sizes that are fixed in the file."""
        known = {spec.name: spec for spec in self.inputs}
        for name in given.keys() - known.keys():
            yield Broken(name, f"{name}: the model has no such input; it has {', '.join(known) or 'none'}")
        for name, spec in known.items():
            one = given.get(name)
            if one is None:
                yield Broken(name, f"{name}: this input is missing")
                continue
            if one.dtype is not None and one.dtype != spec.dtype:
                yield Broken(name, f"{name}: its dtype is {one.dtype}, and the model takes {spec.dtype}")
            if one.shape is None:
                yield Broken(name, f"{name}: a {one.kind} has no shape that could be checked")
            elif len(one.shape) != len(spec.shape):
                yield Broken(name, f"{name}: its rank is {len(one.shape)}, and the model takes {len(spec.shape)}")
            else:
                for axis, (size, asked) in enumerate(zip(one.shape, spec.shape, strict=True)):
                    if isinstance(asked, int) and size != asked:
                        yield Broken(name, f"{name}[{axis}]={size}: this size is fixed to {asked} in the model")

    def _ranges_broken(self, shapes: Mapping[str, tuple[int, ...]]) -> Iterator[Broken]:
        for dim in self._dims:
            size = shapes[dim.input][dim.axis]
            if dim.declared is not None and size not in dim.declared.sizes:
                yield Broken(dim.input, f"{dim.place}={size}: declared as {dim.declared}")

    def _ties_broken(self, shapes: Mapping[str, tuple[int, ...]]) -> Iterator[Broken]:
        """Dimensions of one name whose sizes differ."""
        first: dict[str, Dimension] = {}
        for dim in self._dims:
            other = first.setdefault(dim.size, dim)
            here, there = shapes[dim.input][dim.axis], shapes[other.input][other.axis]
            if here != there:
                text = f"{dim.place}={here}: has to be equal to {other.place}={there}: both are {dim.size}"
                yield Broken(dim.input, text)

    def _guards_broken(
        self, condition: Condition, sizes: Mapping[str, int], shapes: Mapping[str, tuple[int, ...]]
    ) -> Iterator[Broken]:
        verdicts = {guard: _holds(guard, _needed(guard, sizes)) for guard in condition.guards}
        broken = [guard for guard, holds in verdicts.items() if holds is not True]
        if not broken:
            return
        because = f", because of {condition.because}" if condition.because else ""
        known = [guard for guard in broken if verdicts[guard] is False]
        if not known:
            places = _places(self._about(broken), shapes)
            yield Broken("", f"{places}: can't be decided from the guard {broken[0]}{because}")
            return
        alone = [dim for dim in condition.dims if _outside(dim, shapes)]
        for dim in alone:
            size = shapes[dim.input][dim.axis]
            yield Broken(dim.input, f"{dim.place}={size}: this model is right only for {dim.admitted}{because}")
        if not alone:
            places = _places(self._about(known), shapes)
            yield Broken("", f"{places}: this model is right only where {' and '.join(known[:3])}{because}")

    def _about(self, guards: list[str]) -> tuple[Dimension, ...]:
        """The dimensions that guards name."""
        names = {name for guard in guards for name in guard_text.variables(guard)}
        return tuple(dim for dim in self._dims if guard_text.variables(dim.size) & names)


def _needed(guard: str, sizes: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple((name, sizes[name]) for name in guard_text.variables(guard) if name in sizes)


@lru_cache(maxsize=65536)
def _holds(guard: str, sizes: tuple[tuple[str, int], ...]) -> bool | None:
    """As ``domain.holds``, remembered: most guards name one dimension or two of many."""
    return domain.holds(guard, dict(sizes))


def _outside(dim: Dimension, shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether the size of this dimension is not admitted, whatever the others are."""
    if dim.admitted is None or dim.admitted.intervals is None or dim.input not in shapes:
        return False
    return shapes[dim.input][dim.axis] not in dim.admitted


def _places(dims: tuple[Dimension, ...], shapes: Mapping[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{dim.place}={shapes[dim.input][dim.axis]}" for dim in dims)
