"""Where to cut off a tensor before 8 bits are spread over it: five methods, from the same histogram.

    min-max     nothing is cut off
    mean-max    the mean over images of their extremes
    percentile  0.005 % of the values at either end
    entropy     least Kullback-Leibler divergence between the values and their 8-bit image
    mse         least mean squared error, of rounding inside and cutting outside

Refuses to know images and networks. Source of entropy: Migacz, 8-bit inference with TensorRT, GTC 2017; of
mse: Banner et al., NeurIPS 2019 (the same trade, solved there for Laplace's distribution).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from export.histogram import BINS, Histogram

LEVELS = 256
CUT_OFF = 5e-5
_STEPS = 48
Range = tuple[float, float]


def clip(found: Histogram, method: str, symmetric: bool = False) -> Range:
    """The range that becomes the 256 levels; it always holds 0.

    Args:
        method: one of `METHODS`. symmetric: as far below zero as above.
    """
    low, high = METHODS[method](found, symmetric)
    low, high = min(low, 0.0), max(high, 0.0)
    return (-max(-low, high), max(-low, high)) if symmetric else (low, high)


def clipped_share(found: Histogram, low: float, high: float) -> float:
    """Share of the values outside."""
    outside = (found.centres < low) | (found.centres > high)
    return float(found.counts[outside].sum() / max(found.counts.sum(), 1))


def squared_error(found: Histogram, low: float, high: float) -> float:
    """Mean squared error of rounding to 256 levels in the range and cutting off what lies outside."""
    centres, counts = found.centres, found.counts
    outside = np.maximum(low - centres, 0) + np.maximum(centres - high, 0)
    total = max(counts.sum(), 1)
    rounding = ((high - low) / (LEVELS - 1)) ** 2 / 12 * counts[outside == 0].sum()
    return float((rounding + (counts * outside**2).sum()) / total)


def _min_max(found: Histogram, symmetric: bool) -> Range:
    return found.low, found.high


def _mean_max(found: Histogram, symmetric: bool) -> Range:
    return found.mean_low, found.mean_high


def _percentile(found: Histogram, symmetric: bool) -> Range:
    below = np.cumsum(found.counts) / max(found.counts.sum(), 1)
    low, high = (found.centres[min(int((below < share).sum()), BINS - 1)] for share in (CUT_OFF, 1 - CUT_OFF))
    return max(float(low), found.low), min(float(high), found.high)


def _mse(found: Histogram, symmetric: bool) -> Range:
    """Both ends by turns: the best upper end for the lower one, then the other way round, twice."""
    low, high = found.low, found.high
    if symmetric:
        end = _least(lambda end: squared_error(found, -end, end), max(-low, high))
        return -end, end
    for _ in range(2):
        high = _least(partial(squared_error, found, low), found.high)
        low = -_least(lambda end, high=high: squared_error(found, -end, high), -found.low)  # type: ignore[misc]
    return low, high


def _entropy(found: Histogram, symmetric: bool) -> Range:
    reach = max(-found.low, found.high)

    def cut(end: float) -> Range:
        return (-end, end) if symmetric else (max(found.low, -end), min(found.high, end))

    return cut(_least(lambda end: _divergence(found, *cut(end)), reach))


def _least(cost: Callable[[float], float], reach: float) -> float:
    """The share of `reach`, from a twentieth to all of it, that costs least; of equals the widest."""
    ends = [reach * share for share in np.linspace(1, 0.05, _STEPS)]
    return float(min(ends, key=cost))


def _divergence(found: Histogram, low: float, high: float) -> float:
    """KL divergence between the values cut off at the ends and the same in 256 equal steps."""
    inside = (found.centres >= low) & (found.centres <= high)
    values = found.counts[inside].astype(np.float64)
    if not values.sum():
        return float("inf")
    seen = values > 0
    level = np.minimum(np.arange(len(values)) * LEVELS // len(values), LEVELS - 1)
    mass = np.bincount(level, weights=values, minlength=LEVELS)
    width = np.bincount(level, weights=seen, minlength=LEVELS)
    rounded = np.where(seen, mass[level] / np.maximum(width[level], 1), 0.0)
    values[0] += found.counts[found.centres < low].sum()
    values[-1] += found.counts[found.centres > high].sum()
    p, q = values / values.sum(), np.maximum(rounded / rounded.sum(), 1e-12)
    return float((p[p > 0] * np.log(p[p > 0] / q[p > 0])).sum())


METHODS: dict[str, Callable[[Histogram, bool], Range]] = {
    "min-max": _min_max,
    "mean-max": _mean_max,
    "percentile": _percentile,
    "entropy": _entropy,
    "mse": _mse,
}
