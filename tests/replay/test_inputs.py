from __future__ import annotations

import pytest
import torch

from guarddiff.replay import inputs
from guarddiff.replay.inputs import Example, TooLarge

INF, NAN = float("inf"), float("nan")


def resized(tensor: torch.Tensor, *shape: int, seed: int = 0) -> torch.Tensor:
    return inputs.resized(tensor, shape, torch.Generator().manual_seed(seed))


def values(tensor: torch.Tensor) -> set[float]:
    return set(tensor.reshape(-1).tolist())


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8, torch.uint8, torch.uint16])
def test_whole_numbers_come_from_the_example(dtype: torch.dtype) -> None:
    ids = torch.tensor([[7, 100, 3], [42, 9, 101]]).to(dtype)
    made = resized(ids, 8, 11)
    assert made.dtype == dtype
    assert made.shape == (8, 11)
    assert values(made) == {7, 100, 3, 42, 9, 101}


@pytest.mark.parametrize("shape", [(4, 6), (1, 2), (3, 3)])
def test_masks_are_tiled(shape: tuple[int, int]) -> None:
    mask = torch.tensor([[True, True, False], [True, False, False]])
    made = resized(mask, *shape)
    rows = [mask[i % 2].tolist() * 2 for i in range(shape[0])]
    assert made.dtype == torch.bool
    assert made.tolist() == [row[: shape[1]] for row in rows]


def test_a_mask_of_infinities_is_tiled() -> None:
    mask = torch.tensor([[0.0, -INF], [0.0, 0.0]])
    assert resized(mask, 2, 4).tolist() == [[0.0, -INF, 0.0, -INF], [0.0, 0.0, 0.0, 0.0]]


def test_integer_masks_are_tiled() -> None:
    assert resized(torch.tensor([[1, 1, 0]]), 2, 5).tolist() == [[1, 1, 0, 1, 1]] * 2


@pytest.mark.parametrize("value", [5, 1.5, True, -INF])
def test_constants_stay_constant(value: float) -> None:
    made = resized(torch.full((2, 3), value), 4, 7)
    assert made.shape == (4, 7)
    assert values(made) == {value}


def test_all_nan_stays_nan() -> None:
    made = resized(torch.full((3, 2), NAN), 5, 4)
    assert made.shape == (5, 4)
    assert bool(made.isnan().all())


@pytest.mark.parametrize(
    "example",
    [
        torch.arange(10),
        torch.linspace(-3.0, 5.0, 9),
        torch.arange(6).expand(2, 6),
        torch.tensor([[0, 0, 1, 5, 5, 9]]),
        torch.tensor([0.5, 1.0, 4.0], dtype=torch.float16),
    ],
)
def test_sorted_stays_sorted(example: torch.Tensor) -> None:
    made = resized(example, *example.shape[:-1], 25)
    assert made.dtype == example.dtype
    assert bool((made[..., 1:] >= made[..., :-1]).all())
    assert made.unique().numel() > 2
    assert example.min() <= made.min() <= made.max() <= example.max()


def test_unsorted_is_not_sorted() -> None:
    made = resized(torch.tensor([3, 1, 2, 9, 4]), 40)
    assert not bool((made[1:] >= made[:-1]).all())


def test_floats_keep_range_mean_and_spread() -> None:
    example = torch.randn(40, 50, generator=torch.Generator().manual_seed(1)) * 3 + 100
    made = resized(example, 70, 90)
    assert example.min() <= made.min()
    assert made.max() <= example.max()
    assert abs(made.mean() - example.mean()) < 0.2
    assert abs(made.std() - example.std()) < 0.2


def test_probabilities_stay_probabilities() -> None:
    made = resized(torch.rand(30, generator=torch.Generator().manual_seed(1)), 200)
    assert made.min() >= 0
    assert made.max() <= 1
    assert made.std() > 0.1


def test_one_float_gives_floats_about_it() -> None:
    made = resized(torch.tensor([1000.0]), 50)
    assert made.shape == (50,)
    assert made.min() > 990
    assert made.max() < 1010
    assert made.std() > 0.1


def test_one_whole_number_is_repeated() -> None:
    assert resized(torch.tensor([[7]]), 2, 3).tolist() == [[7, 7, 7], [7, 7, 7]]


def test_infinities_and_nan_do_not_spoil_the_spread() -> None:
    example = torch.tensor([1.0, 2.0, NAN, 4.0, INF, 3.0, -INF])
    made = resized(example, 60)
    assert bool(made.isfinite().all())
    assert made.min() >= 1
    assert made.max() <= 4
    assert made.std() > 0.1


def test_one_value_beside_nan_stays_that_value() -> None:
    assert values(resized(torch.tensor([2.0, 2.0, NAN, NAN, NAN]), 6)) == {2.0}


