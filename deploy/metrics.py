"""Segmentation accuracy: one confusion matrix accumulated over all images, and IoU and Dice from it.

mIoU is the mean over classes of intersection / union, where both are summed over the whole data set (not
averaged per image); ignored pixels count nowhere, a class absent from prediction and truth is nan and left
out of the mean. Source: PASCAL VOC (Everingham et al., IJCV 2010); the same rule as Cityscapes and ADE20K.
For CT, where a volume is one case, the same is also said volume by volume.
Refuses to know sizes: prediction and truth must already have the mask's own size.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from deploy.errors import InputError

Counts = npt.NDArray[np.int64]
Scores = dict[str, dict[str, float | None]]


class ConfusionMatrix:
    """Counts of (true class, predicted class) over pixels.

    Args:
        classes: number of classes C, at most 255.
        ignore_index: value of true labels that count nowhere, or None.

    Attributes:
        matrix: `[C, C]` int64, rows = truth, columns = prediction.
    """

    def __init__(self, classes: int, ignore_index: int | None = None) -> None:
        if not 1 <= classes <= 255:
            raise InputError("number of classes", got=classes, expected="1 to 255")
        self.classes = classes
        self.ignore_index = ignore_index
        self.matrix: Counts = np.zeros((classes, classes), np.int64)

    def update(self, prediction: npt.NDArray[Any], target: npt.NDArray[Any]) -> None:
        """Add one image, or a batch, of labels: two integer arrays of one shape, e.g. `[H, W]` uint8.

        Raises:
            InputError: shapes differ, or a label is neither a class nor (in the truth) ignore_index.
        """
        if prediction.shape != target.shape:
            raise InputError(
                "prediction and mask differ in size", got=prediction.shape, expected=target.shape
            )
        joint = _joint_histogram(_bytes(prediction, "prediction"), _bytes(target, "mask"))
        if self.ignore_index is not None:
            joint[self.ignore_index] = 0
        counted = joint[: self.classes, : self.classes]
        if counted.sum() != joint.sum():
            self._refuse(joint)
        self.matrix += counted

    def merge(self, other: ConfusionMatrix) -> None:
        """Add another matrix's counts (e.g. of another worker)."""
        assert (self.classes, self.ignore_index) == (other.classes, other.ignore_index)
        self.matrix += other.matrix

    def iou(self) -> npt.NDArray[np.float64]:
        """`[C]` intersection over union; nan for a class absent from both truth and prediction."""
        hits, unions = self.overlap()
        return _share(hits, unions)

    def overlap(self) -> tuple[Counts, Counts]:
        """(pixels of each class that are right, pixels of truth or prediction), both `[C]`."""
        hits = np.diagonal(self.matrix)
        return hits, self.matrix.sum(0) + self.matrix.sum(1) - hits

    def miou(self) -> float:
        """Mean IoU over the classes that occur; nan if there is none."""
        iou = self.iou()
        present = iou[~np.isnan(iou)]
        return float(present.mean()) if present.size else float("nan")

    def pixel_accuracy(self) -> float:
        """Share of counted pixels that are right; nan if there is none."""
        total = int(self.matrix.sum())
        return float(np.trace(self.matrix)) / total if total else float("nan")

    def _refuse(self, joint: npt.NDArray[np.int64]) -> None:
        rows = set(np.flatnonzero(joint.sum(1)).tolist()) - set(range(self.classes))
        columns = set(np.flatnonzero(joint.sum(0)).tolist()) - set(range(self.classes))
        where, values = ("mask", rows) if rows else ("prediction", columns)
        expected = f"0..{self.classes - 1}" + (
            f" or {self.ignore_index} (ignored)" if rows and self.ignore_index else ""
        )
        raise InputError(f"{where} holds undeclared class ids", got=sorted(values), expected=expected)


def overlap_scores(hits: Counts, unions: Counts, names: Sequence[str]) -> Scores:
    """`iou` and `dice` by class name, from `ConfusionMatrix.overlap`; None for a class that does not occur.

    Dice is 2 |A and B| / (|A| + |B|), and |A| + |B| = |A or B| + |A and B|.
    """
    figures = {"iou": _share(hits, unions), "dice": _share(2 * hits, unions + hits)}
    return {
        what: {name: None if math.isnan(v) else v for name, v in zip(names, values.tolist(), strict=True)}
        for what, values in figures.items()
    }


def volume_scores(
    hits: Counts, unions: Counts, volumes: Sequence[str], names: Sequence[str]
) -> dict[str, Scores]:
    """`overlap_scores` of every volume.

    Args:
        hits, unions: `[N, C]`, a row an image; volumes: `[N]`, of which volume it is a slice.
    """
    rows = {volume: [i for i, of in enumerate(volumes) if of == volume] for volume in dict.fromkeys(volumes)}
    return {volume: overlap_scores(hits[i].sum(0), unions[i].sum(0), names) for volume, i in rows.items()}


def mean_dice(
    dice: Mapping[str, Mapping[str, float | None]], names: Sequence[str]
) -> dict[str, float | None]:
    """By class the mean of the volumes' Dice (by volume and class) where it occurs; None where in none."""
    found = {name: [one[name] for one in dice.values()] for name in names}
    present = {name: [value for value in values if value is not None] for name, values in found.items()}
    return {name: sum(values) / len(values) if values else None for name, values in present.items()}


def _share(part: Counts, whole: Counts) -> npt.NDArray[np.float64]:
    """part / whole; nan where whole is 0."""
    result = np.full(len(whole), np.nan)
    np.divide(part, whole, out=result, where=whole > 0)
    return result


def _bytes(labels: npt.NDArray[Any], what: str) -> npt.NDArray[np.uint8]:
    if labels.dtype == np.uint8:
        return labels
    if labels.dtype.kind not in "iu":
        raise InputError(f"{what} labels", got=labels.dtype, expected="integers")
    if labels.size and (labels.min() < 0 or labels.max() > 255):
        raise InputError(f"{what} labels", got=f"{labels.min()}..{labels.max()}", expected="0..255")
    return labels.astype(np.uint8)


def _joint_histogram(
    prediction: npt.NDArray[np.uint8], target: npt.NDArray[np.uint8]
) -> npt.NDArray[np.int64]:
    """`[256, 256]` counts of every (truth, prediction) pair: one pass, and stray labels show up in it."""
    codes = target.astype(np.uint16).ravel()
    codes <<= 8
    codes |= prediction.ravel()
    return np.bincount(codes, minlength=1 << 16).reshape(256, 256).astype(np.int64, copy=False)
