"""Training batches from any step on, by 0 or more worker processes; their number changes no batch.

Two spans: crops first, then the finish on larger ones (config.FinishConfig). Batches stay uint8 until they
are on the device. Refuses to know models and losses.
"""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Iterator
from time import perf_counter

import cv2
import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from deploy.errors import InputError
from pipeline.config import AugmentConfig, Recipe
from pipeline.order import Span, StepBatches
from pipeline.samples import Array, Augmented, Pairs
from pipeline.transforms import Augmentation

Batch = tuple[Tensor, Tensor]


class TrainLoader:
    """Batches of a recipe over decoded pairs.

    Args:
        recipe: sizes and seed; pairs: decoded (image, mask); pad_label: mask value that counts nowhere.
        workers: loader processes; 0: samples are drawn in this one.
        shard: (rank, size): every size-th sample of each batch, from the rank-th on.

    Raises:
        InputError: a batch that does not split into equal shards.
    """

    def __init__(
        self, recipe: Recipe, pairs: Pairs, pad_label: int, workers: int = 0, shard: tuple[int, int] = (0, 1)
    ) -> None:
        self.recipe = recipe
        self.pairs = pairs
        self.pad_label = pad_label
        self.workers = workers
        self.shard = shard
        for span, _ in spans(recipe):
            if span.first < span.last and span.batch % shard[1]:
                expected = f"a multiple of the {shard[1]} processes"
                raise InputError("train.batch or finish.batch", got=span.batch, expected=expected)

    def batches(self, start: int) -> Iterator[Batch]:
        """Batches of the steps `start`, `start` + 1, ... to the end: `[B, h, w, 3]` and `[B, h, w]` uint8."""
        for span, augment in spans(self.recipe):
            if start < span.last:
                yield from self._span(span, augment, max(start, span.first))

    def _span(self, span: Span, augment: AugmentConfig, start: int) -> DataLoader[Batch]:
        train, data = self.recipe.train, self.recipe.data
        augmentation = Augmentation(augment, data.size, data.resize, self.pad_label)
        samples = Augmented(self.pairs, augmentation, train.seed)
        # Ends OpenCV's thread pool here, before workers are forked: a worker that inherits one hangs when it
        # touches it. Each worker then has one thread, and so has this process while it draws samples itself.
        cv2.setNumThreads(1)
        return DataLoader(
            samples,  # type: ignore[arg-type]
            batch_sampler=StepBatches(span, start, train.seed, len(self.pairs), self.shard),
            num_workers=self.workers,
            collate_fn=collate,
            worker_init_fn=_start_worker,
            pin_memory=torch.cuda.is_available(),
            generator=torch.Generator(),  # its own: the model's random numbers must not depend on the loader
        )

    def epoch(self, step: int) -> int:
        """How often every image was drawn, in whole times, after `step` steps."""
        return images_after(self.recipe, step) // len(self.pairs)

    def images_per_second(self, seconds: float = 1.0) -> float:
        """The loader alone, on the first batches of the training, for about the given time."""
        batches = self.batches(0)
        first, count, started = next(batches), 0, perf_counter()  # the first one pays for starting workers
        for images, _ in batches:
            count += len(images)
            if perf_counter() - started > seconds:
                break
        return (count or len(first[0])) / max(perf_counter() - started, 1e-9)


def spans(recipe: Recipe) -> list[tuple[Span, AugmentConfig]]:
    """The training's spans with their augmentation: crops, then the finish (either may have no step)."""
    train, finish = recipe.train, recipe.finish
    turn = train.steps - recipe.finish_steps
    whole = dataclasses.replace(recipe.augment, crop=finish.size, scale=finish.scale)
    return [
        (Span(0, turn, train.batch, 0), recipe.augment),
        (Span(turn, train.steps, finish.batch, turn * train.batch), whole),
    ]


def images_after(recipe: Recipe, step: int) -> int:
    """How many samples were drawn in the first `step` steps."""
    return sum(max(0, min(step, span.last) - span.first) * span.batch for span, _ in spans(recipe))


def collate(samples: list[tuple[Array, Array]]) -> Batch:
    """Pairs of equal size -> `[B, h, w, 3]` and `[B, h, w]` uint8."""
    images, masks = zip(*samples, strict=True)
    return torch.from_numpy(np.stack(images)), torch.from_numpy(np.stack(masks))


def _start_worker(worker: int) -> None:
    """Ctrl-C is the training process's to answer."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
