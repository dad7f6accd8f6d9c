"""The export of one variant, in whichever process."""

from __future__ import annotations

import logging
import os
import signal
import threading
import traceback
from dataclasses import dataclass
from multiprocessing import parent_process
from pathlib import Path
from typing import Any

import torch

from guarddiff import api
from guarddiff.core import codec, quiet
from guarddiff.core.errors import ContractError, in_words

MODEL = "model.pt"
INPUTS = "inputs.pt"
RAW = "model.onnx"
STARTED = ".started"
"""Suffix of the empty file by which a process says, with its number, that it has started."""

_held: dict[str, Any] = {}


@dataclass(frozen=True)
class Answer:
    """What a process gives back: the report of the export as JSON, or why there is none."""

    report: str = ""
    error: str = ""
    trace: str = ""
    unloaded: bool = False
    """Whether the process could not load the model, so that nothing was tried."""


def export(model: torch.nn.Module, args: Any, kwargs: Any, folder: Path, keywords: dict[str, Any]) -> str:
    """Export one static model into ``folder``. Returns its report as JSON; raises what the export raises."""
    program = api.export(model, args, str(folder / RAW), kwargs=kwargs, external_data=True, **keywords)
    report = api.report_of(program) or api.last_report()
    if report is None:
        raise ContractError("guarddiff has no report of the export, so there is no contract")
    return codec.dumps(report)


def begin(staging: str, threads: int) -> None:
    """First thing in a process of the pool."""
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))  # Ctrl-C: the one that waits tells of it
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    torch.set_num_threads(threads)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    (Path(staging) / f"{os.getpid()}{STARTED}").touch()


def _end_with(parent: Any) -> None:
    """A process whose parent was killed would wait for work forever."""
    parent.join()
    os._exit(1)


def in_process(staging: str, name: str) -> Answer:
    """Export one variant from the files that the parent left in ``staging``."""
    folder = Path(staging) / name
    try:
        model, keywords = _loaded(str(Path(staging) / MODEL))
        args, kwargs = torch.load(str(folder / INPUTS), weights_only=False)
    except Exception as err:
        return Answer(error=in_words(err), trace=traceback.format_exc(), unloaded=True)
    try:
        with quiet.quiet():
            return Answer(export(model, args, kwargs, folder, keywords[name]))
    except Exception as err:
        return Answer(error=in_words(err), trace=traceback.format_exc())


def _loaded(path: str) -> Any:
    """The model and the arguments of the exports; loaded once in each process, the weights mapped."""
    if path not in _held:
        _held[path] = torch.load(path, weights_only=False, mmap=True)
    return _held[path]
