"""Every function of guarddiff made to raise in turn: the export stays torch's own.

``python tests/reliability/faults.py [--kinds RuntimeError KeyboardInterrupt] [--scenarios full] [--every 1]``

Each scenario is exported once with every call into guarddiff noted. Then each function that was called is made to raise
when it is called first: an exception at its first line, by a trace function, in a forked child of its own (and in the
children that guarddiff forks there). ``--interrupts 20`` adds so many interrupts, a real signal each, spread over the
time that the export takes. Looked at are the model (byte for byte torch's), what was left patched or changed, the files
and processes that are left, and whether the report says what is missing.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import mmap
import os
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1] / "src"
sys.path[:0] = [str(SOURCE), str(HERE)]

import forked  # noqa: E402
import identical  # noqa: E402

PACKAGE = str(SOURCE / "guarddiff") + os.sep
CHECKS = ("options.py",)
"""Where the user's own keywords are looked at: what that raises is for the user."""
KINDS: dict[str, Callable[[], BaseException]] = {
    "RuntimeError": lambda: RuntimeError("injected"),
    "MemoryError": lambda: MemoryError("injected"),
    "OSError": lambda: OSError(28, "No space left on device (injected)"),
    "RecursionError": lambda: RecursionError("injected"),
    "KeyboardInterrupt": lambda: KeyboardInterrupt("injected"),
}


@dataclasses.dataclass(frozen=True)
class Scenario:
    """One kind of export: the model and its inputs, torch's keywords, and guarddiff's."""

    make: Callable[[], tuple[Any, tuple[Any, ...]]]
    torchs: Callable[[], dict[str, Any]]
    ours: dict[str, Any] = dataclasses.field(default_factory=dict)
    watched: bool = False


