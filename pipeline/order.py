"""Which samples make which batch: a pure function of (seed, step), so a resumed run goes on exactly.

The training is one long row of samples: epoch after epoch, each a fresh permutation that depends only on
(seed, epoch). Batches are cut from that row and may span two epochs; nothing is dropped. Knows no images.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Key = tuple[int, int]  # (epoch, index): never twice in a training
_ORDER, _DRAW = 0, 1  # two streams of random numbers that never meet


@dataclass(frozen=True)
class Span:
    """Steps `first` to `last` (exclusive) that draw `batch` samples each, from sample number `offset` on."""

    first: int
    last: int
    batch: int
    offset: int


@lru_cache(maxsize=2)
def epoch_order(seed: int, epoch: int, count: int) -> npt.NDArray[np.int64]:
    """`[count]` indices of one epoch."""
    return np.random.default_rng([seed, _ORDER, epoch]).permutation(count)


def draw_seed(seed: int, key: Key) -> int:
    """The seed of one sample's augmentation, 128 bits: two samples share their draws with probability 0."""
    words = np.random.SeedSequence([seed, _DRAW, *key]).generate_state(4)
    return int.from_bytes(words.tobytes(), "little")


def batch_keys(span: Span, step: int, seed: int, count: int) -> list[Key]:
    """The samples of one step, of `count` there are."""
    start = span.offset + (step - span.first) * span.batch
    return [_key(number, seed, count) for number in range(start, start + span.batch)]


def _key(number: int, seed: int, count: int) -> Key:
    epoch, place = divmod(number, count)
    return epoch, int(epoch_order(seed, epoch, count)[place])


@dataclass(frozen=True)
class StepBatches:
    """The batches from step `start` to a span's end, a list of keys a step (a DataLoader's batch sampler).

    `shard` (rank, size): of each batch only every size-th key, from the rank-th on.
    """

    span: Span
    start: int
    seed: int
    count: int
    shard: tuple[int, int] = (0, 1)

    def __len__(self) -> int:
        return max(0, self.span.last - self.start)

    def __iter__(self) -> Iterator[list[Key]]:
        for step in range(self.start, self.span.last):
            yield batch_keys(self.span, step, self.seed, self.count)[self.shard[0] :: self.shard[1]]
