"""What is fed to a model: shape and dtype of arrays, tensors, OrtValues and bare shapes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

_ORT = re.compile(r"tensor\((\w+)\)")
_ORT_NAMES = {"float": "float32", "double": "float64"}


@dataclass(frozen=True)
class Fed:
    """Shape and dtype of what is fed; None where it has none (dtype: also where it is not to be checked)."""

    shape: tuple[int, ...] | None
    dtype: str | None
    kind: str


def fed(value: Any) -> Fed:
    """Shape and dtype of a feed: array, tensor, OrtValue, a tuple of sizes, or nested lists and numbers as ONNX
    Runtime takes them."""
    if isinstance(value, Fed):
        return value
    kind = type(value).__name__
    if isinstance(value, tuple) and all(isinstance(size, (int, np.integer)) for size in value):
        return Fed(tuple(int(size) for size in value), None, kind)
    if hasattr(value, "data_type") and callable(getattr(value, "shape", None)):
        return _of_ort_value(value)
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is not None and dtype is not None:
        return Fed(tuple(int(size) for size in shape), dtype_name(dtype), kind)
    if isinstance(value, (list, int, float, bool, complex, np.generic)):
        try:
            return Fed(np.asarray(value).shape, None, kind)
        except ValueError:
            return Fed(None, None, kind)
    return Fed(None, None, kind)


def _of_ort_value(value: Any) -> Fed:
    if not value.is_tensor():
        return Fed(None, None, value.data_type())
    found = _ORT.fullmatch(value.data_type())
    return Fed(tuple(value.shape()), ort_dtype(value.data_type()) if found else None, "OrtValue")


def ort_dtype(text: str) -> str:
    """``tensor(float)`` as ``float32``; what is no tensor as it is."""
    found = _ORT.fullmatch(text)
    return _ORT_NAMES.get(found[1], found[1]) if found else text


def element_name(element: Any) -> str:
    """``float32`` for numpy's types and for ONNX's numbers of element types."""
    if isinstance(element, int):
        import onnx

        name: str = onnx.TensorProto.DataType.Name(element).lower()
        return _ORT_NAMES.get(name, name)
    return dtype_name(np.dtype(element))


def dtype_name(dtype: Any) -> str:
    """``float32`` for numpy's and torch's dtypes alike; texts of any length are ``string``."""
    name = str(dtype).removeprefix("torch.")
    if isinstance(dtype, np.dtype) and dtype.kind in "USO":
        return "string"
    return name
