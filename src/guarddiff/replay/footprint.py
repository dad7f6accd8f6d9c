"""How large the values inside a model get at other sizes, by the symbolic shapes of the captured graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
import torch.fx

from guarddiff.core import domain

MOST_ELEMENTS = 2**28
"""Nothing is run at sizes where a single value would have more elements than this, or four times as many as the
largest has in the example, whatever is more."""
_TIMES = 4


class Footprint:
    """``program``: the captured program, None where there is none; ``size_text``: a symbolic size → int or text over
    dimension variables."""

    def __init__(self, program: Any, size_text: Callable[[Any], int | str], example: Mapping[str, int]) -> None:
        self._program = program
        self._size_text = size_text
        self._example = example
        self._texts: frozenset[str] | None = None

    def elements(self, point: Mapping[str, int]) -> int:
        """Elements of the largest value in the graph at these sizes of the dimension variables; 0 where nothing is
        known. What has a data-dependent size, or one that can't be worked out, does not count."""
        if self._texts is None:
            self._texts = frozenset(self._read())
        return max((domain.value(text, point) or 0 for text in self._texts), default=0)

    def too_large(self, point: Mapping[str, int]) -> int | None:
        """The elements of the largest value, where these are too many to run the model at the point."""
        found = self.elements(point)
        return found if found > MOST_ELEMENTS and found > _TIMES * self.elements(self._example) else None

    def _read(self) -> Iterator[str]:
        """The numbers of elements that values have, as text."""
        for node in self._program.graph.nodes if self._program is not None else ():
            values = node.meta.get("val")
            for value in values if isinstance(values, (tuple, list)) else (values,):
                if isinstance(value, torch.Tensor) and not value.is_nested:
                    yield self._product(value.shape)
            if "scaled_dot_product" in str(node.target):  # its scores are a value of the ONNX model
                given = [one for one in (*node.args, *node.kwargs.values()) if isinstance(one, torch.fx.Node)]
                query, key = [*(one.meta.get("val") for one in given[:2]), None, None][:2]
                if isinstance(query, torch.Tensor) and isinstance(key, torch.Tensor):
                    yield self._product((*query.shape[:-1], *key.shape[-2:-1]))

    def _product(self, sizes: Any) -> str:
        return "*".join(f"({self._size_text(size)})" for size in sizes) or "1"
