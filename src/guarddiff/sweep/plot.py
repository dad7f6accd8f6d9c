"""What is silently wrong, by stage and class, as a picture. Needs matplotlib: ``pip install guarddiff[sweep]``."""

from __future__ import annotations

import io
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from guarddiff.render import words
from guarddiff.sweep.figures import PLACES, Counts, Summary
from guarddiff.sweep.outcome import SILENT, STATES

_PARTS = ("matplotlib", "matplotlib.figure", "matplotlib.backends.backend_svg")
_COLORS = {"wrong shape": "#3b82c4", "wrong values": "#d97706", "runtime error": "#8e5bb5"}
_INK = "#767676"
"""Has a contrast of 4.5 on white as on black: the picture has no background of its own."""
_SETTINGS = {
    "svg.hashsalt": "guarddiff",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9.0,
    "text.color": _INK,
    "text.parse_math": False,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
}


class PlotError(ImportError):
    """matplotlib is missing."""


def svg(summary: Summary, environment: Mapping[str, Any]) -> bytes:
    """A bar for each stage, stacked by class, one panel for each group: the same bytes for the same figures.

    Raises PlotError where matplotlib is missing. Its settings are as before afterwards, and pyplot is not touched.
    """
    try:
        matplotlib, figures, canvas = map(import_module, _PARTS)
    except ImportError as error:
        raise PlotError("the picture needs matplotlib: pip install 'guarddiff[sweep]'") from error

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        groups = summary.groups or (summary.total,)
        figure = figures.Figure(figsize=(8.4, 0.7 + 1.9 * len(groups)), layout="constrained")
        figure.patch.set_alpha(0.0)
        axes = figure.subplots(len(groups), 1, squeeze=False)
        for panel, counts in zip(axes[:, 0], groups, strict=True):
            _panel(panel, counts)
        torch = words.clean(str(environment.get("torch", "unknown")), 40)
        figure.suptitle(f"Silently wrong exports by stage, torch {torch}")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
        written = io.BytesIO()
        canvas.FigureCanvasSVG(figure).print_svg(written, metadata={"Date": None, "Creator": None})
        return written.getvalue()


def _panel(panel: Any, counts: Counts) -> None:
    """One group: stages downwards, cases to the right, the sum at the end of each bar."""
    start = [0] * len(PLACES)
    for state in (state for state in STATES if state in SILENT):
        sizes = [counts.classes.get(stage, {}).get(state, 0) for stage in PLACES]
        panel.barh(PLACES, sizes, left=start, height=0.7, color=_COLORS[state], label=state)
        start = [before + size for before, size in zip(start, sizes, strict=True)]
    for row, number in enumerate(start):
        panel.annotate(str(number), (number, row), (4, 0), textcoords="offset points", va="center", fontsize=8)
    panel.set_title(
        f"{words.clean(counts.group, 40)}: {counts.silent:,} of {counts.exported:,}", loc="left", fontsize=9
    )
    panel.set_xlim(0, 1.08 * max(*start, 1))
    panel.xaxis.get_major_locator().set_params(integer=True)
    panel.invert_yaxis()
    panel.patch.set_alpha(0.0)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
