"""Contracts for the exports of this process: the public calls."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal

from guarddiff.contract import embed as embedding
from guarddiff.contract.contract import Contract
from guarddiff.core.errors import ContractError
from guarddiff.core.report import ReportData
from guarddiff.pipeline import last_report
from guarddiff.report import load_report

__all__ = ["embed_contract"]


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
    return embedding.embed_contract(
        path,
        report,
        settings=settings,
        preprocessing=preprocessing,
        embed=embed,
        mark_nodes=mark_nodes,
        allow_incomplete=allow_incomplete,
    )
