"""What guarddiff adds to an export: time and peak memory against plain ``torch.onnx.export``; what a verdict costs.

    python tests/benchmarks/overhead.py [--pairs 5] [--only resnet18 vgg11]

Each figure comes from a process of its own, plain and guarded in turn, so that the machine's drift meets both. The
ratio of each pair is taken, and the median of the ratios. The time is that of the call alone, after ONNX Runtime was
imported and a small export has loaded what both need; the peak memory is that of the whole process. Clean models
show the overhead; VGG-11 at two widths shows what finding and proving cost, and whether that grows with the number
of parameters.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from typing import Any

CLEAN = ("resnet18", "vit_b_16", "bert12", "above2gb")
FAULTY = ("vgg11", "vgg11_narrow", "guards100", "guards1000")


def build(name: str) -> tuple[Any, tuple[Any, ...], Any]:
    """Model, example inputs, dynamic shapes. torchvision's models where it is installed, the same in torch else."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    images = ({0: "n", 2: "h", 3: "w"},)
    if name == "above2gb":
        layers = [nn.Linear(8192, 8192, bias=False) for _ in range(9)]
        return nn.Sequential(*layers), (torch.randn(2, 8192),), ({0: "n"},)
    if name.startswith("guards"):
        return _Guards(nn, int(name.removeprefix("guards"))), (torch.randn(5, 3),), ({0: torch.export.Dim.AUTO},)
    if name == "bert12":
        return _Bert(nn), (torch.randint(0, 1000, (2, 64)),), ({0: "n", 1: "t"},)
    if name == "vgg11_narrow":
        return _vgg(nn, 64), (torch.randn(2, 3, 224, 224),), images
    try:
        import torchvision
    except (ImportError, RuntimeError):
        torchvision = None
    if name == "resnet18":
        model = torchvision.models.resnet18(weights=None) if torchvision else _resnet(nn)
        return model, (torch.randn(2, 3, 224, 224),), images
    if name == "vit_b_16":
        model = torchvision.models.vit_b_16(weights=None) if torchvision else _ViT(nn)
        return model, (torch.randn(2, 3, 224, 224),), ({0: "n"},)
    model = torchvision.models.vgg11(weights=None) if torchvision else _vgg(nn, 4096)
    return model, (torch.randn(2, 3, 224, 224),), images


def _Guards(nn: Any, number: int) -> Any:
    class Guards(nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            for size in range(number):
                if x.shape[0] == 1000 + size:
                    x = x + 1
            return x * 2

    return Guards()


def _resnet(nn: Any) -> Any:
    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, inside: int, outside: int, stride: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(outside)
            self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(outside)
            same = stride == 1 and inside == outside
            self.shortcut = nn.Identity() if same else nn.Sequential(
                nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside)
            )  # fmt: skip

        def forward(self, x: Any) -> Any:
            y = self.bn2(self.conv2(nn.functional.relu(self.bn1(self.conv1(x)))))
            return nn.functional.relu(y + self.shortcut(x))

    layers: list[Any] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inside = 64
    for outside, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Block(inside, outside, stride), Block(outside, outside, 1)]
        inside = outside
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(1), nn.Linear(512, 1000))


