"""How far mIoU might move with other images: a percentile bootstrap over the images of a split.

Images are drawn with replacement, as many as there are, and mIoU is computed anew from their summed counts.
That takes images to be independent, which frames of one video are not: for video it is too narrow.
Source: Efron, "Bootstrap methods: another look at the jackknife", Annals of Statistics 1979.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

LEVEL, RESAMPLES, SEED = 0.95, 2000, 0
CAVEAT = "images taken as independent; frames of one video are not, so for video it is too narrow"
_CHUNK = 100  # resamples at once: their draws of a large split take memory


def miou_interval(hits: npt.NDArray[np.int64], unions: npt.NDArray[np.int64]) -> dict[str, Any] | None:
    """`low` and `high` of the interval with what it means; None with fewer than two labelled images.

    Args:
        hits, unions: `[N, C]` pixels of each image and class (accuracy.Evaluation).
    """
    labelled = unions.any(axis=1)
    if labelled.sum() < 2:
        return None
    drawn = _resampled_miou(hits[labelled].astype(np.float64), unions[labelled].astype(np.float64))
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()
    return {"low": low, "high": high, "level": LEVEL, "resamples": RESAMPLES, "seed": SEED, "note": CAVEAT}


def _resampled_miou(
    hits: npt.NDArray[np.float64], unions: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """`[RESAMPLES]` mIoU of as many drawn splits; a class that one of them lacks is left out of its mean."""
    rng, images = np.random.default_rng(SEED), len(hits)
    means = []
    for _ in range(0, RESAMPLES, _CHUNK):
        times = rng.multinomial(images, np.full(images, 1 / images), _CHUNK).astype(np.float64)
        right, union = times @ hits, times @ unions
        there = union > 0
        iou = np.divide(right, union, out=np.zeros_like(right), where=there)
        means.append(iou.sum(axis=1) / there.sum(axis=1))
    return np.concatenate(means)
