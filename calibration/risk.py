"""What 8 bits would cost each tensor of a calibration table: the range, what it cuts off, the noise it adds.

Refuses to know networks: only histograms count.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from export.clipping import clip, clipped_share, squared_error
from export.histogram import Histogram
from export.observe import Observed


@dataclass(frozen=True)
class Risk:
    """Of one tensor.

    Args:
        layer, end: whose "input" or "output" it is. found: what it held.
        low, high: the range that is kept. clipped: share of the values outside.
        signal_to_noise_db: 10 log10 of the mean square over the mean squared error; the lower, the riskier.
    """

    layer: str
    end: str
    found: Histogram
    low: float
    high: float
    clipped: float
    signal_to_noise_db: float


def risks(seen: Mapping[str, Observed], method: str, symmetric: bool = False) -> list[Risk]:
    """Of every tensor, the riskiest first; a tensor that feeds several layers is listed for each."""
    found = [
        _risk(layer, end, getattr(ends, end), method, symmetric)
        for layer, ends in seen.items()
        for end in ("input", "output")
    ]
    return sorted(found, key=lambda risk: risk.signal_to_noise_db)


def _risk(layer: str, end: str, found: Histogram, method: str, symmetric: bool) -> Risk:
    low, high = clip(found, method, symmetric)
    power = float((found.counts * found.centres**2).sum() / max(found.counts.sum(), 1))
    error = squared_error(found, low, high)
    ratio = 10 * math.log10(power / error) if power > 0 and error > 0 else np.inf
    return Risk(layer, end, found, low, high, clipped_share(found, low, high), float(ratio))
