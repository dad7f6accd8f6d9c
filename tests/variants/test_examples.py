"""Example inputs at the sizes that are wanted."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.variants.nets import Tagged
from torch import nn

from guarddiff.variants.examples import Example, examples


def made(sizes: Any, inputs: Any = None, model: nn.Module | None = None, args: Any = None, **kwargs: Any) -> Any:
    given = torch.randn(2, 3) if args is None else args
    return examples(model or nn.Identity(), given, kwargs, sizes, inputs, None)


def test_shapes_with_values_like_those_of_the_example() -> None:
    given = torch.randn(2, 3)
    same, other = examples(nn.Identity(), (given,), None, [(2, 3), {"input": (4, 8)}], None, None)
    assert same.args[0] is given or torch.equal(same.args[0], given)
    assert other.shapes == {"input": (4, 8)}
    assert other.args[0].shape == (4, 8) and other.args[0].dtype == given.dtype
    assert other.args[0].unique().numel() > 8
    again = examples(nn.Identity(), (given,), None, [{"input": (4, 8)}], None, None)[0]
    assert torch.equal(again.args[0], other.args[0])


def test_whole_numbers_keep_their_range_and_masks_their_kind() -> None:
    ids, mask = torch.randint(3, 7, (2, 5)), torch.tensor([[True, True, True, False, False]] * 2)
    (one,) = examples(Tagged(), (ids,), {"mask": mask}, [{"ids": (2, 9), "mask": (2, 9)}], None, None)
    assert list(one.shapes.items()) == [("ids", (2, 9)), ("mask", (2, 9))]
    assert one.args[0].min() >= 3 and one.args[0].max() < 7 and one.args[0].dtype == torch.int64
    assert one.kwargs["mask"].dtype == torch.bool and one.kwargs["mask"].any() and not one.kwargs["mask"].all()


def test_what_is_not_named_stays() -> None:
    mask = torch.ones(2, 5)
    (one,) = examples(Tagged(), (torch.ones(2, 5, dtype=torch.long),), {"mask": mask}, [{"ids": (2, 4)}], None, None)
    assert one.shapes == {"ids": (2, 4), "mask": (2, 5)}


def test_names_of_the_export_and_places_in_nested_inputs() -> None:
    (one,) = examples(nn.Identity(), (torch.randn(2),), None, [{"image": (5,)}], None, ["image"])
    assert one.shapes == {"input": (5,)}

    class Nested(nn.Module):
        def forward(self, past: tuple[torch.Tensor, torch.Tensor], n: int) -> torch.Tensor:
            return past[0] * n

    twice = torch.randn(2)  # the same object at two places
    (one,) = examples(Nested(), ((twice, twice), 3), None, [{"past[1]": (4,)}], None, None)
    assert one.shapes == {"past[0]": (2,), "past[1]": (4,)}
    assert [part.shape for part in one.args[0]] == [(2,), (4,)] and one.args[1] == 3


def test_a_size_that_is_given_twice_counts_once() -> None:
    assert [one.shapes for one in made([(2, 3), {"input": [2, 3]}, (4, 4)])] == [{"input": (2, 3)}, {"input": (4, 4)}]


def test_inputs_that_the_user_makes() -> None:
    asked: list[Any] = []

    def inputs(size: Any) -> Any:
        asked.append(size)
        return torch.full(tuple(size), 7.0)

    found: list[Example] = made([(2, 2), (3, 3)], inputs)
    assert asked == [(2, 2), (3, 3)]
    assert all((one.args[0] == 7).all() for one in found)
    with pytest.raises(ValueError, match=r"inputs\(\) gave input with shape \(1, 1\) for the size \(2, 2\)"):
        made([(2, 2)], lambda size: torch.zeros(1, 1))


@pytest.mark.parametrize(
    ("sizes", "kind", "told"),
    [
        ([], ValueError, "sizes is empty"),
        ({"input": (1, 2)}, TypeError, "sizes has to be a list of sizes"),
        ("12", TypeError, "sizes has to be a list of sizes"),
        ([{"x": (1, 2)}], ValueError, "sizes names 'x': the inputs are input"),
        ([224], TypeError, "a shape of input has to be a list of whole numbers, not 224"),
        ([(1, 2.5)], TypeError, "a shape of input has to be a list of whole numbers"),
        ([(1, 0)], ValueError, r"a shape of input has a size below 1: \(1, 0\)"),
        ([(1 << 20, 1 << 20)], ValueError, "make the inputs yourself, with inputs="),
    ],
)
def test_what_is_no_size(sizes: Any, kind: type[Exception], told: str) -> None:
    with pytest.raises(kind, match=told):
        made(sizes)


def test_a_bare_shape_needs_a_model_of_one_tensor() -> None:
    ids = torch.ones(2, 5, dtype=torch.long)
    with pytest.raises(TypeError, match=r"the model has several inputs \(ids, mask\)"):
        made([(2, 5)], model=Tagged(), args=(ids,), mask=torch.ones(2, 5))
    with pytest.raises(ValueError, match="no tensor among its example inputs"):
        made([(2, 5)], args=(3,))
    with pytest.raises(TypeError, match="example inputs must be a tuple, or one tensor, not int"):
        made([(2, 5)], args=3)
