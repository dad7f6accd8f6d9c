"""Modules of ours whose code is a model's."""

from __future__ import annotations

import os

import pytest

from guarddiff.core.own_models import is_own_model, own_model_files


@pytest.mark.parametrize(
    ("name", "holds"),
    [
        ("guarddiff.demo", True),
        ("guarddiff.sweep.catalogue.pooling", True),
        ("guarddiff.sweep.models", True),
        ("guarddiff.sweep.operators", True),
        ("guarddiff.sweep.measure", False),
        ("guarddiff.demonstration", False),
        ("guarddiff", False),
        ("demo", False),
        ("others.demo", False),
    ],
)
def test_names(name: str, holds: bool) -> None:
    assert is_own_model(name) is holds
    file = os.path.join("site", *name.split(".")) + ".py"
    assert file.startswith(own_model_files(os.path.join("site", "guarddiff"))) is holds
