"""What an ONNX graph is made of, as one short text: whether a report and a file are about the same model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence

Node = tuple[str, str, Mapping[str, Sequence[int]]]
"""Domain (empty for ONNX's own), operator, and the attributes that are whole numbers or lists of them."""


def digest(nodes: Iterable[Node], outputs: Iterable[str]) -> str:
    """SHA-256 of the nodes in their order and the names of the outputs; weights have no part in it."""
    made = [["" if domain == "ai.onnx" else domain, op, sorted((key, list(value)) for key, value in ints.items())]
            for domain, op, ints in nodes]  # fmt: skip
    return hashlib.sha256(json.dumps([made, list(outputs)]).encode()).hexdigest()
