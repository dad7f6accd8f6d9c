"""What may go into a report: no home folder, no user name, no folder of the installation, no value of the
environment."""

from __future__ import annotations

import os
import re

_HOMES = re.compile(r"(/home|/Users|[A-Za-z]:[/\\]+(?i:users))[/\\]+[^/\\\s'\"]+")
_INSTALLED = re.compile(r"[^\s'\"()]*site-packages[/\\]")
_OWN = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "guarddiff")
_SHORTEST = 8
"""Shorter values of the environment are words that any text may hold."""


def scrub(text: str) -> str:
    """The text with home folders as ``~``, files of installed packages and guarddiff's own by the package
    (``torch/nn/functional.py``), and values of environment variables as ``…``."""
    text = _INSTALLED.sub("", text).replace(_OWN + os.sep, "guarddiff" + os.sep)
    home = os.path.expanduser("~").rstrip(os.sep)
    if len(home) > 1:
        text = text.replace(home, "~")
    text = _HOMES.sub("~", text)
    secrets = (value for value in os.environ.values() if len(value) >= _SHORTEST and not _paths(value))
    for value in sorted(secrets, key=len, reverse=True):
        if value in text:
            text = text.replace(value, "…")
    return text


def _paths(value: str) -> bool:
    """Whether a value of the environment is the path of a file or folder, or a list of some."""
    parts = [part for part in value.split(os.pathsep) if part]
    return all(map(os.path.isabs, parts)) and any(map(os.path.exists, parts))
