"""``one_hot`` with a number of classes that is a size, which its capture makes a number."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from guarddiff.repair.registry import Repair
from guarddiff.repair.symbolic import symbolic


def one_hot(input: Any, num_classes: Any = -1) -> Any:
    """``F.one_hot`` as a comparison with the classes; one out of range gives a row of zeros, where eager raises."""
    if not symbolic(num_classes) or input.dtype is not torch.int64:
        return NotImplemented
    classes = torch.arange(num_classes, device=input.device, dtype=input.dtype)
    return (input.unsqueeze(-1) == classes).to(input.dtype)


REPAIRS = (
    Repair(
        name="one_hot by size",
        ops=("one_hot", "aten.one_hot.*"),
        way="a comparison with as many classes as there are when the model runs (one out of range gives zeros)",
        stages=("declare", "capture"),
        functions={F.one_hot: one_hot},
    ),
)
