"""Measure the ways to write adaptive average pooling, and write docs/adaptive-pooling.md.

    python docs/make_adaptive_pooling.py [--repeats 30]

Each way is compared in float64 with ``F.adaptive_avg_pool2d`` for every (input, output) pair up to 64 and 16, exported
with dynamic height and width at one size and run at others in ONNX Runtime against eager PyTorch, and timed there. All
figures and all sets of sizes on the page come from these runs; what is said of them in words is checked here, and the
script fails where it is not so.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import io
import logging
import statistics
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
import torch.nn.functional as F
from torch import nn

import guarddiff

PAGE = Path(__file__).resolve().parent / "adaptive-pooling.md"
INPUTS, OUTPUTS = range(1, 65), range(1, 17)
EQUAL = 1e-12
EXPORTED_AT, RUN_AT = (24, 24), [(48, 48), (24, 36), (25, 31), (40, 16), (24, 24)]
SPEED = [(14, 7), (224, 7), (448, 7), (225, 7)]
Size = tuple[int, int]


def adaptive(x: torch.Tensor, out: Size) -> torch.Tensor:
    return F.adaptive_avg_pool2d(x, out)


def fixed_kernel(x: torch.Tensor, out: Size) -> torch.Tensor:
    """Stride n // m, and a kernel that takes what is left: the usual replacement."""
    strides = [n // m for n, m in zip(x.shape[2:], out)]
    kernel = [n - (m - 1) * stride for n, m, stride in zip(x.shape[2:], out, strides)]
    return F.avg_pool2d(x, kernel, strides)


def area(x: torch.Tensor, out: Size) -> torch.Tensor:
    return F.interpolate(x, size=out, mode="area")


def resized(x: torch.Tensor, out: Size) -> torch.Tensor:
    """Bilinear to the next multiples of the output, then a fixed kernel."""
    whole = [(n + m - 1) // m * m for n, m in zip(x.shape[2:], out)]
    x = F.interpolate(x, size=whole, mode="bilinear", align_corners=False)
    return F.avg_pool2d(x, [n // m for n, m in zip(whole, out)])


def up(cells: Any, m: int) -> Any:
    return (cells + m - 1) // m


def up_by_negation(cells: Any, m: int) -> Any:
    return -(-cells // m)


def windows(x: torch.Tensor, out: Size, ceil: Callable[[Any, int], Any] = up) -> torch.Tensor:
    """Every window by its indices: floor(i·n/m) to ceil((i+1)·n/m)."""
    for axis, m in zip((2, 3), out):
        n = x.shape[axis]
        spans = [((i * n) // m, ceil((i + 1) * n, m)) for i in range(m)]
        x = torch.cat([x.narrow(axis, a, b - a).mean(axis, keepdim=True) for a, b in spans], axis)
    return x


@dataclass(frozen=True)
class Way:
    """``name`` and ``code`` for the page; ``repair`` exports with guarddiff's repair."""

    name: str
    function: Callable[[torch.Tensor, Size], torch.Tensor]
    code: str
    repair: bool = False


NEGATED = "windows by index, negated"
WAYS = [
    Way("adaptive_avg_pool2d", adaptive, "F.adaptive_avg_pool2d(x, out)"),
    Way("fixed kernel", fixed_kernel, "F.avg_pool2d(x, n - (m - 1) * (n // m), n // m)"),
    Way("area interpolation", area, 'F.interpolate(x, size=out, mode="area")'),
    Way("resized, then pooled", resized, "F.avg_pool2d(F.interpolate(x, size=k * m, ...), k)"),
    Way("windows by index", windows, "torch.cat([x.narrow(a, start(i), length(i)).mean(a) ...])"),
    Way(NEGATED, lambda x, out: windows(x, out, up_by_negation), "the same with -(-a // m) for the end"),
    Way("guarddiff's repair", adaptive, "guarddiff.export(..., repair=True)", repair=True),
]


@dataclass
class Found:
    """What one way gave: pairs that are equal, worst errors, sizes at which the export is right, times."""

    equal: set[tuple[int, int]] = field(default_factory=set)
    raised: set[tuple[int, int]] = field(default_factory=set)
    worst: float = 0.0
    worst_at: tuple[int, int] = (0, 0)
    first: tuple[int, int] | None = None
    right: list[Size] = field(default_factory=list)
    export: str = ""
    milliseconds: dict[tuple[int, int], float] = field(default_factory=dict)


class Pool(nn.Module):
    def __init__(self, way: Way, out: Size) -> None:
        super().__init__()
        self.way, self.out = way, out

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.way.function(x, self.out)


def values(way: Way) -> Found:
    found = Found()
    generator = torch.Generator().manual_seed(0)
    for n in INPUTS:
        x = torch.randn(2, 3, n, n, generator=generator, dtype=torch.float64)
        for m in (m for m in OUTPUTS if m <= n):
            expected = adaptive(x, (m, m))
            try:
                got = way.function(x, (m, m))
            except RuntimeError:
                found.raised.add((n, m))
                continue
            if got.shape != expected.shape:
                raise SystemExit(f"{way.name}: another shape at {n} → {m}")
            error = float((got - expected).abs().max())
            if error <= EQUAL:
                found.equal.add((n, m))
                continue
            found.first = found.first or (n, m)
            if error > found.worst:
                found.worst, found.worst_at = error, (n, m)
    return found


def session_of(way: Way, size: Size, out: Size, dynamic: bool, channels: int = 3) -> onnxruntime.InferenceSession:
    x = torch.randn(1, channels, *size)
    shapes = {"x": {2: torch.export.Dim.AUTO, 3: torch.export.Dim.AUTO}} if dynamic else None
    export = guarddiff.export if way.repair else torch.onnx.export
    more: dict[str, Any] = {"repair": True, "on_finding": "ignore"} if way.repair else {"dynamo": True}
    program: Any = export(Pool(way, out).eval(), (x,), dynamic_shapes=shapes, verbose=False, **more)
    buffer = io.BytesIO()
    program.save(buffer)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    return onnxruntime.InferenceSession(buffer.getvalue(), options, providers=["CPUExecutionProvider"])


def exported(way: Way, found: Found) -> None:
    """At which of the sizes the model that was exported at one of them is what the way itself gives in eager."""
    out = (7, 5)
    try:
        session = session_of(way, EXPORTED_AT, out, dynamic=True)
    except Exception as error:
        found.export = f"export error ({type(error).__name__})"
        return
    name = session.get_inputs()[0].name
    for size in RUN_AT:
        x = torch.randn(1, 3, *size)
        expected = way.function(x, out).numpy()
        try:
            got = session.run(None, {name: x.numpy()})[0]
        except Exception:
            continue
        if got.shape == expected.shape and np.allclose(got, expected, atol=1e-5):
            found.right.append(size)


def timed(found: dict[str, Found], repeats: int) -> None:
    """Median milliseconds in ONNX Runtime on one thread; all ways in turn at each repeat."""
    for n, m in SPEED:
        x = np.random.default_rng(0).standard_normal((1, 64, n, n)).astype(np.float32)
        sessions = {way.name: session_of(way, (n, n), (m, m), way.repair, 64) for way in WAYS}
        names = {name: session.get_inputs()[0].name for name, session in sessions.items()}
        times: dict[str, list[float]] = {name: [] for name in sessions}
        for _ in range(repeats):
            for name, session in sessions.items():
                started = time.thread_time()
                session.run(None, {names[name]: x})
                times[name].append((time.thread_time() - started) * 1000)
        for name, listed in times.items():
            found[name].milliseconds[n, m] = statistics.median(listed)


PAIRS = {(n, m) for n in INPUTS for m in OUTPUTS if m <= n}
SETS = [
    ("every pair", PAIRS),
    ("where `m` divides `n`", {(n, m) for n, m in PAIRS if n % m == 0}),
    ("where `n % m` is 0 or 1", {(n, m) for n, m in PAIRS if n % m <= 1}),
]


def where_equal(found: Found) -> str:
    told = next((text for text, pairs in SETS if pairs == found.equal), "in no simple set")
    return f"{told} ({len(found.equal)} of {len(PAIRS)})"


def claims(found: dict[str, Found]) -> list[str]:
    """What is said of the ways in places, with the pair that shows it wrong; each is checked."""
    kernel, resize = found["fixed kernel"], found["resized, then pooled"]
    once, named = found["area interpolation"], found["adaptive_avg_pool2d"]
    if kernel.first is None or resize.first is None or once.equal != PAIRS or once.right != named.right:
        raise SystemExit("a claim of the page does not hold any more: see claims()")
    if found[NEGATED].right or len(found["windows by index"].right) < len(RUN_AT):
        raise SystemExit("a claim of the page does not hold any more: see claims()")
    n, m = kernel.first
    starts = ", ".join(str((i * n) // m) for i in range(m))
    fixed = ", ".join(str(i * (n // m)) for i in range(m))
    return [
        '*"The output has the same shape, so the pooling is the same."* No: '
        f"from {n} to {m} the windows begin at {starts}, those of a fixed kernel at {fixed}. The shapes are equal, "
        f"and the largest error is {kernel.worst:.2g} ({pair(kernel.worst_at)}).",
        '*"Area interpolation has no adaptive pooling in it."* It is `adaptive_avg_pool2d` underneath: equal for every '
        f"pair to {EQUAL:g}; its export is right at the same sizes ({sizes(once.right)}) and wrong at the others "
        "that were tried.",
        '*"Resize to a multiple first, then a fixed kernel does it."* The resizing mixes neighbours: '
        f"{pair(resize.first)} the values differ already; the largest error is {resize.worst:.2g} "
        f"({pair(resize.worst_at)}).",
        '*"`-(-a // m)` is a quotient rounded up."* In Python; in the exported model '
        "negative quotients are cut and not floored, so the windows are wrong at all sizes, the example's own among "
        "them. `(a + m - 1) // m` is exported right.",
        '*"A kernel worked out from `x.shape` stays dynamic."* It is a number in the ONNX node: '
        f"exported at {times(EXPORTED_AT)}, the fixed kernel is right at {sizes(kernel.right) or 'none'} only.",
    ]


def pair(found: tuple[int, int]) -> str:
    return f"from {found[0]} to {found[1]}"


def times(size: Size) -> str:
    return f"{size[0]}×{size[1]}"


def sizes(listed: list[Size]) -> str:
    return ", ".join(map(times, sorted(listed)))


def page(found: dict[str, Found], repeats: int) -> str:
    versions = ", ".join(
        f"{name} {importlib.metadata.version(name)}" for name in ("torch", "onnxscript", "onnxruntime")
    )
    return f"""# Ways to write adaptive average pooling

Written by `python docs/make_adaptive_pooling.py --repeats {repeats}` ({versions}), which
measures every figure.

Adaptive pooling from `n` cells to `m` takes windows from floor(i·n/m) to ceil((i+1)·n/m). torch exports it
right for the example's sizes alone, so it is often replaced. What the replacements give:

{values_table(found)}

Sizes tried: {sizes(RUN_AT)}. *Right* means equal to the same code in eager PyTorch, which is another thing
for the ways that are not equal to adaptive pooling. Errors are absolute, for normal random values.

## Speed

Milliseconds in ONNX Runtime on one thread (median of {repeats}, processor time), 64 channels; in brackets
against the fixed kernel. All but the repair are exported for that one size.

{speed_table(found)}

## What is said of them, and is not so

{lines("- " + claim for claim in claims(found))}

## Which to take

- Any size: the repair, or windows by index in the model's own code where the table above shows it right.
- One size, or sizes of which `m` is a divisor: a fixed kernel, with the sizes written down as a
  [contract](contracts.md) and the change proved by `guarddiff.compare_modules`.
- A few sizes: [static variants](static-variants.md).
"""


def lines(rows: Iterable[str]) -> str:
    return "\n".join(rows)


def row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def values_table(found: dict[str, Found]) -> str:
    heads = (
        "way",
        "code",
        f"equal to `adaptive_avg_pool2d` (n to {INPUTS[-1]}, m to {OUTPUTS[-1]}, float64)",
        "largest error otherwise",
        f"exported dynamic at {times(EXPORTED_AT)} to 7×5, right at",
    )
    rows = []
    for way in WAYS:
        one = found[way.name]
        worst = f"{one.worst:.2g}, {pair(one.worst_at)}" if one.worst else "none"
        right = one.export or f"{sizes(one.right) or 'none'} ({len(one.right)} of {len(RUN_AT)})"
        rows.append(row((way.name, f"`{way.code}`", where_equal(one), worst, right)))
    return lines((row(heads), "|---|---|---|---|---|", *rows))


def speed_table(found: dict[str, Found]) -> str:
    heads = ("way", *(f"{n}² to {m}²" for n, m in SPEED))
    base = found["fixed kernel"].milliseconds
    rows = []
    for way in WAYS:
        own = found[way.name].milliseconds
        rows.append(row((way.name, *(f"{own[size]:.2f} ({own[size] / base[size]:.2f})" for size in SPEED))))
    return lines((row(heads), "|---|" + "---|" * len(SPEED), *rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=30)
    repeats = parser.parse_args().repeats
    logging.disable(logging.ERROR)
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    found = {way.name: values(way) for way in WAYS}
    for way in WAYS:
        exported(way, found[way.name])
    timed(found, repeats)
    PAGE.write_text(page(found, repeats), encoding="utf-8")


if __name__ == "__main__":
    main()
