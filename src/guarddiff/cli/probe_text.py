"""What a probe showed, as terminal text and as JSON."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from guarddiff.render import words
from guarddiff.replay.probing import Carrier, ProbeResult, Run, Suspect, Value

FORMAT = "guarddiff-probe"
VERSION = 1
_WIDTH = 110
_MOST = 10

ONLY_SUSPECTED = (
    "Without the source model this can only be suspected: the source model may refuse the same sizes, and values were "
    "not compared. `guarddiff check` compares with it."
)


def to_text(found: ProbeResult, name: str) -> str:
    """The result for a terminal."""
    sections = [
        [f"guarddiff probe of {words.clean(name, 80)}: {found.status}", *textwrap.wrap(_summary(found), _WIDTH)],
        _listed("Inputs", map(_value, found.inputs)),
        _listed("Outputs", map(_value, found.outputs)),
        _listed("Fails", _runs(found.failing)),
        _listed("Shapes that contradict the declared ones", _contradictions(found)),
        _listed("Nodes that can't fit every declared size", _suspects(found.suspects)),
        _listed("Nodes that carry a size at which it runs", map(_carrier, found.carriers)),
        _listed("Fails below the sizes at which it runs, perhaps rightly", _runs(found.too_small)),
        _listed("Missing", _first([words.clean(words.shorter(text)) for text in found.missing], "more")),
        textwrap.wrap(ONLY_SUSPECTED, _WIDTH),
    ]
    return "\n\n".join("\n".join(section) for section in sections if section) + "\n"


def to_json(found: ProbeResult) -> str:
    """The result as versioned JSON in ASCII, ending in a newline."""
    content = asdict(found)
    content["failing"] = [run.sizes for run in found.failing]
    content["too_small"] = [run.sizes for run in found.too_small]
    data = {"format": FORMAT, "version": VERSION, "note": ONLY_SUSPECTED, **content}
    return json.dumps(data, indent=1, ensure_ascii=True, allow_nan=False) + "\n"


def _summary(found: ProbeResult) -> str:
    if not found.symbols:
        return "No input is declared dynamic: there are no other sizes to run." + (
            "" if found.status != "incomplete" else " A part could not be looked at."
        )
    ran = sum(run.state == "ran" for run in found.runs)
    moved = words.some([words.clean(name, 40) for name in found.symbols], 6)
    text = f"Moved {moved}: it ran at {ran} of {words.count(len(found.runs), 'point')} tried."
    if found.status == "clean":
        return f"{text} Nothing was seen that contradicts the file."
    if found.status == "incomplete":
        return f"{text} Something could not be looked at: that is unknown, not fine."
    return text


def _value(value: Value) -> str:
    if value.shape is None:
        return f"{words.clean(value.name, 80)}: {words.clean(value.type, 40)}, no shape declared"
    sizes = ", ".join("?" if size is None else words.clean(str(size), 60) for size in value.shape)
    return f"{words.clean(value.name, 80)}: {words.clean(value.type, 40)} ({sizes})"


def _runs(runs: Sequence[Run]) -> list[str]:
    """Runs that failed, those with the same words together."""
    together: dict[str, list[Run]] = {}
    for run in runs:
        together.setdefault(words.shorter(run.why).split(". ")[0][:80], []).append(run)
    lines = []
    for same in together.values():
        at = words.some([_point(run) for run in same], 3, "sizes")
        lines.append(f"at {at}: {words.shorter(same[0].why) or same[0].state}")
    return _first(lines, "more kinds of failure")


def _contradictions(found: ProbeResult) -> list[str]:
    lines = [f"at {_point(run)}: {words.clean(text)}" for run in found.runs for text in run.contradictions]
    return _first(lines, "more")


def _suspects(suspects: Sequence[Suspect]) -> list[str]:
    lines = []
    for suspect in suspects:
        source = f" [{words.clean(suspect.source, 120)}]" if suspect.source else ""
        lines.append(f"{_node(suspect.op, suspect.node)}: {words.clean(suspect.why)}{source}")
    return _first(lines, "more nodes")


def _carrier(carrier: Carrier) -> str:
    return f"{_node(carrier.op, carrier.node)}: {carrier.number} in {words.clean(carrier.where, 60)}"


def _node(op: str, name: str) -> str:
    return f"{words.clean(op, 40)} {words.clean(name, 60)}".rstrip()


def _point(run: Run) -> str:
    sizes = ", ".join(f"{words.clean(name, 40)}={size}" for name, size in run.sizes.items())
    return sizes if len(run.sizes) == 1 else f"({sizes})"


def _first(lines: list[str], more: str) -> list[str]:
    left = len(lines) - _MOST
    return [*lines[:_MOST], f"{left} {more}"] if left > 0 else lines


def _listed(title: str, items: Iterable[str]) -> list[str]:
    lines = [line for item in items for line in textwrap.wrap(f"- {item}", _WIDTH, subsequent_indent="  ")]
    return [f"{title}:", *lines] if lines else []
