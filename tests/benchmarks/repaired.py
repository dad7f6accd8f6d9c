"""The share of silently wrong exports that ``repair=True`` makes right, by operator, and what it does to right ones.

    python tests/benchmarks/repaired.py [--only GLOB] [--jobs 2] [--json FILE] [--folder DIR] [--cases-only]

Each pattern (patterns.py; with ``--folder`` also each ``*.py`` there that has ``make() -> (model, args, kwargs,
export_keywords, other_inputs)``) is exported by ``torch.onnx.export`` and by ``guarddiff.export(repair=True)``, and
both models run at the example's and at other sizes in ONNX Runtime against eager PyTorch.
"""

from __future__ import annotations

import argparse
import copy
import fnmatch
import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))


@dataclass(frozen=True)
class Trial:
    """One export and inputs at which it has to be right; those of the example first."""

    model: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    keywords: dict[str, Any]
    inputs: list[tuple[tuple[Any, ...], dict[str, Any]]]


@dataclass(frozen=True)
class Half:
    """One of the two exports: what was wrong at each of the inputs ("" for nothing), and what guarddiff said."""

    wrong: list[str]
    repaired: bool
    why: str
    seconds: float


@dataclass(frozen=True)
class Outcome:
    """``before`` and ``after``: what was wrong at each of the inputs ("" for nothing); ``repaired``: whether another
    model than torch's own was returned."""

    group: str
    name: str
    before: list[str]
    after: list[str]
    repaired: bool
    why: str
    seconds: float


def of_pattern(name: str) -> Trial:
    """The pattern of this name."""
    import torch
    from patterns import every
    from torch.export import Dim

    pattern = next(one for one in every() if f"{one.group}: {one.name}" == name)
    torch.manual_seed(0)
    model = pattern.make().eval()
    args = pattern.inputs(pattern.example)
    shapes = pattern.shapes or {
        key: dict.fromkeys(range(arg.dim()), Dim.AUTO) for key, arg in zip(("x", "y", "z"), args)
    }
    if type(model).__name__ not in ("Of", "OfTwo"):
        shapes = tuple(shapes.values())
    others = [(pattern.inputs(other), {}) for other in pattern.others]
    return Trial(model, args, {}, {"dynamic_shapes": shapes}, [(args, {}), *others])


def of_file(path: str) -> Trial:
    """The case of this file."""
    import torch

    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    torch.manual_seed(0)
    model, args, kwargs, keywords, others = module.make()
    return Trial(model, args, kwargs or {}, keywords, [(args, kwargs or {}), *others])


def difference(program: Any, trial: Trial, expected: Sequence[Any]) -> list[str]:
    """What is wrong with the program at each of the trial's inputs."""
    import numpy as np
    import onnxruntime
    import torch
    from torch.utils._pytree import tree_leaves

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString(), options)
    names = [value.name for value in session.get_inputs()]
    found = []
    for (args, kwargs), outputs in zip(trial.inputs, expected, strict=True):
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        try:
            got = session.run(None, {name: one.detach().numpy() for name, one in zip(names, tensors)})
        except Exception as error:
            found.append(f"ONNX Runtime: {str(error).splitlines()[0][:80]}")
            continue
        if [one.shape for one in got] != [one.shape for one in outputs]:
            found.append(f"{[one.shape for one in got]} in place of {[one.shape for one in outputs]}")
        elif not all(np.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True) for a, b in zip(got, outputs)):
            found.append("values")
        else:
            found.append("")
    return found


