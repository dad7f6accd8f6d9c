"""The wording that all formats share: places, dimensions, sizes, verdicts, headlines, next moves.

What comes from the model passes ``clean`` here: control characters become visible escapes, long text is cut.
Each format escapes the result once more for its own syntax.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from guarddiff.core.dims import Dimension
from guarddiff.core.finding import Counterexample, Finding, Verdict
from guarddiff.core.origin import SourceLine
from guarddiff.core.report import Change, Effect, ReportData
from guarddiff.core.stage import Stage

LIMIT = 300
"""Longest piece of text from the model that is shown."""

VERDICTS: dict[Verdict, str] = {
    "confirmed": "a size inside the declared range was run, and the results differ",
    "unconfirmed": "could not be tried",
    "harmless": "sizes outside were run, and the results agree",
    "inherent": "eager PyTorch rejects such sizes too",
}

CLAIMS: dict[Verdict, tuple[str, str]] = {
    "confirmed": ("the exported model is sure to be right only for", ""),
    "unconfirmed": ("the exported model is sure to be right only for", "; not tried"),
    "harmless": ("a guard holds only for", "; other sizes were run and agree"),
    "inherent": ("a guard holds only for", "; eager PyTorch rejects other sizes too"),
}
"""What is claimed of a finding, before and after the admitted sizes."""

STAGES: dict[Stage, str] = {
    "declare": "not declared as it was meant",
    "capture": "specialized while torch.export captured the model",
    "decompose": "specialized by the decomposition pass",
    "translate": "wrong since the translation to ONNX",
    "optimize": "wrong since the ONNX optimizer",
    "run": "differs in ONNX Runtime",
}

EFFECTS: dict[Effect, str] = {
    "restricts": "restricts",
    "unknown": "could not be evaluated",
    "small": "excludes only the sizes 0 and 1",
    "lower": "excludes only sizes below a bound",
    "entailed": "an earlier finding excludes it already",
    "unbacked": "on data-dependent sizes alone",
    "none": "excludes nothing that was declared",
}

DETAILS = frozenset({"os", "libc", "python_bits", "python_platform", "debug_build", "cuda_build", "rocm_build", "cuda"})
"""Parts of the environment that only an upstream filing needs."""

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
    (r"used up|too large|more than", "Compare eager PyTorch and ONNX Runtime at such a size yourself."),
)
"""Patterns of the reason for ``unconfirmed``, and what then helps to try it."""

_REWRITES: tuple[tuple[str, str], ...] = (
    (r"adaptive_\w+pool", "pool with a fixed kernel; adaptive pooling to size 1 keeps its sizes dynamic"),
    (r"avg_pool", "pool with a kernel of fixed size; a mean over the pooled axes keeps its sizes dynamic"),
    (r"\bkron", "write the product as a broadcast: (a[:, None, :, None] * b[None, :, None, :]).reshape(...)"),
    (r"bucketize|searchsorted", "count the boundaries below: (boundaries < x.unsqueeze(-1)).sum(-1)"),
)
"""Patterns of operators, and another way to write them whose sizes stay dynamic."""

_ANY = "any size"
_SOME = "some sizes (which ones is unknown)"
_NOISE = re.compile(
    r"\[ONNXRuntimeError\] : \d+ : |Non-zero status code returned while | Status Message:"
    r"| /[^\s:]+\.(?:h|cc|cpp):\d+"
)


def clean(text: str, limit: int = LIMIT) -> str:
    """``text`` on one line of at most ``limit`` characters, with escapes for those that can't be printed."""
    shown = "".join(c if c.isprintable() else _visible(c) for c in text[: limit + 1])
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def clean_end(text: str, limit: int) -> str:
    """As ``clean``, but the end of ``text`` is kept: for paths."""
    shown = "".join(c if c.isprintable() else _visible(c) for c in text[-limit - 1 :])
    return shown if len(shown) <= limit else "…" + shown[len(shown) - limit + 1 :]


