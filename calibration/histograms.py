"""The riskiest tensors as a picture: their histograms on a logarithmic scale, and where each is cut off.

Refuses to know where the histograms are from.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from calibration.risk import Risk
from export.layers import short_name

COLUMNS = 3
BARS = 128


def draw(found: Sequence[Risk], path: Path) -> None:
    """A PNG, one panel a tensor."""
    from matplotlib.figure import Figure

    from pipeline.picture import save_figure

    rows = max(1, -(-len(found) // COLUMNS))
    figure = Figure(figsize=(4.6 * COLUMNS, 2.5 * rows), layout="constrained")
    for axes, risk in zip(figure.subplots(rows, COLUMNS, squeeze=False).flat, found, strict=False):
        edges, heights = _bars(risk)
        axes.stairs(heights, edges, fill=True, color="#4c78a8")
        for end in (risk.low, risk.high):
            axes.axvline(end, color="#d62728", linewidth=1)
        axes.set_yscale("log")
        axes.tick_params(labelsize=7)
        what = f"{risk.signal_to_noise_db:.1f} dB, {risk.clipped:.2%} cut off"
        axes.set_title(f"{risk.end} of {short_name(risk.layer)}\n{what}", fontsize=8)
    for axes in figure.axes[len(found) :]:
        axes.set_axis_off()
    save_figure(figure, path)


def _bars(risk: Risk) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Edges and heights between the extremes."""
    centres, counts = risk.found.centres, risk.found.counts
    heights, edges = np.histogram(
        centres, BARS, (risk.found.low, max(risk.found.high, risk.found.low + 1e-12)), weights=counts
    )
    return edges, heights / max(counts.sum(), 1)
