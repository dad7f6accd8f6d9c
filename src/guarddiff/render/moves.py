"""What to do now about a finding, by verdict, stage and kind of operator."""

from __future__ import annotations

import re

from guarddiff.core.finding import Finding
from guarddiff.core.proof import ANOTHER_EXAMPLE
from guarddiff.render.words import clean, limited

_TO_TRY: tuple[tuple[str, str], ...] = (
    (
        r"onnx ?runtime.*(not installed|missing|not found)|\b(no|without|install|named) '?onnx ?runtime",
        "Install onnxruntime and export again: the sizes outside are then run and compared.",
    ),
    (
        r"replay\W+off|\"off\"",
        'Export again with replay="findings": the sizes outside are then run and compared.',
    ),
    (
        r"differs? from itself|random|determin",
        "Make the model give the same result twice (eval mode, no dropout, fixed seeds) and export again.",
    ),
    (r"export raised", "Mend the error of the export first; this shows which sizes were fixed until then."),
    (
        r"example's own sizes",
        "Look at the example's own sizes first: PyTorch and ONNX Runtime have to agree there.",
    ),
    (
        r"program was specialized before",
        "Export the module that the program was made from: what fixes its sizes is then seen, and sizes are compared.",
    ),
    (
        r"used up|too large|more than|would have [\d,]+ elements",
        "Compare eager PyTorch and ONNX Runtime at such a size yourself.",
    ),
)
"""Patterns of the reason for ``unconfirmed``, and what then helps to try it."""

_REWRITES: tuple[tuple[str, str], ...] = (
    (r"adaptive_\w+pool", "pool with a fixed kernel; adaptive pooling to size 1 keeps its sizes dynamic"),
    (r"avg_pool", "pool with a kernel of fixed size; a mean over the pooled axes keeps its sizes dynamic"),
    (r"\bkron", "write the product as a broadcast: (a[:, None, :, None] * b[None, :, None, :]).reshape(...)"),
    (r"bucketize|searchsorted", "count the boundaries below: (boundaries < x.unsqueeze(-1)).sum(-1)"),
)
"""Patterns of operators, and another way to write them whose sizes stay dynamic."""


def next_move(finding: Finding) -> str:
    """One or two sentences: what to do now, by verdict, stage and kind of operator."""
    if finding.repaired:
        return "Nothing to do here: the returned model is right at the counterexample."
    if finding.verdict == "harmless":
        return "Nothing to do: the model is right at the sizes that were tried."
    if finding.verdict == "inherent":
        return "Nothing to do in the export: the model itself takes no such size. A narrower range says so."
    if finding.stage == "declare":
        return _declare_again(finding)
    if finding.verdict == "unconfirmed":
        return _try_it(finding)
    return _avoid_it(finding)


def _try_it(finding: Finding) -> str:
    for pattern, move in _TO_TRY:
        if re.search(pattern, finding.reason[:2000], re.IGNORECASE):
            return move
    return (
        'Export again with replay="full", which runs the whole model at other sizes, or compare eager '
        "PyTorch and ONNX Runtime at such a size yourself."
    )


def _avoid_it(finding: Finding) -> str:
    """What to do about a confirmed finding."""
    proof = finding.counterexample
    if finding.repairable:
        name = clean((finding.repair or "").partition(":")[0], 80)
        knows = "tries other examples" if name == ANOTHER_EXAMPLE else f"knows another way ({name})"
        return f"{_keep(finding)}export with repair=True, which {knows} and proves the result."
    if finding.stage == "translate":
        return f"{_keep(finding)}write this operator in another way; no guard tells of it."
    if finding.stage == "optimize":
        return f"{_keep(finding)}export again with optimize=False and compare."
    if finding.stage == "run":
        return f"{_keep(finding)}export with dynamo=True, where guards tell which line fixes the size."
    if finding.origin.branch:
        line = "this line" if finding.origin.source else "the model"
        return (
            f"{_keep(finding)}rewrite {line} so that it needs no concrete size "
            "(tensor operations, torch.where or torch.cond instead of int(), if or a loop)."
        )
    for pattern, rewrite in _REWRITES:
        if re.search(pattern, finding.op[:200]):
            return f"{_keep(finding)}{rewrite}."
    if proof and proof.kind == "rejected_input":
        return "The exporter could only fix this size: rewrite the operator, or declare the dimension static."
    return f"{_keep(finding)}export again after writing this operator in another way."


def _keep(finding: Finding) -> str:
    if finding.at_example:
        return "No size is right: "
    known = any(map(limited, finding.dims)) and all(d.admitted and d.admitted.known for d in finding.dims)
    return "Keep to the admitted sizes, or " if known else "Keep to the example's sizes, or "


def _declare_again(finding: Finding) -> str:
    """How to declare the dimensions of ``finding`` so that torch reads them as they were meant."""
    meant: dict[str, list[str]] = {}
    for dim in finding.dims[:4]:
        if dim.declared and dim.parameter:
            named = dim.name.isidentifier() and dim.name.isprintable()
            size = f'"{clean(dim.name, 30)}"' if named else "Dim.DYNAMIC"
            meant.setdefault(clean(dim.parameter, 30), []).append(f"{dim.axis}: {size}")
    if not meant:
        return "Name every input of forward in dynamic_shapes, in the order of its parameters."
    shapes = ", ".join(f'"{name}": {{{", ".join(axes)}}}' for name, axes in meant.items())
    return (
        f"Declare by the parameters of forward, all of them in their order (None: fixed): dynamic_shapes={{{shapes}}}"
    )
