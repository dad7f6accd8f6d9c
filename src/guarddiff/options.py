"""guarddiff's own keywords, checked."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

OnFinding = Literal["warn", "raise", "ignore"]
Replay = Literal["findings", "full", "off"]
ReportTo = str | os.PathLike[str] | None


@dataclass(frozen=True)
class Options:
    """What the user asked of guarddiff, beside what is passed on to torch.

    ``sizes`` are points of the user's own to be run as well: name of a dimension (``h``, ``x[2]``) to its size;
    dimensions that a point does not name keep the example's size. ``search``: run the model at further sizes, as
    ``replay="full"`` does, without its ladders and reproductions.
    """

    on_finding: OnFinding = "warn"
    replay: Replay = "findings"
    repair: bool = False
    report_to: ReportTo = None
    sizes: tuple[Mapping[str, int], ...] = ()
    search: bool = False

    @property
    def thorough(self) -> bool:
        """Whether ladders and reproductions are made: with ``replay="full"``, and for a report that is written."""
        return self.replay == "full" or (self.replay == "findings" and self.report_to is not None)

    @property
    def searches(self) -> bool:
        """Whether the whole model is run at further sizes: with ``replay="full"``, and before a repair, which has to
        mend what leaves no guard as well."""
        return self.replay == "full" or ((self.repair or self.search) and self.replay == "findings")

    def __post_init__(self) -> None:
        _choice("on_finding", self.on_finding, get_args(OnFinding))
        _choice("replay", self.replay, get_args(Replay))
        if not isinstance(self.repair, bool):
            raise TypeError(f"repair must be True or False, not {self.repair!r}")
        if self.report_to is not None and not isinstance(self.report_to, (str, os.PathLike)):
            raise TypeError(f"report_to must be a folder's path or None, not {self.report_to!r}")


def _choice(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    """Raises TypeError for what is no text, ValueError for another word; both name what is allowed."""
    listed = ", ".join(repr(word) for word in allowed)
    if not isinstance(value, str):
        raise TypeError(f"{name} must be one of {listed}, not {value!r}")
    if value not in allowed:
        near = difflib.get_close_matches(value.lower(), allowed, n=1, cutoff=0.4)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{name} must be one of {listed}, not {value!r}{hint}")
