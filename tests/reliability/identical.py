"""Exports that are torch's own, byte for byte, and leave everything as it was.

``python tests/reliability/identical.py [--groups ops catalogue] [--every 1] [--mode findings|full] [--jobs 2]``

Each case of the sweep (``src/guarddiff/sweep``) is exported twice, by ``torch.onnx.export`` and by
``guarddiff.export``, each in a forked child of its own, so that torch's process-wide counters begin at the same number.
Compared are the model in memory, the written file, the error where the export raises, and what each changed of the
model, of torch and of the process.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import os
import re
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "src"), str(HERE)]

import forked  # noqa: E402

_ADDRESS = re.compile(r"0x[0-9a-f]{6,}|\b1[34]\d{13}\b")


def prepare() -> None:
    """Import and build what every export needs, once, before children are made."""
    import functools

    import onnx  # noqa: F401
    import onnxruntime  # noqa: F401
    import torch
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    import guarddiff
    from guarddiff.sweep import sources  # noqa: F401

    torch.set_num_threads(1)  # a child of a process whose OpenMP threads have run would hang
    ONNXRegistry.from_torchlib = staticmethod(functools.cache(ONNXRegistry.from_torchlib))
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    program = torch.onnx.export(torch.nn.ReLU(), (torch.ones(2, 3),), dynamo=True, verbose=False)
    assert program.model_proto.ByteSize() > 0
    assert guarddiff.export and guarddiff.report_of  # loads the public names' modules


def export(key: str, mode: str) -> dict[str, Any]:
    """Digests of one export, its error, and what it changed. ``mode``: plain, findings or full."""
    import state
    import torch

    import guarddiff
    from guarddiff.sweep import sources

    trial = sources.trial(sources.case(key))
    args, kwargs = trial.at(trial.shapes)
    leaves = [*args, *kwargs.values()]
    call: Any = torch.onnx.export if mode == "plain" else guarddiff.export
    more = {"replay": "full"} if mode == "full" else {}
    found: dict[str, Any] = {"error": None}
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(f"{folder}/here"), os.mkdir(f"{folder}/tmp")
        os.chdir(f"{folder}/here")
        tempfile.tempdir = os.environ["TMPDIR"] = f"{folder}/tmp"
        before = {**state.of_process(), **state.of_model(trial.model, leaves)}
        try:
            program = call(
                trial.model, args, "m.onnx", kwargs=kwargs or None, dynamo=True, verbose=False, **trial.keywords, **more
            )
        except Exception as error:
            found["error"] = _ADDRESS.sub("ADDRESS", f"{type(error).__name__}: {error}")
            program = None
        after = {**state.of_process(), **state.of_model(trial.model, leaves)}
        found["changed"] = state.changed(before, after)
        found["states"] = len(after)
        found["file"] = digest(Path("m.onnx").read_bytes()) if Path("m.onnx").exists() else None
        found["files"] = sorted(os.listdir(f"{folder}/here"))
        found["memory"] = digest(program.model_proto.SerializeToString(deterministic=True)) if program else None
        if mode != "plain":
            report = guarddiff.last_report()
            found["status"] = report.status if report is not None else "no report"
            found["verdicts"] = [finding.verdict for finding in report.findings] if report is not None else []
    return found


def compared(key: str, mode: str) -> dict[str, Any]:
    """Both exports of a case, and what is not the same."""
    plain, guarded = (forked.run(lambda one=one: export(key, one), 600) for one in ("plain", mode))
    if "failed" in plain or "failed" in guarded:
        same = plain.get("failed") == guarded.get("failed")
        return {"outcome": "same end" if same else "DIFFERENT END", "plain": plain, "guarded": guarded}
    ours, theirs = guarded["value"], plain["value"]
    told = {"verdicts": ours["verdicts"], "status": ours["status"], "states": ours["states"]}
    told["changed"] = sorted(set(ours["changed"]) - set(theirs["changed"]))
    different = [part for part in ("error", "memory", "file", "files") if ours[part] != theirs[part]]
    outcome = "same error" if theirs["error"] else "identical"
    if different:
        told["different"] = {part: (theirs[part], ours[part]) for part in different}
    return {"outcome": "DIFFERENT" if different else outcome, **told}


def digest(content: bytes) -> str:
    """Without the memory addresses of functions, which torch writes into the metadata of nodes."""
    return hashlib.sha256(re.sub(rb"0x[0-9a-f]{6,}", b"0x", content)).hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", nargs="+", default=["ops", "catalogue"])
    parser.add_argument("--every", type=int, default=1, help="which share of the cases: one in so many")
    parser.add_argument("--mode", choices=("findings", "full"), default="findings")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, help="where each comparison is kept, one line of JSON each")
    given = parser.parse_args()
    prepare()
    from guarddiff.sweep import sources

    keys = [case.key for group in given.groups for case in sources.cases(group)][:: given.every]
    outcomes: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    started = time.monotonic()
    out = given.out.open("w", encoding="utf-8") if given.out else None
    for line in forked.spread(keys, lambda key: compared(key, given.mode), given.jobs):
        outcomes[line["outcome"]] += 1
        totals["states"] += line.get("states", 0)
        totals["with findings"] += bool(line.get("verdicts"))
        totals["changed"] += bool(line.get("changed"))
        if line["outcome"].isupper() or line.get("changed"):
            print(json.dumps(line)[:1500], flush=True)
        if out is not None:
            out.write(json.dumps(line) + "\n")
            out.flush()
    told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
    print(f"{sum(outcomes.values())} of {len(keys)} cases in {time.monotonic() - started:.0f} s: {told}")
    print(
        f"{totals['with findings']} had findings; {totals['states']} states compared, "
        f"{totals['changed']} cases changed what plain torch leaves as it is"
    )


if __name__ == "__main__":
    main()
