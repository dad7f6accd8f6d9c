"""The exported model that the tests of contracts share."""

from __future__ import annotations

import pytest
from tests.contract.exports import Exported, exported


@pytest.fixture(scope="session")
def pooled(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    return exported(tmp_path_factory.mktemp("pooled"))
