from __future__ import annotations

from tests.torch_bridge.exports import HERE, exported, line_of

from guarddiff.analysis import constants
from guarddiff.core.evidence import OnnxNodeInfo
from guarddiff.core.finding import OnnxNode
from guarddiff.torch_bridge import onnx_nodes


def read(name: str) -> tuple[OnnxNodeInfo, ...]:
    recording = exported(name).recording
    return onnx_nodes.read(recording.program, recording.captured)


def test_pooling_carries_its_kernel() -> None:
    (node,) = read("pool")
    assert node.op_type == "AveragePool"
    assert node.roots == ("adaptive_avg_pool2d",)
    assert node.source == f"{HERE}:{line_of('return F.adaptive_avg_pool2d(x, (2, 3))')}"
    attributes = dict(node.attributes)
    assert attributes["kernel_shape"] == attributes["strides"] == (3, 2)
    assert attributes["pads"] == (0, 0, 0, 0)
    assert node.constants == ()


def test_kron_carries_shapes_in_its_reshapes() -> None:
    nodes = [node for node in read("kron") if node.op_type == "Reshape"]
    assert [node.roots for node in nodes] == [("kron",)] * 3
    assert {node.source for node in nodes} == {f"{HERE}:{line_of('return torch.kron(a, b)')}"}
    held = [[values for _, values in node.constants] for node in nodes]
    assert sorted(held) == [[(1, 4, 1, 5)], [(2, 1, 3, 1)], [(8, 15)]]
    assert len({name for node in nodes for name, _ in node.constants}) == 3


def test_pooling_over_the_whole_length_carries_it() -> None:
    (node,) = [node for node in read("max_over_all") if node.op_type == "MaxPool"]
    assert node.roots == ("max_pool1d",)
    assert dict(node.attributes)["kernel_shape"] == dict(node.attributes)["strides"] == (7,)


def test_weights_and_floats_are_no_sizes() -> None:
    nodes = read("classifier")
    assert {node.op_type for node in nodes} >= {"AveragePool"}
    assert all(len(values) <= 16 for node in nodes for _, values in node.constants)
    assert all(type(n) is int for node in nodes for _, values in node.constants + node.attributes for n in values)


def test_each_of_two_poolings_has_its_own_root() -> None:
    roots = {node.roots: dict(node.attributes)["kernel_shape"] for node in read("classifier")
             if node.op_type == "AveragePool"}  # fmt: skip
    assert roots == {("adaptive_avg_pool2d",): (3, 2), ("adaptive_avg_pool2d_1",): (2, 3)}


def test_nodes_without_numbers_are_left_out() -> None:
    assert read("shared") == ()


def test_a_program_exported_before() -> None:
    (node,) = [node for node in read("program") if node.op_type == "AveragePool"]
    assert node.roots == ("adaptive_avg_pool2d",)
    assert node.source == f"{HERE}:{line_of('return F.adaptive_avg_pool2d(x, (2, 3))')}"


def test_roots_without_a_captured_program_are_the_nodes_own() -> None:
    recording = exported("pool").recording
    (node,) = onnx_nodes.read(recording.program, None)
    assert node.roots == ("avg_pool2d",)


def test_findings_get_their_carriers() -> None:
    (finding,) = exported("pool").found.findings
    (found,) = constants.carriers(finding, read("pool"))
    assert isinstance(found, OnnxNode)
    assert found.op_type == "AveragePool"
    assert found.where == "attribute strides = [3, 2]; attribute kernel_shape = [3, 2]"
    (kron,) = exported("kron").found.findings
    assert [node.where.partition(" = ")[2] for node in constants.carriers(kron, read("kron"))] == [
        "[2, 1, 3, 1]",
        "[1, 4, 1, 5]",
        "[8, 15]",
    ]


def test_strict_capture_keeps_the_names_of_the_captured_graph() -> None:
    captured = {node.name for node in exported("strict").recording.captured.graph.nodes}
    nodes = [node for node in read("strict") if node.op_type == "Reshape"]
    assert [node.roots for node in nodes] == [("kron",)] * 3
    assert "kron" in captured
