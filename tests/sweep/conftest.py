"""Worker processes find the room without torch."""

from __future__ import annotations

import os

import pytest
from tests.sweep.rooms import ROOT


@pytest.fixture
def rooms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes started in the test can import tests.sweep.rooms."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")])))
