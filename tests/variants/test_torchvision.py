"""A set of three resolutions of a model that people really export (torch 2.14)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import guarddiff

pytestmark = pytest.mark.torch214

SIZES = [(1, 3, 224, 224), (1, 3, 256, 256), (1, 3, 320, 480)]


def test_three_resolutions_of_a_resnet(tmp_path: Path) -> None:
    torchvision = pytest.importorskip("torchvision")
    torch.manual_seed(0)
    model = torchvision.models.resnet18(weights=None).eval()
    found = guarddiff.export_variants(model, torch.randn(SIZES[0]), tmp_path, sizes=SIZES)
    stored = sum(file.size for file in found.files)
    parameters = sum(tensor.numel() * tensor.element_size() for tensor in model.parameters())
    assert stored < 1.1 * parameters
    session = guarddiff.VariantSession(found)
    for shape in SIZES:
        x = torch.randn(shape)
        with torch.no_grad():
            expected = model(x).numpy()
        (got,) = session.run(None, {"x": x.numpy()})
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4 * float(np.abs(expected).max()))
    with pytest.raises(guarddiff.ContractViolation, match=r"supported are x=\(1, 3, 224, 224\); x=\(1, 3, 256, 256\)"):
        session.run(None, {"x": np.zeros((1, 3, 300, 300), np.float32)})
