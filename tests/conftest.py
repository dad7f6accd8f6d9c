"""What all tests share. Does not import torch: many tests need none of it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Iterator

import pytest

# Before anything imports torch: small models run fastest on few threads.
os.environ.setdefault("OMP_NUM_THREADS", "2")
os.environ.setdefault("MKL_NUM_THREADS", os.environ["OMP_NUM_THREADS"])

NEEDED_BY_TORCH214 = ("torchvision", "timm", "transformers")


def lacking_for_torch214() -> str | None:
    """Why the tests marked `torch214` can't run here, or None where they can."""
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return "torch is not installed"
    if tuple(int(part) for part in version.split(".")[:2]) < (2, 14):
        return f"needs torch 2.14 or newer, not {version}: make test-214"
    missing = [name for name in NEEDED_BY_TORCH214 if importlib.util.find_spec(name) is None]
    return f"needs {', '.join(missing)}: make test-214" if missing else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = lacking_for_torch214()
    if reason is None:
        return
    for item in items:
        if "torch214" in item.keywords:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(autouse=True)
def _same_numbers_in_every_run() -> None:
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(0)


@pytest.fixture(scope="module")
def shared_registry() -> Iterator[None]:
    """The exporter's operator registry is built once: it takes most of the time of a small export."""
    from tests import registry

    with registry.shared_registry():
        yield


@pytest.fixture
def no_reproductions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports without reproductions, which take seconds each; tests/replay/test_reproduce.py makes real ones."""
    from guarddiff import proving

    monkeypatch.setattr(proving, "reproductions", lambda findings, *_: list(findings))
