"""Schemas of the files by which calibration speaks to export. Now: the calibration set.

A calibration set says which training images INT8 ranges are taken from, and how they are prepared; one key
names all of it, so that ranges taken from another set are recognised as stale. The calibration table (ranges)
and the precision plan will have their schemas here; they are left out until something reads them. Refuses to
know how the images were chosen (`calibration/sampling.py`) and what reads them.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from deploy.errors import InputError
from deploy.files import write_json
from deploy.manifest import check_relative_path
from deploy.schema import digest, encode, read_versioned

SCHEMA_VERSION = 1
MIN_IMAGES = 32  # ranges from fewer images clip what the others show


@dataclass(frozen=True)
class CalibrationImage:
    """One training image: POSIX path relative to the labelled folder, and hex SHA-256 of its bytes."""

    path: str
    sha256: str


@dataclass(frozen=True)
class CalibrationPreprocess:
    """How an image becomes the network's input, as in the manifest; `size` is (height, width)."""

    size: tuple[int, int]
    resize: str
    interpolation: str
    mean: tuple[float, float, float]
    std: tuple[float, float, float]


@dataclass(frozen=True)
class CalibrationSet:
    """Which images, in which order, prepared how, for which checkpoint.

    Args:
        dataset, split: where the images are from. seed: of the choice.
        checkpoint_sha256: the network they were collected for, or None for any.
        class_images: class name -> number of chosen images that show it (0: the split never does).
        key: hex SHA-256 over all of the above and the images' hashes (`sealed`).
    """

    dataset: str
    split: str
    seed: int
    checkpoint_sha256: str | None
    preprocess: CalibrationPreprocess
    class_images: dict[str, int]
    images: tuple[CalibrationImage, ...]
    key: str = ""
    schema_version: int = SCHEMA_VERSION

    def sealed(self) -> CalibrationSet:
        """The same set with its key."""
        return dataclasses.replace(self, key=digest(self))


def save_calibration_set(path: Path | str, images: CalibrationSet) -> None:
    """Write a sealed set as JSON; "-" is stdout."""
    assert images.key == digest(images), "seal the set first"
    write_json(path, encode(images))


def load_calibration_set(path: Path) -> CalibrationSet:
    """Read a calibration set.

    Raises:
        InputError: unreadable, another version, an unknown key, a key that does not fit the content, fewer
            than 32 images, an image twice, or a path that leaves the labelled folder.
    """
    images = read_versioned(CalibrationSet, path, SCHEMA_VERSION)
    if images.key != digest(images):
        raise InputError(
            f"{path} was changed after it was collected", fix="run: python -m calibration collect"
        )
    check_count(len(images.images), str(path))
    if len({image.path for image in images.images}) != len(images.images):
        raise InputError(f"{path}: images", got="an image twice", expected="each image once")
    for image in images.images:
        check_relative_path(image.path, str(path))
    return images


def check_count(count: int, where: str) -> None:
    """Raise InputError for a calibration set too small to trust."""
    if count < MIN_IMAGES:
        raise InputError(f"{where}: calibration images", got=count, expected=f"at least {MIN_IMAGES}")
