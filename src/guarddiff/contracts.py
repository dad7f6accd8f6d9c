"""Contracts for the exports of this process."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch

from guarddiff.contract.build import held_to
from guarddiff.contract.contract import Condition, Contract
from guarddiff.contract.freeze import Frozen, frozen_of
from guarddiff.core.errors import ContractError, in_words
from guarddiff.core.log import say, warn_unwritten
from guarddiff.core.report import ReportData
from guarddiff.pipeline import last_report
from guarddiff.report import load_report
from guarddiff.torch_bridge.declarations import given_of, split

__all__ = ["embed_contract", "keep_frozen"]


def embed_contract(
    path: str | os.PathLike[str],
    report: ReportData | str | os.PathLike[str] | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
    preprocessing: Mapping[str, Any] | None = None,
    embed: Literal["metadata", "asserts"] = "metadata",
    mark_nodes: bool = False,
    allow_incomplete: bool = False,
) -> Contract:
    """Write the contract of an exported model into its file and, as ``<name>.contract.json``, beside it.

    The contract says for which inputs the model is known to be right: names, dtypes, ranks, declared ranges, and the
    guards of every finding that was not shown to be harmless. ``guarddiff.read_contract`` reads it back,
    ``guarddiff.CheckedSession`` keeps to it. Weights in external files are read for the hash, never rewritten. The
    file is replaced whole or not at all.

    Args:
        path: The ONNX file.
        report: What its export showed: a report, or the path of its JSON; None takes that of the newest export of
            this thread.
        settings: What the model was constructed with; JSON-able.
        preprocessing: What is done to the inputs before (resizing, cropping, padding); JSON-able.
        embed: ``asserts`` also puts the conditions into the graph, so that any runtime fails at inputs that break
            them.
        mark_nodes: Whether nodes that carry a baked size get a ``guarddiff.finding`` entry in their metadata, which
            viewers such as Netron show.
        allow_incomplete: Whether a report that lacks evidence will do.

    Returns:
        The contract, with the hash of the file.

    Raises:
        ContractError: The export raised, the model is wrong at the example's own sizes, evidence is missing, the
            report belongs to another model, the file is no ONNX model, or a condition has no form in a graph.
        ReportFileError: The file of the report holds none.
        OSError: The file can't be read or written.
        ValueError: For another value of ``embed``.
    """
    if report is None:
        report = last_report()
        if report is None:
            raise ContractError("no export was made in this thread: give the report, guarddiff.report_of(program)")
    elif not isinstance(report, ReportData):
        report = load_report(report)
    from guarddiff.contract import embed as embedding

    return embedding.embed_contract(
        path,
        report,
        settings=settings,
        preprocessing=preprocessing,
        embed=embed,
        mark_nodes=mark_nodes,
        allow_incomplete=allow_incomplete,
    )


def keep_frozen(args: Sequence[Any], kwargs: Mapping[str, Any], report: ReportData) -> str:
    """Embed the contract where a module that ``guarddiff.freeze`` made was exported to a file. A contract that can't be
    made or written is warned of and never fails the export; the reason is returned, empty where there is none."""
    given = dict(zip(("model", "args", "f"), args)) | dict(kwargs)
    try:
        _keep_frozen(given, report)
    except Exception as error:
        why = f"{given.get('f')} holds no contract of the frozen module: {in_words(error)}"
        say(logging.ERROR, why, error)
        warn_unwritten(why)
        return why
    return ""


def _keep_frozen(given: Mapping[str, Any], report: ReportData) -> None:
    model, file = given.get("model"), given.get("f")
    frozen = frozen_of(model)
    if frozen is None and isinstance(model, torch.nn.Module) and any(map(frozen_of, model.modules())):
        warn_unwritten("a part of the model is frozen, and the model is not: no contract is embedded; freeze it whole")
    if frozen is not None and isinstance(file, (str, os.PathLike)):
        from guarddiff.contract import embed as embedding

        embedding.embed_contract(file, report, conditions=_conditions(frozen, report, given))


def _conditions(frozen: Frozen, report: ReportData, given: Mapping[str, Any]) -> tuple[Condition, ...]:
    """What the module is held to, for dimensions that were exported as dynamic all the same. Raises ContractError
    where one was exported with another fixed size."""
    args, kwargs = split(given.get("args") or (), given.get("kwargs"))
    leaves = [leaf for one in given_of(given["model"], args, kwargs, given.get("input_names") or ())
              for leaf in one.leaves() if leaf.kind == "tensor"]  # fmt: skip
    shapes = {leaf.onnx: frozen.shapes.get(leaf.place, frozen.shapes.get(str(leaf.key), ())) for leaf in leaves}
    found = []
    for spec in report.inputs:
        dims = {dim.axis: dim for dim in spec.dims}
        for axis, (size, held) in enumerate(zip(spec.shape, shapes.get(spec.name, ()))):
            if held is None:
                continue
            if isinstance(size, int) and size != held:
                raise ContractError(f"no contract: {spec.name}[{axis}] was exported as {size} and is frozen for {held}")
            if axis in dims:
                dim = dims[axis]
                found.append(Condition((f"{dim.size} == {held}",), "guarddiff.freeze", (held_to(dim, held),)))
    return tuple(found)
