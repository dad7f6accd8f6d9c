"""The wording that all formats share: places, dimensions, sizes, verdicts, headlines, next moves.

What comes from the model passes ``clean`` here: control characters become visible escapes, long text is cut.
Each format escapes the result once more for its own syntax.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from guarddiff.core import causes
from guarddiff.core.dims import Dimension
from guarddiff.core.finding import Counterexample, Finding, Verdict
from guarddiff.core.origin import SourceLine
from guarddiff.core.report import Change, Effect, ReportData
from guarddiff.core.stage import Stage
from guarddiff.core.words import parted
from guarddiff.render import messages

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
_REPAIRED = ("before the repair the exported model was sure to be right only for", "")
_AUTO = "Dim.AUTO"

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
    "far": "excludes only sizes above 16,777,215",
    "entailed": "an earlier finding excludes it already",
    "unbacked": "on data-dependent sizes alone",
    "none": "excludes nothing that was declared",
}

DETAILS = frozenset({"os", "libc", "python_bits", "python_platform", "debug_build", "cuda_build", "rocm_build", "cuda"})
"""Parts of the environment that only an upstream filing needs."""

_ANY = "any size"
_SOME = "some sizes (which ones is unknown)"


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


def module(path: str | None, source: SourceLine | None = None) -> str:
    """The module path; ``root module (forward)`` for the root, with the function where ``source`` tells it; empty
    where it is unknown."""
    if path is None:
        return ""
    function = f" ({clean(source.function, 60)})" if source and source.function else ""
    return clean_end(path, 60) or f"root module{function}"


def where(finding: Finding) -> str:
    """``avgpool, models/net.py:12: x = self.avgpool(x)``; empty where nothing is known."""
    return at(finding.origin.module_path, finding.origin.source)


def at(path: str | None, source: SourceLine | None) -> str:
    """Module, place and text of a source line; empty where nothing is known."""
    parts = [module(path, source), place(source, 60) if source else ""]
    text = ", ".join(part for part in parts if part)
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


def shorter(result: str, limit: int = LIMIT) -> str:
    """What a run gave, without the parts of ONNX Runtime's messages that tell nothing; of a long one the middle is left
    out."""
    return messages.fitted(clean(messages.runtime(result), causes.LONGEST), limit).strip()


def raised(error: str) -> str:
    """What an export raised, in one line that names the cause."""
    return clean(causes.cause(error) or error)


def automatic(dim: Dimension) -> bool:
    """Whether the dimension was left to torch (``Dim.AUTO``)."""
    return dim.declared is not None and dim.declared.text.startswith(_AUTO)


def left_to_torch(finding: Finding) -> bool:
    """Whether all dimensions of ``finding`` were left to torch: torch may then fix them by design."""
    return bool(finding.dims) and all(map(automatic, finding.dims))


def by_design(finding: Finding) -> str:
    """For a finding whose dimensions were all left to torch what is wrong and what is not; else empty."""
    if not left_to_torch(finding) or finding.verdict in ("harmless", "inherent"):
        return ""
    return f"With {_AUTO} torch may fix sizes by design; what is wrong is that nothing warned."


def _still_dynamic(finding: Finding) -> str:
    """What the file says of dimensions that were left to torch; empty where it says that they are fixed."""
    proof = finding.counterexample
    if not by_design(finding) or (proof and proof.kind == "rejected_input"):
        return ""
    said, (one, several) = ("said", ("was", "were")) if finding.repaired else ("says", ("is", "are"))
    return f", and the file still {said} that {f'they {several}' if len(finding.dims) > 1 else f'it {one}'} dynamic"


def groups(dims: Iterable[Dimension]) -> list[tuple[Dimension, ...]]:
    """Dimensions that were declared and are admitted alike, together; those that have to be equal to each other too."""
    alike: dict[tuple[str, str], list[Dimension]] = {}
    for dim in _told_once(tuple(dims)):
        alike.setdefault((_asked(dim), admitted(dim)), []).append(dim)
    return [tuple(group) for group in alike.values()]


def _told_once(dims: tuple[Dimension, ...]) -> list[Dimension]:
    """The dimensions, each relation with the first that it holds for: ``equal to y[0]`` and ``equal to x[0]`` are one
    relation, and so is what follows the sizes of several dimensions (``at least 4, h*w even``)."""
    texts = {dim.name: admitted(dim) for dim in dims}
    seen: set[str] = set()
    told = []
    for dim in dims:
        sizes, relation = parted(admitted(dim))
        other = sizes.removeprefix("equal to ")
        if not relation and other != sizes and texts.get(other, "").startswith("equal to "):
            told.append(_with_text(dim, "equal to each other"))
        elif relation and relation in seen and "…" not in sizes:
            told.append(_with_text(dim, sizes))
        else:
            told.append(dim)
        seen.add(relation)
    return told


def _with_text(dim: Dimension, text: str) -> Dimension:
    if dim.admitted is None:
        return dim
    return dataclasses.replace(dim, admitted=dataclasses.replace(dim.admitted, text=text))


def headline(finding: Finding, names: int = 4, most: int = 12) -> str:
    """The claim in one sentence: the dimensions, what was declared for them and what is admitted.

    At most ``names`` names for dimensions that are alike, at most ``most`` kinds of dimensions.
    """
    if finding.at_example:
        before, was = ("Before the repair the", "was") if finding.repaired else ("The", "is")
        return f"{before} exported model {was} wrong at the example's own sizes already"
    lead, tail = _REPAIRED if finding.repaired else CLAIMS[finding.verdict]
    tail = _still_dynamic(finding) + tail
    found = groups(finding.dims)
    if not found:
        return f"A size that was declared dynamic: {lead} {_SOME}{tail}"
    first = found[0][0]
    if len(found) == 1 and first.declared:
        sizes = _sizes(first) if limited(first) else _SOME
        return f"{dimensions(found[0], names)}: {_asked(first)}, but {lead} {sizes}{tail}"
    asked = _asked(first)
    alike = all(_asked(group[0]) == asked for group in found) and first.declared is not None
    parts = []
    for group in found[:most]:
        own = "" if alike else f" ({_asked(group[0])})"
        parts.append(f"{dimensions(group, names)} {_sizes(group[0])}{own}")
    left = sum(len(group) for group in found[most:])
    if left:
        parts.append(count(left, "more dimension"))
    text = f"{asked[0].upper()}{asked[1:]}, but {lead}" if alike else f"{lead[0].upper()}{lead[1:]}"
    apart = len(parts) > 1 and any(", " in part for part in parts)
    listed = f"{'; '.join(parts[:-1])}; and {parts[-1]}" if apart else join(parts)
    return f"{text} {listed}{tail}"


def _asked(dim: Dimension) -> str:
    if dim.declared is None:
        return f"declared fixed at {dim.example}"
    if not automatic(dim):
        return f"declared {declared(dim)}"
    sizes = declared(dim)
    return f"left to torch ({_AUTO}{'' if sizes == _ANY else f', {sizes}'})"


def limited(dim: Dimension) -> bool:
    """Whether it is known which sizes are admitted, and that some are not."""
    held = dim.admitted
    return held is not None and held.known and not held.whole and held.text != _ANY


def _sizes(dim: Dimension) -> str:
    """The admitted sizes after the words "only for"."""
    if dim.admitted is None or not dim.admitted.known:
        return _SOME
    text = admitted(dim) if limited(dim) else _ANY
    return f"sizes {text}" if text.startswith(("equal ", "at ")) else text


def state(finding: Finding) -> str:
    """The verdict, or ``repaired``."""
    return "repaired" if finding.repaired else finding.verdict


def verdict(finding: Finding) -> str:
    """``confirmed: a size inside the declared range was run, …``."""
    known = VERDICTS[finding.verdict]
    if finding.verdict == "confirmed" and left_to_torch(finding):
        known = "another size was run, and the results differ"
    repaired = "; repaired in the returned model" if finding.repaired else ""
    return f"{finding.verdict}: {known}{repaired}"


def effect(change: Change, findings: Sequence[Finding] = ()) -> str:
    """What a change does to the admitted sizes, with the number of its finding and what became of that."""
    if change.finding is None:
        return EFFECTS[change.effect]
    number = f" (finding {change.finding + 1})"
    known = findings[change.finding] if 0 <= change.finding < len(findings) else None
    if change.effect == "restricts" and known is not None:
        if known.repaired:
            return f"was restricting; repaired{number}"
        if known.verdict == "harmless":
            return f"was restricting; shown harmless{number}"
    return EFFECTS[change.effect] + number


def summary(report: ReportData) -> str:
    """One or two sentences: what the report says as a whole."""
    dynamic = {(d.input, d.axis) for i in report.inputs for d in i.dims if d.declared}
    warned = [f for f in report.findings if f.warns]
    repaired = [f for f in report.findings if f.repaired]
    parts = []
    if warned:
        kinds = [
            f"{number} {word}"
            for word in ("confirmed", "unconfirmed")
            if (number := sum(f.verdict == word for f in warned))
        ]
        parts.append(f"{count(len(warned), 'finding')} ({', '.join(kinds)}){_reach(warned, dynamic)}.")
    if repaired:
        parts.append(_mended(report, repaired, "more " if warned else ""))
    if not (warned or repaired or report.missing or report.error):
        parts.append(_nothing_lost(report, dynamic))
    if report.missing:
        parts.append("A part of the evidence is missing: what is not listed here is unknown, not fine.")
    if report.error:
        seen = report.findings or report.inputs or report.declarations
        parts.append(f"The export raised an exception{'; this is what was found until then' if seen else ''}.")
    return " ".join(parts)


def _mended(report: ReportData, repaired: Sequence[Finding], more: str) -> str:
    """The findings that are repaired, and where the returned model was run."""
    tries = report.repair.tries if report.repair else ()
    sizes = {tuple(one.sizes.items()) for one in tries if one.state == "agrees"}
    ran = f"{len(sizes)} {'sets' if len(sizes) > 1 else 'set'} of sizes" if sizes else "the counterexamples"
    said = f"the returned model agrees with eager PyTorch at {ran}"
    return f"{count(len(repaired), f'{more}finding')}, repaired: {said}."


def _nothing_lost(report: ReportData, dynamic: set[tuple[str, int]]) -> str:
    """For a report in which nothing warns: whether eager PyTorch itself takes fewer sizes."""
    inherent = {(d.input, d.axis): d for f in report.findings if f.verdict == "inherent" for d in f.dims}
    if inherent:
        fixed = all(admitted(dim).startswith("exactly ") for dim in inherent.values())
        verb = "is" if len(inherent) == 1 else "are"
        what = f"{count(len(inherent), 'dimension')} {verb} {'fixed' if fixed else 'restricted'}"
        return f"Nothing was lost silently; {what}, and eager PyTorch rejects other sizes too."
    return "No specialized dimension was found." if dynamic else "No dimension was declared dynamic."


def _reach(warned: Sequence[Finding], dynamic: set[tuple[str, int]]) -> str:
    """How many of the dynamic dimensions the findings touch; empty for none."""
    touched = len({(d.input, d.axis) for f in warned for d in f.dims} & dynamic)
    if not touched:
        return ""
    verb = "is" if touched == 1 else "are"
    if not any(f.verdict == "confirmed" for f in warned):
        verb = "may be"
    whole = "the only dynamic dimension" if len(dynamic) == 1 else f"{touched} of {len(dynamic)} dynamic dimensions"
    than = "the file says" if all(map(_still_dynamic, warned)) else "were declared"
    return f": {whole} {verb} right at fewer sizes than {than}"