def scenarios() -> dict[str, Scenario]:
    """By name."""
    import torch
    import torch.nn.functional as F
    from torch import nn
    from torch.export import Dim

    class Pool(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Conv2d(2, 3, 3, padding=1)

        def forward(self, x: Any) -> Any:
            return F.adaptive_avg_pool2d(self.layer(x), (2, 3))

    class Two(nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return torch.kron(x["a"], y[0]) + x["a"].sum()

    class Raising(nn.Module):
        def forward(self, x: Any) -> Any:
            if x.shape[0] > 1:
                raise ValueError("the model's own")
            return x

    def pool() -> Any:
        torch.manual_seed(0)
        return Pool().eval(), (torch.ones(1, 2, 6, 6),)

    def relu() -> Any:
        return nn.ReLU().eval(), (torch.ones(2, 3),)

    def two() -> Any:
        return Two().eval(), ({"a": torch.ones(2, 3)}, [torch.ones(4, 5)])

    def two_shapes() -> Any:
        return {"dynamic_shapes": ({"a": {0: Dim.AUTO, 1: Dim.AUTO}}, [{0: Dim.AUTO, 1: Dim.AUTO}])}

    def auto() -> Any:
        return {"dynamic_shapes": ({2: Dim.AUTO, 3: Dim.AUTO},)}

    def axes() -> Any:
        return {"dynamic_axes": {"x": {2: "h"}, "z": {0: "n"}}, "input_names": ["x"]}

    report = {"report_to": "reports"}
    return {
        "default": Scenario(pool, auto),
        "full": Scenario(pool, auto, {"replay": "full", **report}),
        "repair": Scenario(pool, auto, {"repair": True, **report}),
        "clean": Scenario(
            lambda: (nn.ReLU().eval(), (torch.ones(2, 3),)), lambda: {"dynamic_shapes": ({0: "n"},)}, report
        ),
        "nested": Scenario(two, two_shapes, report),
        "axes": Scenario(pool, axes, report),
        "torchscript": Scenario(pool, lambda: {**axes(), "dynamo": False}, {"replay": "full", **report}),
        "raises": Scenario(lambda: (Raising().eval(), (torch.ones(2, 3),)), dict, report),
        "watch": Scenario(pool, auto, report, watched=True),
    }


def export(scenario: Scenario, plain: bool, trace: Any = None) -> dict[str, Any]:
    """One export in this process, in a folder of its own: model, file, error, files, report, and what it changed.
    ``trace``: a trace function for the call and the threads that it starts."""
    import state
    import torch

    import guarddiff

    model, args = scenario.make()
    keywords = {"dynamo": True, "verbose": False, **scenario.torchs()}
    found: dict[str, Any] = {"error": None, "memory": None}
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(f"{folder}/here"), os.mkdir(f"{folder}/tmp")
        os.chdir(f"{folder}/here")
        tempfile.tempdir = os.environ["TMPDIR"] = f"{folder}/tmp"
        before = {**state.of_process(), **state.of_model(model, args)}
        threading.settrace(trace)
        sys.settrace(trace)
        try:
            if plain:
                program = torch.onnx.export(model, args, "m.onnx", **keywords)
            elif scenario.watched:
                with guarddiff.watch(**scenario.ours):
                    program = torch.onnx.export(model, args, "m.onnx", **keywords)
            else:
                program = guarddiff.export(model, args, "m.onnx", **keywords, **scenario.ours)
        except BaseException as error:
            found["error"] = f"{type(error).__name__}: {str(error)[:300]}"
            program = None
        finally:
            sys.settrace(None)
            threading.settrace(None)
        after = {**state.of_process(), **state.of_model(model, args)}
        ours = ("files of the folder", "trace")  # the model and the reports, and what makes the fault
        found["changed"] = [one for one in state.changed(before, after) if one not in ours]
        for part, name in (("file", "m.onnx"), ("weights", "m.onnx.data")):
            found[part] = identical.digest(Path(name).read_bytes()) if Path(name).exists() else None
        found["files"] = sorted(str(path) for path in Path().rglob("*") if path.is_file())
        found["torn"] = [name for name in found["files"] if not _whole(name)]
        if hasattr(program, "model_proto"):
            found["memory"] = identical.digest(program.model_proto.SerializeToString(deterministic=True))
        report = None if plain else guarddiff.last_report()
        if report is not None:
            found["status"], found["missing"] = report.status, [one.part for one in report.missing]
            found["verdicts"] = [finding.verdict for finding in report.findings]
    return found


def called(scenario: Scenario) -> list[str]:
    """Every function of guarddiff that the export calls, also in the processes that it forks."""
    noted: set[str] = set()
    with tempfile.TemporaryFile() as names:

        def note(frame: Any, event: str, argument: Any) -> None:
            del event, argument
            name = name_of(frame.f_code)
            if name is not None and name not in noted:
                noted.add(name)
                os.write(names.fileno(), f"{name}\n".encode())

        export(scenario, plain=False, trace=note)
        names.seek(0)
        return sorted(set(names.read().decode().splitlines()))


def with_fault(scenario: Scenario, target: str, kind: str) -> dict[str, Any]:
    """The export where ``target`` raises at its first call, in whichever process that is; what guarddiff forks gets no
    interrupts: the terminal's go to another group of processes."""
    fired = mmap.mmap(-1, 1)
    alone = os.getpid() if kind == "KeyboardInterrupt" else None

    def strike(frame: Any, event: str, argument: Any) -> None:
        del event, argument
        if name_of(frame.f_code) == target and not fired[0] and alone in (None, os.getpid()):
            fired[0] = 1
            sys.settrace(None)
            threading.settrace(None)
            raise KINDS[kind]()

    return {**export(scenario, plain=False, trace=strike), "fired": bool(fired[0])}


def interrupted(scenario: Scenario, seconds: float) -> dict[str, Any]:
    """The export that gets an interrupt after so many seconds."""
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    found = export(scenario, plain=False)
    signal.setitimer(signal.ITIMER_REAL, 0)
    return {**found, "fired": found["error"] is not None}


def name_of(code: Any) -> str | None:
    """``module/file.py:line function`` of a function of guarddiff; None for another's."""
    if not code.co_filename.startswith(PACKAGE) or code.co_name.startswith("<"):
        return None
    if code.co_filename[len(PACKAGE) :] in CHECKS:
        return None
    return f"{code.co_filename[len(PACKAGE) :]}:{code.co_firstlineno} {getattr(code, 'co_qualname', code.co_name)}"


def judged(found: dict[str, Any], plain: dict[str, Any], sound: dict[str, Any], kind: str) -> list[str]:
    """What is not as it has to be."""
    wrong = []
    if kind == "KeyboardInterrupt":
        if found["error"] is None or not found["error"].startswith("KeyboardInterrupt"):
            wrong.append(f"the interrupt was lost: {found['error']}")
    else:
        for part in ("error", "memory", "file", "weights"):
            expected = plain[part] if sound[part] == plain[part] else sound[part]  # a repaired model is not torch's
            if found[part] not in (expected, plain[part]):
                wrong.append(f"{part}: {str(found[part])[:200]}")
        if found.get("status") == "clean" and sound["status"] != "clean":
            wrong.append("the report says clean")
        if found.get("status") != "incomplete" and found.get("verdicts") != sound["verdicts"] and sound["memory"]:
            wrong.append(f"the report is {found.get('status')} with {found.get('verdicts')}")
    more = sorted(set(found["changed"]) - set(plain["changed"]))
    if more:
        wrong.append(f"changed: {more}")
    if found["torn"]:
        wrong.append(f"half-written: {found['torn']}")
    return wrong


def _whole(name: str) -> bool:
    """Whether a file that an export leaves can be read to its end."""
    import onnx

    with contextlib.suppress(Exception):
        if name.endswith(".onnx"):
            onnx.checker.check_model(name)
            return True
        if name == "m.onnx.data":
            return Path("m.onnx").exists()
        if name.endswith(".json"):
            json.loads(Path(name).read_text(encoding="utf-8"))
            return True
        return name.startswith("reports/") and name.endswith((".md", ".html")) and Path(name).stat().st_size > 0
    return False


def injections(known: dict[str, Scenario], names: list[str], kinds: list[str]) -> list[str]:
    """``scenario|kind|function`` of every fault."""
    keys = []
    for name in names:
        answer = forked.run(lambda name=name: called(known[name]), 600)
        if "failed" in answer:
            raise SystemExit(f"{name}: {answer['failed']}")
        keys += [f"{name}|{kind}|{target}" for target in answer["value"] for kind in kinds]
    return keys


def measured(known: dict[str, Scenario], key: str, plain: dict[str, Any], sound: dict[str, Any]) -> dict[str, Any]:
    """Whether the fault happened, and what was wrong then."""
    name, kind, target = key.split("|", 2)
    if kind == "interrupt":
        answer = forked.run(lambda: interrupted(known[name], float(target)))
    else:
        answer = forked.run(lambda: with_fault(known[name], target, kind))
    if "failed" in answer:
        return {"wrong": [f"the process ended: {answer['failed']}"], "fired": True}
    found = answer["value"]
    expected = "KeyboardInterrupt" if kind == "interrupt" else kind
    return {"wrong": judged(found, plain, sound, expected) if found["fired"] else [], "fired": found["fired"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="*", choices=list(KINDS), default=["RuntimeError", "KeyboardInterrupt"])
    parser.add_argument("--scenarios", nargs="+", default=None)
    parser.add_argument("--interrupts", type=int, default=0, help="how many in each scenario")
    parser.add_argument("--every", type=int, default=1, help="which share of the faults: one in so many")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    identical.prepare()
    warnings.simplefilter("ignore")
    known = scenarios()
    names = given.scenarios or list(known)
    plain, sound, seconds = {}, {}, {}
    for name in names:
        plain[name] = forked.run(lambda name=name: export(known[name], True))["value"]
        started = time.monotonic()
        sound[name] = forked.run(lambda name=name: export(known[name], False))["value"]
        seconds[name] = time.monotonic() - started
        wrong = judged(sound[name], plain[name], sound[name], "")
        print(
            f"{name}: without a fault {sound[name].get('status')} {sound[name].get('verdicts')} {wrong or ''}",
            flush=True,
        )
    keys = injections(known, names, given.kinds)[:: given.every]
    for name in names:
        keys += [f"{name}|interrupt|{seconds[name] * n / given.interrupts:.3f}" for n in range(1, given.interrupts + 1)]

    def measure(key: str) -> dict[str, Any]:
        name = key.split("|", 1)[0]
        return measured(known, key, plain[name], sound[name])

    started, counts, done = time.monotonic(), Counter[str](), list[str]()
    with contextlib.suppress(KeyboardInterrupt):
        for line in forked.spread(keys, measure, given.jobs):
            done.append(line["key"])
            counts["injected"] += line["fired"]
            counts["not reached"] += not line["fired"]
            counts["wrong"] += bool(line["wrong"])
            if line["wrong"]:
                print(f"{line['key']}: {'; '.join(line['wrong'])}", flush=True)
    functions = {key.split("|", 2)[2] for key in done if "|interrupt|" not in key}
    used = {key.split("|", 1)[0] for key in done}
    print(
        f"{len(done)} of {len(keys)}: {counts['injected']} faults in {len(functions)} functions, {len(used)} "
        f"scenarios, {time.monotonic() - started:.0f} s: {counts['wrong']} wrong; "
        f"{counts['not reached']} were not reached"
    )


if __name__ == "__main__":
    main()
