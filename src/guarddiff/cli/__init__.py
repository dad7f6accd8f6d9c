"""The command line ``guarddiff``. Importing it loads neither torch nor ONNX Runtime."""

from __future__ import annotations

from guarddiff.cli.app import main

__all__ = ["main"]
