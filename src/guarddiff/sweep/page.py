"""The results of a sweep as a page in Markdown: the same text for the same results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from guarddiff.render import words
from guarddiff.render.commonmark import code, plain, table
from guarddiff.sweep import page_tables
from guarddiff.sweep.case import GROUPS
from guarddiff.sweep.figures import MODES, Counts, Recall, Repairs, Summary
from guarddiff.sweep.outcome import Outcome
from guarddiff.sweep.results import VERSIONS

TITLES = {"ops": "Operators", "catalogue": "Patterns of the catalogue", "models": "Models"}
_FAMILY = {"ops": "operator", "catalogue": "pattern", "models": "package"}
_FOLDER = "DIR"

_COUNTED = """- **Exported**: measured, and the export raised nothing. **Silently wrong**: exported, the input looks
  dynamic, and ONNX Runtime gives another shape, other values or an error where eager PyTorch runs.
- **Stage**: the first whose program is wrong. `example`: wrong at the example's own sizes already; `unknown`: could
  not be told. Both stand apart from recall, and so do cases that are right at all sizes of their own and wrong at one
  that guarddiff found (its counterexample, run with inputs of the case's own).
- **Warned**: guarddiff warns the user in this mode, whatever of. **Confirmed**: its strongest verdict is `confirmed`.
- **False alarm**: a right case with a warning; **false confirmed**: one with the verdict `confirmed`. **Unsure** cases
  are right at their own sizes while guarddiff proved a fault at others that could not be run again: they count
  neither way.
- **Cured**: `repair=True` returned a model that is right at all sizes of the case.
- **Not measured**: could not be made, is random, has no other sizes, hung or crashed: listed, counted nowhere."""


def render(
    summary: Summary,
    outcomes: Iterable[Outcome],
    environment: Mapping[str, Any],
    pictures: Sequence[tuple[str, str]] = (),
) -> str:
    """The page. ``environment`` is that of ``Results``; ``pictures`` are (what it shows, file beside the page)."""
    cases = list(outcomes)
    torch = str(environment.get("torch", "unknown"))
    blocks = [
        f"# Exports that are silently wrong: {plain(f'torch {torch}', 60)}",
        "<!-- Made by `guarddiff sweep page` from the results beside it. -->",
        _headline(summary),
    ]
    blocks += [f"![{plain(alt)}]({name})" for alt, name in pictures]
    blocks += ["## Figures", _counts(summary), _recall(summary), _alarms(summary), _repairs(summary)]
    blocks += ["What is counted:", _COUNTED]
    for group in _groups(cases):
        blocks += _wrong(group, summary, [one for one in cases if one.group == group and one.silent])
    blocks += page_tables.missed(summary)
    blocks += page_tables.alarms(summary, cases)
    blocks += page_tables.bad_repairs(summary)
    blocks += page_tables.loud(cases)
    blocks += page_tables.unmeasured(summary)
    blocks += page_tables.times(summary, environment)
    blocks += _reproduce(_groups(cases), environment)
    return "\n\n".join(block for block in blocks if block) + "\n"


_TITLES = {
    "all": "**all stages**",
    "example": "example (apart)",
    "unknown": "unknown (apart)",
    "beyond": "sizes that guarddiff alone tried (apart)",
}


def _groups(cases: Sequence[Outcome]) -> list[str]:
    found = {one.group for one in cases}
    return [*(group for group in GROUPS if group in found), *sorted(found - set(GROUPS))]


def _headline(summary: Summary) -> str:
    """The sweep in one paragraph."""
    total = summary.total
    by_group = ", ".join(f"{plain(one.group)} {one.silent:,} of {one.exported:,}" for one in summary.groups)
    wrong = f"**{total.silent:,} of {total.exported:,} exports are silently wrong** ({by_group or 'nothing was run'})."
    recalled = [summary.recalled(mode, "all") for mode in MODES]
    right = [summary.rightly(mode) for mode in MODES]
    repaired = summary.repaired
    return (
        f"{wrong} Of those that go wrong at another size guarddiff warns: "
        f"{_modes([_of(one.warned, one.cases) for one in recalled])}. Of right ones it warns: "
        f"{_modes([_of(one.warned, one.cases) for one in right])}; and says `confirmed`: "
        f"{_modes([f'{one.confirmed:,}' for one in right])}. "
        f"`repair=True` cures {_of(repaired.cured, repaired.silent)}."
    )


def _modes(figures: Sequence[str]) -> str:
    """A figure of each mode."""
    default, full = figures
    return f'{default} by default, {full} with `replay="full"`'


def _of(part: int, whole: int) -> str:
    """``71 of 72 (98.6 %)``."""
    return f"{part:,} of {whole:,} ({percent(part, whole)})" if whole else "none of none"


def percent(part: int, whole: int) -> str:
    """``98.6 %``; never ``100 %`` or ``0 %`` for what is not; a dash of nothing."""
    if not whole:
        return "–"
    if part == 0 or part == whole:
        return "100 %" if part else "0 %"
    return f"{min(max(100 * part / whole, 0.1), 99.9):.1f} %"


def _counts(summary: Summary) -> str:
    rows = [_count(one) for one in (*summary.groups, summary.total)]
    head = ("group", "cases", "measured", "exported", "silently wrong", "wrong shape", "wrong values", "runtime error")
    return table((*head, "right", "refused input", "static input", "export error"), rows)


def _count(one: Counts) -> list[str]:
    states = ("wrong shape", "wrong values", "runtime error", "ok", "refused input", "static input", "export error")
    silent = f"**{one.silent:,}** ({percent(one.silent, one.exported)})"
    numbers = [f"{one.states.get(state, 0):,}" for state in states]
    return [plain(one.group), f"{one.cases:,}", f"{one.measured:,}", f"{one.exported:,}", silent, *numbers]


def _recall(summary: Summary) -> str:
    """A row for each stage with cases, always one for all of them."""
    rows = []
    for default in (one for one in summary.recall if one.mode == "default"):
        if not default.cases and default.of != "all":
            continue
        full = summary.recalled("full", default.of)
        title = _TITLES.get(default.of)
        rows.append([title or default.of, f"{default.cases:,}", *_recalled(default), *_recalled(full)])
    head = ("silently wrong at", "cases", "default: warned", "default: confirmed", "full: warned", "full: confirmed")
    return table(head, rows)


def _recalled(one: Recall) -> list[str]:
    return [f"{number:,} ({percent(number, one.cases)})" for number in (one.warned, one.confirmed)]


def _alarms(summary: Summary) -> str:
    rows = [
        [
            one.mode,
            f"{one.cases:,}",
            f"{one.warned:,} ({percent(one.warned, one.cases)})",
            f"{one.confirmed:,}",
            f"{one.unsure:,}",
        ]
        for one in summary.right
    ]
    return table(("mode", "right cases", "false alarms", "false confirmed", "unsure (apart)"), rows)


def _repairs(summary: Summary) -> str:
    sums = [Repairs.of(group, summary.repairs) for group in dict.fromkeys(one.group for one in summary.repairs)]
    lines = [
        [plain(one.group), *(f"{number:,}" for number in (one.silent, one.asked, one.returned, one.cured))]
        + [percent(one.cured, one.silent)]
        for one in (*sums, summary.repaired)
    ]
    return table(("repairs", "silently wrong", "asked", "returned", "cured", "share"), lines)


def _wrong(group: str, summary: Summary, silent: Sequence[Outcome]) -> list[str]:
    """The families of a group with what is wrong in them, and every case."""
    title = f"## {TITLES.get(group, plain(group))}"
    if not silent:
        return [title, "None is silently wrong."]
    families = [one for one in summary.families if one.group == group]
    cases = page_tables.cases(silent)
    if group != "models":
        cases = page_tables.folded(f"Every silently wrong case ({len(silent)})", cases)
    return [
        title,
        f"{words.count(len(silent), 'silently wrong case')}, {words.count(len(families), _FAMILY.get(group, 'kind'))}.",
        page_tables.families(families, {(one.group, one.family): one for one in summary.repairs}),
        cases,
    ]


def _reproduce(groups: Sequence[str], environment: Mapping[str, Any]) -> list[str]:
    packages = [name for name in VERSIONS if environment.get(name) and name != "python"]
    versions = [f"{name.replace('_', '-')}=={environment[name]}" for name in packages]
    python = environment.get("python")
    lines = [f"guarddiff sweep {group} --out {_FOLDER}" for group in groups if group in GROUPS]
    lines += [f"guarddiff sweep page {_FOLDER}"]
    named = [*(code(one, 80) for one in versions), *([plain(f"Python {python}", 40)] if python else [])]
    return [
        "## How to reproduce",
        f"Measured with {', '.join(named) or 'unknown versions'}.",
        "```text\n" + "\n".join(lines) + "\n```",
        "One case, with a full report: `guarddiff sweep case KEY --out report`, with its key from the tables.",
    ]
