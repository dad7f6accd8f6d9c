"""Models of torchvision, timm and transformers with random weights, each with the dimensions that its users declare.

Every module named in SHELVES has ``nets() -> list[Net]``, and imports its package only when a net is made.
"""

from __future__ import annotations

import functools
from importlib import import_module
from importlib.util import find_spec

from guarddiff.sweep.case import Case, Trial
from guarddiff.sweep.models.net import Net

SHELVES = {
    "torchvision_images": "torchvision",
    "torchvision_dense": "torchvision",
    "timm_convolutions": "timm",
    "timm_attention": "timm",
    "transformers_text": "transformers",
    "transformers_decoders": "transformers",
    "transformers_vision": "transformers",
    "transformers_speech": "transformers",
    "transformers_mixed": "transformers",
}
"""Module of this package → the package that its nets come from, in the order in which they are swept."""

SECONDS = 600.0
"""How long measuring one model may take."""


@functools.cache
def every() -> dict[str, Net]:
    """Key → net of all packages, installed or not. Raises ValueError where two have one name."""
    found: dict[str, Net] = {}
    for shelf, package in SHELVES.items():
        for net in import_module(f"{__name__}.{shelf}").nets():
            key = _case(package, net).key
            if key in found:
                raise ValueError(f"two models are named {key!r}")
            found[key] = net
    return found


def cases() -> list[Case]:
    """The cases of the packages that are installed."""
    there = {package for package in set(SHELVES.values()) if find_spec(package) is not None}
    named = (key.split("/", 2) for key in every())
    return [Case("models", package, name, SECONDS) for _, package, name in named if package in there]


def case(key: str) -> Case:
    """The case of this key, whether its package is installed or not. Raises KeyError where there is none."""
    net = every()[key]
    return _case(key.split("/")[1], net)


def trial(case: Case) -> Trial:
    """What the case is about, made anew. Raises ImportError where its package is not installed."""
    return every()[case.key].trial()


def _case(package: str, net: Net) -> Case:
    return Case("models", package, net.name, SECONDS)
