"""The model is torch's, byte for byte: the same exports in two fresh processes, plain and guarded.

This file is also the program that those processes run: ``python test_bytes.py plain|guarded``.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src"

NAMES = (
    "gru",
    "lstm",
    "convolutions",
    "attention",
    "nonzero",
    "adaptive",
    "kron",
    "kron_named",
    "bucketize",
    "loop",
)
"""In this order in both processes; those whose operators are exported once more stand last, for torch numbers some
subgraphs by a counter of the process."""
FOUND = NAMES[5:]


def models() -> Iterator[tuple[str, Any, tuple[Any, ...], Any]]:
    """Name, model, example inputs, dynamic shapes. Random numbers are those of a seed of each model's own."""
    import torch
    import torch.nn.functional as F
    from torch import nn
    from torch.export import Dim

    class Model(nn.Module):
        def __init__(self, function: Callable[..., Any], inner: nn.Module | None = None) -> None:
            super().__init__()
            self.function, self.inner = function, inner

        def forward(self, x: Any, y: Any = None) -> Any:
            given = [x] if y is None else [x, y]
            return self.function(*([self.inner] if self.inner is not None else []), *given)

    def loop(x: Any) -> Any:
        total = x[:, 0] * 0
        for index in range(x.shape[1]):
            total = total * 0.5 + x[:, index]
        return total

    def attend(inner: Any, x: Any, mask: Any) -> Any:
        return inner(x, x, x, key_padding_mask=mask, need_weights=False)[0]

    auto = dict.fromkeys(range(4), Dim.AUTO)
    two = {0: Dim.AUTO, 1: Dim.AUTO}
    named = ({0: Dim("p"), 1: Dim("q")}, {0: Dim("r"), 1: Dim("s")})
    text = ({0: "b", 1: "t"}, {0: "b", 1: "t"})
    image, words = torch.ones(1, 2, 6, 6), torch.ones(2, 5, 8)
    matrices = torch.ones(2, 3), torch.ones(4, 5)
    makers: dict[str, Callable[[], tuple[Any, tuple[Any, ...], Any]]] = {
        "gru": lambda: (
            Model(lambda r, x: r(x)[0], nn.GRU(8, 4, batch_first=True)),
            (words,),
            (two, None),
        ),
        "lstm": lambda: (Model(lambda r, x: r(x)[0], nn.LSTM(8, 4, batch_first=True)), (words,), ({1: "t"}, None)),
        "convolutions": lambda: (
            nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1)),
            (image,),
            ({0: "n", 2: "h", 3: "w"},),
        ),
        "attention": lambda: (
            Model(attend, nn.MultiheadAttention(8, 2, batch_first=True)),
            (words, torch.zeros(2, 5, dtype=torch.bool)),
            text,
        ),
        "nonzero": lambda: (Model(lambda x: x.nonzero()), (torch.eye(3, 4),), (two, None)),
        "adaptive": lambda: (Model(lambda x: F.adaptive_avg_pool2d(x, (2, 3))), (image,), (auto, None)),
        "kron": lambda: (Model(torch.kron), matrices, (two, two)),
        "kron_named": lambda: (Model(torch.kron), matrices, named),
        "bucketize": lambda: (
            Model(torch.bucketize),
            (torch.ones(5), torch.arange(6.0)),
            ({0: Dim.AUTO}, {0: Dim.AUTO}),
        ),
        "loop": lambda: (Model(loop), (torch.ones(2, 4),), (two, None)),
    }
    for name in NAMES:
        torch.manual_seed(0)
        model, args, shapes = makers[name]()
        if len(args) == 1 and isinstance(model, Model):
            shapes = shapes[:1]
        yield name, model.eval(), args, shapes


def masked(proto: Any) -> bytes:
    """The model's bytes; memory addresses that torch writes into the nodes' metadata are masked."""

    def visit(nodes: Any) -> None:
        for node in nodes:
            for entry in node.metadata_props:
                entry.value = re.sub(r"0x[0-9a-f]{6,}", "0x", entry.value)
            for attribute in node.attribute:
                for graph in (attribute.g, *attribute.graphs):
                    visit(graph.node)

    copied = type(proto)()
    copied.CopyFrom(proto)
    visit(copied.graph.node)
    for function in copied.functions:
        visit(function.node)
    data: bytes = copied.SerializeToString(deterministic=True)
    return data


def main(mode: str) -> None:
    import logging
    import warnings

    import onnx
    import torch
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    import guarddiff

    # Built once, in both processes: it takes most of the time of a small export.
    ONNXRegistry.from_torchlib = staticmethod(functools.cache(ONNXRegistry.from_torchlib))

    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    digests = {}
    for name, model, args, shapes in models():
        file = Path(f"{name}.onnx")
        export: Any = torch.onnx.export if mode == "plain" else guarddiff.export
        more = {"replay": "full"} if mode == "full" else {}
        program = export(model, args, str(file), dynamic_shapes=shapes, dynamo=True, verbose=False, **more)
        findings = [] if mode == "plain" else [f.verdict for f in guarddiff.report_of(program).findings]
        digests[name] = {
            "memory": hashlib.sha256(masked(program.model_proto)).hexdigest(),
            "file": hashlib.sha256(masked(onnx.load(file))).hexdigest(),
            "size": file.stat().st_size,
            "findings": findings,
        }
    print(json.dumps(digests))


Digests = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Digests, Digests, Digests]:
    """Digests of the plain exports, of the guarded ones, and of those with ``replay="full"``."""
    found = []
    for mode in ("plain", "guarded", "full"):
        done = subprocess.run(
            [sys.executable, __file__, mode],
            capture_output=True,
            text=True,
            timeout=1500,
            check=False,
            cwd=tmp_path_factory.mktemp(mode),
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
        )
        assert done.returncode == 0, done.stderr[-3000:]
        found.append(json.loads(done.stdout.splitlines()[-1]))
    return found[0], found[1], found[2]


@pytest.mark.parametrize("name", NAMES)
def test_same_bytes(name: str, exported: tuple[Digests, Digests, Digests]) -> None:
    plain, guarded, full = (digests[name] for digests in exported)
    assert guarded["memory"] == full["memory"] == plain["memory"]
    assert guarded["file"] == full["file"] == plain["file"]
    assert plain["size"] > 100


def test_models_differ_from_each_other(exported: tuple[Digests, Digests, Digests]) -> None:
    plain = exported[0]
    assert len({digests["memory"] for digests in plain.values()}) == len(NAMES)


@pytest.mark.parametrize("name", FOUND)
def test_findings_were_proved_meanwhile(name: str, exported: tuple[Digests, Digests, Digests]) -> None:
    assert exported[1][name]["findings"] == ["confirmed"]
    assert "confirmed" in exported[2][name]["findings"]


if __name__ == "__main__":
    main(sys.argv[1])
