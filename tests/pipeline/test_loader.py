"""Batches depend on (seed, step) only: not on the number of workers, not on where the training started."""

from __future__ import annotations

import dataclasses
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

from pipeline.config import AugmentConfig, FinishConfig, Recipe, TrainConfig
from pipeline.datasets import open_dataset
from pipeline.loader import TrainLoader, spans
from pipeline.order import Span, batch_keys, draw_seed, epoch_order
from pipeline.samples import Cached

AUGMENT = AugmentConfig(crop=(32, 48), blur_p=0.5, noise_p=0.5)


def recipe(workers: int = 0, seed: int = 0, steps: int = 8, share: float = 0.25) -> Recipe:
    return Recipe(
        name="r",
        augment=AUGMENT,
        train=TrainConfig(steps=steps, batch=4, workers=workers, seed=seed, warmup=0),
        finish=FinishConfig(share=share, size=(48, 64), batch=2),
    )


@pytest.fixture
def pairs(make_data) -> Cached:
    return Cached(open_dataset(make_data(), "train"), 1e9)


def all_bytes(loader: TrainLoader, start: int = 0) -> list[bytes]:
    return [images.numpy().tobytes() + masks.numpy().tobytes() for images, masks in loader.batches(start)]


def test_no_worker_and_two_give_the_same_batches(pairs: Cached) -> None:
    alone = all_bytes(TrainLoader(recipe(0), pairs, 255))
    assert len(alone) == 8
    assert all_bytes(TrainLoader(recipe(2), pairs, 255)) == alone


@pytest.mark.parametrize("start", [1, 5, 6, 7, 8])
def test_a_resumed_loader_skips_what_was_seen(pairs: Cached, start: int) -> None:
    assert (
        all_bytes(TrainLoader(recipe(), pairs, 255), start)
        == all_bytes(TrainLoader(recipe(), pairs, 255))[start:]
    )


def test_another_seed_gives_other_batches(pairs: Cached) -> None:
    assert not set(all_bytes(TrainLoader(recipe(seed=1), pairs, 255))) & set(
        all_bytes(TrainLoader(recipe(), pairs, 255))
    )


def test_no_two_samples_share_their_draws(make_data) -> None:
    """One image only: whatever differs between samples, within a batch and between epochs, was drawn."""
    one = open_dataset(make_data(train=1), "train")
    samples = [
        s.numpy().tobytes() for images, _ in TrainLoader(recipe(), one, 255).batches(0) for s in images
    ]
    assert len(set(samples)) == len(samples) == 6 * 4 + 2 * 2
    assert len({draw_seed(0, (e, i)) for e in range(50) for i in range(50)}) == 2500
    assert draw_seed(0, (1, 2)) != draw_seed(0, (2, 1)) != draw_seed(1, (2, 1))


def test_the_finish_follows_with_its_own_size_and_no_gap(pairs: Cached) -> None:
    shapes = [tuple(images.shape) for images, _ in TrainLoader(recipe(), pairs, 255).batches(0)]
    assert shapes == [(4, 32, 48, 3)] * 6 + [(2, 48, 64, 3)] * 2
    (crops, _), (finish, _) = spans(recipe())
    assert (crops, finish) == (Span(0, 6, 4, 0), Span(6, 8, 2, 24))


def test_every_image_is_drawn_once_an_epoch() -> None:
    span = Span(0, 10, 3, 0)
    keys = [key for step in range(10) for key in batch_keys(span, step, seed=7, count=5)]
    for epoch in range(6):
        assert sorted(index for e, index in keys if e == epoch) == list(range(5))
    assert len(set(keys)) == 30
    assert len({tuple(epoch_order(7, epoch, 5)) for epoch in range(6)}) > 1


def test_epochs_are_counted_over_both_spans(pairs: Cached) -> None:
    loader = TrainLoader(recipe(), pairs, 255)
    assert [loader.epoch(step) for step in range(9)] == [0, 0, 1, 2, 3, 4, 4, 5, 5]


def test_the_loader_leaves_torchs_random_numbers_alone(pairs: Cached) -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    list(islice(TrainLoader(recipe(), pairs, 255).batches(0), 2))
    assert torch.equal(torch.get_rng_state(), before)


class Counting:
    """A source that says how often each pair was decoded."""

    def __init__(self) -> None:
        self.decoded = [0] * 6

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        self.decoded[index] += 1
        return np.full((10, 10, 3), index, np.uint8), np.zeros((10, 10), np.uint8)


def test_decoded_pairs_are_kept_up_to_the_limit() -> None:
    source = Counting()
    cached = Cached(source, 3 * 400)
    for _ in range(3):
        for index in range(6):
            assert cached[index][0][0, 0, 0] == index
    assert source.decoded == [1, 1, 1, 3, 3, 3]
    assert cached.kept_bytes == 1200
    cached = Cached(Counting(), 0)
    cached.fill(2)
    assert cached.kept_bytes == 0


def test_speed_of_the_loader_alone_is_measured(pairs: Cached, tmp_path: Path) -> None:
    assert TrainLoader(recipe(), pairs, 255).images_per_second(0.01) > 0
    single = dataclasses.replace(recipe(steps=1, share=0.0))
    assert TrainLoader(single, pairs, 255).images_per_second(0.01) > 0
