"""The confusion matrix against a loop in Python, scikit-learn and torchmetrics."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, confusion_matrix, jaccard_score
from torchmetrics.classification import MulticlassJaccardIndex

from deploy.errors import InputError
from deploy.metrics import ConfusionMatrix


def _labels(seed: int, classes: int, shape: tuple[int, ...] = (17, 23)) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, classes, shape).astype(np.uint8), rng.integers(0, classes, shape).astype(np.uint8)


def _by_loop(pairs: list[tuple[np.ndarray, np.ndarray]], classes: int, ignore: int | None) -> np.ndarray:
    matrix = np.zeros((classes, classes), np.int64)
    for prediction, target in pairs:
        for p, t in zip(prediction.ravel().tolist(), target.ravel().tolist(), strict=True):
            if t != ignore:
                matrix[t, p] += 1
    return matrix


@pytest.mark.parametrize("ignore", [None, 5, 255])
def test_matches_the_loop_and_sklearn_over_several_images(ignore: int | None) -> None:
    pairs = [_labels(seed, 5) for seed in range(4)]
    if ignore is not None:
        for _, target in pairs:
            target[:3] = ignore
    accumulated = ConfusionMatrix(5, ignore)
    for prediction, target in pairs:
        accumulated.update(prediction, target)
    assert np.array_equal(accumulated.matrix, _by_loop(pairs, 5, ignore))
    truth = np.concatenate([t.ravel() for _, t in pairs])
    guess = np.concatenate([p.ravel() for p, _ in pairs])
    kept = truth != (-1 if ignore is None else ignore)
    assert np.array_equal(accumulated.matrix, confusion_matrix(truth[kept], guess[kept], labels=range(5)))
    assert accumulated.pixel_accuracy() == pytest.approx(np.mean(truth[kept] == guess[kept]))


def test_iou_matches_torchmetrics() -> None:
    prediction, target = _labels(1, 4, (3, 20, 20))
    target[:, 0] = 255
    matrix = ConfusionMatrix(4, 255)
    matrix.update(prediction, target)
    jaccard = MulticlassJaccardIndex(4, average="none", ignore_index=255)
    expected = jaccard(torch.from_numpy(prediction).long(), torch.from_numpy(target).long()).numpy()
    np.testing.assert_allclose(matrix.iou(), expected, atol=1e-7)
    assert matrix.miou() == pytest.approx(expected.mean(), abs=1e-7)


@pytest.mark.parametrize("ignore", [None, 6, 255])
@pytest.mark.parametrize("seed", range(5))
def test_random_sets_with_absent_classes_match_sklearn_and_torchmetrics(
    seed: int, ignore: int | None
) -> None:
    """Six classes of which one is nowhere, one only in the truth and one only in the prediction."""
    rng = np.random.default_rng(seed)
    truth = rng.choice([0, 1, 2, 4], (5, 19, 13)).astype(np.uint8)
    guess = np.where(rng.random(truth.shape) < 0.6, truth, rng.choice([0, 1, 2, 5], truth.shape))
    guess = np.where(guess == 4, 0, guess).astype(np.uint8)
    if ignore is not None:
        truth[rng.random(truth.shape) < 0.2] = ignore
    matrix = ConfusionMatrix(6, ignore)
    for one, other in zip(guess, truth, strict=True):
        matrix.update(one, other)
    iou, kept = matrix.iou(), truth != (-1 if ignore is None else ignore)
    assert math.isnan(iou[3]) and iou[4] == iou[5] == 0 and (iou[:3] > 0.3).all()
    there = [0, 1, 2, 4, 5]
    by_sklearn = jaccard_score(truth[kept], guess[kept], labels=there, average=None, zero_division=0)
    np.testing.assert_allclose(iou[there], by_sklearn, atol=1e-12)
    assert matrix.miou() == pytest.approx(by_sklearn.mean(), abs=1e-12)
    assert matrix.pixel_accuracy() == pytest.approx(accuracy_score(truth[kept], guess[kept]), abs=1e-12)
    tensors = torch.from_numpy(guess).long(), torch.from_numpy(truth).long()
    by_class = MulticlassJaccardIndex(6, average="none", ignore_index=ignore)(*tensors).numpy()
    np.testing.assert_allclose(iou[there], by_class[there], atol=1e-6)
    mean = MulticlassJaccardIndex(6, average="macro", ignore_index=ignore)(*tensors)  # without class 3
    assert matrix.miou() == pytest.approx(float(mean), abs=1e-6)


def test_accumulated_over_the_set_not_averaged_per_image() -> None:
    matrix = ConfusionMatrix(2)
    matrix.update(np.array([[1, 1, 1, 0]], np.uint8), np.array([[1, 1, 1, 1]], np.uint8))
    matrix.update(np.array([[0, 0, 0, 0]], np.uint8), np.array([[1, 0, 0, 0]], np.uint8))
    assert matrix.iou().tolist() == pytest.approx([3 / 5, 3 / 5])  # per image class 1 would be 3/4 and 0


def test_absent_class_is_nan_and_left_out_of_the_mean() -> None:
    matrix = ConfusionMatrix(3)
    matrix.update(np.array([0, 0, 1]), np.array([0, 1, 1]))
    iou = matrix.iou()
    assert math.isnan(iou[2]) and matrix.miou() == pytest.approx(0.5)
    matrix.update(np.array([2]), np.array([0]))  # predicted somewhere, true nowhere: 0, and counted
    assert matrix.iou()[2] == 0


def test_nothing_counted_gives_nan() -> None:
    matrix = ConfusionMatrix(2, 255)
    matrix.update(np.zeros((2, 2), np.uint8), np.full((2, 2), 255, np.uint8))
    assert math.isnan(matrix.miou()) and math.isnan(matrix.pixel_accuracy())


def test_ignored_pixels_count_nowhere_whatever_is_predicted() -> None:
    matrix = ConfusionMatrix(2, 255)
    matrix.update(np.array([0, 1, 1], np.uint8), np.array([255, 255, 1], np.uint8))
    assert matrix.matrix.sum() == 1


def test_merge_equals_one_pass() -> None:
    first, second, whole = ConfusionMatrix(5), ConfusionMatrix(5), ConfusionMatrix(5)
    for part, seed in ((first, 1), (second, 2)):
        part.update(*_labels(seed, 5))
        whole.update(*_labels(seed, 5))
    first.merge(second)
    assert np.array_equal(first.matrix, whole.matrix)


@pytest.mark.parametrize(
    ("prediction", "target", "words"),
    [
        ([0, 1], [0, 7], "mask holds undeclared class ids | got [7]"),
        ([0, 9], [0, 1], "prediction holds undeclared class ids | got [9]"),
        ([0, 1], [0, -1], "mask labels"),
        ([0, 300], [0, 1], "prediction labels"),
        ([0, 1, 1], [0, 1], "differ in size"),
    ],
)
def test_stray_labels_are_refused(prediction: list[int], target: list[int], words: str) -> None:
    matrix = ConfusionMatrix(2, 255)
    with pytest.raises(InputError) as error:
        matrix.update(np.array(prediction), np.array(target))
    assert words in str(error.value)
    assert matrix.matrix.sum() == 0


def test_float_labels_are_refused() -> None:
    with pytest.raises(InputError, match="integers"):
        ConfusionMatrix(2).update(np.zeros(3), np.zeros(3, np.uint8))
