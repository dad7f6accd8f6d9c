from __future__ import annotations

import getpass
import os
import platform
from importlib import metadata

import pytest
import torch
from packaging.requirements import Requirement

from guarddiff.core.report import Missing
from guarddiff.torch_bridge import probe
from guarddiff.torch_bridge.probe import PrivateName


@pytest.mark.parametrize("name", probe.NAMES, ids=lambda name: name.path)
def test_every_name_is_there(name: PrivateName) -> None:
    holder, last = name.owner()
    assert name.get() is getattr(holder, last)
    assert callable(name.get())
    assert name.path.split(".")[-1] == last


def minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def test_what_is_there_is_what_the_list_says() -> None:
    missing = {entry.part for entry in probe.missing_names()}
    seen = [name for name in probe.NAMES if f"{name.module}.{name.path}" not in missing]
    assert tuple(seen) == probe.PROBED[minor(torch.__version__)]


def test_every_torch_that_the_package_admits_was_probed() -> None:
    (needed,) = (found for found in map(Requirement, metadata.requires("guarddiff") or ()) if found.name == "torch")
    candidates = [f"{major}.{number}" for major in (1, 2, 3) for number in range(60)]
    admitted = {version for version in candidates if needed.specifier.contains(f"{version}.0")}
    assert admitted == set(probe.PROBED)


def test_names_are_listed_once_and_say_what_is_lost() -> None:
    assert len({(name.module, name.path) for name in probe.NAMES}) == len(probe.NAMES) == 13
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
    for package in probe.PACKAGES:
        try:
            expected[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    details = {"os", "libc", "python_bits", "python_platform", "debug_build", "cuda_build", "rocm_build", "cuda"}
    assert {key: value for key, value in found.items() if key not in details} == expected
    assert list(found) == sorted(found)
    assert {"python", "platform", "torch", "onnx", "onnxscript", "numpy"} <= set(found)


@pytest.mark.skipif(platform.system() != "Linux", reason="as collect_env tells it on Linux")
def test_details_are_those_of_collect_env() -> None:
    from torch.utils import collect_env

    found = probe.versions()
    theirs = collect_env.get_env_info()
    assert found["os"] == theirs.os
    assert found["libc"] == theirs.libc_version
    assert theirs.python_version.endswith(f"({found['python_bits']}-bit runtime)")
    assert found["debug_build"] == str(theirs.is_debug_build)
    assert found["rocm_build"] == theirs.hip_compiled_version
    for part in found["python_platform"].split("-"):
        assert part in theirs.python_platform


def test_cuda_is_not_started_to_ask_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def started() -> bool:
        raise AssertionError("the driver was started")

    monkeypatch.setattr(torch.cuda, "is_available", started)
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    assert probe._build()["cuda"] == "not asked"
    assert probe._build()["cuda_build"] == "12.8"
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    assert probe._build()["cuda"] == "True"
    monkeypatch.setattr(torch.version, "cuda", None)
    assert probe._build()["cuda"] == "False"


def test_the_kernels_own_name_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "release", lambda: "6.1.0-build-of-somebody")
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    found = probe._python()
    assert "somebody" not in " ".join(found.values())
    assert found["python_platform"] == f"{platform.system()}-6.1.0-{platform.machine()}"
    assert "libc" not in found


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
