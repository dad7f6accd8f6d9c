"""Weights of several models in shared files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from guarddiff.contract.weights import PAGE, SMALL, SharedWeights
from guarddiff.core.errors import ContractError

BIG = np.arange(32 * 1024, dtype=np.float32)
OTHER = np.arange(1024, dtype=np.float32) + 0.5
TINY = np.ones(1024, dtype=np.float32)[: SMALL // 4 - 1]


def model_of(**weights: np.ndarray[Any, Any]) -> onnx.ModelProto:
    """Gives back the sum of all elements of each weight, with one more in the inner graph of an If."""
    inner = helper.make_graph(
        [helper.make_node("ReduceSum", ["inner"], ["inner_sum"], keepdims=0)],
        "then",
        [],
        [helper.make_tensor_value_info("inner_sum", TensorProto.FLOAT, [])],
        [numpy_helper.from_array(OTHER, "inner")],
    )
    nodes = [helper.make_node("ReduceSum", [name], [f"{name}_sum"], keepdims=0) for name in weights]
    nodes.append(helper.make_node("If", ["flag"], ["if"], then_branch=inner, else_branch=inner))
    outputs = [*(f"{name}_sum" for name in weights), "if"]
    graph = helper.make_graph(
        nodes,
        "sums",
        [helper.make_tensor_value_info("flag", TensorProto.BOOL, [])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, []) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def entries(tensor: onnx.TensorProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in tensor.external_data}


def results(model: onnx.ModelProto, path: Path) -> list[float]:
    path.write_bytes(model.SerializeToString())
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return [float(value) for value in session.run(None, {"flag": np.array(True)})]


def test_equal_bytes_are_stored_once_and_the_models_run(tmp_path: Path) -> None:
    one, two = model_of(a=BIG, b=OTHER, c=TINY), model_of(d=OTHER, e=BIG, f=BIG + 1)
    before = results(one, tmp_path / "plain.onnx")
    weights = SharedWeights(tmp_path)
    first, second = weights.share(one, tmp_path), weights.share(two, tmp_path)
    assert len(first) == 1 and len(second) == 2 and first[0] in second
    assert weights.files == {*second}
    stored = {name: (tmp_path / name).stat().st_size for name in second}
    assert stored[first[0]] <= BIG.nbytes + OTHER.nbytes + PAGE
    assert sum(stored.values()) <= 2 * BIG.nbytes + OTHER.nbytes + PAGE
    assert results(one, tmp_path / "one.onnx") == before
    assert results(two, tmp_path / "two.onnx")[:2] == [before[1], before[0]]
    assert results(two, tmp_path / "two.onnx")[3] == before[3]


def test_large_tensors_begin_at_a_page_and_small_ones_stay(tmp_path: Path) -> None:
    model = model_of(b=OTHER, a=BIG, c=TINY)
    SharedWeights(tmp_path).share(model, tmp_path)
    kept = {tensor.name: tensor for tensor in model.graph.initializer}
    assert int(entries(kept["a"])["offset"]) % PAGE == 0
    assert not kept["a"].HasField("raw_data")
    assert kept["c"].raw_data == TINY.tobytes() and kept["c"].data_location == TensorProto.DEFAULT


def test_external_weights_are_taken_over_and_small_ones_put_inside(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    onnx.save(model_of(a=BIG, c=TINY), source / "m.onnx", save_as_external_data=True, size_threshold=0, location="w")
    model = onnx.load(source / "m.onnx", load_external_data=False)
    assert entries(model.graph.initializer[1])["location"] == "w"
    before = results(model_of(a=BIG, c=TINY), tmp_path / "plain.onnx")
    (file,) = SharedWeights(tmp_path).share(model, source)
    (source / "w").unlink()
    assert results(model, tmp_path / "m.onnx") == before
    assert entries(model.graph.initializer[0])["location"] == file


def test_what_was_shared_before_is_known_again(tmp_path: Path) -> None:
    one = model_of(a=BIG)
    files = SharedWeights(tmp_path).share(one, tmp_path)
    again = SharedWeights(tmp_path)
    again.learn(one)
    two = model_of(z=BIG)
    assert again.share(two, tmp_path) == files
    assert len(list(tmp_path.iterdir())) == 1
    again.forget(files[0])
    assert again.files == frozenset()


def test_torn_weights_and_weights_elsewhere_are_refused(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    onnx.save(model_of(a=BIG), source / "m.onnx", save_as_external_data=True, size_threshold=0, location="w")
    model = onnx.load(source / "m.onnx", load_external_data=False)
    (source / "w").write_bytes((source / "w").read_bytes()[:1000])
    with pytest.raises(ContractError, match="the weights in w are torn"):
        SharedWeights(tmp_path).share(model, source)
    for entry in model.graph.initializer[0].external_data:
        if entry.key == "location":
            entry.value = "../elsewhere"
    with pytest.raises(ContractError, match="outside the folder"):
        SharedWeights(tmp_path).share(model, source)
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_no_half_written_file_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        SharedWeights(tmp_path).share(model_of(a=BIG), tmp_path)
    assert list(tmp_path.iterdir()) == []
