"""What a second worker gains in a sweep: python tests/benchmarks/sweep.py [--every 20] [--rounds 1].

Every n-th case of the operators and of the catalogue is measured with one worker and with two, in turn, each time by a
``guarddiff sweep`` of its own. Told are the seconds of measuring (the workers' start included, the listing of the cases
not) and their ratio in each round, and whether both gave the same outcomes.
"""

from __future__ import annotations

import argparse
import glob
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src"
sys.path.insert(0, str(SOURCE))

from guarddiff.sweep import results  # noqa: E402

GROUPS = ("ops", "catalogue")


def run(*arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    command = [sys.executable, "-m", "guarddiff", "sweep", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout


def measured(jobs: int, chosen: dict[str, list[str]]) -> tuple[float, dict[str, str]]:
    """The seconds from the first worker's start to the last outcome, and the outcome of each case by its key."""
    with tempfile.TemporaryDirectory() as folder:
        for group, keys in chosen.items():
            only = [part for key in keys for part in ("--only", glob.escape(key))]
            run(group, "--jobs", str(jobs), "--out", folder, *only)
        found = results.load(Path(folder))
        seconds = sum(run["seconds"] for run in found.environment["runs"])
        return seconds, {key: one.state for key, one in found.outcomes.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=20, help="which share of the cases: one in so many")
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args()
    chosen = {group: run("list", group).splitlines()[:: given.every] for group in GROUPS}
    count = sum(map(len, chosen.values()))
    ratios = []
    for _ in range(given.rounds):
        one, first = measured(1, chosen)
        two, second = measured(2, chosen)
        ratios.append(one / two)
        same = "the same outcomes" if first == second else f"OTHER OUTCOMES: {first.items() ^ second.items()}"
        print(
            f"{count} cases: one worker {one:.0f} s, two workers {two:.0f} s: {one / two:.2f} times; {same}", flush=True
        )
    print(f"median {statistics.median(ratios):.2f} times")


if __name__ == "__main__":
    main()
