"""What the model's own code decides by a size while it is captured: no operator is at fault, so none can be mended."""

from __future__ import annotations

from guarddiff.repair.registry import Refusal

REFUSALS = (
    Refusal(
        ops=("if",),
        why="only the branch that the example takes is exported, and no other example that was tried is right for all",
        way_out=("choose with torch.where or torch.cond, or compute both ways alike; else keep to the admitted sizes"),
    ),
    Refusal(
        ops=("range() or index", "range()", "iteration", "aten.unbind.*", "unbind"),
        why="a Python loop over a size is written out, with as many steps as the example has",
        way_out=(
            "treat the steps at once (one operator over the whole dimension; nn.LSTM, nn.GRU or nn.RNN for a loop over "
            "cells), or declare the dimension static"
        ),
    ),
)
