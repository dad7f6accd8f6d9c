from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import guarddiff


class Ratio(nn.Module):
    """Pools to a size that Python works out from the input's."""

    def __init__(self, ratio: float, rounding: Any = round) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.ratio = ratio
        self.rounding = rounding

    def size(self, height: int, width: int) -> tuple[int, int]:
        return self.rounding(height * self.ratio), self.rounding(width * self.ratio)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.adaptive_avg_pool2d(self.norm(self.conv(x)), self.size(x.shape[2], x.shape[3]))


class Adapted(Ratio):
    """The same with the size fixed when it is made."""

    def __init__(self, original: Ratio, height: int, width: int, rounding: Any = round) -> None:
        super().__init__(original.ratio, rounding)
        self.load_state_dict(original.state_dict())
        self.fixed = super().size(height, width)
        self.height, self.width = height, width

    def size(self, height: int, width: int) -> tuple[int, int]:
        if (height, width) != (self.height, self.width):
            raise ValueError(f"made for {self.height}×{self.width}, not for {height}×{width}")
        return self.fixed


def image(height: int, width: int) -> torch.Tensor:
    return torch.randn(2, 3, height, width, generator=torch.Generator().manual_seed(0))


def half_up(value: float) -> int:
    return math.floor(value + 0.5)


@pytest.mark.parametrize(("height", "width"), [(8, 8), (8, 14), (14, 8)])
def test_equal_to_the_last_bit(height: int, width: int) -> None:
    original = Ratio(0.4).train()
    before = {name: value.clone() for name, value in original.state_dict().items()}
    found = guarddiff.compare_modules(original, Adapted(original, height, width), image(height, width), onnx=False)
    assert found.exact, found.to_text()
    assert {d.name for d in found.input_gradients} == {"x"}
    assert {d.name for d in found.parameter_gradients} == {"conv.weight", "conv.bias", "norm.weight", "norm.bias"}
    assert found.onnx is None and not found.within()
    assert all(torch.equal(value, before[name]) for name, value in original.state_dict().items())
    assert all(parameter.grad is None for parameter in original.parameters())


def test_with_onnx_runtime() -> None:
    original = Ratio(0.4).eval()
    found = guarddiff.compare_modules(original, Adapted(original, 8, 14).eval(), image(8, 14))
    assert found.exact and found.within(relative=1e-6), found.to_text()
    assert found.onnx is not None and 0 < found.onnx[0].relative < 1e-6
    assert found.onnx_dtype == "float32" and found.dtype == "float64"
    assert "equal to the last bit" in found.to_text() and "relative L2 error" in found.to_text()


def test_half_integers_are_rounded_to_even() -> None:
    original = Ratio(0.5)  # 5 → round(2.5) = 2, floor(2.5 + 0.5) = 3
    assert guarddiff.compare_modules(original, Adapted(original, 5, 8), image(5, 8), onnx=False).exact
    found = guarddiff.compare_modules(original, Adapted(original, 5, 8, half_up), image(5, 8), onnx=False)
    assert not found.exact
    assert found.outputs[0].text == " (shape (2, 4, 3, 4) instead of (2, 4, 2, 4))"
    assert found.outputs[0].largest == math.inf
    assert guarddiff.compare_modules(original, Adapted(original, 6, 8, half_up), image(6, 8), onnx=False).exact


def test_a_small_offset_that_decides_a_rounding() -> None:
    original = Ratio(0.25)
    near = Adapted(Ratio(0.25 + 1e-9), 10, 8)  # round(2.5) = 2, round(2.50000001) = 3
    near.load_state_dict(original.state_dict())
    assert not guarddiff.compare_modules(original, near, image(10, 8), onnx=False).exact


def test_sides_the_wrong_way_round() -> None:
    original = Ratio(0.4)
    found = guarddiff.compare_modules(original, Adapted(original, 14, 8), image(8, 14))
    assert not found.exact and not found.within(math.inf, math.inf)
    assert found.error == "the adapted module rejects these inputs: ValueError: made for 14×8, not for 8×14"
    assert found.to_text().startswith("not comparable: ")


def test_what_the_original_rejects_can_not_be_compared() -> None:
    original = Ratio(0.4)
    with pytest.raises(ValueError, match="the original module rejects these inputs: RuntimeError"):
        guarddiff.compare_modules(original, original, torch.randn(1, 5, 8, 8))


