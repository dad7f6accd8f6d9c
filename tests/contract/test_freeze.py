from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import guarddiff
from guarddiff import contracts


class Fixed(nn.Module):
    """A pooling whose size is fixed when the module is made."""

    def __init__(self, size: tuple[int, int]) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 1)
        self.size = size

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.adaptive_avg_pool2d(self.conv(x), self.size)


IMAGE = torch.randn(1, 3, 8, 12, generator=torch.Generator().manual_seed(0))


def test_other_sizes_are_refused_before_anything_is_computed() -> None:
    model = Fixed((2, 3)).eval()
    frozen = guarddiff.freeze(model, IMAGE)
    assert torch.equal(frozen(IMAGE), model(IMAGE))
    with pytest.raises(guarddiff.ContractViolation, match=r"x\[2\]=9: this module was frozen for 8") as caught:
        frozen(torch.randn(2, 3, 9, 12))
    assert caught.value.broken == (
        "x[0]=2: this module was frozen for 1",
        "x[2]=9: this module was frozen for 8",
    )
    with pytest.raises(guarddiff.ContractViolation, match="a tensor of rank 4, not one of rank 3"):
        frozen(torch.randn(3, 8, 12))


def test_the_module_itself_stays_free_and_shares_its_weights() -> None:
    model = Fixed((2, 3))
    frozen = guarddiff.freeze(model, (IMAGE,))
    assert model(torch.randn(2, 3, 9, 12)).shape == (2, 4, 2, 3)
    assert type(frozen) is Fixed
    assert frozen.state_dict().keys() == model.state_dict().keys()
    assert frozen.conv.weight is model.conv.weight
    assert not model._forward_pre_hooks


def test_axes_may_stay_free() -> None:
    frozen = guarddiff.freeze(Fixed((2, 3)), IMAGE, free={"x": [0, -1]})
    assert frozen(torch.randn(5, 3, 8, 30)).shape == (5, 4, 2, 3)
    with pytest.raises(guarddiff.ContractViolation):
        frozen(torch.randn(5, 3, 7, 30))
    with pytest.raises(ValueError, match="free names 'images': the inputs are x"):
        guarddiff.freeze(Fixed((2, 3)), IMAGE, free={"images": [0]})
    with pytest.raises(ValueError, match="axis 4 of x, which has 4"):
        guarddiff.freeze(Fixed((2, 3)), IMAGE, free={"x": [4]})


def test_a_frozen_module_is_not_frozen_again() -> None:
    with pytest.raises(ValueError, match="frozen already"):
        guarddiff.freeze(guarddiff.freeze(Fixed((2, 3)), IMAGE), IMAGE)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ((torch.relu, torch.ones(2)), "module has to be a torch.nn.Module, not builtin_function_or_method"),
        ((nn.ReLU(), None), "args must be a tuple, or one tensor, not NoneType"),
        ((nn.ReLU(), (), (torch.ones(2),)), "kwargs must be a mapping of names to inputs, not tuple"),
    ],
)
def test_what_is_no_module_and_no_inputs(given: Any, told: str) -> None:
    with pytest.raises(TypeError, match=f"^{told}$"):
        guarddiff.freeze(*given)


class Nested(nn.Module):
    def forward(self, x: torch.Tensor, past: tuple[torch.Tensor, ...] = (), scale: float = 1.0) -> torch.Tensor:
        return x * scale + sum(past, start=torch.zeros(()))


def test_nested_and_named_inputs() -> None:
    frozen = guarddiff.freeze(Nested(), (torch.randn(3),), {"past": (torch.randn(3), torch.randn(1)), "scale": 2.0})
    assert frozen(x=torch.randn(3), past=(torch.randn(3), torch.randn(1)), scale=3.0).shape == (3,)
    with pytest.raises(guarddiff.ContractViolation, match=r"past\[1\]\[0\]=3: this module was frozen for 1"):
        frozen(torch.randn(3), past=(torch.randn(3), torch.randn(3)))
    with pytest.raises(guarddiff.ContractViolation, match=r"past\[1\]: it has to be a tensor of rank 1, not nothing"):
        frozen(torch.randn(3), past=(torch.randn(3),))
    with pytest.raises(TypeError):
        guarddiff.freeze(Nested(), ())