def test_a_bias_with_the_lowest_number_as_mask_stays_finite() -> None:
    lowest = torch.finfo(torch.float32).min
    made = resized(torch.tensor([0.5, -0.25, lowest, lowest, 0.0]), 40)
    assert bool(made.isfinite().all())
    assert lowest <= made.min()
    assert made.max() <= 0.5


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_floats_keep_their_dtype_and_range(dtype: torch.dtype) -> None:
    example = torch.tensor([5.0, -2.0, 0.5, 3.0, 1.0]).to(dtype)
    made = resized(example, 4, 30)
    assert made.dtype == dtype
    assert made.shape == (4, 30)
    assert made.min() >= -2
    assert made.max() <= 5
    assert made.float().std() > 0.5


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_complex_parts_keep_their_ranges(dtype: torch.dtype) -> None:
    example = torch.tensor([1 + 10j, 3 + 30j, 2 + 20j]).to(dtype)
    made = resized(example, 40)
    assert made.dtype == dtype
    assert 1 <= made.real.min() <= made.real.max() <= 3
    assert 10 <= made.imag.min() <= made.imag.max() <= 30
    assert made.real.unique().numel() > 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.bool, torch.complex64])
def test_empty_examples_can_grow(dtype: torch.dtype) -> None:
    made = resized(torch.zeros(0, 3, dtype=dtype), 2, 3)
    assert made.dtype == dtype
    assert made.shape == (2, 3)
    assert bool(torch.isfinite(made).all())


def test_to_nothing() -> None:
    assert resized(torch.randn(3, 4), 0, 4).shape == (0, 4)
    assert resized(torch.tensor([[True, False]]), 0, 2).shape == (0, 2)


def test_scalars_are_copied() -> None:
    scalar = torch.tensor(2.5)
    made = resized(scalar)
    assert made.item() == 2.5
    assert made.data_ptr() != scalar.data_ptr()


def test_same_shape_gives_the_same_values_in_memory_of_its_own() -> None:
    example = torch.randn(3, 4, requires_grad=True)
    made = resized(example, 3, 4)
    assert torch.equal(made, example.detach())
    assert made.data_ptr() != example.data_ptr()
    assert not made.requires_grad


@pytest.mark.parametrize(
    "example",
    [torch.randn(4, 5), torch.arange(20).reshape(4, 5), torch.eye(4, 5), torch.full((4, 5), 2.0), torch.eye(4, 5) > 0],
)
def test_the_example_is_untouched(example: torch.Tensor) -> None:
    before = example.clone()
    for shape in ((4, 5), (2, 3), (8, 10)):
        made = resized(example, *shape)
        made.zero_()
        assert torch.equal(example, before)


def test_too_large_is_said_before_anything_is_made() -> None:
    with pytest.raises(TooLarge, match=r"shape \(1048576, 1048576\) has more than 67,108,864 elements"):
        resized(torch.randn(2, 3), 2**20, 2**20)
    assert issubclass(TooLarge, ValueError)


def example() -> Example:
    leaves = (torch.arange(12.0).reshape(3, 4).sin(), 2, torch.tensor([5, 1, 9]), torch.randn(3))
    return Example(leaves, ("x", None, "ids", None), "spec", lambda given, spec: ((given[0], spec), {"ids": given[2]}))


def test_shapes_of_an_example_are_those_of_its_onnx_inputs() -> None:
    assert example().shapes == {"x": (3, 4), "ids": (3,)}


def test_an_example_at_other_shapes() -> None:
    leaves = example().at({"x": (5, 4), "ids": (6,)})
    assert [leaf.shape if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves] == [(5, 4), 2, (6,), (3,)]
    assert leaves[3] is not None
    assert values(leaves[2]) <= {5, 1, 9}


def test_leaves_without_an_onnx_name_are_handed_on() -> None:
    given = example()
    leaves = given.at({"x": (5, 4)})
    assert leaves[1] == 2
    assert leaves[3] is given.leaves[3]


def test_same_seed_same_values_and_another_seed_others() -> None:
    given = example()
    first, second, third = (given.at({"x": (7, 9), "ids": (30,)}, seed) for seed in (3, 3, 4))
    assert torch.equal(first[0], second[0])
    assert torch.equal(first[2], second[2])
    assert not torch.equal(first[0], third[0])
    assert not torch.equal(first[2], third[2])


def test_values_do_not_depend_on_or_change_the_global_random_state() -> None:
    given = example()
    torch.manual_seed(1)
    first = given.at({"x": (7, 9)})
    state = torch.get_rng_state()
    second = given.at({"x": (7, 9)})
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first[0], second[0])


def test_a_call_holds_the_leaves() -> None:
    args, kwargs = example().call(["a", "b", "c", "d"])
    assert args == ("a", "spec")
    assert kwargs == {"ids": "c"}
