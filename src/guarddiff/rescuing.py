"""``repair=True`` where torch's own export raises: the same call with all repairs on, taken when it is proved right."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from typing import Any

import torch

from guarddiff import apart, proving, repairing
from guarddiff.core.log import say
from guarddiff.core.proof import Repair, Try
from guarddiff.core.quiet import quiet
from guarddiff.options import Options
from guarddiff.pipeline import Pipeline
from guarddiff.repair import capture, registry
from guarddiff.replay import another
from guarddiff.replay import prove as replay
from guarddiff.report import Report
from guarddiff.safety import TorchsOwn
from guarddiff.torch_bridge import assertions, hooks


class _NotProved(Exception):
    """Raised inside the exporter before it writes a file: the export with repairs is not known to be right."""


def rescue(
    args: Sequence[Any], kwargs: dict[str, Any], options: Options, error: Exception
) -> tuple[Any, Report] | None:
    """The program and its report, where ``torch.onnx.export(*args, **kwargs)``, which raised ``error``, succeeds with
    the repairs and the result agrees with eager PyTorch at the example's and at further sizes. None where not."""
    if options.replay == "off" or not kwargs.get("dynamo", True) or not registry.every():
        return None
    pipeline = Pipeline(dataclasses.replace(options, repair=False, on_finding="ignore", report_to=None, search=True))

    accepted: list[Try] = []
    pipeline.recording.on_program = lambda _: accepted.extend(_proved(pipeline))
    pipeline.recording.passing = (Exception,)
    used: dict[str, registry.Repair] = {}
    chosen = registry.noted(registry.every(), used)
    own = dict(kwargs.get("custom_translation_table") or {})
    again = {**kwargs, "custom_translation_table": {**registry.translation_table(chosen), **own}}
    model = kwargs.get("model", args[0] if args else None)
    try:
        with quiet(), capture.repairs(chosen, model=model), assertions.divisible(), hooks.recording(pipeline.recording):
            program = torch.onnx.export(*args, **again)
    except Exception as failed:
        if accepted:  # it was right, and could not be written
            raise TorchsOwn(failed) from failed
        say(logging.DEBUG, f"the export with repairs failed too ({type(failed).__name__})")
        return None
    tries = pipeline.finish().tries
    tries += tuple(made for made in accepted if made not in tries)
    agreed = sum(made.state == "agrees" for made in tries)
    why = (
        f"torch.onnx.export itself raised {type(error).__name__}; with the repairs its model agrees with eager PyTorch "
        f"at all {agreed} sizes at which both ran"
    )
    ways = tuple(repair.way for repair in used.values())
    return program, pipeline.accept(options, Repair(True, tuple(used), ways, tries, why))


def _proved(pipeline: Pipeline) -> list[Try]:
    """What was run of a program that is right wherever it was run. Raises _NotProved for any other."""
    report = pipeline.finish()
    prover = proving.prover_of(pipeline.job) if pipeline.job is not None else None
    if report.status != "clean" or prover is None:
        raise _NotProved
    tries = apart.run(lambda: _right(prover))
    if tries is None:
        raise _NotProved
    return tries


def _right(prover: replay.Prover) -> list[Try] | None:
    """What was run at the example's and at telling sizes; None where the program is not known to be right there."""
    if prover.baseline().state != "agrees":
        return None
    shapes = another.telling(prover.dims, prover.declared, prover.sizes, prover.example.shapes)
    return None if repairing.wrong_at(prover, shapes) else prover.tries
