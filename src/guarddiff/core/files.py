"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path


def replace(path: Path, content: bytes) -> None:
    """Write a file whole or not at all; one that is there is replaced, and its mode kept. Raises OSError, which names
    ``path``, and what was there is unchanged then."""
    waiting = path.with_name(f".{path.name}-{secrets.token_hex(8)}.tmp")
    try:
        with open(waiting, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        with suppress(OSError):
            os.chmod(waiting, path.stat().st_mode & 0o7777)
        os.replace(waiting, path)
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        with suppress(OSError):
            os.unlink(waiting)
