"""A torch to come, in which one private name is gone or is called in another way: the export is torch's own."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.registry import shared_registry
from torch import nn
from torch.export import Dim

import guarddiff
from guarddiff.torch_bridge import hooks, probe
from guarddiff.torch_bridge.probe import PrivateName

pytestmark = pytest.mark.usefixtures("no_reproductions")

WRAPPED = (*hooks.AROUND, probe.LOG_GUARD)
CALLED = tuple(name for name in probe.NAMES if name not in WRAPPED)
IMAGE = torch.ones(1, 2, 6, 6)


class Pool(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.adaptive_avg_pool2d(x, (2, 3))


class Packed:
    """What a newer torch might pass in place of its arguments."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.args, self.kwargs = args, kwargs


@pytest.fixture(scope="module", autouse=True)
def registry() -> Iterator[None]:
    with shared_registry():
        yield


@pytest.fixture(scope="module")
def plain() -> dict[type[nn.Module], bytes]:
    return {kind: exported(torch.onnx.export, kind).model_proto.SerializeToString() for kind in (Pool, nn.ReLU)}


def exported(export: Any, kind: type[nn.Module]) -> Any:
    shapes = ({2: Dim.AUTO, 3: Dim.AUTO},)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return export(kind().eval(), (IMAGE,), dynamic_shapes=shapes, dynamo=True, verbose=False)


def guarded(kind: type[nn.Module], plain: dict[type[nn.Module], bytes]) -> guarddiff.Report:
    """The report of a guarded export, whose model is torch's own."""
    originals = [name.get() for name in WRAPPED]
    program = exported(guarddiff.export, kind)
    assert program.model_proto.SerializeToString() == plain[kind]
    assert [name.get() for name in WRAPPED] == originals
    assert hooks.current() is None
    return guarddiff.report_of(program)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lets guarddiff find ``name`` in a holder of the test's own, or nowhere (None). Torch itself is as it was."""

    def move(name: PrivateName, holder: Any) -> None:
        owner = PrivateName.owner

        def moved(self: PrivateName) -> tuple[Any, str]:
            if self is not name:
                return owner(self)
            if holder is None:
                raise AttributeError(f"{self.module} has no attribute {self.path!r}")
            return holder, "function"

        monkeypatch.setattr(PrivateName, "owner", moved)

    return move


def is_as_known_as_ever(report: guarddiff.Report, kind: type[nn.Module]) -> None:
    """What is not told to be missing is there: the declarations, the stages, and what the pooling admits."""
    if report.missing:
        assert report.status == (
            "specialized" if any(f.verdict == "confirmed" for f in report.findings) else "incomplete"
        )
        return
    assert [dim.declared.text for given in report.inputs for dim in given.dims] == ["Dim.AUTO"] * 2
    assert {one.stage for one in report.stages} == {"capture", "decompose", "translate", "optimize"}
    found = [(finding.verdict, len(finding.dims)) for finding in report.findings]
    assert found == ([("confirmed", 2)] if kind is Pool else [])


def is_told(report: guarddiff.Report, name: PrivateName) -> bool:
    """Whether what is missing names the private name or what goes without it."""
    return any(name.path in missing.part or name.loss in f"{missing.part} {missing.why}" for missing in report.missing)


@pytest.mark.parametrize("name", probe.NAMES, ids=lambda name: name.path)
def test_a_name_that_is_gone(name: PrivateName, plain: dict[type[nn.Module], bytes], elsewhere: Any) -> None:
    kept = [one.get() for one in WRAPPED]
    elsewhere(name, None)
    for kind in (Pool, nn.ReLU):
        program = exported(guarddiff.export, kind)
        assert program.model_proto.SerializeToString() == plain[kind]
        report = guarddiff.report_of(program)
        assert is_told(report, name), report.missing
        assert report.status == ("specialized" if report.findings else "incomplete")
        assert kind is Pool or report.findings == ()
    assert [one for one, before in zip(WRAPPED, kept) if one is not name and one.get() is not before] == []


@pytest.mark.parametrize("name", WRAPPED, ids=lambda name: name.path)
def test_a_function_that_is_called_in_another_way(
    name: PrivateName, plain: dict[type[nn.Module], bytes], elsewhere: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What guarddiff wraps is called with its arguments packed into one."""
    holder, attribute = name.owner()
    original = name.get()
    inner = SimpleNamespace(function=lambda packed: original(*packed.args, **packed.kwargs))
    monkeypatch.setattr(holder, attribute, lambda *args, **kwargs: inner.function(Packed(args, kwargs)))
    elsewhere(name, inner)
    before = inner.function
    for kind in (Pool, nn.ReLU):
        report = guarded(kind, plain)
        assert inner.function is before
        is_as_known_as_ever(report, kind)


@pytest.mark.parametrize("name", CALLED, ids=lambda name: name.path)
def test_a_function_that_takes_other_arguments(
    name: PrivateName, plain: dict[type[nn.Module], bytes], elsewhere: Any
) -> None:
    """What guarddiff calls refuses every call."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise TypeError("missing 1 required keyword-only argument")

    elsewhere(name, SimpleNamespace(function=refuse))
    for kind in (Pool, nn.ReLU):
        is_as_known_as_ever(guarded(kind, plain), kind)
