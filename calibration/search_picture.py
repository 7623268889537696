"""A search as a picture: points of mIoU lost against time, every plan a dot, the Pareto front a line.

Refuses to know what was measured where.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from calibration.choice import Row, pareto
from export.layers import short_name


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
        colour = "#d62728" if row is chosen else "#c7c7c7" if single else "#4c78a8"
        axes.scatter(_x(row, timed), row.drop, s=90 if row is chosen else 28, color=colour, zorder=2)
        if not single:
            place = (_x(row, timed), row.drop)
            axes.annotate(short_name(row.name), place, (5, 4), textcoords="offset points", fontsize=7)
    axes.axhline(budget, color="#d62728", linewidth=0.8, linestyle=":")
    axes.set_xlabel("time as a multiple of fp32's" if timed else "share of multiplications in int8")
    axes.set_ylabel("points of mIoU lost (held-out images)")
    save_figure(figure, path)


def _x(row: Row, timed: bool) -> float:
    return row.ratio[0] if timed and row.ratio else row.int8_share
