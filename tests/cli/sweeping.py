"""``guarddiff`` whose cases need no torch: ``python sweeping.py sweep ops …``."""

from __future__ import annotations

import sys

from tests.sweep.rooms import ROOM, cases

from guarddiff.cli import main
from guarddiff.sweep import sources, worker
from guarddiff.sweep.case import Case

NAMES = ("a", "wrong", "abort", "raise", *(f"slow-{number}" for number in range(8)))

if __name__ == "__main__":

    def known(group: str, wanted: object = None) -> list[Case]:
        del wanted
        return cases(*NAMES) if group == "ops" else []

    sources.cases = known  # type: ignore[assignment]
    worker.ROOM = ROOM
    sys.exit(main())
