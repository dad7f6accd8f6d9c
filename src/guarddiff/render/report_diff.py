"""What changed between two reports, as terminal text and as JSON."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable
from typing import Any

from guarddiff.core.compare_reports import DimensionChange, FindingChange, ReportDiff
from guarddiff.core.finding import Finding
from guarddiff.render import words

FORMAT = "guarddiff-diff"
VERSION = 1
_WIDTH = 110


def to_text(diff: ReportDiff) -> str:
    """The comparison for a terminal."""
    fixed, new = ("Fixed", "New") if diff.same_model else ("Only in the old report", "Only in the new report")
    sections = [
        [*textwrap.wrap(_title(diff), _WIDTH), _summary(diff)],
        _listed("Caution", map(words.clean, diff.caveats)),
        _listed("Environment", (_version(*row) for row in diff.environment)),
        _listed(fixed, map(_finding, diff.fixed)),
        _listed(new, map(_finding, diff.new)),
        _listed("Changed", map(_changed, diff.changed)),
        _listed("Not seen, as the new report is incomplete: fixed or not is unknown", map(_finding, diff.unseen)),
        _listed("Missing now", (f"{words.clean(part, 80)}: {words.clean(why)}" for part, why in diff.lacking)),
    ]
    return "\n\n".join("\n".join(section) for section in sections if section) + "\n"


def to_json(diff: ReportDiff) -> str:
    """The comparison as versioned JSON in ASCII, ending in a newline."""
    data = {
        "format": FORMAT,
        "version": VERSION,
        "worse": diff.worse,
        "better": diff.better,
        "models": {"old": diff.models[0], "new": diff.models[1]},
        "status": {"old": diff.status[0], "new": diff.status[1]},
        "fixed": [_record(finding) for finding in diff.fixed],
        "new": [_record(finding) for finding in diff.new],
        "changed": [_change_record(change) for change in diff.changed],
        "unseen": [_record(finding) for finding in diff.unseen],
        "same": diff.same,
        "environment": [{"name": name, "old": old, "new": new} for name, old, new in diff.environment],
        "missing": [{"part": part, "why": why} for part, why in diff.lacking],
        "caveats": list(diff.caveats),
    }
    return json.dumps(data, indent=1, ensure_ascii=True, allow_nan=False) + "\n"


# --- text ---


def _title(diff: ReportDiff) -> str:
    old, new = (words.clean(name, 80) for name in diff.models)
    model = (f" of {new}" if new else "") if diff.same_model else f" of {old or 'a model'} and {new or 'a model'}"
    before, after = diff.status
    status = f"{before} before and after" if before == after else f"{before} → {after}"
    return f"guarddiff diff{model}: {'something' if diff.worse else 'nothing'} got worse ({status})"


def _summary(diff: ReportDiff) -> str:
    fixed, new = ("fixed", "new") if diff.same_model else ("only in the old", "only in the new")
    counts = [
        (len(diff.fixed), fixed),
        (len(diff.new), new),
        (len(diff.changed), "changed"),
        (len(diff.unseen), "not seen"),
        (diff.same, "the same"),
    ]
    listed = ", ".join(f"{number} {word}" for number, word in counts if number) or "no findings in either"
    return f"Findings: {listed}."


def _listed(title: str, items: Iterable[str]) -> list[str]:
    lines = [line for item in items for line in textwrap.wrap(f"- {item}", _WIDTH, subsequent_indent="  ")]
    return [f"{title}:", *lines] if lines else []


def _version(name: str, old: str | None, new: str | None) -> str:
    return f"{words.clean(name, 40)} {_or_none(old)} → {_or_none(new)}"


def _or_none(version: str | None) -> str:
    return "none" if version is None else words.clean(version, 80)


def _finding(finding: Finding) -> str:
    return f"{words.state(finding)}: {words.headline(finding)} [{_at(finding)}]"


def _at(finding: Finding) -> str:
    return "; ".join(part for part in (words.operator(finding), words.where(finding)) if part)


def _changed(change: FindingChange) -> str:
    old, new = change.old, change.new
    mark = "worse" if change.worse else "better" if change.better else "other"
    before, after = words.state(old), words.state(new)
    parts = [f"verdict {before} → {after}"] if before != after else []
    parts += [f"{what} {_quoted(one)} → {_quoted(other)}" for what, one, other in change.moved]
    parts += [_dimension(dim) for dim in change.dims]
    return f"{mark}: {'; '.join(parts)} [{_at(new)}]"


def _quoted(text: str) -> str:
    return words.clean(text, 80) or "none"


def _dimension(dim: DimensionChange) -> str:
    place = words.clean(dim.place, 80)
    name = "" if dim.name in ("", dim.place) else f" ({words.clean(dim.name, 40)})"
    return f"{place}{name} {words.clean(dim.old)} → {words.clean(dim.new)}"


# --- JSON ---


def _record(finding: Finding) -> dict[str, Any]:
    source = finding.origin.source
    return {
        "stage": finding.stage,
        "op": finding.op,
        "module_path": finding.origin.module_path,
        "source": str(source) if source else None,
        "verdict": finding.verdict,
        "dims": [
            {
                "input": dim.input,
                "axis": dim.axis,
                "name": dim.name,
                "declared": str(dim.declared) if dim.declared else None,
                "admitted": dim.admitted.text if dim.admitted and dim.admitted.known else None,
            }
            for dim in finding.dims
        ],
    }


def _change_record(change: FindingChange) -> dict[str, Any]:
    return {
        "worse": change.worse,
        "better": change.better,
        "old": _record(change.old),
        "new": _record(change.new),
        "moved": [{"what": what, "old": old, "new": new} for what, old, new in change.moved],
        "dims": [
            {"place": dim.place, "name": dim.name, "old": dim.old, "new": dim.new, "direction": dim.direction}
            for dim in change.dims
        ],
    }
