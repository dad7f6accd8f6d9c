"""Small modules typical of real models, each with the sizes at which its export must be right.

Every module of this package has ``entries() -> list[Entry]``.
"""

from __future__ import annotations

import functools
from importlib import import_module

from guarddiff.sweep.case import Case, Trial
from guarddiff.sweep.catalogue.entry import Entry

SHELVES = (
    "pooling",
    "pyramids",
    "resizing",
    "padding",
    "arithmetic",
    "branches",
    "windows",
    "positions",
    "vision",
    "detection",
    "attention",
    "queries",
    "relations",
    "recurrent",
    "einsum",
    "masks",
    "indexing",
    "scattering",
    "splitting",
    "spectral",
    "normalizing",
    "sequences",
    "tokens",
    "views",
)
"""The modules of this package that hold entries, in the order in which they are swept."""

SECONDS = 300.0
"""How long measuring one entry may take: torch itself needs minutes for a few, on a busy machine."""


@functools.cache
def every() -> dict[str, Entry]:
    """Key → entry, in a fixed order. Raises ValueError where two have one name."""
    found: dict[str, Entry] = {}
    for shelf in SHELVES:
        for entry in import_module(f"{__name__}.{shelf}").entries():
            key = _case(entry).key
            if key in found:
                raise ValueError(f"two entries of the catalogue are named {key!r}")
            found[key] = entry
    return found


def cases() -> list[Case]:
    """All cases."""
    return [_case(entry) for entry in every().values()]


def case(key: str) -> Case:
    """The case of this key. Raises KeyError where there is none."""
    return _case(every()[key])


def trial(case: Case) -> Trial:
    """What the case is about, made anew."""
    return every()[case.key].trial()


def _case(entry: Entry) -> Case:
    return Case("catalogue", entry.family, entry.name, SECONDS)
