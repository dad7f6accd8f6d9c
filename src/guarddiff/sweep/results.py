"""Results of a sweep as files hold them: one file, or a folder with one file per group."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from guarddiff.render import words
from guarddiff.sweep.case import GROUPS
from guarddiff.sweep.journal import JournalError
from guarddiff.sweep.journal import read as read_journal
from guarddiff.sweep.outcome import Outcome

PATTERN = "results-*.jsonl"
VERSIONS = (
    "torch",
    "onnx",
    "onnx_ir",
    "onnxruntime",
    "onnxscript",
    "numpy",
    "torchvision",
    "timm",
    "transformers",
    "guarddiff",
    "python",
)
"""What of the environment is the software's, in the order in which it is shown. All else is of one run."""


class ResultsError(ValueError):
    """There are no results, they can't be read, or they don't belong together."""


@dataclass(frozen=True)
class Results:
    """What was measured under one set of versions.

    Attributes:
        environment: Versions by name, and ``runs``: for each file its name (``file``), number of ``cases`` and whatever
            else its environment says: ``started``, ``seconds``, ``jobs``.
        outcomes: Key → outcome: groups in their order, then by key, whatever order they were measured in.
    """

    environment: Mapping[str, Any]
    outcomes: Mapping[str, Outcome]


def load(path: Path) -> Results:
    """The results in a file, or in all files ``results-*.jsonl`` of a folder, in the order of their names.

    Raises ResultsError where there are none, one can't be read, versions differ between files, or two of them hold the
    same case.
    """
    files = sorted(path.glob(PATTERN)) if path.is_dir() else [path]
    if not files:
        raise ResultsError(f"{_shown(path)} holds no {PATTERN}: `guarddiff sweep` writes them")
    versions: dict[str, Any] = {}
    outcomes: dict[str, Outcome] = {}
    runs: list[dict[str, Any]] = []
    for file in files:
        environment, found = _read(file)
        given = {name: environment[name] for name in VERSIONS if environment.get(name) is not None}
        _same_versions(versions, given, file)
        twice = next((key for key in found if key in outcomes), None)
        if twice is not None:
            raise ResultsError(f"{_shown(file)}: {words.clean(twice, 120)} is in another file of the folder as well")
        versions.update(given)
        outcomes.update(found)
        run = {name: value for name, value in environment.items() if name not in VERSIONS}
        runs.append({**run, "file": file.name, "cases": len(found)})
    return Results({**versions, "runs": runs}, {key: outcomes[key] for key in sorted(outcomes, key=_order)})


def _order(key: str) -> tuple[int, list[tuple[int, str]]]:
    """Groups first, then numbers by their size: ``ops/add/9`` before ``ops/add/10``."""
    group = key.split("/", 1)[0]
    place = next((number for number, known in enumerate(GROUPS) if known == group), len(GROUPS))
    return place, [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]+)", key)]


def _read(file: Path) -> tuple[Mapping[str, Any], Mapping[str, Outcome]]:
    try:
        journal = read_journal(file)
    except OSError as error:
        raise ResultsError(f"{_shown(file)} can't be read: {error.strerror or error}") from error
    except JournalError as error:
        message = str(error)
        raise ResultsError(message if file.name in message else f"{_shown(file)}: {message}") from error
    return journal.environment, journal.outcomes


def _same_versions(known: Mapping[str, Any], given: Mapping[str, Any], file: Path) -> None:
    for name in (name for name in VERSIONS if name in known and name in given):
        if known[name] != given[name]:
            raise ResultsError(
                f"{_shown(file)} was measured with {words.clean(f'{name} {given[name]}', 80)} and another file of the "
                f"folder with {words.clean(str(known[name]), 80)}: keep them in folders of their own"
            )


def _shown(path: Path) -> str:
    return f"'{words.clean_end(os.fspath(path), 200)}'"