def _visible(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def join(parts: Sequence[str]) -> str:
    """``a, b and c``."""
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


def some(parts: Sequence[str], most: int, noun: str = "") -> str:
    """``parts`` joined, at most ``most`` of them, with how many were left out."""
    if len(parts) <= most:
        return join(parts)
    return join([*parts[:most], f"{len(parts) - most} more {noun}".strip()])


def count(number: int, noun: str) -> str:
    """``1 finding``, ``2 findings``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def dimension(dim: Dimension) -> str:
    """``x[2] (h)``, or ``x[2]`` where the user gave no name."""
    place = f"{clean(dim.input, 60)}[{dim.axis}]"
    return place if dim.name in ("", dim.place) else f"{place} ({clean(dim.name, 40)})"


def dimensions(dims: Sequence[Dimension], most: int = 4) -> str:
    """``x[2] (h) and x[3] (w)``."""
    return some([dimension(d) for d in dims], most)


def declared(dim: Dimension) -> str:
    """``any size``, ``4–512``, or ``fixed`` where the dimension was declared static."""
    return clean(str(dim.declared.sizes)) if dim.declared else "fixed"


def admitted(dim: Dimension) -> str:
    """``exactly 6``; ``unknown`` where it is not known."""
    return clean(dim.admitted.text) if dim.admitted and dim.admitted.known else "unknown"


def place(source: SourceLine, limit: int = 120) -> str:
    """``models/net.py:12``, its end kept."""
    return clean_end(str(source), limit)


def rule(source: SourceLine) -> str:
    """``torch/_decomp/decompositions.py:2825 adaptive_avg_pool2d``."""
    return f"{place(source, 80)} {clean(source.function, 60)}".rstrip()


def module(path: str | None) -> str:
    """The module path; ``the model itself`` for the root and an empty text where it is unknown."""
    return "" if path is None else clean_end(path, 60) or "the model itself"


def where(finding: Finding) -> str:
    """``avgpool, models/net.py:12: x = self.avgpool(x)``; empty where nothing is known."""
    source = finding.origin.source
    parts = [module(finding.origin.module_path), place(source, 60) if source else ""]
    text = ", ".join(p for p in parts if p)
    return f"{text}: {clean(source.text)}" if source and source.text else text


def operator(finding: Finding) -> str:
    """The operator and what happened to it."""
    op = clean(finding.op, 80)
    return f"{op}, {STAGES[finding.stage]}" if op else STAGES[finding.stage]


def shapes(sizes: dict[str, tuple[int, ...]], most: int = 6) -> str:
    """``x=(1, 2, 7, 7), y=(3,)``."""
    parts = [f"{clean(name, 60)}={tuple(shape)}" for name, shape in sizes.items()]
    more = f", and {len(parts) - most} more" if len(parts) > most else ""
    return clean(", ".join(parts[:most]), LIMIT) + more


def tried(proof: Counterexample) -> str:
    """The sizes of a counterexample, and whether the operator was run by itself."""
    text = shapes(proof.sizes) or "no tensor inputs"
    return text if proof.scope == "model" else f"{text}; {alone(proof)}"


def alone(proof: Counterexample) -> str:
    """``operator by itself on (1, 2, 7, 9)``."""
    own = clean(", ".join(str(tuple(shape)) for shape in proof.operator_shapes), 120)
    return f"operator by itself on {own}" if own else "operator by itself"


def shorter(result: str) -> str:
    """What a run gave, without the parts of ONNX Runtime's messages that tell nothing."""
    return clean(_NOISE.sub("", result[: 4 * LIMIT])).strip()


def groups(dims: Iterable[Dimension]) -> list[tuple[Dimension, ...]]:
    """Dimensions that were declared and are admitted alike, together."""
    alike: dict[tuple[str, str, int | None], list[Dimension]] = {}
    for dim in dims:
        fixed = None if dim.declared else dim.example
        alike.setdefault((declared(dim), admitted(dim), fixed), []).append(dim)
    return [tuple(group) for group in alike.values()]


def headline(finding: Finding, names: int = 4, most: int = 12) -> str:
    """The claim in one sentence: the dimensions, what was declared for them and what is admitted.

    At most ``names`` names for dimensions that are alike, at most ``most`` kinds of dimensions.
    """
    lead, tail = CLAIMS[finding.verdict]
    found = groups(finding.dims)
    if not found:
        return f"A size that was declared dynamic: {lead} {_SOME}{tail}"
    first = found[0][0]
    if len(found) == 1 and first.declared:
        asked = f"declared {declared(first)}"
        sizes = _sizes(first) if _limited(first) else _SOME
        return f"{dimensions(found[0], names)}: {asked}, but {lead} {sizes}{tail}"
    asked = declared(first)
    alike = all(declared(group[0]) == asked for group in found) and first.declared is not None
    parts = []
    for group in found[:most]:
        own = "" if alike else f" ({_asked(group[0])})"
        parts.append(f"{dimensions(group, names)} {_sizes(group[0])}{own}")
    left = sum(len(group) for group in found[most:])
    if left:
        parts.append(count(left, "more dimension"))
    text = f"Declared {asked}, but {lead}" if alike else f"{lead[0].upper()}{lead[1:]}"
    return f"{text} {join(parts)}{tail}"


def _asked(dim: Dimension) -> str:
    return f"declared {declared(dim)}" if dim.declared else f"declared fixed at {dim.example}"


def _limited(dim: Dimension) -> bool:
    """Whether it is known which sizes are admitted, and that some are not."""
    held = dim.admitted
    return held is not None and held.known and not held.whole and held.text != _ANY


def _sizes(dim: Dimension) -> str:
    """The admitted sizes after the words "only for"."""
    if dim.admitted is None or not dim.admitted.known:
        return _SOME
    text = admitted(dim) if _limited(dim) else _ANY
    return f"sizes {text}" if text.startswith(("equal ", "at ")) else text


def verdict(finding: Finding) -> str:
    """``confirmed: a size inside the declared range was run, …``."""
    return f"{finding.verdict}: {VERDICTS[finding.verdict]}"


def effect(change: Change) -> str:
    """What a change does to the admitted sizes, with the number of its finding."""
    number = f" (finding {change.finding + 1})" if change.finding is not None else ""
    return EFFECTS[change.effect] + number


def summary(report: ReportData) -> str:
    """One or two sentences: what the report says as a whole."""
    dynamic = {(d.input, d.axis) for i in report.inputs for d in i.dims if d.declared}
    warned = [f for f in report.findings if f.warns]
    parts = []
    if warned:
        kinds = [
            f"{number} {word}"
            for word in ("confirmed", "unconfirmed")
            if (number := sum(f.verdict == word for f in warned))
        ]
        parts.append(f"{count(len(warned), 'finding')} ({', '.join(kinds)}){_reach(warned, dynamic)}.")
    elif not report.missing and not report.error:
        parts.append("No specialized dimension was found." if dynamic else "No dimension was declared dynamic.")
    if report.missing:
        parts.append("A part of the evidence is missing: what is not listed here is unknown, not fine.")
    if report.error:
        parts.append("The export raised an exception; this is what was found until then.")
    return " ".join(parts)


def _reach(warned: Sequence[Finding], dynamic: set[tuple[str, int]]) -> str:
    """How many of the dynamic dimensions the findings touch; empty for none."""
    touched = len({(d.input, d.axis) for f in warned for d in f.dims} & dynamic)
    if not touched:
        return ""
    verb = "is" if touched == 1 else "are"
    if not any(f.verdict == "confirmed" for f in warned):
        verb = "may be"
    whole = "the only dynamic dimension" if len(dynamic) == 1 else f"{touched} of {len(dynamic)} dynamic dimensions"
    return f": {whole} {verb} right at fewer sizes than were declared"


def next_move(finding: Finding) -> str:
    """One or two sentences: what to do now, by verdict, stage and kind of operator."""
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
    known = any(map(_limited, finding.dims)) and all(d.admitted and d.admitted.known for d in finding.dims)
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
