"""Runs one ONNX model in a process of its own, so that a crash of ONNX Runtime is a result and not the end.

``python -m guarddiff.replay.probe_worker MODEL``: one JSON request a line on stdin, one JSON answer a line on stdout.
The first answer tells whether the model could be loaded. Needs numpy and ONNX Runtime.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import numpy as np

_FLOATS = {"tensor(float)": "float32", "tensor(double)": "float64", "tensor(float16)": "float16"}
_WHOLE = {
    f"tensor({name})": name for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
}  # fmt: skip
SUPPORTED = frozenset((*_FLOATS, *_WHOLE, "tensor(bool)", "tensor(string)"))

FILLINGS = ("varied", "zeros", "ones")
"""Values of whole-number inputs: 0 and 1 mixed, then all alike. They may be positions, which have to exist."""


def main(path: str) -> None:
    """Serve requests until stdin ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what ONNX Runtime prints is no answer

    def answer(content: dict[str, Any]) -> None:
        answers.write(json.dumps(content) + "\n")
        answers.flush()

    try:
        session = _open(path)
    except ImportError:
        answer({"loaded": False, "why": "ONNX Runtime is not installed"})
        return
    except Exception as error:
        answer({"loaded": False, "why": _text(error)})
        return
    answer({"loaded": True, "types": {value.name: value.type for value in session.get_inputs()}})
    for line in sys.stdin:
        request = json.loads(line)
        answer(_run(session, request["shapes"]))


def _open(path: str) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _run(session: Any, shapes: dict[str, list[int]]) -> dict[str, Any]:
    """What came out at these shapes: the first filling of the inputs that runs counts."""
    inputs = session.get_inputs()
    whole = any(value.type in _WHOLE for value in inputs)
    failure = ""
    for filling in FILLINGS if whole else FILLINGS[:1]:
        try:
            feeds = {value.name: filled(value.type, shapes[value.name], filling) for value in inputs}
            outputs = session.run(None, feeds)
        except Exception as error:
            failure = failure or _text(error)
            continue
        found = [[value.name, list(np.shape(output))] for value, output in zip(session.get_outputs(), outputs)]
        return {"ok": True, "outputs": found}
    return {"ok": False, "why": failure}


def filled(kind: str, shape: list[int], filling: str) -> np.ndarray[Any, Any]:
    """An input of this ONNX type and shape. Raises ValueError for a type that can't be fed."""
    generator = np.random.default_rng(0)
    if kind in _FLOATS:
        return generator.standard_normal(shape).astype(_FLOATS[kind])
    if kind in _WHOLE:
        mixed = generator.integers(0, 2, shape)
        values = {"varied": mixed, "zeros": np.zeros(shape), "ones": np.ones(shape)}[filling]
        return np.asarray(values).astype(_WHOLE[kind])
    if kind == "tensor(bool)":
        return generator.integers(0, 2, shape).astype(bool)
    if kind == "tensor(string)":
        return np.full(shape, "a", dtype=object)
    raise ValueError(f"inputs of type {kind} can't be made here")


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:2000]


if __name__ == "__main__":
    main(sys.argv[1])
