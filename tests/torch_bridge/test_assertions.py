"""Guards with a true division become assertions where torch would raise."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import pytest
import torch

from guarddiff.torch_bridge import assertions

REFERENCE: Any = assertions.REFERENCE.get()


class Divides(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] / 4 > 1.5 and x.shape[0] / 2.0 > x.shape[1]:
            return x + 1
        return x - 1


def export() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        size = torch.export.Dim.DYNAMIC
        example = (torch.ones(8, 3),)
        return torch.onnx.export(Divides(), example, dynamic_shapes=({0: size, 1: size},), verbose=False)


def own() -> set[str]:
    return {"truediv", "int_truediv"} & set(vars(REFERENCE))


def test_fault_and_cure() -> None:
    with pytest.raises(Exception, match="symbolically traced variables"):
        export()
    with assertions.divisible():
        assert export() is not None


def test_torch_is_as_it_was() -> None:
    before = own()
    with pytest.raises(RuntimeError), assertions.divisible():
        with assertions.divisible():
            assert own() == {"truediv", "int_truediv"}
        assert own() == {"truediv", "int_truediv"}
        raise RuntimeError
    assert own() == before


def test_what_torch_writes_itself_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def truediv(a: Any, b: Any) -> Any:
        return a / b

    monkeypatch.setattr(REFERENCE, "truediv", staticmethod(truediv), raising=False)
    with assertions.divisible():
        assert REFERENCE.truediv is truediv
    assert REFERENCE.truediv is truediv


def test_threads_leave_nothing() -> None:
    before = own()

    def work() -> None:
        for _ in range(200):
            with assertions.divisible():
                assert own() == {"truediv", "int_truediv"}

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert own() == before


def test_a_torch_without_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = assertions.PrivateName("torch.utils._sympy.reference", "NoSuchAnalysis", "something")
    monkeypatch.setattr(assertions, "REFERENCE", gone)
    with assertions.divisible():
        pass
