"""nn.RNN, nn.LSTM and nn.GRU over a dynamic length.

The decomposition unrolls the example's length. It does so to find the shapes while the model is captured and before it
is translated, which makes the length static for all that follows (``order.expand_as(y)``), and it does so for nn.RNN,
which torchlib does not know, in the model itself: longer sequences are cut. So there is an operator that stands for the
layer during capture and knows its shapes without a loop, and a translation for that operator and for torch's own RNN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from onnxscript import opset18

from guarddiff.repair.registry import Repair

op: Any = opset18  # its type hints leave out numbers and lists


@dataclass(frozen=True)
class _Kind:
    """One of ONNX's recurrent operators. ``gates``: torch's places of the gates in the order that ONNX wants them in;
    ``states``: how many states there are (an LSTM has two)."""

    operator: str
    gates: tuple[int, ...] = (0,)
    states: int = 1
    activation: str | None = None
    more: tuple[tuple[str, int], ...] = ()


_TANH, _RELU = _Kind("RNN", activation="Tanh"), _Kind("RNN", activation="Relu")
_LSTM = _Kind("LSTM", (0, 3, 1, 2), 2)  # torch: input, forget, cell, output; ONNX: input, output, forget, cell
_GRU = _Kind("GRU", (1, 0, 2), more=(("linear_before_reset", 1),))  # reset, update, new; update, reset, hidden


def rnn_tanh(input: Any, hx: Any, params: Sequence[Any], *more: Any) -> tuple[Any, ...]:
    """rnn_tanh.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout,
    bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)"""
    return _layers(_TANH, input, [hx], params, *more)


def rnn_relu(input: Any, hx: Any, params: Sequence[Any], *more: Any) -> tuple[Any, ...]:
    """rnn_relu.input, with the arguments of rnn_tanh.input"""
    return _layers(_RELU, input, [hx], params, *more)


def gru(input: Any, hx: Any, params: Sequence[Any], *more: Any) -> tuple[Any, ...]:
    """gru.input, with the arguments of rnn_tanh.input"""
    return _layers(_GRU, input, [hx], params, *more)


def lstm(input: Any, hx: Sequence[Any], params: Sequence[Any], *more: Any) -> tuple[Any, ...]:
    """lstm.input, with the arguments of rnn_tanh.input but a list of two states -> (Tensor, Tensor, Tensor)"""
    return _layers(_LSTM, input, list(hx), params, *more)


def _layers(
    kind: _Kind,
    x: Any,
    starts: list[Any],
    params: Sequence[Any],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Any, ...]:
    directions = 2 if bidirectional else 1
    each = 4 if has_biases else 2  # W_ih, W_hh and the two biases of one direction
    if batch_first:
        x = op.Transpose(x, perm=[1, 0, 2])
    how: dict[str, Any] = dict(kind.more)
    if kind.activation is not None:
        how["activations"] = [kind.activation] * directions
    run = partial(
        getattr(op, kind.operator),
        direction="bidirectional" if bidirectional else "forward",
        hidden_size=int(params[1].shape[1]),
        **how,
    )
    last: list[list[Any]] = [[] for _ in starts]
    for layer in range(num_layers):
        if layer and train and dropout > 0.0:
            x, _ = op.Dropout(x, dropout, True)
        at = layer * directions
        begin = [s if num_layers == 1 else op.Slice(s, [at], [at + directions], [0]) for s in starts]
        y, *finals = run(x, *_weights(kind, params[at * each : (at + directions) * each], each), None, *begin)
        # (length, direction, batch, hidden) to (length, batch, direction * hidden)
        x = op.Reshape(op.Transpose(y, perm=[0, 2, 1, 3]), [0, 0, -1])
        for kept, final in zip(last, finals):
            kept.append(final)
    if batch_first:
        x = op.Transpose(x, perm=[1, 0, 2])
    return x, *(kept[0] if num_layers == 1 else op.Concat(*kept, axis=0) for kept in last)


def _weights(kind: _Kind, params: Sequence[Any], each: int) -> tuple[Any, Any, Any]:
    """W, R and B of one layer as ONNX wants them: the directions along the first axis; B is None without biases."""
    ordered = [_gates(kind, tensor) for tensor in params]
    w, r = (_stacked(ordered[at::each]) for at in (0, 1))
    if each == 2:
        return w, r, None
    return w, r, _stacked([op.Concat(b_ih, b_hh, axis=0) for b_ih, b_hh in zip(ordered[2::each], ordered[3::each])])


def _gates(kind: _Kind, tensor: Any) -> Any:
    """A weight or bias with its gates in ONNX's order."""
    if len(kind.gates) == 1:
        return tensor
    size = int(tensor.shape[0]) // len(kind.gates)
    parts = [op.Slice(tensor, [gate * size], [(gate + 1) * size], [0]) for gate in kind.gates]
    return op.Concat(*parts, axis=0)


def _stacked(tensors: Sequence[Any]) -> Any:
    lifted = [op.Unsqueeze(tensor, [0]) for tensor in tensors]
    return lifted[0] if len(lifted) == 1 else op.Concat(*lifted, axis=0)


_SCHEMA = (
    "(Tensor input, {} hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, "
    "bool bidirectional, bool batch_first) -> ({})"
)


def _stand_in(name: str, original: Callable[..., Any], states: int = 1) -> Callable[..., Any]:
    """An operator with torch's results, whose shapes are known without a run over the sequence."""

    def fake(input: torch.Tensor, hx: Any, *more: Any) -> tuple[torch.Tensor, ...]:
        bidirectional = more[5]
        given = list(hx) if states > 1 else [hx]
        width = given[0].shape[-1] * (2 if bidirectional else 1)
        return input.new_empty((*input.shape[:2], width)), *map(torch.empty_like, given)

    schema = _SCHEMA.format("Tensor[]" if states > 1 else "Tensor", ", ".join(["Tensor"] * (1 + states)))
    made = torch.library.custom_op(f"guarddiff::{name}", original, mutates_args=(), schema=schema)
    made.register_fake(fake)

    def instead(*args: Any) -> Any:
        packed = not isinstance(args[2], (list, tuple))  # a packed sequence has its batch sizes before the state
        if packed or (args[5] > 0 and args[6]) or not _plain(args):
            return NotImplemented
        return made(*args)

    return instead


def _plain(args: Sequence[Any]) -> bool:
    """Whether each direction has its own weights and biases alone, and no projection."""
    each = 4 if args[3] else 2
    return len(args[2]) == each * int(args[4]) * (2 if args[7] else 1)


REPAIRS = (
    Repair(
        name="recurrent layers over a dynamic length",
        ops=("aten.rnn_tanh.input", "aten.rnn_relu.input", "aten.lstm.input", "aten.gru.input"),
        way="one ONNX RNN, LSTM or GRU per layer, which runs over whatever length it is given",
        translations={
            "aten.rnn_tanh.input": rnn_tanh,
            "aten.rnn_relu.input": rnn_relu,
            "guarddiff.rnn_tanh.default": rnn_tanh,
            "guarddiff.rnn_relu.default": rnn_relu,
            "guarddiff.gru.default": gru,
            "guarddiff.lstm.default": lstm,
        },
        functions={
            torch.rnn_tanh: _stand_in("rnn_tanh", torch.rnn_tanh),
            torch.rnn_relu: _stand_in("rnn_relu", torch.rnn_relu),
            torch.gru: _stand_in("gru", torch.gru),
            torch.lstm: _stand_in("lstm", torch.lstm, states=2),
        },
    ),
)
