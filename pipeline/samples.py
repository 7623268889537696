"""Decoded images kept in memory, and augmented samples of them by (epoch, index).

Decoding a camvid pair costs more than augmenting it, so pairs are kept up to a limit of bytes; what does not
fit is decoded again each time. Knows nothing of order, batches and tensors.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from pipeline.order import Key, draw_seed

if TYPE_CHECKING:
    from pipeline.transforms import Augmentation

Array = npt.NDArray[np.uint8]
Pair = tuple[Array, Array]


class Pairs(Protocol):
    """Decoded pairs by index: `[H, W, 3]` uint8 RGB and `[H, W]` uint8."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Pair: ...


class Cached:
    """A sequence of (image, mask) that keeps what it has decoded, up to `limit_bytes`."""

    def __init__(self, source: Pairs, limit_bytes: float) -> None:
        self.source = source
        self.limit_bytes = limit_bytes
        self.kept_bytes = 0
        self._kept: dict[int, Pair] = {}

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> Pair:
        """`[H, W, 3]` and `[H, W]` uint8; not to be written to."""
        if index in self._kept:
            return self._kept[index]
        pair = self.source[index]
        size = pair[0].nbytes + pair[1].nbytes
        if self.kept_bytes + size <= self.limit_bytes:
            self._kept[index] = pair
            self.kept_bytes += size
        return pair

    def fill(self, threads: int) -> None:
        """Decode as much as fits, before worker processes are forked, so that they share it."""
        with ThreadPoolExecutor(threads) as pool:
            for first in range(0, len(self), 64):
                list(pool.map(self.__getitem__, range(first, min(first + 64, len(self)))))
                if self.kept_bytes > 0.95 * self.limit_bytes:
                    return


class Augmented:
    """Samples by key: pair `index` with the draws of (seed, epoch, index)."""

    def __init__(self, pairs: Pairs, augmentation: Augmentation, seed: int) -> None:
        self.pairs = pairs
        self.augmentation = augmentation
        self.seed = seed

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, key: Key) -> Pair:
        """`[h, w, 3]` and `[h, w]` uint8 at the crop's size; equal keys give equal bytes."""
        image, mask = self.pairs[key[1]]
        return self.augmentation(image, mask, draw_seed(self.seed, key))
