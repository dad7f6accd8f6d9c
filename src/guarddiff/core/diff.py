"""What one stage added to the snapshot before it."""

from __future__ import annotations

from collections.abc import Iterable

from guarddiff.core.snapshot import Guard, Snapshot


def added(before: Snapshot | None, after: Snapshot) -> tuple[Guard, ...]:
    """Guards of ``after`` that ``before`` does not hold, compared as sets of texts, never as counts.

    A range that became narrower counts as added: its text differs. ``before`` None means that nothing was there.
    """
    known = {(g.kind, g.text) for g in before.guards} if before else set()
    return tuple(unique(g for g in after.guards if (g.kind, g.text) not in known))


def unique(guards: Iterable[Guard]) -> list[Guard]:
    """The guards without repeated (kind, text), the first one kept; one with an origin beats one without."""
    kept: dict[tuple[str, str], Guard] = {}
    for guard in guards:
        key = (guard.kind, guard.text)
        if key not in kept or (kept[key].origin is None and guard.origin is not None):
            kept[key] = guard
    return list(kept.values())
