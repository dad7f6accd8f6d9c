"""A report as an issue for PyTorch's bug template: a draft that a person has to check, sign and file."""

from __future__ import annotations

from dataclasses import dataclass, field

from guarddiff.core.dims import InputSpec
from guarddiff.core.finding import Finding
from guarddiff.core.report import ReportData
from guarddiff.render import filing, markdown, words
from guarddiff.render.commonmark import code, fenced, plain, table

LIMIT = 60_000
"""Longest text in characters; GitHub takes 65,536."""

_MOST_OTHERS = 20
_MOST_INPUTS = 100
_ATTACHED = "In the attached file (`….github-attachment.md`, beside this one)."
_NOT_YET = (
    "**Do not file this text as it is.** A tool wrote it, and the sign-off below is still empty. It must not be filed "
    "before a person has {done}, read every line and filled it in. Delete this paragraph then."
)
_RUN = "run the script by hand"
_WRITE = "written a script by hand that shows the difference, run it"
_BY_HAND = "Write one by hand: the facts of the export call stand below."
_MENDED = (
    "**guarddiff repaired this in the model that it returned.** The exporter's own result has the fault, and that is "
    "what is described here."
)
_UNPROVEN = (
    "**Nothing was confirmed by a run.** The finding is unconfirmed: reproduce the difference by hand first, or leave "
    "it unfiled."
)
_QUIET = "**This finding warns of nothing** ({verdict}): there is nothing to file."


@dataclass(frozen=True)
class _Section:
    """A part of the description. ``attachable``: it may move into the attachment; the last one moves first."""

    title: str
    blocks: list[str]
    attachable: bool = True

    @property
    def text(self) -> str:
        return "\n\n".join([f"### {self.title}", *self.blocks])


@dataclass
class _Draft:
    """The issue in order; ``attached`` are the sections that did not fit."""

    head: list[str]
    sections: list[_Section]
    tail: list[str]
    attached: list[_Section] = field(default_factory=list)

    def text(self) -> str:
        moved = [section.title for section in self.attached]
        shown = [s.text if s.title not in moved else f"### {s.title}\n\n{_ATTACHED}" for s in self.sections]
        return "\n\n".join([*self.head, *shown, *self.tail]) + "\n"


def render(report: ReportData, finding: int | None = None) -> str:
    """One issue about one finding, at most ``LIMIT`` characters long.

    ``finding`` is its number as in the other formats, from 1; None: the first that warns, else the first that was
    repaired. The other findings are listed in a line each, to be filed on their own. Raises ValueError where there is
    no finding of that number. For a report in which nothing warns and nothing was repaired the text says so.
    """
    number = _number(report, finding)
    if number is None:
        return f"Nothing to file: {plain(words.summary(report))}\n"
    return _fitted(report, number).text()


def attachment(report: ReportData, finding: int | None = None) -> str | None:
    """The sections that did not fit into ``render``'s text, whole; None where all did."""
    number = _number(report, finding)
    attached = _fitted(report, number).attached if number is not None else []
    if not attached:
        return None
    title = f"# guarddiff: attachment to finding {number} of {code(report.model) or 'the model'}"
    return "\n\n".join([title, *(section.text for section in attached)]) + "\n"


def _number(report: ReportData, finding: int | None) -> int | None:
    if finding is None:
        wanted = [n for n, f in enumerate(report.findings, 1) if f.warns]
        return next(iter([*wanted, *(n for n, f in enumerate(report.findings, 1) if f.repaired)]), None)
    if not 1 <= finding <= len(report.findings):
        raise ValueError(
            f"there is no finding {finding}: the report has {words.count(len(report.findings), 'finding')}"
        )
    return finding


def _fitted(report: ReportData, number: int) -> _Draft:
    """The draft with as many sections moved out as its length needs, from the last to the first."""
    finding = report.findings[number - 1]
    draft = _Draft(_head(report, finding), _sections(report, finding), _tail(report, number))
    for section in reversed(draft.sections):
        if len(draft.text()) <= LIMIT:
            break
        if section.attachable:
            draft.attached.insert(0, section)
    return draft


def _head(report: ReportData, finding: Finding) -> list[str]:
    """What a person has to do first, and the claim."""
    has_script = bool(finding.reproduction and finding.reproduction.script)
    blocks = [_NOT_YET.format(done=_RUN if has_script else _WRITE)]
    if finding.repaired:
        blocks.append(_MENDED)
    elif not finding.warns:
        blocks.append(_QUIET.format(verdict=finding.verdict))
    elif finding.verdict != "confirmed":
        blocks.append(_UNPROVEN)
    made = f"guarddiff {words.clean(report.environment.get('guarddiff', ''), 40)}".strip()
    slots = (
        "Checked by hand by (name or account):",
        "On which machine (operating system, processor, torch version):",
        "What was run by hand, and what was seen:",
        f"How this text was made: by the program {plain(made)}, from its report of one export. "
        "Other tools that had a hand in it:",
    )
    return [
        *blocks,
        "## Sign-off and disclosure",
        "\n".join(f"- {slot} \\_\\_\\_\\_" for slot in slots),
        "## Before filing: search words",
        "Nobody has searched for duplicates yet. Look at open and closed issues with these queries, then delete this "
        "section:",
        fenced(filing.queries(finding), "text"),
        "Title of the issue:",
        fenced([filing.title(finding)], "text"),
        "## 🐛 Describe the bug",
        filing.claim(finding),
    ]


