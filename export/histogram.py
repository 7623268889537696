"""What a tensor holds over many images, in fixed memory: a histogram that widens, and the extremes.

The bins lie around zero; a value beyond them doubles the range and adds neighbours, so nothing is ever cut
off and no image has to be seen twice. Refuses to know what is clipped (`export/clipping.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from deploy.errors import InputError

BINS = 4096


@dataclass
class Histogram:
    """Counts of values in `BINS` equal bins from -`limit` to `limit`; empty until `add`.

    Attributes:
        low, high: smallest and largest value, never without 0. images: arrays added.
        mean_low, mean_high: means over the arrays of their extremes, never without 0.
    """

    limit: float = 2.0**-20
    counts: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(BINS, np.int64))
    low: float = 0.0
    high: float = 0.0
    mean_low: float = 0.0
    mean_high: float = 0.0
    images: int = 0

    def add(self, values: npt.NDArray[Any], where: str = "tensor") -> None:
        """Count one image's values.

        Raises:
            InputError: a value that is not finite (`where` is named).
        """
        low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
        if not np.isfinite((low, high)).all():
            raise InputError(f"{where} holds {low} to {high}", expected="finite numbers")
        while max(-low, high) >= self.limit:
            self._widen()
        self.images += 1
        self.low, self.high = min(self.low, low), max(self.high, high)
        self.mean_low += (low - self.mean_low) / self.images
        self.mean_high += (high - self.mean_high) / self.images
        scaled = np.multiply(values, BINS / 2 / self.limit, dtype=np.float32)
        scaled += BINS / 2
        self.counts += np.bincount(scaled.astype(np.int32).ravel(), minlength=BINS)[:BINS]

    @property
    def centres(self) -> npt.NDArray[np.float64]:
        """`[BINS]`, the middle of every bin."""
        return (np.arange(BINS, dtype=np.float64) + 0.5 - BINS / 2) * (2 * self.limit / BINS)

    def _widen(self) -> None:
        pairs = self.counts.reshape(-1, 2).sum(1)
        self.counts = np.pad(pairs, BINS // 4)
        self.limit *= 2
