from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guarddiff.render import messages, words

HEAD = "Fail: [ONNXRuntimeError] : 1 : FAIL : Non-zero status code returned while running"
SOURCE = "/onnxruntime_src/onnxruntime/core/providers/cpu"
ORT = [
    (
        f"{HEAD} Reshape node. Name:'node__unsafe_view_1' Status Message: {SOURCE}/tensor/reshape_helper.h:91 "
        "onnxruntime::ReshapeHelper::ReshapeHelper(const onnxruntime::TensorShape&, onnxruntime::TensorShapeVector&, "
        "bool) gsl::narrow_cast<int64_t>(input_shape_size) == size was false. The input tensor cannot be reshaped to "
        "the requested shape. Input shape:{8,10}, requested shape:{1,4,1,5}\n",
        "Reshape node__unsafe_view_1: The input tensor cannot be reshaped to the requested shape. "
        "Input shape:{8,10}, requested shape:{1,4,1,5}",
    ),
    (
        f"{HEAD} Squeeze node. Name:'node_squeeze' Status Message: {SOURCE}/tensor/squeeze.h:53 static "
        "onnxruntime::TensorShapeVector onnxruntime::SqueezeBase::ComputeOutputShape(const onnxruntime::TensorShape&, "
        "const onnxruntime::TensorShapeVector&) input_shape[i] == 1 was false. Dimension of input 1 must be 1 instead "
        "of 2. shape={3,2,4}\n",
        "Squeeze node_squeeze: Dimension of input 1 must be 1 instead of 2. shape={3,2,4}",
    ),
    (
        "[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : Non-zero status code returned while running Add node. "
        f"Name:'node_add_2' Status Message: {SOURCE}/math/element_wise_ops.h:583 void "
        "onnxruntime::BroadcastIterator::Append(ptrdiff_t, ptrdiff_t) axis == 1 || axis == largest was false. "
        "Attempting to broadcast an axis by a dimension other than 1. 4 by 8\n",
        "Add node_add_2: Attempting to broadcast an axis by a dimension other than 1. 4 by 8",
    ),
    (
        "reshape_helper.h:91 onnxruntime::ReshapeHelper::ReshapeHelper(...) gsl::narrow_cast<int64_t>"
        "(input_shape_size) == size was false. Input shape:{8,10}",
        "Input shape:{8,10}",
    ),
    (
        f"{HEAD} MatMul node. Name:'node_mm' Status Message: matmul_helper.h:59 "
        "onnxruntime::MatMulComputeHelper::Compute left operand cannot broadcast on dim 1",
        "MatMul node_mm: left operand cannot broadcast on dim 1",
    ),
    (
        f"{HEAD} Gather node. Name:'node_g' Status Message: {SOURCE}/op.cc:83 virtual OrtValue* onnxruntime::Ctx::Out"
        "(int, const onnxruntime::TensorShape&) status.IsOK() was false. \n",
        "Gather node_g: status.IsOK() was false",
    ),
    (
        "[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Got invalid dimensions for input: x\n Please fix",
        "INVALID_ARGUMENT : Got invalid dimensions for input: x\n Please fix",
    ),
    ("RuntimeError: mat1 and mat2 shapes cannot be multiplied (1x2 and 3x4)",) * 2,
    ("the flag was false. models/net.py:12 f(x) was called", "the flag was false. models/net.py:12 f(x) was called"),
]


@pytest.mark.parametrize(("message", "said"), ORT)
def test_messages_of_onnx_runtime(message: str, said: str) -> None:
    assert messages.runtime(message) == said


def test_what_is_too_long_loses_its_middle() -> None:
    said = ORT[0][1]
    assert words.shorter(ORT[0][0], 100) == (
        "Reshape node__unsafe_view_1: … Input shape:{8,10}, requested shape:{1,4,1,5}"
    )
    assert messages.fitted(said, 60).startswith("Reshape node__unsafe_view_1: … ")
    assert messages.fitted(said, 60).endswith("requested shape:{1,4,1,5}")
    assert messages.fitted("a" * 40, 20) == "a" * 19 + "…"
    assert words.shorter(ORT[0][0] + " " + "b" * 900).startswith("Reshape node__unsafe_view_1: ")


@given(st.text(max_size=300), st.integers(5, 200))
def test_what_is_fitted_is_never_longer(text: str, limit: int) -> None:
    assert len(messages.fitted(text, limit)) <= limit
    assert len(words.shorter(text, limit)) <= limit
    assert words.shorter(text, limit).isprintable()


@pytest.mark.parametrize("char", ["a.h:1 ", "a::b(", "(", "onnxruntime::a ", "running x node. ", "<class '", "a "])
def test_no_text_takes_long(char: str) -> None:
    messages.runtime(char * 100_000)


def test_what_an_export_raised_has_no_colours() -> None:
    assert words.raised("\x1b[31mred\x1b[0m\x1b[2J") == "red\\x1b[2J"
    assert words.raised(" ") == " "
