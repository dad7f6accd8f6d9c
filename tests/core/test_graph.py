from __future__ import annotations

from guarddiff.core.graph import digest

NODES = [("", "AveragePool", {"kernel_shape": (2, 3)}), ("", "Relu", {})]


def test_the_same_for_the_same() -> None:
    assert digest(NODES, ["y"]) == digest(iter(NODES), ("y",))
    assert digest([("ai.onnx", *node[1:]) for node in NODES], ["y"]) == digest(NODES, ["y"])


def test_another_for_another() -> None:
    others = [
        digest(NODES, ["z"]),
        digest(NODES[:1], ["y"]),
        digest(NODES[::-1], ["y"]),
        digest([("", "AveragePool", {"kernel_shape": (3, 2)}), NODES[1]], ["y"]),
        digest([("com.microsoft", *NODES[0][1:]), NODES[1]], ["y"]),
    ]
    assert digest(NODES, ["y"]) not in others
    assert len(set(others)) == len(others)