def _sections(report: ReportData, finding: Finding) -> list[_Section]:
    """The description in order of what a maintainer needs first."""
    call = _Section("The export call", _call(report, finding))
    found = [_Section("Reproduction", _reproduction(finding)), call, _outcome(finding)]
    if finding.ladder:
        found.append(_Section("The program after each stage", markdown.ladder(finding.ladder)))
    found.append(_Section("Where it comes from", [_origin(finding)], attachable=False))
    if finding.guards:
        found.append(_Section("Guards", markdown.guards(finding, None)))
    if finding.decomposition:
        found.append(
            _Section("The operator before and after", markdown.decomposition(finding.decomposition, finding, None))
        )
    if finding.onnx_nodes:
        found.append(_Section("ONNX nodes", markdown.onnx_nodes(finding.onnx_nodes)))
    if report.declarations:
        found.append(_Section("What was declared, and read otherwise", markdown.declarations(report)))
    if report.missing:
        missing = [f"- {plain(m.part)}: {plain(m.why)}" for m in report.missing]
        found.append(_Section("What could not be read or tried", ["\n".join(missing)]))
    return found


def _reproduction(finding: Finding) -> list[str]:
    if finding.reproduction is None:
        return [f"No small script was looked for. {_BY_HAND}"]
    shown = markdown.reproduction(finding.reproduction, None)
    return shown if finding.reproduction.script else [*shown, _BY_HAND]


def _call(report: ReportData, finding: Finding) -> list[str]:
    """What a person needs to write the call again: the inputs by name with what was declared for each axis."""
    way = "dynamo=False" if finding.stage == "run" else "dynamo=True"
    said = f"`torch.onnx.export` with `{way}`"
    if report.model:
        said += f", of {code(report.model, 120)}"
    if not report.inputs:
        return [f"{said}. Its inputs are not known."]
    lines = [_input(spec) for spec in report.inputs[:_MOST_INPUTS]]
    left = len(report.inputs) - _MOST_INPUTS
    more = [f"{words.count(left, 'input')} left out; the JSON report has them."] if left > 0 else []
    head = ("Input", "Data type", "Example shape", "Declared per axis")
    return [f"{said}, with these inputs:", table(head, lines), *more]


def _input(spec: InputSpec) -> tuple[str, ...]:
    """Name, data type, shape of the example and the user's wording for each dynamic axis."""
    sizes = {axis: str(size) if isinstance(size, int) else "?" for axis, size in enumerate(spec.shape)}
    sizes |= {dim.axis: str(dim.example) for dim in spec.dims}
    shape = ", ".join(sizes[axis] for axis in sorted(sizes))
    asked = [
        f"{dim.axis}: {words.clean(dim.declared.text or str(dim.declared), 120)}" for dim in spec.dims if dim.declared
    ]
    shown = code(f"({shape}{',' if len(sizes) == 1 else ''})")
    return (
        code(spec.name, 120),
        code(spec.dtype, 60),
        shown,
        code(f"{{{', '.join(asked)}}}", 600) if asked else "all fixed",
    )


def _outcome(finding: Finding) -> _Section:
    """Both results in full, unlike in the other formats."""
    proof = finding.counterexample
    if proof is None:
        return _Section("Outcome", [f"Nothing was run: {plain(finding.reason) or 'no reason was recorded'}."])
    blocks = [
        f"At {code(words.shapes(proof.sizes)) or 'the same inputs'}, eager PyTorch gives:",
        fenced(_whole(proof.expected), "text"),
        "ONNX Runtime gives:",
        fenced(_whole(proof.got), "text"),
    ]
    if proof.scope == "operator":
        blocks.append(f"The {plain(words.alone(proof))}, taken from the model, was run.")
    return _Section("Outcome", blocks)


def _whole(result: str) -> list[str]:
    """A result with its line breaks, as far as it can be shown."""
    return [words.clean(line, 4000) for line in result[:8000].splitlines()] or ["nothing"]


def _origin(finding: Finding) -> str:
    """Stage, operator, module, source and rule as a list."""
    origin = finding.origin
    facts = {
        "Stage": f"{finding.stage} ({words.STAGES[finding.stage]})",
        "Operator": code(finding.op),
        "Module": code(words.module(origin.module_path, origin.source)),
        "Source line": code(words.place(origin.source)) if origin.source else "",
        "Source text": code(origin.source.text) if origin.source else "",
        "Rule": code(words.rule(origin.rule)) if origin.rule else "",
        "FX node": code(origin.node or ""),
        "Verdict": f"{words.verdict(finding)}{f' ({plain(finding.reason)})' if finding.reason else ''}",
        "Repair known to guarddiff": plain(finding.repair or ""),
    }
    return "\n".join(f"- {name}: {value}" for name, value in facts.items() if value)


def _tail(report: ReportData, number: int) -> list[str]:
    others = [(n, f) for n, f in enumerate(report.findings, 1) if (f.warns or f.repaired) and n != number]
    blocks = []
    if others:
        lines = [
            f"- Finding {n}, {words.state(f)}: {plain(words.headline(f, 2, 2), 150)}" for n, f in others[:_MOST_OTHERS]
        ]
        if len(others) > _MOST_OTHERS:
            lines.append(f"- {len(others) - _MOST_OTHERS} more in the report")
        said = "The same export has other root causes. They are not part of this issue: file one issue for each."
        blocks = ["### Other findings", said, "\n".join(lines)]
    return [*blocks, "## Versions", fenced(filing.versions(report.environment), "text")]
