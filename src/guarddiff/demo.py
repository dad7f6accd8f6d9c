"""The main job on three small models: ``python -m guarddiff.demo [--out DIR]``.

Each model is exported with dimensions declared dynamic. The warnings and the paths of the reports are printed.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.export import Dim

import guarddiff


class AdaptivePooling(nn.Module):
    """Adaptive average pooling to a fixed size."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.adaptive_avg_pool2d(x, (2, 3))


class Kronecker(nn.Module):
    """A Kronecker product."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.kron(a, b)


class SmallVGG(nn.Module):
    """VGG's shape in small: convolutions, five times halved, adaptive pooling to 7×7, a classifier."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 3
        for width in (8, 16, 32, 32, 32):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
            channels = width
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d((7, 7))
        self.classifier = nn.Linear(channels * 7 * 7, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        pooled = self.avgpool(self.features(images))
        scores: torch.Tensor = self.classifier(torch.flatten(pooled, 1))
        return scores


def models() -> list[tuple[str, Callable[[], nn.Module], tuple[torch.Tensor, ...], Any]]:
    """Name, model, example inputs and declared dimensions."""
    auto = Dim.AUTO
    every = dict.fromkeys(range(4), auto)
    matrix = {0: auto, 1: auto}
    return [
        ("adaptive_avg_pool2d", AdaptivePooling, (torch.randn(1, 2, 6, 6),), (every,)),
        ("kron", Kronecker, (torch.randn(2, 3), torch.randn(4, 5)), (matrix, matrix)),
        ("small_vgg", SmallVGG, (torch.randn(2, 3, 224, 224),), ({0: "n", 2: "h", 3: "w"},)),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Export the models; 0 when each fault was found and proved, 1 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m guarddiff.demo", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("guarddiff-demo"), help="folder for models and reports")
    folder: Path = parser.parse_args(arguments).out
    folder.mkdir(parents=True, exist_ok=True)
    proved = True
    for name, make, example, shapes in models():
        torch.manual_seed(0)
        print(f"\n=== {name}: exported with {', '.join(str(tuple(x.shape)) for x in example)}", flush=True)
        print("    (with the proof and a small reproduction: up to a minute)\n", flush=True)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", guarddiff.SpecializationWarning)
            program = guarddiff.export(
                make().eval(),
                example,
                str(folder / f"{name}.onnx"),
                dynamic_shapes=shapes,
                verbose=False,
                report_to=folder / name,
            )
        for warning in caught:
            if issubclass(warning.category, guarddiff.SpecializationWarning):
                print(f"warning: {warning.message}\n")
        report = guarddiff.report_of(program)
        proved = proved and any(finding.verdict == "confirmed" for finding in report.findings)
        print(f"model:   {folder / name}.onnx")
        for path in report.paths:
            print(f"report:  {path}")
    return 0 if proved else 1


if __name__ == "__main__":
    sys.exit(main())
