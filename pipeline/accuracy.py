"""Accuracy of a predictor over labelled pairs, at the masks' own size, from one confusion matrix.

Training validates and `evaluate` measures with this one function. Counts are kept image by image, too, for
the worst images and for an interval over images. Refuses to know models and files.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from deploy.errors import InputError
from deploy.metrics import ConfusionMatrix, overlap_scores

if TYPE_CHECKING:
    from deploy.labels import DatasetInfo, Labels
    from deploy.preprocess import Image
    from pipeline.samples import Pairs

Walk = Callable[[Sequence[int]], Iterator[int]]
Counts = npt.NDArray[np.int64]


class Timed(Protocol):
    """A predictor: `[H, W, 3]` uint8 RGB -> `[H, W]` uint8 label map, and the milliseconds it took."""

    def timed(self, image: Image, /) -> tuple[Labels, float]: ...


@dataclass(frozen=True)
class Evaluation:
    """Accuracy over a split.

    Attributes:
        matrix: rows are truth; classes: names; latency_ms: one an image, the first (warm-up) left out.
        hits: `[N, C]` pixels of each image that are right; unions: `[N, C]` pixels of truth or prediction.
    """

    matrix: ConfusionMatrix
    classes: tuple[str, ...]
    latency_ms: tuple[float, ...]
    hits: Counts
    unions: Counts

    @property
    def images(self) -> int:
        """How many."""
        return len(self.hits)

    def summary(self) -> dict[str, Any]:
        """`miou`, `iou` and `dice` by class, `pixel_accuracy`, `images`; None where nothing was counted."""
        return {
            "miou": _figure(self.matrix.miou()),
            **overlap_scores(*self.matrix.overlap(), self.classes),
            "pixel_accuracy": _figure(self.matrix.pixel_accuracy()),
            "images": self.images,
        }

    def latency(self) -> dict[str, float]:
        """Percentiles of the time from decoded frame to label map, in ms."""
        p50, p90, p99 = np.percentile(self.latency_ms, [50, 90, 99]).tolist()
        return {"p50": p50, "p90": p90, "p99": p99, "mean": float(np.mean(self.latency_ms))}

    def with_parts(self, others: Sequence[Evaluation]) -> Evaluation:
        """One evaluation of the images that several processes took different ones of."""
        total = ConfusionMatrix(self.matrix.classes, self.matrix.ignore_index)
        for part in (self, *others):
            total.merge(part.matrix)
        return Evaluation(
            total,
            self.classes,
            sum((part.latency_ms for part in others), self.latency_ms),
            self.hits + sum(part.hits for part in others),
            self.unions + sum(part.unions for part in others),
        )

    def image_miou(self) -> npt.NDArray[np.float64]:
        """`[N]` mean IoU of each image over the classes it shows or is given; nan without labelled pixels."""
        shown = self.unions > 0
        iou = np.divide(self.hits, self.unions, out=np.zeros(self.hits.shape), where=shown)
        counted = shown.sum(axis=1)
        return np.divide(iou.sum(axis=1), counted, out=np.full(len(iou), np.nan), where=counted > 0)

    def worst(self, count: int) -> list[int]:
        """Indices of the images with the lowest mean IoU, the worst first; images without labels left out."""
        order = np.argsort(self.image_miou(), kind="stable")  # nan sorts last
        return [int(i) for i in order[:count] if self.unions[i].any()]


def evaluate(
    predict: Timed, pairs: Pairs, info: DatasetInfo, walk: Walk = iter, files: Sequence[object] = ()
) -> Evaluation:
    """Predict every image of `pairs` once and compare with its mask.

    Args:
        walk: turns the indices into an iterator over them (to show progress), or over some of them.
        files: names of the masks, for errors.

    Raises:
        InputError: a mask holds ids that are not declared (its file is named).
    """
    total = ConfusionMatrix(len(info.classes), info.ignore_index)
    hits, unions = (np.zeros((len(pairs), total.classes), np.int64) for _ in range(2))
    times = []
    for index in walk(range(len(pairs))):
        image, mask = pairs[index]
        labels, taken = predict.timed(image)
        one = ConfusionMatrix(total.classes, total.ignore_index)
        try:
            one.update(labels, mask)
        except InputError as error:
            raise InputError(f"{files[index] if files else f'mask {index}'}: {error}") from error
        total.merge(one)
        hits[index], unions[index] = one.overlap()
        times.append(taken)
    return Evaluation(total, info.classes, tuple(times[1:] or times), hits, unions)


def shown(value: float | None, form: str = ".4f") -> str:
    """A share to four digits, or in another form; `-` for a class that occurs nowhere, and for no figure."""
    return "-" if value is None else format(value, form)


def points(value: float | None) -> str:
    """Points of mIoU: two digits with a sign, and no sign before what rounds to zero."""
    return shown(value if value is None else round(value, 2) + 0.0, "+.2f")


def _figure(value: float) -> float | None:
    return None if math.isnan(value) else value