class Scaled(nn.Module):
    def __init__(self, factor: float, detached: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.factor, self.detached = factor, detached

    def forward(self, x: torch.Tensor, index: torch.Tensor) -> dict[str, torch.Tensor]:
        weight = self.weight.detach() if self.detached else self.weight
        return {"values": (x * weight * self.factor)[index], "index": index + 1}


ARGS = (torch.randn(4, 3), torch.tensor([1, 0]))


def test_parts_stand_apart() -> None:
    found = guarddiff.compare_modules(Scaled(1.0), Scaled(1.0, detached=True), ARGS, onnx=False)
    assert [(d.name, d.largest) for d in found.outputs] == [("output['values']", 0.0), ("output['index']", 0.0)]
    assert found.input_gradients[0].largest == 0
    assert found.parameter_gradients[0].text == " (only one of the two has it)"
    assert not found.exact

    found = guarddiff.compare_modules(Scaled(1.0), Scaled(1.0 + 1e-12), ARGS, onnx=False)
    assert 0 < found.outputs[0].largest < 1e-11 and found.outputs[1].largest == 0
    assert 0 < found.outputs[0].relative < 2e-12


def test_dropout_is_drawn_alike_and_the_random_state_stays() -> None:
    original = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)).train()
    state = torch.random.get_rng_state()
    found = guarddiff.compare_modules(original, original, torch.randn(4, 3), onnx=False)
    assert found.exact
    torch.random.set_rng_state(state)
    drawn = torch.rand(2)
    torch.random.set_rng_state(state)
    guarddiff.compare_modules(original, original, torch.zeros(4, 3), onnx=False)
    assert torch.equal(torch.rand(2), drawn)


def test_parameters_of_one_module_alone_are_told() -> None:
    class More(Scaled):
        def __init__(self) -> None:
            super().__init__(1.0)
            self.extra = nn.Parameter(torch.ones(2))

    found = guarddiff.compare_modules(Scaled(1.0), More(), ARGS, onnx=False)
    assert found.unshared == ("extra",)
    assert "not shared: extra" in found.to_text()


def test_a_kept_nan_is_no_difference() -> None:
    class Undefined(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.log(x)

    found = guarddiff.compare_modules(Undefined(), Undefined(), torch.tensor([-1.0, 2.0]), onnx=False)
    assert found.outputs[0].largest == 0


class Of(nn.Module):
    """Whatever a function of the input gives."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def of(original: Any, adapted: Any) -> guarddiff.Equivalence:
    return guarddiff.compare_modules(Of(original), Of(adapted), torch.tensor([[1.0, 3.0, 2.0]]), onnx=False)


def test_whole_numbers_that_float64_can_not_tell_apart() -> None:
    found = of(lambda x: x.argmax(-1) + 2**60, lambda x: x.argmax(-1) + 2**60 + 1)
    assert not found.exact and found.outputs[0].largest > 0
    assert of(lambda x: x.argmax(-1) + 2**60, lambda x: x.argmax(-1) + 2**60).exact


def test_results_of_another_kind_are_not_equal() -> None:
    found = of(lambda x: x.argmax(-1), lambda x: x.argmax(-1).double())
    assert not found.exact and "(dtype float64 instead of int64)" in found.to_text()


def test_a_nan_in_one_alone_is_never_told_as_equal() -> None:
    found = of(lambda x: (x, x), lambda x: (x, x.log() * torch.tensor([1.0, torch.nan, 1.0])))
    assert not found.exact and "outputs in float64: largest difference inf (output[1])" in found.to_text()


def test_inputs_that_are_changed_in_place_and_complex_results() -> None:
    found = of(lambda x: torch.relu_(x), torch.relu)
    assert found.exact and found.input_gradients[0].largest == 0, found.to_text()
    assert of(torch.fft.fft, torch.fft.fft).exact
    assert not of(torch.fft.fft, lambda x: torch.fft.fft(x).conj()).exact


def test_gradients_that_neither_has_are_not_compared() -> None:
    found = of(lambda x: x.argmax(-1), lambda x: x.argmax(-1))
    assert found.exact and found.input_gradients == ()
    assert "input gradients in float64: none to compare" in found.to_text()
    held = guarddiff.compare_modules(Scaled(0.0), Scaled(0.0, detached=True), ARGS, onnx=False)
    assert [one.name for one in held.parameter_gradients] == ["weight"]
    both = guarddiff.compare_modules(Scaled(1.0, detached=True), Scaled(1.0, detached=True), ARGS, onnx=False)
    assert both.exact and both.parameter_gradients == ()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"original": torch.relu}, "original has to be a torch.nn.Module, not builtin_function_or_method"),
        ({"adapted": None}, "adapted has to be a torch.nn.Module, not NoneType"),
        ({"inputs": None}, "inputs must be a tuple, or one tensor, not NoneType"),
        ({"inputs": {"x": torch.ones(2)}}, "inputs must be a tuple, or one tensor, not dict"),
        ({"kwargs": (torch.ones(2),)}, "kwargs must be a mapping of names to inputs, not tuple"),
    ],
)
def test_what_is_no_module_and_no_inputs(change: dict[str, Any], told: str) -> None:
    given: dict[str, Any] = {"original": nn.ReLU(), "adapted": nn.ReLU(), "inputs": torch.ones(2), **change}
    with pytest.raises(TypeError, match=f"^{told}$"):
        guarddiff.compare_modules(**given)


def test_why_an_export_failed_has_no_colours() -> None:
    found = guarddiff.compare_modules(Of(lambda x: x), Of(lambda x: x if x.sum() > -99 else -x), torch.ones(2))
    assert found.error.startswith("the adapted module could not be exported: ")
    assert "\x1b" not in found.error and "data-dependent" in found.error