def attempt(kind: str, name: str, guarded: bool) -> Half:
    """One export of one trial, plain or with ``repair=True``. Runs in a worker: torch exports some recurrent models
    once in a process and raises the second time, so the two are made in different ones."""
    import logging
    import warnings

    import numpy as np
    import torch
    from torch.utils._pytree import tree_leaves

    import guarddiff

    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    load: Callable[[str], Trial] = of_pattern if kind == "pattern" else of_file
    started = time.perf_counter()
    trial = load(name)
    with torch.no_grad():
        expected = [
            [np.asarray(leaf.detach() if isinstance(leaf, torch.Tensor) else leaf) for leaf in tree_leaves(out)]
            for out in (copy.deepcopy(trial.model)(*copy.deepcopy(a), **copy.deepcopy(k)) for a, k in trial.inputs)
        ]
    trial = load(name)
    call = {"kwargs": trial.kwargs or None, "dynamo": True, "verbose": False, **trial.keywords}
    try:
        if guarded:
            program = guarddiff.export(trial.model, trial.args, **call, repair=True, on_finding="ignore")
        else:
            program = torch.onnx.export(trial.model, trial.args, **call)
    except Exception as error:
        wrong = [f"the export raises {type(error).__name__}"] * len(trial.inputs)
        return Half(wrong, False, "", time.perf_counter() - started)
    wrong, repair, why = difference(program, trial, expected), None, ""
    if guarded:
        report = guarddiff.report_of(program)
        repair = report.repair
        texts = [f"{one.stage} {one.op} ({one.verdict}): {one.repair}" for one in report.findings if one.warns]
        why = "; ".join([*([repair.reason] if repair is not None else []), *texts])
    return Half(wrong, repair is not None and repair.returned, why, time.perf_counter() - started)


def table(outcomes: Sequence[Outcome]) -> list[str]:
    """Figures by group, as a Markdown table. "Raises": torch's own export raises."""
    lines = [
        "| operator or pattern | wrong | of these raises | right after repair | remaining |",
        "|---|---|---|---|---|",
    ]
    groups: dict[str, list[Outcome]] = {}
    for one in outcomes:
        groups.setdefault(one.group or "cases", []).append(one)
    for group, ones in [*groups.items(), ("all", list(outcomes))]:
        wrong = [one for one in ones if any(one.before)]
        right = [one for one in wrong if not any(one.after)]
        remaining = ", ".join(one.name for one in wrong if any(one.after)) if group != "all" else ""
        raising = sum("the export raises" in one.before[0] for one in wrong)
        lines.append(f"| {group} | {len(wrong)} | {raising} | {len(right)} | {remaining} |")
    spoilt = [one for one in outcomes if any(not b and a for b, a in zip(one.before, one.after))]
    lines.append(f"\nRight before, wrong after: {', '.join(one.name for one in spoilt) or 'none'}")
    return lines


def main() -> int:
    """Runs all and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="*", metavar="GLOB", help="patterns and cases whose name matches")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", metavar="FILE", help="write all outcomes there")
    parser.add_argument("--folder", metavar="DIR", help="run the case files there too")
    parser.add_argument("--cases-only", action="store_true", help="run no patterns, only the files of --folder")
    options = parser.parse_args()
    from patterns import every

    todo = [] if options.cases_only else [("pattern", f"{one.group}: {one.name}") for one in every()]
    if options.folder:
        todo += [("file", str(path)) for path in sorted(Path(options.folder).glob("case*.py"))]
    todo = [one for one in todo if fnmatch.fnmatch(Path(one[1]).stem, options.only)]
    outcomes: dict[str, Outcome] = {}
    spawn = get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as plain, ProcessPoolExecutor(options.jobs, mp_context=spawn) as pool:
        before = {one[1]: plain.submit(attempt, *one, False) for one in todo}
        waiting = {pool.submit(attempt, *one, True): one for one in todo}
        for done in as_completed(waiting):
            kind, name = waiting[done]
            group, _, label = name.partition(": ") if kind == "pattern" else ("", "", Path(name).stem)
            try:
                first, last = before[name].result(), done.result()
            except ModuleNotFoundError as error:
                print(f"skipped {label}: {error}", flush=True)
                continue
            one = Outcome(group, label, first.wrong, last.wrong, last.repaired, last.why, last.seconds)
            outcomes[name] = one
            state = f"{'wrong' if any(one.before) else 'right'} -> {'wrong' if any(one.after) else 'right'}"
            print(f"{len(outcomes)}/{len(todo)} {group or 'case'}: {label}: {state} ({one.seconds:.1f} s)", flush=True)
            if any(one.after):
                print(f"      {one.after}\n      {one.why}", flush=True)
    ordered = [outcomes[name] for _, name in todo if name in outcomes]
    print("\n".join(table(ordered)))
    if options.json:
        Path(options.json).write_text(json.dumps([asdict(one) for one in ordered], indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
