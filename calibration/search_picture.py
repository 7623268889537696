"""A search as a picture: points of mIoU lost against time, every plan a dot, the Pareto front a line.

Refuses to know what was measured where.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from calibration.choice import Row, pareto
from export.layers import short_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CHOSEN = "#d62728"
LINE = 0.035  # a label's height, as a share of the axes'


def draw(rows: Sequence[Row], chosen: Row, budget: float, path: Path) -> None:
    """A PNG; without latencies the horizontal axis is the share of multiplications in int8."""
    from matplotlib.figure import Figure

    from pipeline.picture import save_figure

    figure = Figure(figsize=(9, 5), layout="constrained")
    axes = figure.subplots()
    timed = all(row.ratio for row in rows)
    front = pareto(rows)
    axes.step(
        [_x(row, timed) for row in front],
        [row.drop for row in front],
        "-",
        where="post",
        color="#999999",
        zorder=1,
    )
    for row in rows:
        single = row.name.startswith("only ")
        colour = CHOSEN if row is chosen else "#c7c7c7" if single else "#4c78a8"
        axes.scatter(_x(row, timed), row.drop, s=90 if row is chosen else 28, color=colour, zorder=2)
    axes.axhline(budget, color=CHOSEN, linewidth=0.8, linestyle=":")
    axes.set_xlabel(
        f"time as a multiple of {rows[0].name}'s" if timed else "share of multiplications in int8"
    )
    axes.set_ylabel("points of mIoU lost (held-out images)")
    shown = [row for row in rows if row is chosen or not row.name.startswith("only ")]
    _label(shown, chosen, timed, axes)
    save_figure(figure, path)


def _label(rows: Sequence[Row], chosen: Row, timed: bool, axes: Axes) -> None:
    """Names in a column beside the axes, each joined to its dot: there is no room between dots."""
    low, high = axes.get_ylim()
    rows = sorted(rows, key=lambda row: -row.drop)
    heights = spread([(row.drop - low) / (high - low) for row in rows], LINE)
    for row, height in zip(rows, heights, strict=True):
        axes.annotate(
            short_name(row.name),
            (_x(row, timed), row.drop),
            (1.03, height),
            textcoords="axes fraction",
            fontsize=7,
            va="center",
            color=CHOSEN if row is chosen else "black",
            arrowprops={"arrowstyle": "-", "color": "#d0d0d0", "linewidth": 0.5, "relpos": (0, 0.5)},
            zorder=0,
        )


def spread(heights: Sequence[float], gap: float) -> list[float]:
    """Heights, the largest first, moved apart to at least `gap`, and none below 0."""
    placed: list[float] = []
    for height in heights:
        placed.append(min(height, placed[-1] - gap) if placed else height)
    for back in range(len(placed)):
        place = -1 - back
        placed[place] = max(placed[place], placed[place + 1] + gap if back else 0.0)
    return placed


def _x(row: Row, timed: bool) -> float:
    return row.ratio[0] if timed and row.ratio else row.int8_share
