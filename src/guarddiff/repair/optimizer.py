"""What the exporter's optimizer folds away though it depends on sizes (an Expand between shapes that look equal)."""

from __future__ import annotations

from guarddiff.repair.registry import Repair

REPAIRS = (
    Repair(
        name="the optimizer left out",
        ops=("*",),
        stages=("optimize",),
        way="exported with optimize=False: the nodes are as they were translated",
        optimize=False,
    ),
)
