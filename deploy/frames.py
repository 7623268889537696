"""Frames to measure with: the images of a labelled split, or the bundle's golden inputs where there is none.

Refuses to know how frames are timed. Images are decoded one at a time, so memory stays bounded.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from deploy.bundle import Bundle
from deploy.errors import InputError
from deploy.labels import (
    DatasetInfo,
    Labels,
    Pair,
    dataset_digest,
    hu_scale,
    list_pairs,
    read_dataset,
    read_mask,
)
from deploy.manifest import Preprocess
from deploy.measurement import DatasetRef
from deploy.preprocess import Image, read_image


class Frames(Protocol):
    """A fixed list of decoded frames, some with their true labels."""

    def __len__(self) -> int: ...

    def image(self, index: int) -> Image:
        """`[H, W, 3]` uint8 RGB."""

    def mask(self, index: int) -> Labels | None:
        """`[H, W]` uint8 truth, or None."""


class SplitFrames:
    """The pairs of one split; the classes must be the bundle's, by name and order.

    Raises:
        InputError: no such data, or other classes.
    """

    def __init__(self, bundle: Bundle, directory: Path, split: str) -> None:
        self.info: DatasetInfo = read_dataset(directory)
        self.split = split
        self.pairs: list[Pair] = list_pairs(self.info, split)
        self.hu = hu_scale(self.info, bundle.manifest.preprocess)
        names = tuple(entry.name for entry in bundle.manifest.classes)
        if names != self.info.classes:
            fix = "measure on data with the bundle's classes"
            raise InputError(
                f"{directory}: classes", got=", ".join(self.info.classes), expected=", ".join(names), fix=fix
            )

    def __len__(self) -> int:
        return len(self.pairs)

    def reference(self) -> DatasetRef:
        """By which a measurement says what it was compared with."""
        return DatasetRef(self.info.name, self.split, dataset_digest(self.pairs))

    def image(self, index: int) -> Image:
        """The decoded image of a pair."""
        return read_image(self.pairs[index].image, self.hu)

    def mask(self, index: int) -> Labels:
        """The mask of a pair."""
        return read_mask(self.pairs[index].mask)


class GoldenFrames:
    """The golden's inputs as frames (normalised ones are turned back into 8-bit colours), without truth.

    A bundle without a golden gives one frame of noise: good for timing only.
    """

    def __init__(self, bundle: Bundle) -> None:
        rule = bundle.manifest.preprocess
        if bundle.manifest.golden is None:
            self._images = [np.random.default_rng(0).integers(0, 256, (*rule.size, 3), np.uint8)]
        else:
            layout = bundle.manifest.inputs[0].layout
            self._images = [_as_frame(array, layout, rule) for array in bundle.golden()[0]]

    def __len__(self) -> int:
        return len(self._images)

    def image(self, index: int) -> Image:
        """A frame of the network's own size."""
        return self._images[index]

    def mask(self, index: int) -> None:
        """No truth."""


def open_frames(bundle: Bundle, data: Path | None, split: str) -> Frames:
    """Frames of a labelled split, or without `data` the golden's."""
    return SplitFrames(bundle, data, split) if data else GoldenFrames(bundle)


def _as_frame(array: npt.NDArray[Any], layout: str, rule: Preprocess) -> Image:
    if rule.in_graph:
        return np.asarray(array, np.uint8)
    planes = np.asarray(array, np.float32)
    values = (planes if layout == "NHWC" else np.moveaxis(planes, 0, 2)) * np.array(rule.std, np.float32)
    values += np.array(rule.mean, np.float32)
    return np.asarray(np.clip(np.rint(values * 255), 0, 255), np.uint8)
