"""One exported model of a kind that contracts are about, with its report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

import guarddiff


class Pooled(nn.Module):
    """Right at the example's height and width only, torch being what it is."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return F.adaptive_avg_pool2d(torch.relu(self.conv(images)), (2, 3))


@dataclass(frozen=True)
class Exported:
    """The file of a model and the report of its export."""

    path: Path
    report: guarddiff.Report
    model: nn.Module

    def copied_to(self, folder: Path) -> Path:
        """A copy of the file and its weights."""
        for file in self.path.parent.iterdir():
            (folder / file.name).write_bytes(file.read_bytes())
        return folder / self.path.name


def exported(folder: Path) -> Exported:
    """A pooling model, specialized to 6×6; its weights stand beside it in a file of their own."""
    path = folder / "model.onnx"
    model = Pooled().eval()
    shapes = ({0: "batch", 2: "height", 3: "width"},)
    images = torch.randn(1, 3, 6, 6)
    program = guarddiff.export(
        model, (images,), path, dynamic_shapes=shapes, on_finding="ignore", verbose=False, external_data=True
    )
    return Exported(path, guarddiff.report_of(program), model)
