"""How long solving guards takes: python tests/benchmarks/domain.py [--guards 50] [--repeats 20].

Every repeat begins with an empty parse cache. The aim: 50 guards in about 50 ms.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

from guarddiff.core.domain import SizeRange, admitted, effect, parse  # noqa: E402

FORMS = [
    "{v} // 32 % {n} >= 0",
    "(({v} // 32) % {n}) != {n}",
    "1 <= {v} // 32 + {n}",
    "{n} < {n} + 3*{v}",
    "2*({v} // 3) + {n} != {v}",
    "math.trunc(1.5*float({v})) >= -{n}",
    "{v} == {n} or {v} >= 4",
    "max({n}, {v}) <= 100000",
]


def guards_on(names: list[str], count: int) -> list[str]:
    """Distinct guards, spread evenly over the names."""
    return [FORMS[number % len(FORMS)].format(v=names[number % len(names)], n=number + 2) for number in range(count)]


def measure(work: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Least and median time in milliseconds."""
    times = []
    for _ in range(repeats):
        parse.cache_clear()
        start = time.perf_counter()
        work()
        times.append(1000 * (time.perf_counter() - start))
    return min(times), statistics.median(times)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--guards", type=int, default=50)
    arguments.add_argument("--horizon", type=int, default=16384)
    arguments.add_argument("--repeats", type=int, default=20)
    options = arguments.parse_args()
    horizon, count = options.horizon, options.guards
    one, few = {"h": SizeRange()}, {name: SizeRange() for name in ("h", "w", "batch")}
    at = {"h": 224, "w": 224, "batch": 2}
    names = list(few)
    tied = [f"{n} < {n + 1}*h*w" for n in range(count // 2)] + [f"h*w % {n} >= 0" for n in range(1, count // 2)]
    cases: dict[str, Callable[[], object]] = {
        f"admitted, {count} guards, one dimension": lambda: admitted(guards_on(["h"], count), one, at, horizon=horizon),
        f"admitted, {count} guards, three dimensions": lambda: admitted(
            guards_on(names, count), few, at, horizon=horizon
        ),
        f"admitted, {20 * count} guards, three dimensions": lambda: admitted(
            guards_on(names, 20 * count), few, at, horizon=horizon
        ),
        f"admitted, {len(tied)} guards on two dimensions each": lambda: admitted(tied, few, at, horizon=horizon),
        f"effect, {count} guards beyond {count} given": lambda: effect(
            guards_on(names, count), few, at, given=guards_on(names, 2 * count)[count:], horizon=horizon
        ),
        f"effect, {len(tied)} guards on two dimensions each": lambda: effect(tied, few, at, horizon=horizon),
    }
    for label, work in cases.items():
        least, median = measure(work, options.repeats)
        print(f"{label:50} min {least:8.1f} ms   median {median:8.1f} ms")


if __name__ == "__main__":
    main()
