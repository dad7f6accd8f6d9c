"""A Python process that runs small export scripts one after another, quickly.

Started by ``guarddiff.replay.workbench`` as a process of its own, so that what a script does to torch, or a crash,
stays there. Requests and answers are lines of JSON: ``{"text": ...}`` gives what ``run`` returns.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import gc
import io
import json
import linecache
import os
import sys
import warnings
from typing import IO, Any

from guarddiff.torch_bridge import probe
from guarddiff.torch_bridge.probe import PrivateName

_REGISTRY = PrivateName(
    "torch.onnx._internal.exporter._registration", "ONNXRegistry.from_torchlib", "fast exports on the workbench"
)
_PLAIN_OPERATORS = PrivateName("torch.export.exported_program", "_collect_all_valid_cia_ops", "fast exports")
_LONGEST = 4000


def serve() -> None:
    """Answer requests from standard input until it ends. Everything else that is printed goes nowhere."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
        prepare()
        _answer(answers, {"ready": True})
        for line in sys.stdin:
            _answer(answers, run(json.loads(line)["text"]))


def _answer(answers: IO[str], answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def prepare() -> None:
    """Load what every export of this process needs, and build the exporter's tables once: for a process of guarddiff's
    own, that exports often."""
    import onnxruntime
    import torch

    torch.set_num_threads(1)
    onnxruntime.set_default_logger_severity(4)
    warnings.simplefilter("ignore")
    for name in (_REGISTRY, probe.DECOMPOSITION_TABLE, _PLAIN_OPERATORS):
        with contextlib.suppress(Exception):
            _remember(name)
    gc.freeze()


def _remember(name: PrivateName) -> None:
    """Make a function of the exporter give the result of its first call again; a dict is copied, as it is changed."""
    holder, attribute = name.owner()
    original = getattr(holder, attribute)
    made: dict[Any, Any] = {}

    @functools.wraps(original)
    def again(*args: Any, **kwargs: Any) -> Any:
        key = tuple(_key(x) for x in (*args, *sorted(kwargs.items())))
        if key not in made:
            made[key] = original(*args, **kwargs)
        return _copied(made[key])

    setattr(holder, attribute, staticmethod(again) if isinstance(holder, type) else again)


def _key(given: Any) -> Any:
    """What tells one call from another: the opset, the operators that are to stay whole. Other objects stay the same in
    a process."""
    if isinstance(given, tuple):
        return tuple(map(_key, given))
    if isinstance(given, (set, frozenset, dict)):
        return frozenset(given)
    return given if isinstance(given, (int, str)) else None


def _copied(found: Any) -> Any:
    """A table of its own for each export: the exporter writes custom translations into the one that it is given."""
    if isinstance(found, (dict, set)):
        return type(found)(found)
    functions = getattr(found, "functions", None)
    if isinstance(functions, dict):
        found = copy.copy(found)
        found.functions = {target: list(known) for target, known in functions.items()}
    return found


def run(text: str) -> dict[str, Any]:
    """What a script printed and with which code it ended; ``error`` is the exception that ended it otherwise."""
    printed = io.StringIO()
    place = "<reproduction>"
    linecache.cache[place] = (len(text), None, text.splitlines(keepends=True), place)
    space: dict[str, Any] = {"__name__": "__main__", "__file__": place}
    code, error = 0, ""
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
            _run_eagerly(text, place)
            exec(compile(text, place, "exec"), space)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException as raised:
        code, error = 1, f"{type(raised).__name__}: {raised}"[:_LONGEST]
    steady = not code or bool(error) or _steady(space, "kwargs=example[1]" in text)
    return {"code": code, "output": printed.getvalue()[:_LONGEST], "error": error, "steady": steady}


def _run_eagerly(text: str, place: str) -> None:
    """What comes before the export, and the module in eager mode: most scripts that fail do so here, at no cost."""
    before, export, _ = text.partition("program = torch.onnx.export")
    if not export:
        return
    space: dict[str, Any] = {"__name__": "__main__", "__file__": place}
    exec(compile(before, place, "exec"), space)
    for name in ("example", "other"):
        _call(space, name, "kwargs=example[1]" in text)


def _call(space: dict[str, Any], name: str, keywords: bool) -> Any:
    args, kwargs = space[name] if keywords else (space[name], {})
    return space["model"](*args, **kwargs)


def _steady(space: dict[str, Any], keywords: bool) -> bool:
    """Whether the script's module gives the same twice: what is random is no fault of the exporter."""
    import torch
    from torch.utils import _pytree

    leaves = []
    try:
        for seed in (1, 2):
            torch.manual_seed(seed)
            found = _call(space, "other", keywords)
            leaves.append([x for x in _pytree.tree_leaves(found) if isinstance(x, torch.Tensor)])
        one, two = leaves
        return len(one) == len(two) and all(
            a.shape == b.shape and torch.allclose(a.double(), b.double(), 1e-3, 1e-4, equal_nan=True)
            if not a.is_complex()
            else a.shape == b.shape
            for a, b in zip(one, two)
        )
    except Exception:
        return False