def test_its_export_holds_the_contract(tmp_path: Path) -> None:
    path = tmp_path / "frozen.onnx"
    frozen = guarddiff.freeze(Fixed((2, 3)).eval(), IMAGE, free={"x": [0]})
    guarddiff.export(frozen, (IMAGE,), path, dynamic_shapes={"x": {0: "batch"}}, verbose=False)
    contract = guarddiff.read_contract(path)
    assert contract.admits({"x": (7, 3, 8, 12)})
    assert [str(broken) for broken in contract.check({"x": (7, 3, 8, 13)})] == [
        "x[3]=13: this size is fixed to 12 in the model"
    ]


def test_what_is_exported_as_dynamic_all_the_same_is_held_by_the_contract(tmp_path: Path) -> None:
    path = tmp_path / "frozen.onnx"
    frozen = guarddiff.freeze(nn.Conv2d(3, 4, 1).eval(), IMAGE)
    guarddiff.export(frozen, (IMAGE,), path, dynamic_shapes=({2: "h"},), verbose=False)
    assert [str(broken) for broken in guarddiff.read_contract(path).check({"input": (1, 3, 9, 12)})] == [
        "input[2]=9: this model is right only for exactly 8, because of guarddiff.freeze"
    ]


def test_parts_of_nested_inputs_are_held_under_whatever_name_they_have(tmp_path: Path) -> None:
    path = tmp_path / "frozen.onnx"
    inputs = (torch.randn(3, 2), (torch.randn(3, 2), torch.randn(1, 2)))
    frozen = guarddiff.freeze(Nested(), inputs, free={"past[1]": [1]})
    guarddiff.export(
        frozen, inputs, path, dynamic_shapes=({0: "n"}, ({0: "n"}, None)), input_names=["a", "b"], verbose=False
    )
    contract = guarddiff.read_contract(path)
    assert contract.admits({"a": (3, 2), "b": (3, 2), "past_1": (1, 2)})
    assert not contract.admits({"a": (4, 2), "b": (4, 2), "past_1": (1, 2)})


@pytest.mark.parametrize("shapes", [({2: "h"},), None])
def test_an_export_at_other_sizes_gets_no_contract(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, shapes: object
) -> None:
    frozen = guarddiff.freeze(nn.Conv2d(3, 4, 1).eval(), IMAGE)
    with caplog.at_level(logging.ERROR, "guarddiff"):
        guarddiff.export(
            frozen, (torch.randn(1, 3, 9, 12),), tmp_path / "frozen.onnx", dynamic_shapes=shapes, verbose=False
        )
    assert "no contract: " in caplog.text
    with pytest.raises(guarddiff.ContractError, match=r"frozen\.onnx has no contract"):
        guarddiff.read_contract(tmp_path / "frozen.onnx")


def test_a_frozen_part_of_a_model_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "model.onnx"
    model = nn.Sequential(guarddiff.freeze(nn.Conv2d(3, 4, 1), IMAGE), nn.ReLU()).eval()
    with pytest.warns(RuntimeWarning, match="a part of the model is frozen"):
        guarddiff.export(model, (IMAGE,), path, verbose=False)
    with pytest.raises(guarddiff.ContractError, match="has no contract"):
        guarddiff.read_contract(path)


def test_a_model_that_answers_wrongly_fails_no_export(caplog: pytest.LogCaptureFixture) -> None:
    class Odd(nn.Conv2d):
        def modules(self) -> Iterator[nn.Module]:
            raise RuntimeError("not now")

    with caplog.at_level(logging.ERROR, "guarddiff"), pytest.warns(RuntimeWarning, match="m.onnx holds no contract"):
        why = contracts.keep_frozen((Odd(3, 4, 1), (IMAGE,), "m.onnx"), {}, guarddiff.Report())
    assert why == "m.onnx holds no contract of the frozen module: RuntimeError: not now"
    assert why in caplog.text


def test_a_contract_that_can_not_be_written_fails_no_export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("guarddiff.contract.embed.embed_contract", broken)
    frozen = guarddiff.freeze(nn.Conv2d(3, 4, 1).eval(), IMAGE)
    with caplog.at_level(logging.ERROR, "guarddiff"), pytest.warns(RuntimeWarning, match="no space left") as caught:
        program = guarddiff.export(frozen, (IMAGE,), tmp_path / "frozen.onnx", verbose=False)
    assert "holds no contract of the frozen module: OSError: no space left" in caplog.text
    assert [warning.filename for warning in caught if warning.category is RuntimeWarning] == [__file__]
    assert (tmp_path / "frozen.onnx").exists()
    report = guarddiff.report_of(program)
    assert [missing.part for missing in report.missing] == ["the contract of the frozen module"]
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        again = guarddiff.export(frozen, (IMAGE,), tmp_path / "frozen.onnx", verbose=False)
    assert again.model_proto.ByteSize() > 0
