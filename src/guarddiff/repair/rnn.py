"""nn.RNN over a dynamic length.

The decomposition unrolls the example's length; longer sequences are cut. It does so twice: to find the shapes while the
model is captured (which makes the length static for all that follows), and before translation. So there is an operator
that stands for the layer during capture and knows its shapes without a loop, and a translation to ONNX RNN for that
operator and for torch's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from onnxscript import opset18

from guarddiff.repair.registry import Repair

op: Any = opset18  # its type hints leave out numbers and lists


def rnn_tanh(input: Any, hx: Any, params: Sequence[Any], *more: Any) -> tuple[Any, Any]:
    """rnn_tanh.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout,
    bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)"""
    return _rnn(input, hx, params, "Tanh", *more)


def rnn_relu(input: Any, hx: Any, params: Sequence[Any], *more: Any) -> tuple[Any, Any]:
    """rnn_relu.input, with the arguments of rnn_tanh.input"""
    return _rnn(input, hx, params, "Relu", *more)


def _rnn(
    x: Any,
    hx: Any,
    params: Sequence[Any],
    activation: str,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Any, Any]:
    directions = 2 if bidirectional else 1
    each = 4 if has_biases else 2  # W_ih, W_hh and the two biases of one direction
    if batch_first:
        x = op.Transpose(x, perm=[1, 0, 2])
    run = partial(
        op.RNN,
        direction="bidirectional" if bidirectional else "forward",
        activations=[activation] * directions,
        hidden_size=int(params[1].shape[1]),
    )
    last = []
    for layer in range(num_layers):
        if layer and train and dropout > 0.0:
            x, _ = op.Dropout(x, dropout, True)
        at = layer * directions
        start = hx if num_layers == 1 else op.Slice(hx, [at], [at + directions], [0])
        y, final = run(x, *_weights(params[at * each : (at + directions) * each], each), None, start)
        # (length, direction, batch, hidden) to (length, batch, direction * hidden)
        x = op.Reshape(op.Transpose(y, perm=[0, 2, 1, 3]), [0, 0, -1])
        last.append(final)
    if batch_first:
        x = op.Transpose(x, perm=[1, 0, 2])
    return x, last[0] if num_layers == 1 else op.Concat(*last, axis=0)


def _weights(params: Sequence[Any], each: int) -> tuple[Any, Any, Any]:
    """W, R and B of one layer as ONNX wants them: the directions along the first axis; B is None without biases."""
    w, r = (_stacked(params[at::each]) for at in (0, 1))
    if each == 2:
        return w, r, None
    return w, r, _stacked([op.Concat(b_ih, b_hh, axis=0) for b_ih, b_hh in zip(params[2::each], params[3::each])])


def _stacked(tensors: Sequence[Any]) -> Any:
    lifted = [op.Unsqueeze(tensor, [0]) for tensor in tensors]
    return lifted[0] if len(lifted) == 1 else op.Concat(*lifted, axis=0)


_SCHEMA = (
    "(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, "
    "bool bidirectional, bool batch_first) -> (Tensor, Tensor)"
)


def _stand_in(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """An operator with torch's results, whose shapes are known without a run over the sequence."""

    def fake(input: torch.Tensor, hx: torch.Tensor, *more: Any) -> tuple[torch.Tensor, torch.Tensor]:
        bidirectional = more[5]
        width = hx.shape[-1] * (2 if bidirectional else 1)
        return input.new_empty((*input.shape[:2], width)), torch.empty_like(hx)

    made = torch.library.custom_op(f"guarddiff::{name}", original, mutates_args=(), schema=_SCHEMA)
    made.register_fake(fake)

    def instead(*args: Any) -> Any:
        packed = not isinstance(args[2], (list, tuple))  # a packed sequence has its batch sizes before the state
        if packed or (args[5] > 0 and args[6]):
            return NotImplemented
        return made(*args)

    return instead


REPAIRS = (
    Repair(
        name="nn.RNN over a dynamic length",
        ops=("aten.rnn_tanh.input", "aten.rnn_relu.input"),
        way="one ONNX RNN per layer, which runs over whatever length it is given",
        translations={
            "aten.rnn_tanh.input": rnn_tanh,
            "aten.rnn_relu.input": rnn_relu,
            "guarddiff.rnn_tanh.default": rnn_tanh,
            "guarddiff.rnn_relu.default": rnn_relu,
        },
        functions={
            torch.rnn_tanh: _stand_in("rnn_tanh", torch.rnn_tanh),
            torch.rnn_relu: _stand_in("rnn_relu", torch.rnn_relu),
        },
    ),
)
