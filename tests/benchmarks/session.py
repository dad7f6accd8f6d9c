"""What a checked session costs at each call: python tests/benchmarks/session.py [--inputs 10] [--calls 20000].

A model that adds up its inputs is run by ``onnxruntime.InferenceSession`` and by ``guarddiff.CheckedSession`` in turn,
with the same shapes at each call and with shapes that change at each call (and are never remembered). Told are the
medians of the rounds, in microseconds per call.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

import guarddiff
from guarddiff.contract.contract import Condition, Contract
from guarddiff.core.dims import Declared, Dimension, InputSpec
from guarddiff.core.domain import SizeRange

ROUNDS = 7


def model_of(inputs: int) -> tuple[bytes, Contract]:
    """A sum of so many inputs of shape [n, 4], with a guard on n for each."""
    names = [f"x{i}" for i in range(inputs)]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in names]
    output = helper.make_tensor_value_info("sum", TensorProto.FLOAT, ["n", 4])
    graph = helper.make_graph([helper.make_node("Sum", names, ["sum"])], "sums", values, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    dims = [Dimension(name, 0, "n", "n", 4, Declared(SizeRange())) for name in names]
    specs = tuple(InputSpec(dim.input, "float32", ("n", 4), (dim,)) for dim in dims)
    conditions = tuple(Condition((f"n // {2 + i} <= 100000",), f"layer {i}") for i in range(inputs))
    return model.SerializeToString(), Contract(specs, conditions)


def per_call(session: onnxruntime.InferenceSession, feeds: list[dict[str, Any]]) -> float:
    started = time.perf_counter()
    for feed in feeds:
        session.run(None, feed)
    return (time.perf_counter() - started) / len(feeds) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=10)
    parser.add_argument("--calls", type=int, default=20000)
    given = parser.parse_args()
    content, contract = model_of(given.inputs)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    plain = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    same = {f"x{i}": np.zeros((4, 4), np.float32) for i in range(given.inputs)}
    other = [{f"x{i}": np.zeros((n + 1, 4), np.float32) for i in range(given.inputs)} for n in range(given.calls // 20)]
    for title, feeds in (("the same shapes", [same] * given.calls), ("new shapes", other)):
        rows = []
        for _ in range(ROUNDS):
            checked = guarddiff.CheckedSession(content, options, providers=["CPUExecutionProvider"], contract=contract)
            rows.append((per_call(plain, feeds), per_call(checked, feeds)))
        base, guarded = (statistics.median(column) for column in zip(*rows, strict=True))
        print(
            f"{title}: plain {base:.1f} µs, checked {guarded:.1f} µs per call: {guarded - base:.1f} µs more "
            f"({guarded / base:.2f} times)"
        )


if __name__ == "__main__":
    main()
