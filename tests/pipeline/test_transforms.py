"""Augmentation: reproducible by seed, independent between its steps, image and mask moved together."""

from __future__ import annotations

import dataclasses
import os
import random

import numpy as np
import pytest

from pipeline.config import AugmentConfig
from pipeline.transforms import PAD_COLOUR, Augmentation, ScaleCrop

IGNORE = 255
EVERYTHING = AugmentConfig(crop=(32, 48), aspect=0.3, grey_p=0.5, blur_p=0.5, noise_p=0.5, shadow_p=0.5)
STILL = AugmentConfig(
    crop=(48, 64),
    scale=(1.0, 1.0),
    flip_p=0,
    brightness=0,
    contrast=0,
    gamma=0,
    saturation=0,
    hue=0,
    white_balance=0,
    blur_p=0,
    noise_p=0,
)


def pair(size: tuple[int, int] = (48, 64), seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (*size, 3), np.uint8), rng.integers(0, 3, size, np.uint8)


def augmentation(
    config: AugmentConfig, whole: tuple[int, int] = (48, 64), rule: str = "stretch"
) -> Augmentation:
    return Augmentation(config, whole, rule, IGNORE)


def test_equal_seeds_give_equal_bytes_whatever_came_before() -> None:
    image, mask = pair()
    first = [augmentation(EVERYTHING)(image, mask, seed) for seed in range(8)]
    other = augmentation(EVERYTHING)
    random.seed(1)
    np.random.seed(1)
    for seed in reversed(range(8)):
        for mine, theirs in zip(first[seed], other(image, mask, seed), strict=True):
            assert mine.tobytes() == theirs.tobytes()
    assert len({a.tobytes() for a, _ in first}) == 8


def test_sizes_and_types() -> None:
    for size in ((48, 64), (17, 200), (300, 31)):
        image, mask = augmentation(EVERYTHING)(*pair(size), 3)
        assert (image.shape, mask.shape) == ((32, 48, 3), (32, 48))
        assert image.dtype == mask.dtype == np.uint8
        assert set(np.unique(mask)) <= {0, 1, 2, IGNORE}


def test_nothing_drawn_leaves_the_pair_as_it_is() -> None:
    image, mask = pair()
    same_image, same_mask = augmentation(STILL)(image, mask, 5)
    assert np.array_equal(same_image, image) and np.array_equal(same_mask, mask)


def test_steps_of_one_sample_do_not_share_their_draws() -> None:
    """Seeded by `Compose.set_random_seed`, flip and grey would always happen together."""
    image, mask = pair()
    config = dataclasses.replace(STILL, flip_p=0.5, grey_p=0.5)
    kinds = set()
    for seed in range(40):
        done, moved = augmentation(config)(image, mask, seed)
        grey = bool((done[..., 0] == done[..., 1]).all())
        kinds.add((grey, bool(np.array_equal(moved, mask))))
    assert len(kinds) == 4


def test_image_and_mask_move_together() -> None:
    """Classes are painted as colours; after any scale, crop and flip the colour still says the class."""
    rng = np.random.default_rng(0)
    mask = np.kron(rng.integers(0, 3, (6, 8), np.uint8), np.ones((16, 16), np.uint8))
    image = np.eye(3, dtype=np.uint8)[mask] * 255
    config = dataclasses.replace(STILL, crop=(32, 48), scale=(0.4, 2.0), aspect=0.3, flip_p=0.5)
    for seed in range(20):
        done, moved = augmentation(config, mask.shape)(image, mask, seed)
        known = moved != IGNORE
        agree = (done.argmax(-1) == moved)[known].mean()
        assert agree > 0.93, "only pixels on edges may be mixed"
        pad = done[~known]
        assert pad.size == 0 or np.median(np.abs(pad.astype(int) - PAD_COLOUR)) == 0


@pytest.mark.parametrize(
    ("rule", "window"), [("stretch", (0, 0, 100, 400)), ("letterbox", (-50, 0, 200, 400))]
)
def test_scale_one_is_the_image_as_the_network_sees_it(rule: str, window: tuple[int, ...]) -> None:
    step = ScaleCrop((50, 100), (1.0, 1.0), 0.0, (50, 100), rule, IGNORE)
    step.set_random_seed(0)
    drawn = step.get_params_dependent_on_data({"shape": (100, 400, 3)}, {})["window"]
    assert drawn[2:] == window[2:]
    assert drawn == window or rule == "letterbox"


def test_scale_is_spread_over_its_range() -> None:
    step = ScaleCrop((50, 50), (0.5, 2.0), 0.0, (200, 200), "stretch", IGNORE)
    step.set_random_seed(0)
    heights = [
        step.get_params_dependent_on_data({"shape": (200, 200, 3)}, {})["window"][2] for _ in range(200)
    ]
    assert 25 <= min(heights) < 28 and 92 < max(heights) <= 100
    assert np.mean(np.array(heights) > 50) == pytest.approx(0.5, abs=0.12)


def test_no_network_is_asked_for_a_newer_version() -> None:
    assert os.environ["NO_ALBUMENTATIONS_UPDATE"]
