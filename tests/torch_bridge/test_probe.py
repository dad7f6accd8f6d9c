from __future__ import annotations

import getpass
import os
import platform
from importlib import metadata

import pytest
import torch

from guarddiff.core.report import Missing
from guarddiff.torch_bridge import probe
from guarddiff.torch_bridge.probe import PrivateName


@pytest.mark.parametrize("name", probe.NAMES, ids=lambda name: name.path)
def test_every_name_is_there(name: PrivateName) -> None:
    holder, last = name.owner()
    assert name.get() is getattr(holder, last)
    assert callable(name.get())
    assert name.path.split(".")[-1] == last


def test_nothing_is_missing_on_a_probed_torch() -> None:
    assert torch.__version__.startswith(probe.PROBED)
    assert probe.missing_names() == ()


def test_names_are_listed_once_and_say_what_is_lost() -> None:
    assert len({(name.module, name.path) for name in probe.NAMES}) == len(probe.NAMES) == 11
    assert [name for name in probe.NAMES if not name.loss.strip()] == []
    declared = {value for value in vars(probe).values() if isinstance(value, PrivateName)}
    assert declared == set(probe.NAMES)


@pytest.mark.parametrize(
    ("module", "path"),
    [
        ("torch._no_such_module", "anything"),
        ("torch.onnx._internal.exporter._core", "no_such_function"),
        ("torch.onnx._internal.exporter._onnx_program", "ONNXProgram.no_such_method"),
        ("torch.onnx._internal.exporter._onnx_program", "NoSuchClass.optimize"),
    ],
)
def test_a_missing_name_is_told_with_its_loss(module: str, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = PrivateName(module, path, "the thing that goes")
    monkeypatch.setattr(probe, "NAMES", (probe.LOG_GUARD, lost, probe.PRINTER))
    (entry,) = probe.missing_names()
    assert isinstance(entry, Missing)
    assert entry.part == f"{module}.{path}"
    assert entry.why.startswith("the thing that goes: ")
    assert any(part in entry.why for part in (module, path.split(".")[0], path.split(".")[-1]))


@pytest.mark.parametrize("path", ["no_such_function", "ONNXProgram.no_such_method"])
def test_get_and_owner_raise_for_a_missing_name(path: str) -> None:
    name = PrivateName("torch.onnx._internal.exporter._onnx_program", path, "")
    with pytest.raises(AttributeError):
        name.get()
    with pytest.raises(AttributeError):
        name.owner()


def test_a_name_that_a_newer_torch_took_away(monkeypatch: pytest.MonkeyPatch) -> None:
    holder, last = probe.DECOMPOSE.owner()
    monkeypatch.delattr(holder, last)
    (entry,) = probe.missing_names()
    assert entry.part == "torch.onnx._internal.exporter._fx_passes.decompose_with_registry"
    assert entry.why.startswith("snapshots around decomposition: ")


def test_versions_are_those_installed() -> None:
    found = probe.versions()
    expected = {"python": platform.python_version(), "platform": f"{platform.system()} {platform.machine()}"}
    for package in ("torch", "torchvision", "onnx", "onnxscript", "onnx-ir", "onnxruntime", "numpy", "guarddiff"):
        try:
            expected[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    assert found == expected
    assert list(found) == sorted(found)
    assert {"python", "platform", "torch", "onnx", "onnxscript", "numpy"} <= set(found)


def test_versions_name_no_host_and_no_user() -> None:
    text = " ".join(probe.versions().values())
    for secret in (platform.node(), getpass.getuser(), os.path.expanduser("~")):
        assert secret
        assert secret not in text


def test_one_reader_of_the_versions_does_not_change_them_for_the_next() -> None:
    probe.versions()["torch"] = "mine"
    try:
        assert probe.versions()["torch"] == metadata.version("torch")
    finally:
        probe._versions.cache_clear()
