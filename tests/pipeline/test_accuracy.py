"""Counts by image, their sum, the worst ones, and the bootstrap interval, against the long way."""

from __future__ import annotations

import numpy as np
import pytest

from deploy.labels import DatasetInfo
from deploy.metrics import ConfusionMatrix
from pipeline.accuracy import evaluate
from pipeline.bootstrap import RESAMPLES, miou_interval

CLASSES, IGNORE = ("a", "b", "c", "nowhere"), 9
INFO = DatasetInfo("x", "rgb", CLASSES, ((0, 0, 0),) * 4, IGNORE, "", "", None)  # type: ignore[arg-type]


class Guesses:
    """Answers one after the other, whatever the image."""

    def __init__(self, answers: list[np.ndarray]) -> None:
        self.answers = iter(answers)

    def timed(self, image: np.ndarray) -> tuple[np.ndarray, float]:
        return next(self.answers), 1.0


def random_split(images: int, noise: float = 0.3):
    """Pairs of masks with ignored pixels, and guesses that are wrong in a share of pixels that varies."""
    rng = np.random.default_rng(5)
    truths = [rng.integers(0, 3, (12, 10)).astype(np.uint8) for _ in range(images)]
    guesses = []
    for truth in truths:
        wrong = rng.random(truth.shape) < noise * 2 * rng.random()
        guesses.append(np.where(wrong, rng.integers(0, 3, truth.shape), truth).astype(np.uint8))
        truth[0] = IGNORE
    pairs = [(np.zeros((*truth.shape, 3), np.uint8), truth) for truth in truths]
    return pairs, guesses, evaluate(Guesses(guesses), pairs, INFO)


def miou_of(pairs, guesses, chosen) -> float:
    matrix = ConfusionMatrix(4, IGNORE)
    for index in chosen:
        matrix.update(guesses[index], pairs[index][1])
    return matrix.miou()


def test_counts_by_image_add_up_to_the_matrix() -> None:
    pairs, guesses, done = random_split(6)
    assert done.summary()["miou"] == pytest.approx(miou_of(pairs, guesses, range(6)))
    assert done.summary()["iou"]["nowhere"] is None and done.images == 6
    np.testing.assert_allclose(done.hits.sum(0) / np.maximum(done.unions.sum(0), 1), [
        done.summary()["iou"][name] or 0 for name in CLASSES
    ])  # fmt: skip
    each = [miou_of(pairs, guesses, [index]) for index in range(6)]
    np.testing.assert_allclose(done.image_miou(), each)
    assert done.worst(2) == list(np.argsort(each)[:2])


def test_an_image_without_labels_is_no_worst_one() -> None:
    pairs, guesses, _ = random_split(3)
    pairs[1] = (pairs[1][0], np.full((12, 10), IGNORE, np.uint8))
    done = evaluate(Guesses(guesses), pairs, INFO)
    assert np.isnan(done.image_miou()[1]) and 1 not in done.worst(3) and len(done.worst(3)) == 2


def test_the_interval_is_that_of_resampled_images() -> None:
    """Against images drawn one by one and a matrix built anew for each draw."""
    pairs, guesses, done = random_split(15)
    interval = miou_interval(done.hits, done.unions)
    assert interval is not None and interval["resamples"] == RESAMPLES
    assert interval["low"] < done.summary()["miou"] < interval["high"]
    rng = np.random.default_rng(1)
    slow = [miou_of(pairs, guesses, rng.integers(0, 15, 15)) for _ in range(1500)]
    expected = np.quantile(slow, [0.025, 0.975])
    np.testing.assert_allclose([interval["low"], interval["high"]], expected, atol=0.01)
    assert "frames of one video are not" in interval["note"]
    assert interval == miou_interval(done.hits, done.unions), "seeded"


def test_more_images_narrow_the_interval_and_one_image_has_none() -> None:
    wide, narrow = (miou_interval(d.hits, d.unions) for d in (random_split(8)[2], random_split(128)[2]))
    assert wide is not None and narrow is not None
    assert (narrow["high"] - narrow["low"]) < 0.5 * (wide["high"] - wide["low"])
    one = random_split(1)[2]
    assert miou_interval(one.hits, one.unions) is None
