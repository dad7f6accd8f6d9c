"""An inference session that refuses inputs outside the model's contract before it runs."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime

from guarddiff.contract.contract import Contract
from guarddiff.contract.embed import read_contract
from guarddiff.contract.feeds import Fed, element_name, fed
from guarddiff.core.errors import ContractViolation

_REMEMBERED = 4096
"""Shapes that were found right are remembered, at most so many at a time."""
_SHAPE_AND_DTYPE = operator.attrgetter("shape", "dtype")  # the dtype itself: ONNX Runtime misreads other byte orders


class CheckedSession(onnxruntime.InferenceSession):  # type: ignore[misc]
    """``onnxruntime.InferenceSession`` with the contract of its model.

    Everything is as there, and every way to run the model refuses inputs that the contract does not admit with
    ``ContractViolation``, before ONNX Runtime sees them. Only shapes and dtypes are looked at. Shapes that were found
    right are not worked out again.

    Args:
        path_or_bytes: The ONNX file, or its bytes.
        args: Further arguments of ``onnxruntime.InferenceSession``.
        contract: The contract; None reads the one that is embedded in the model.
        trust: Whether not to compare an embedded contract with the model, which reads all weights once.
        kwargs: As ``args``.

    Raises:
        ContractError: There is no contract, it can't be read, or it does not match the model.
    """

    def __init__(
        self,
        path_or_bytes: str | os.PathLike[str] | bytes,
        *args: Any,
        contract: Contract | None = None,
        trust: bool = False,
        **kwargs: Any,
    ) -> None:
        self.contract = contract if contract is not None else read_contract(path_or_bytes, trust=trust)
        self._right: set[tuple[Any, ...]] = set()
        super().__init__(path_or_bytes, *args, **kwargs)

    def run(self, output_names: Any, input_feed: Mapping[str, Any], run_options: Any = None) -> Any:
        self._admit(input_feed)
        return super().run(output_names, input_feed, run_options)

    def run_async(self, output_names: Any, input_feed: Mapping[str, Any], callback: Any, user_data: Any,
                  run_options: Any = None) -> Any:  # fmt: skip
        self._admit(input_feed)
        return super().run_async(output_names, input_feed, callback, user_data, run_options)

    def run_with_ort_values(self, output_names: Any, input_dict_ort_values: Mapping[str, Any],
                            run_options: Any = None) -> Any:  # fmt: skip
        self._look(input_dict_ort_values)
        return super().run_with_ort_values(output_names, input_dict_ort_values, run_options)

    def run_with_ortvaluevector(self, run_options: Any, feed_names: Sequence[str], feeds: Any, fetch_names: Any,
                                fetches: Any, fetch_devices: Any) -> Any:  # fmt: skip
        self._look(dict(zip(feed_names, feeds, strict=True)))
        return super().run_with_ortvaluevector(run_options, feed_names, feeds, fetch_names, fetches, fetch_devices)

    def io_binding(self) -> onnxruntime.IOBinding:
        return _CheckedBinding(self)

    def run_with_iobinding(self, iobinding: Any, run_options: Any = None) -> None:
        """As there, for bindings that ``io_binding()`` of this session made: others hide what is bound to them."""
        if not isinstance(iobinding, _CheckedBinding):
            raise TypeError("a CheckedSession runs only bindings of its own io_binding(), which know what is bound")
        self._look(iobinding.bound)
        super().run_with_iobinding(iobinding, run_options)

    def _admit(self, feeds: Mapping[str, Any]) -> None:
        """Refuse feeds that the contract does not admit; quick where the same shapes were admitted before."""
        try:
            key = (*feeds, *map(_SHAPE_AND_DTYPE, feeds.values()))
            if key in self._right:
                return
        except (AttributeError, TypeError):
            self._look({name: np.asarray(v) if isinstance(v, tuple) else v for name, v in feeds.items()})
            return
        self._look(feeds)
        if len(self._right) >= _REMEMBERED:
            self._right.clear()
        self._right.add(key)

    def _look(self, feeds: Mapping[str, Any]) -> None:
        broken = self.contract.check(feeds)
        if broken:
            texts = tuple(map(str, broken))
            raise ContractViolation("; ".join(texts), texts)


class _CheckedBinding(onnxruntime.IOBinding):  # type: ignore[misc]
    """An ``IOBinding`` that remembers shape and dtype of what is bound."""

    def __init__(self, session: CheckedSession) -> None:
        super().__init__(session)
        self.bound: dict[str, Any] = {}

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        self.bound[name] = fed(arr_on_cpu)  # as it is now: the array may be given another shape later
        super().bind_cpu_input(name, arr_on_cpu)

    def bind_input(self, name: str, device_type: Any, device_id: Any, element_type: Any, shape: Any,
                   buffer_ptr: Any) -> None:  # fmt: skip
        self.bound[name] = Fed(tuple(shape), element_name(element_type), "buffer")
        super().bind_input(name, device_type, device_id, element_type, shape, buffer_ptr)

    def bind_ortvalue_input(self, name: str, ortvalue: Any) -> None:
        self.bound[name] = ortvalue
        super().bind_ortvalue_input(name, ortvalue)

    def clear_binding_inputs(self) -> None:
        self.bound.clear()
        super().clear_binding_inputs()
