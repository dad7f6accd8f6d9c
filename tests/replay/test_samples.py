"""Text that makes a tensor like a given one: pattern and dtype, never values."""

from __future__ import annotations

import pytest
import torch

from guarddiff.replay import samples


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (torch.tensor([[0.25, -3.5]]), "torch.randn(1, 2)"),
        (torch.tensor([0.25, 0.5]), "torch.rand(2)"),
        (torch.tensor([7.0, 2.0]), "(torch.rand(2) + 0.5)"),
        (torch.tensor([-1.0, 0.5, 3.0]), "torch.randn(3).sort().values"),
        (torch.zeros(2, 3), "torch.zeros(2, 3)"),
        (torch.ones(2), "torch.ones(2)"),
        (torch.tensor([0.0, 1.0, 1.0]), "(torch.rand(3) > 0.5).float()"),
        (torch.tensor([0.0, float("-inf")]), "torch.zeros(2)"),
        (torch.tensor(1.25), "(torch.rand(()) + 0.5)"),
        (torch.tensor([-1.5, 2.5], dtype=torch.float16), "torch.randn(2, dtype=torch.float16)"),
        (torch.tensor([1j, 2]), "torch.randn(2, dtype=torch.complex64)"),
        (torch.tensor([17, 3]), "torch.randint(1, 18, (2,))"),
        (torch.tensor([[17, 0]], dtype=torch.int32), "torch.randint(0, 18, (1, 2), dtype=torch.int32)"),
        (torch.arange(4), "torch.arange(4)"),
        (torch.arange(4).expand(2, 4), "torch.arange(4).expand((2, 4))"),
        (torch.zeros(3, dtype=torch.int64), "torch.zeros((3,), dtype=torch.int64)"),
        (torch.tensor([True, False]), "torch.rand(2) > 0.5"),
        (torch.ones(3, 3).tril().bool(), "torch.ones(3, 3).tril().bool()"),
        (torch.ones(2, dtype=torch.bool), "torch.ones((2,), dtype=torch.bool)"),
        (torch.empty(0, 3), "torch.randn(0, 3)"),
    ],
)
def test_text_and_what_it_makes(tensor: torch.Tensor, text: str) -> None:
    assert samples.constant(tensor) == text
    made = eval(text)
    assert made.shape == tensor.shape
    assert made.dtype == tensor.dtype


def test_positions_fit_into_the_smaller_of_two() -> None:
    leaf = samples.like(torch.tensor([[5, 2]]), torch.tensor([[9, 3, 1]]))
    assert leaf.text(0) == "torch.randint(1, 6, (1, 2))"
    assert leaf.text(1) == "torch.randint(1, 6, (1, 3))"


def test_no_value_is_written() -> None:
    secret = torch.tensor([[0.123456, 98765.0, -4242.0]])
    assert "123" not in samples.constant(secret)
    assert "98765" not in samples.constant(secret)
