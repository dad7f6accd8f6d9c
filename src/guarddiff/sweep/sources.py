"""Where cases come from: torch's operator database, the catalogue, packages of models."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from guarddiff.sweep.case import GROUPS, Case, Group, Trial

_ROOMS: dict[Group, str] = {
    "ops": "guarddiff.sweep.operators",
    "catalogue": "guarddiff.sweep.catalogue",
    "models": "guarddiff.sweep.models",
}


def cases(group: Group, wanted: Callable[[str], bool] | None = None) -> list[Case]:
    """The cases of a group, in a fixed order. For ``models`` those of the packages that are installed.

    ``wanted``: which families, by their names; None all. Of ``ops`` the others need not be made then.
    """
    if group == "ops":
        operators: list[Case] = _room(group).cases(wanted)
        return operators
    found: list[Case] = _room(group).cases()
    return [case for case in found if wanted is None or wanted(case.family)]


def families(group: Group) -> list[str]:
    """The families of a group; of ``ops`` those too of which no sample is a case."""
    if group == "ops":
        operators: list[str] = list(_room(group).families())
        return operators
    return list(dict.fromkeys(case.family for case in cases(group)))


def case(key: str) -> Case:
    """The case of this key. Raises KeyError where there is none."""
    group = key.split("/", 1)[0]
    for known in GROUPS:
        if group == known:
            found: Case = _room(known).case(key)
            return found
    raise KeyError(f"{key!r} is no case: a key begins with {', '.join(f'{known}/' for known in GROUPS)}")


def trial(case: Case) -> Trial:
    """What the case is about, made anew. Raises what making it raises."""
    made: Trial = _room(case.group).trial(case)
    return made


def _room(group: Group) -> Any:
    return import_module(_ROOMS[group])
