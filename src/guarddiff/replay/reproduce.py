"""Minimal reproductions: for each confirmed finding a standalone script that was seen to show the difference."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch

from guarddiff.core.finding import Finding, dimension_sizes
from guarddiff.core.log import say
from guarddiff.core.privacy import scrub
from guarddiff.core.proof import Reproduction
from guarddiff.replay import declaring, isolate, operator_source, script, shrink
from guarddiff.replay.model_source import Model
from guarddiff.replay.prove import Prover
from guarddiff.replay.python_source import Unwritable
from guarddiff.replay.run import Unavailable, one_line
from guarddiff.replay.script import Sketch
from guarddiff.replay.workbench import START_SECONDS, Shown, Workbench, fresh

MOST_LINES = 40
_LONGEST = 2000
"""Characters of what a script printed."""
Level = Callable[[Finding, "_Work"], Iterator[Sketch]]
_FRESH_SHARE = 15.0
"""Seconds that are set aside for the run in a fresh process."""
_POLISHING = 8.0
"""Seconds for making a script smaller that is short enough already."""


@dataclass(frozen=True)
class Call:
    """What the user gave to ``torch.onnx.export`` that matters here.

    ``parameters`` are those of ``forward``, in order; ``dynamic_shapes`` and ``dynamic_axes`` the user's own objects.
    """

    parameters: tuple[str, ...] = ()
    dynamic_shapes: Any = None
    dynamic_axes: Any = None
    input_names: tuple[str, ...] | None = None
    opset_version: int | None = None
    optimize: bool = True


def reproductions(
    findings: Sequence[Finding], prover: Prover, call: Call, deadline_seconds: float = 120.0
) -> list[Finding]:
    """The findings, every confirmed one with its reproduction. Never raises: what went wrong becomes ``reason``."""
    found = list(findings)
    wanted = [index for index, finding in enumerate(findings) if finding.verdict == "confirmed"]
    if not wanted:
        return found
    ran: dict[str, Shown | None] = {}
    try:
        with Workbench(time.monotonic() + START_SECONDS) as bench:
            aside = max(_FRESH_SHARE, 3 * bench.start())
            end = bench.deadline = time.monotonic() + max(deadline_seconds, 2 * aside)  # a slow machine gets more
            for place, index in enumerate(wanted):
                share = (end - time.monotonic()) / (len(wanted) - place)
                made = _one(found[index], _Work(prover, call, bench, time.monotonic() + share, ran, aside))
                found[index] = replace(found[index], reproduction=made)
    except Exception as error:
        say(logging.ERROR, "guarddiff could not make reproductions", error)
        for index in wanted:
            if found[index].reproduction is None:
                found[index] = replace(found[index], reproduction=_none(f"making it failed ({one_line(error)})"))
    return found


def _none(reason: str) -> Reproduction:
    return Reproduction(reason=reason)


@dataclass
class _Work:
    """What the making of one reproduction needs.

    ``end`` is when it has to be done; ``aside`` are the seconds of it that are kept for the run in a fresh process.
    """

    prover: Prover
    call: Call
    bench: Workbench
    end: float
    ran: dict[str, Shown | None]
    aside: float = _FRESH_SHARE
    reasons: list[str] = field(default_factory=list)
    _model: Model | None = None

    def model(self, finding: Finding) -> Model:
        if self._model is None:
            self._model = Model(finding, self.prover)
        return self._model

    def shows(self, sketch: Sketch) -> Shown | None:
        return self.bench.shows(script.render(sketch))

    def time_left(self) -> bool:
        return time.monotonic() < self.end - self.aside


def _one(finding: Finding, work: _Work) -> Reproduction:
    try:
        if finding.counterexample is None:
            return _none("the finding has no counterexample")
        for level in _ladder(finding):
            if time.monotonic() >= work.end:
                break
            for sketch in _sketches(level, finding, work):
                made = _attempt(finding, sketch, work)
                if made is not None:
                    return made
        if time.monotonic() >= work.end:
            work.reasons.insert(0, "the time for it was used up")
        why = "; ".join(dict.fromkeys(work.reasons)) or "neither the operator nor a part of the model's code shows it"
        return _none(why)
    except Exception as error:
        say(logging.ERROR, "guarddiff could not make a reproduction", error)
        return _none(f"making it failed ({one_line(error)})")


def _sketches(level: Level, finding: Finding, work: _Work) -> Iterator[Sketch]:
    """The candidates of one level; what keeps it from giving any becomes a reason."""
    try:
        yield from level(finding, work)
    except (isolate.NotIsolable, Unavailable, Unwritable) as error:
        work.reasons.append(str(error))
    except Exception as error:
        say(logging.DEBUG, "a level of the reproduction could not be tried", error)
        work.reasons.append(one_line(error))


def _attempt(finding: Finding, sketch: Sketch, work: _Work) -> Reproduction | None:
    """The reproduction from this sketch, made small and run in a fresh process; None where it does not show it."""
    sketch = replace(sketch, heading=_heading(finding))
    shown = work.shows(sketch)
    say(logging.DEBUG, f"candidate {sketch.scope}: {shown} {work.bench.last_error}\n{script.render(sketch)}")
    if shown is None:
        return None
    begun = time.monotonic()

    def worth_it() -> bool:
        spent = time.monotonic() - begun
        return work.time_left() and (spent < _POLISHING or _short(shrinker.best) is None)

    shrinker = shrink.Shrinker(sketch, shown, work.shows, worth_it)
    shrink.reduce(shrinker)
    for candidate in (shrinker.best, sketch):
        text = _short(candidate)
        if text is None:
            work.reasons.append(f"the smallest script has more than {MOST_LINES} lines")
            continue
        text = scrub(text)
        try:
            if text not in work.ran:
                work.ran[text] = fresh(text, max(2 * work.aside, work.bench.deadline - time.monotonic()))
        except TimeoutError as error:
            work.reasons.append(str(error))
            break
        done = work.ran[text]
        if done is not None:
            return Reproduction(text, scrub(done.output.rstrip("\n"))[:_LONGEST], candidate.scope)  # type: ignore[arg-type]
        work.reasons.append("the script did not show the difference in a fresh process")
    return None


def _short(sketch: Sketch) -> str | None:
    """The script in at most MOST_LINES lines; None where it is longer."""
    for blank in (True, False):
        text = script.render(sketch, blank)
        if len(text.splitlines()) <= MOST_LINES:
            return text
    return None


def _heading(finding: Finding) -> str:
    what = " ".join(scrub(finding.op).split())[:60]
    about = f"{what}, lost at {finding.stage}" if what and what != "unknown" else f"lost at {finding.stage}"
    return f"{about}: the exported model is right at the example's sizes, wrong at others (torch {torch.__version__})"


def _ladder(finding: Finding) -> list[Level]:
    """What is tried, in order."""
    if finding.stage == "declare":
        return [_bare, _whole]
    return [_operators, partial(_code, style=0), partial(_code, style=1), _whole]


def _operators(finding: Finding, work: _Work) -> Iterator[Sketch]:
    """The operator alone: with the user's way of declaring, then with another."""
    prover = work.prover
    if finding.origin.node is None or finding.origin.branch or prover.tools.captured is None:
        return
    cut = isolate.cut(prover.tools.captured, finding.origin.node, prover.tools.size_text)
    point = {**prover.sizes, **_point(finding, prover)}
    own = _own_inputs(finding, prover)
    for style in declaring.styles(finding, prover):
        declared = partial(_declared, style, declaring.short_names())
        yield operator_source.sketch(cut, prover.sizes, point, declared, own)


