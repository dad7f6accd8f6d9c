"""What the call, or the model's own code, decides before any operator does: none is at fault, so none can be mended."""

from __future__ import annotations

from guarddiff.repair.registry import Refusal

REFUSALS = (
    Refusal(
        ops=("torch.onnx.export",),
        stages=("declare",),
        why="torch read the declaration in another way than it was meant",
        way_out="declare the dimensions by the parameters of forward, all of them, as the next move shows",
    ),
    Refusal(
        ops=("if",),
        why="only the branch that the example takes is exported",
        way_out="choose with torch.where or torch.cond, or compute both ways alike; else keep to the admitted sizes",
        other_example=True,
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
