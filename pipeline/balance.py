"""Class weights against unequal areas, from the label gate's counts.

Median frequency (Eigen and Fergus, ICCV 2015; used by SegNet): a class's frequency is its pixels over all
labelled pixels of the images that show it (here: their number times the mean per image); its weight is the
median frequency over its own. The square root is a milder form. Refuses to know images.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from deploy.errors import InputError

FREQUENCY_POWER = {"none": 0.0, "sqrt_median_frequency": 0.5, "median_frequency": 1.0}


def class_weights(
    balance: str, pixels: tuple[int, ...], images_with: tuple[int, ...], images: int
) -> npt.NDArray[np.float32]:
    """`[C]` float32 weights; a class without a pixel gets 1 (no pixel can use it).

    Args:
        balance: a key of `FREQUENCY_POWER`; pixels: labelled pixels of each class; images_with: images that
            show it; images: all of the split.
    """
    if balance not in FREQUENCY_POWER:
        raise InputError("loss.balance", got=balance, expected=f"one of {', '.join(FREQUENCY_POWER)}")
    area, shown = np.asarray(pixels, np.float64), np.asarray(images_with, np.float64)
    present = area > 0
    frequency = area[present] / (shown[present] * area.sum() / images)
    weights = np.ones(len(pixels))
    if present.any():
        weights[present] = (np.median(frequency) / frequency) ** FREQUENCY_POWER[balance]
    return weights.astype(np.float32)
