"""What a verdict costs beside what one would do without guarddiff: python tests/benchmarks/verdict.py [--rounds 3].

VGG-11 at 224×224 with dynamic height and width, each way in a fresh process, in turn, after a small export has loaded
what all need. Told are the seconds, their ratio to a plain export of the same round, and whether the way told that the
model is wrong at other sizes.
"""

from __future__ import annotations

import argparse
import io
import json
import logging
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "src"), str(Path(__file__).resolve().parent)]

import overhead  # noqa: E402

DEFERRED = "TORCH_ONNX_PREFER_DEFERRED_RUNTIME_ASSERTS_OVER_GUARDS"
SIZES = (224, 256, 320)


def plain(model: Any, args: Any, keywords: Any) -> bool:
    """Nothing but the export."""
    import torch

    torch.onnx.export(model, args, **keywords)
    return False


def verified(model: Any, args: Any, keywords: Any) -> bool:
    """``verify=True``: it prints a cross where a check fails."""
    import torch

    told = io.StringIO()
    with redirect_stdout(told):
        torch.onnx.export(model, args, verify=True, **{**keywords, "verbose": True})
    return "\N{CROSS MARK}" in told.getvalue()


def by_hand(model: Any, args: Any, keywords: Any) -> bool:
    """Exported once, and run at three sizes in ONNX Runtime and in eager PyTorch."""
    import numpy as np
    import onnxruntime
    import torch

    program = torch.onnx.export(model, args, **keywords)
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString(), providers=["CPUExecutionProvider"])
    wrong = False
    for size in SIZES:
        x = torch.randn(args[0].shape[0], 3, size, size)
        with torch.no_grad():
            expected = model(x).numpy()
        try:
            (got,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
        except Exception:
            wrong = True
            continue
        wrong |= got.shape != expected.shape or not np.allclose(got, expected, atol=1e-3, rtol=1e-3)
    return wrong


def guarded(model: Any, args: Any, keywords: Any) -> bool:
    """``guarddiff.export``: which dimension, operator, line and sizes as well."""
    import guarddiff

    program = guarddiff.export(model, args, on_finding="ignore", **keywords)
    report = guarddiff.report_of(program)
    return report is not None and any(finding.verdict == "confirmed" for finding in report.findings)


def searched(model: Any, args: Any, keywords: Any) -> bool:
    """``guarddiff.export(replay="full")``, with a written report's evidence."""
    import guarddiff

    program = guarddiff.export(model, args, on_finding="ignore", replay="full", **keywords)
    report = guarddiff.report_of(program)
    return report is not None and any(finding.verdict == "confirmed" for finding in report.findings)


WAYS: dict[str, tuple[Callable[[Any, Any, Any], bool], dict[str, str]]] = {
    "plain export": (plain, {}),
    "plain export with verify=True": (verified, {}),
    f"the same with {DEFERRED}=0": (verified, {DEFERRED: "0"}),
    "plain export, run at three sizes by hand": (by_hand, {}),
    "guarddiff.export": (guarded, {}),
    'guarddiff.export(replay="full")': (searched, {}),
}


def worker(way: str) -> dict[str, Any]:
    import onnxruntime  # noqa: F401
    import torch

    import guarddiff  # noqa: F401

    logging.disable(logging.ERROR)
    warnings.simplefilter("ignore")
    model, args, shapes = overhead.build("vgg11")
    model.eval()
    torch.onnx.export(torch.nn.ReLU(), (torch.ones(2),), dynamo=True, verbose=False)
    begun = time.perf_counter()
    try:
        told = WAYS[way][0](model, args, {"dynamic_shapes": shapes, "dynamo": True, "verbose": False})
        error = ""
    except Exception as raised:
        told, error = True, type(raised).__name__
    return {"seconds": time.perf_counter() - begun, "told": told, "error": error}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--worker", choices=list(WAYS), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        print(json.dumps(worker(given.worker)))
        return
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    rows: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
    for _ in range(given.rounds):
        for way, (_, more) in WAYS.items():
            command = [sys.executable, __file__, "--worker", way]
            done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **more})
            rows[way].append(json.loads(done.stdout.splitlines()[-1]))
    print(
        "| way | seconds, median | ratio to the plain export, median (range) | tells of the fault |\n|---|---|---|---|"
    )
    base = [row["seconds"] for row in rows["plain export"]]
    for way, found in rows.items():
        ratios = [row["seconds"] / of for row, of in zip(found, base)]
        seconds = f"{statistics.median(row['seconds'] for row in found):.2f}"
        ratio = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})"
        told = f"raises {found[0]['error']}" if found[0]["error"] else "yes" if found[0]["told"] else "no"
        print(f"| {way} | {seconds} | {ratio} | {told} |")


if __name__ == "__main__":
    main()