def _vgg(nn: Any, hidden: int) -> Any:
    class VGG11(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            layers: list[Any] = []
            inside = 3
            for width in (64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"):
                if isinstance(width, str):
                    layers.append(nn.MaxPool2d(2))
                else:
                    layers += [nn.Conv2d(inside, width, 3, padding=1), nn.ReLU()]
                    inside = width
            self.features = nn.Sequential(*layers)
            self.avgpool = nn.AdaptiveAvgPool2d((7, 7))
            self.classifier = nn.Sequential(
                nn.Linear(512 * 49, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1000)
            )

        def forward(self, x: Any) -> Any:
            return self.classifier(self.avgpool(self.features(x)).flatten(1))

    return VGG11()


def _ViT(nn: Any) -> Any:
    import torch

    class ViT(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.patch = nn.Conv2d(3, 768, 16, 16)
            self.token = nn.Parameter(torch.zeros(1, 1, 768))
            self.position = nn.Parameter(torch.randn(1, 197, 768))
            self.layers = nn.ModuleList(
                nn.TransformerEncoderLayer(768, 12, 3072, activation="gelu", batch_first=True, norm_first=True)
                for _ in range(12)
            )
            self.head = nn.Linear(768, 1000)

        def forward(self, x: Any) -> Any:
            x = self.patch(x).flatten(2).transpose(1, 2)
            x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.position
            for layer in self.layers:
                x = layer(x)
            return self.head(x[:, 0])

    return ViT()


def _Bert(nn: Any) -> Any:
    import torch

    class Bert(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(30522, 768)
            self.places = nn.Embedding(512, 768)
            self.layers = nn.ModuleList(nn.TransformerEncoderLayer(768, 12, 3072, batch_first=True) for _ in range(12))

        def forward(self, ids: Any) -> Any:
            x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
            for layer in self.layers:
                x = layer(x)
            return x

    return Bert()


def worker(name: str, guarded: bool) -> dict[str, float]:
    """One export in this process."""
    import logging

    import onnxruntime  # noqa: F401  # loaded once per process: no part of one verdict
    import torch

    import guarddiff  # in both: what is imported is no part of one export

    logging.disable(logging.ERROR)
    warnings.simplefilter("ignore")
    model, example, shapes = build(name)
    model.eval()
    torch.onnx.export(torch.nn.ReLU(), (torch.ones(2),), dynamo=True, verbose=False)
    export: Any = torch.onnx.export
    spent = [0.0]
    if guarded:
        from guarddiff.pipeline import Pipeline

        export, finish = guarddiff.export, Pipeline.finish

        def timed(self: Any, *args: Any) -> Any:
            begun = time.perf_counter()
            try:
                return finish(self, *args)
            finally:
                spent[0] += time.perf_counter() - begun

        Pipeline.finish = timed  # type: ignore[method-assign]
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/model.onnx" if name == "above2gb" else None
        program = export(model, example, file, dynamic_shapes=shapes, dynamo=True, verbose=False)
        seconds = time.perf_counter() - begun
    findings = -1
    if guarded:
        findings = sum(f.verdict == "confirmed" for f in guarddiff.report_of(program).findings)
    child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    parameters = sum(p.numel() for p in model.parameters())
    return {
        "seconds": seconds,
        "peak": peak,
        "child": child,
        "finding": spent[0],
        "confirmed": findings,
        "parameters": parameters,
    }


def fresh(name: str, guarded: bool) -> dict[str, float]:
    command = [sys.executable, __file__, "--worker", name, "guarded" if guarded else "plain"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    answer: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return answer


def measure(name: str, pairs: int) -> float:
    """Print one line; the seconds that guarddiff itself took."""
    rows = []
    for _ in range(pairs):
        plain, guarded = fresh(name, False), fresh(name, True)
        rows.append((plain, guarded))
    times = [g["seconds"] / p["seconds"] for p, g in rows]
    peaks = [g["peak"] / p["peak"] for p, g in rows]
    spent = statistics.median(g["finding"] for _, g in rows)
    print(
        f"{name:14} {rows[0][1]['parameters'] / 1e6:7.1f} M"
        f"  plain {statistics.median(p['seconds'] for p, _ in rows):6.2f} s"
        f"  time ratio {statistics.median(times):.3f} ({min(times):.3f}–{max(times):.3f})"
        f"  peak ratio {statistics.median(peaks):.3f} ({min(peaks):.3f}–{max(peaks):.3f})"
        f"  of a child {max(g['child'] / p['peak'] for p, g in rows):.3f}"
        f"  finding and proving {spent:.3f} s  confirmed {rows[0][1]['confirmed']:.0f}",
        flush=True,
    )
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=[*CLEAN, *FAULTY])
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(worker(options.worker[0], options.worker[1] == "guarded")))
        return
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    spent = {name: measure(name, options.pairs) for name in options.only}
    if "guards100" in spent and "guards1000" in spent:
        print(f"ten times as many guards took {spent['guards1000'] / spent['guards100']:.1f} times as long")


if __name__ == "__main__":
    main()
