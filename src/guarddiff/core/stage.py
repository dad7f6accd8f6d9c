"""The stages of an export, in the order in which they happen."""

from __future__ import annotations

from typing import Literal, get_args

Stage = Literal["declare", "capture", "decompose", "translate", "optimize", "run"]
"""``declare``: the user's arguments; ``capture``: ``torch.export``; ``decompose``:
``ExportedProgram.run_decompositions``; ``translate``: FX graph to ONNX; ``optimize``: the ONNX
optimizer; ``run``: ONNX Runtime."""

STAGES: tuple[Stage, ...] = get_args(Stage)


def later(one: Stage, other: Stage) -> bool:
    """Whether ``one`` comes after ``other``."""
    return STAGES.index(one) > STAGES.index(other)