def _declared(style: declaring.Style, name_of: Callable[[str], str], size: int | str) -> str:
    return style(name_of(str(size)))


def _code(finding: Finding, work: _Work, style: int) -> Iterator[Sketch]:
    """The model's own code around the line."""
    yield from work.model(finding).sketches(declaring.styles(finding, work.prover)[style])


def _whole(finding: Finding, work: _Work) -> Iterator[Sketch]:
    """The whole model, declared as the user did."""
    yield from work.model(finding).whole(_verbatim(work))


def _bare(finding: Finding, work: _Work) -> Iterator[Sketch]:
    """The user's declaration with a module that does nothing."""
    yield from work.model(finding).bare(_verbatim(work))


def _verbatim(work: _Work) -> str:
    call = work.call
    text = declaring.verbatim(call.dynamic_shapes, call.dynamic_axes, call.input_names)
    if text is None:
        raise Unwritable("the declaration can't be written")
    return text


def _point(finding: Finding, prover: Prover) -> dict[str, int]:
    shapes = finding.counterexample.sizes if finding.counterexample is not None else {}
    return dimension_sizes(prover.dims, shapes)[0]


def _own_inputs(finding: Finding, prover: Prover) -> Mapping[str, tuple[torch.Tensor, torch.Tensor]]:
    """The model's inputs by ONNX name at the example's and at the counterexample's sizes."""
    example = prover.example
    shapes = dict(finding.counterexample.sizes) if finding.counterexample is not None else {}
    return {
        name: (leaf, other)
        for name, leaf, other in zip(example.names, example.leaves, example.at(shapes))
        if name and isinstance(leaf, torch.Tensor) and isinstance(other, torch.Tensor)
    }
