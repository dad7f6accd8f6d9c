"""Which of guarddiff's own modules hold models: their code is user code, as any other's."""

from __future__ import annotations

import os

_HOLD_MODELS = ("demo", "sweep.catalogue", "sweep.models", "sweep.operators")


def is_own_model(module: str) -> bool:
    """Whether a module of this name (``guarddiff.sweep.catalogue.pooling``) holds models."""
    package, _, name = module.partition(".")
    return package == "guarddiff" and any(name == held or name.startswith(f"{held}.") for held in _HOLD_MODELS)


def own_model_files(package: str) -> tuple[str, ...]:
    """How the names of their files begin; ``package`` is guarddiff's folder."""
    places = [os.path.join(package, *held.split(".")) for held in _HOLD_MODELS]
    return tuple(begin for place in places for begin in (f"{place}.py", place + os.sep))
