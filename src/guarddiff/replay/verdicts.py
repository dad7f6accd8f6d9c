"""Verdicts from what was tried, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from guarddiff.core.finding import Finding, Verdict
from guarddiff.replay.run import Outcome

ENOUGH = 3
"""Sizes that break a guard and agree, before it is called harmless."""
ELSEWHERE = "the decomposed program agrees with eager PyTorch: what is wrong there came later"


def without_difference(finding: Finding, tried: Sequence[Outcome], apart: bool) -> Finding:
    """The verdict where no try differs; ``apart``: some tried size broke this finding's guards and no other's."""
    agreed = sum(outcome.state == "agrees" for outcome in tried)
    rejected = [outcome for outcome in tried if outcome.state == "rejected"]
    unknown = [outcome for outcome in tried if outcome.state == "unknown"]
    if unknown and agreed < ENOUGH:
        return given(finding, "unconfirmed", unknown[0].text)
    if agreed:
        told = f"{agreed} sizes that break the guards were run and agree with eager PyTorch"
        if agreed == 1:
            told = "1 size that breaks the guards was run and agrees with eager PyTorch"
        if any(outcome.text == ELSEWHERE for outcome in tried):
            told = f"at {agreed} sizes that break the guards {ELSEWHERE}"
        return given(finding, "harmless", told)
    if not apart:
        why = (
            f"eager PyTorch rejects every size tried ({rejected[0].text}), but each breaks another finding's guards too"
        )
        return given(finding, "unconfirmed", why)
    return given(
        finding, "inherent", f"eager PyTorch rejects every such size too ({len(rejected)} tried: {rejected[0].text})"
    )


def proved_there(findings: Sequence[Finding], shapes: dict[str, tuple[int, ...]]) -> bool:
    """Whether a finding that is confirmed already excludes these shapes: the difference may be its doing."""
    return any(f.verdict == "confirmed" and f.admits(shapes) is False for f in findings)


def given(finding: Finding, verdict: Verdict, reason: str) -> Finding:
    """The finding with this verdict, and the reason behind those that it has."""
    return replace(finding, verdict=verdict, reason=join(finding.reason, reason))


def at_example(outcome: Outcome) -> str:
    """Why nothing can be concluded when the try at the example's own sizes does not agree."""
    if outcome.difference is not None:
        return (
            "the ONNX model differs from eager PyTorch at the example's own sizes "
            f"(eager: {outcome.difference.expected}; ONNX Runtime: {outcome.difference.got})"
        )
    return f"the model could not be run at the example's own sizes ({outcome.text})"


def join(first: str, second: str) -> str:
    """Two reasons in one line."""
    return f"{first}; {second}" if first else second
