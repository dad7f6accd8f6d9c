"""Versions of what a result depends on."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Mapping
from importlib import metadata
from typing import Any

import guarddiff

PACKAGES = ("torch", "onnx", "onnx_ir", "onnxruntime", "onnxscript", "numpy", "torchvision", "timm", "transformers")


def versions() -> dict[str, str]:
    """Versions that results depend on: of Python, guarddiff, and the packages that are there."""
    found = {"guarddiff": guarddiff.__version__, "python": platform.python_version()}
    for package in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package.replace("_", "-"))
    return found


def differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """What differs between two sets of versions, in words: ``torch 2.13.0 and 2.14.1``."""
    names = ("guarddiff", "python", *PACKAGES)
    return [
        f"{name} {one.get(name, 'absent')} and {other.get(name, 'absent')}"
        for name in names
        if one.get(name) != other.get(name)
    ]
