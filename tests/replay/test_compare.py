from __future__ import annotations

import numpy as np
import pytest
import torch

from guarddiff.replay import compare
from guarddiff.replay.compare import Difference, Result

NAN, INF = float("nan"), float("inf")


def eager(*values: object) -> list[Result]:
    return compare.results(values)


def test_equal_results_do_not_differ() -> None:
    x = torch.randn(3, 4)
    assert compare.difference(eager(x, x > 0), [x.numpy(), (x > 0).numpy()]) is None


def test_shapes() -> None:
    found = compare.difference(eager(torch.zeros(1), torch.zeros(2, 3)), [np.zeros(1, "f4"), np.zeros((3, 2), "f4")])
    assert found == Difference("shape", "output 1: (2, 3)", "output 1: (3, 2)")


def test_rank_counts_as_shape() -> None:
    assert compare.difference(eager(torch.zeros(1)), [np.zeros((), "f4")]) == Difference(
        "shape", "output 0: (1,)", "output 0: ()"
    )


@pytest.mark.parametrize(("given", "text"), [(0, "0 outputs"), (1, "1 outputs"), (3, "3 outputs")])
def test_count_of_outputs(given: int, text: str) -> None:
    found = compare.difference(eager(torch.zeros(2), torch.zeros(2)), [np.zeros(2, "f4")] * given)
    assert found == Difference("shape", "2 outputs", text)


def test_values_are_told_without_showing_them() -> None:
    found = compare.difference(eager(torch.tensor([1.0, 2.0, 3.0])), [np.array([1.0, 2.5, 3.0], "f4")])
    assert found == Difference(
        "values", "output 0: shape (3,), dtype float32", "output 0: shape (3,), 1 of 3 elements differ, by up to 0.5"
    )


def test_nan_equals_nan_only() -> None:
    want = eager(torch.tensor([NAN, 1.0]))
    assert compare.difference(want, [np.array([NAN, 1.0], "f4")]) is None
    one = compare.difference(want, [np.array([0.0, 1.0], "f4")])
    assert one is not None
    assert one.kind == "values"
    other = compare.difference(eager(torch.tensor([0.0, 1.0])), [np.array([NAN, 1.0], "f4")])
    assert other is not None
    assert "1 of 2 elements differ" in other.got


def test_infinities() -> None:
    want = eager(torch.tensor([INF, -INF, 1.0]))
    assert compare.difference(want, [np.array([INF, -INF, 1.0], "f4")]) is None
    found = compare.difference(want, [np.array([INF, INF, 1.0], "f4")])
    assert found is not None
    assert "1 of 3 elements differ" in found.got


@pytest.mark.parametrize(
    ("dtype", "close", "far"),
    [
        (torch.float64, 5e-6, 1e-4),
        (torch.float32, 5e-4, 1e-2),
        (torch.float16, 1e-2, 1e-1),
        (torch.bfloat16, 3e-2, 2e-1),
    ],
)
def test_tolerance_fits_the_dtype(dtype: torch.dtype, close: float, far: float) -> None:
    want = eager(torch.full((50,), 2.0, dtype=dtype))
    assert want[0].dtype == str(dtype).removeprefix("torch.")
    other = {0}  # numpy has no bfloat16: the dtype is not what is asked here
    assert compare.difference(want, [np.full(50, 2.0 * (1 + close))], other) is None
    found = compare.difference(want, [np.full(50, 2.0 * (1 + far))], other)
    assert found is not None
    assert found.kind == "values"


def test_small_elements_are_measured_by_the_size_of_the_whole() -> None:
    want = eager(torch.tensor([1000.0] * 99 + [0.0]))
    have = np.array([1000.0] * 99 + [0.05], "f4")
    assert compare.difference(want, [have]) is None
    assert compare.difference(eager(torch.zeros(100)), [np.full(100, 0.05, "f4")]) is not None


def test_whole_numbers_must_be_equal() -> None:
    found = compare.difference(eager(torch.arange(1000)), [np.arange(1000) + (np.arange(1000) == 3)])
    assert found is not None
    assert found.got == "output 0: shape (1000,), 1 of 1,000 elements differ"


def test_few_differing_whole_numbers_in_large_outputs_are_ties() -> None:
    want = eager(torch.zeros(5000, dtype=torch.int64))
    few, many = np.zeros(5000, "i8"), np.zeros(5000, "i8")
    few[:5], many[:6] = 1, 1
    assert compare.difference(want, [few]) is None
    found = compare.difference(want, [many])
    assert found is not None
    assert found.got == "output 0: shape (5000,), 6 of 5,000 elements differ"


def test_bools() -> None:
    want = eager(torch.tensor([True, False]))
    assert want[0].dtype == "bool"
    assert compare.difference(want, [np.array([True, False])]) is None
    found = compare.difference(want, [np.array([True, True])])
    assert found == Difference(
        "values", "output 0: shape (2,), dtype bool", "output 0: shape (2,), 1 of 2 elements differ"
    )


def test_complex_numbers_are_real_pairs() -> None:
    want = eager(torch.tensor([1 + 2j, 3 - 4j]))
    assert want[0].dtype == "complex64"
    assert want[0].array.tolist() == [[1.0, 2.0], [3.0, -4.0]]
    assert compare.difference(want, [np.array([[1.0, 2.0], [3.0, -4.0]], "f4")]) is None
    found = compare.difference(want, [np.array([[1.0, 2.0], [3.0, 4.0]], "f4")])
    assert found is not None
    assert found.kind == "values"


def test_conjugate_views() -> None:
    assert eager(torch.tensor([1 + 2j]).conj())[0].array.tolist() == [[1.0, -2.0]]


def test_empty_outputs_are_equal_when_their_shapes_are() -> None:
    want = eager(torch.zeros(0, 3))
    assert compare.difference(want, [np.zeros((0, 3), "f4")]) is None
    assert compare.difference(want, [np.zeros((0, 4), "f4")]) == Difference(
        "shape", "output 0: (0, 3)", "output 0: (0, 4)"
    )


def test_half_precision_of_onnx_runtime_is_compared_as_float() -> None:
    want = eager(torch.tensor([60000.0, 0.1], dtype=torch.float16))
    assert compare.difference(want, [np.array([60000.0, 0.1], np.float16)]) is None


def test_another_dtype_is_a_difference() -> None:
    found = compare.difference(eager(torch.tensor([1, 2])), [np.array([1.0, 2.0], "f4")])
    assert found is not None
    assert found.kind == "values"
    assert "int64" in found.expected
    assert "float32" in found.got


def test_results_are_tensors_and_numbers() -> None:
    made = eager(torch.ones(2), None, 3, "text", 1.5, True)
    assert [(r.dtype, r.is_tensor) for r in made] == [
        ("float32", True),
        ("int", False),
        ("float", False),
        ("bool", False),
    ]


def test_results_do_not_need_gradients_off() -> None:
    assert eager(torch.ones(2, requires_grad=True) * 2)[0].array.tolist() == [2.0, 2.0]


def test_align_leaves_numbers_out_where_the_onnx_model_has_no_output_for_them() -> None:
    made = eager(torch.ones(2), 3, torch.zeros(1))
    assert [r.dtype for r in compare.align(made, 2)] == ["float32", "float32"]
    assert compare.align(made, 3) == made


def test_dtypes_that_differ() -> None:
    want = eager(torch.ones(2), torch.ones(2, dtype=torch.int64), torch.ones(1, dtype=torch.complex64))
    have = [np.ones(2, "f4"), np.ones(2, "i4"), np.ones((1, 2), "f4")]
    assert compare.other_dtypes(want, have) == {1: "int32"}
