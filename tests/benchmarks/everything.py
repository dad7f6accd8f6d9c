"""Every benchmark in turn, as docs/performance.md has them: python tests/benchmarks/everything.py.

``--only overhead verdict`` runs some of them. Nothing else should run on the machine.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

HERE = Path(__file__).resolve().parent
COMMANDS = {
    "overhead": ("What guarddiff adds to an export, and how that grows", ["--pairs", "3"]),
    "verdict": ("What a verdict costs beside what one would do without it", []),
    "domain": ("Solving", []),
    "session": ("A checked session", []),
    "pooling": ("Repaired pooling", []),
    "sweep": ("A second worker of a sweep", ["--every", "30"]),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(COMMANDS), default=list(COMMANDS))
    given = parser.parse_args()
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("torch", "onnxruntime", "onnxscript"))
    print(f"Python {platform.python_version()}, {versions}, {os.cpu_count()} cores\n")
    failed = []
    for name in given.only:
        title, arguments = COMMANDS[name]
        print(f"## {title}\n\n`python tests/benchmarks/{' '.join([f'{name}.py', *arguments])}`\n", flush=True)
        begun = time.monotonic()
        done = subprocess.run([sys.executable, str(HERE / f"{name}.py"), *arguments], stderr=subprocess.DEVNULL)
        print(f"\n({time.monotonic() - begun:.0f} s)\n", flush=True)
        failed += [name] if done.returncode else []
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
