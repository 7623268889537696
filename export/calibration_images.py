"""The images of a calibration set as network inputs, for converters that take INT8 ranges from them.

The set must be the checkpoint's own, prepared as the artifact will prepare its frames, and every image must
have the bytes it had when it was chosen: ranges from anything else are stale. Refuses to know how the images
were chosen and what is done with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from deploy.errors import InputError
from deploy.files import sha256_file
from deploy.labels import hu_scale, read_dataset
from deploy.manifest import Preprocess, TensorSpec
from deploy.preprocess import HuScale, prepare_input, read_image
from deploy.progress import track
from export.plan import CalibrationPreprocess, CalibrationSet, load_calibration_set
from export.source import Source
from pipeline.artifact import run_folder

COLLECT = "python -m calibration collect --checkpoint RUN --data DIR --out FILE"


@dataclass(frozen=True)
class CalibrationImages:
    """A calibration set with the labelled folder that its paths are relative to; `hu`: how CT is read."""

    images: CalibrationSet
    root: Path
    hu: HuScale | None = None

    def inputs(self, rule: Preprocess, spec: TensorSpec, batch: int = 1) -> CalibrationInputs:
        """Them as network inputs."""
        return CalibrationInputs(self, rule, spec, batch)


@dataclass(frozen=True)
class CalibrationInputs:
    """`[batch, ...]` network inputs as the device makes them; a last group that is not full is left out.

    Read anew in every pass: converters make several, and none is kept.

    Raises:
        InputError: in a pass: an image is gone or has changed.
    """

    source: CalibrationImages
    rule: Preprocess
    spec: TensorSpec
    batch: int

    def __len__(self) -> int:
        return len(self.source.images.images) // self.batch

    def __iter__(self) -> Iterator[npt.NDArray[Any]]:
        group: list[npt.NDArray[Any]] = []
        for entry in track(self.source.images.images, "calibration"):
            path = self.source.root / entry.path
            if not path.is_file() or sha256_file(path) != entry.sha256:
                raise InputError(f"{path} is not the image that was collected", fix=f"run: {COLLECT}")
            group.append(prepare_input(read_image(path, self.source.hu), self.rule, self.spec))
            if len(group) == self.batch:
                yield np.concatenate(group)
                group = []


def find_calibration(
    file: Path | None, data: Path | None, source: Source, precision: str
) -> CalibrationImages:
    """The calibration set for a checkpoint: `file`, else the one that `make calibrate` leaves with the run.

    Args:
        data: the labelled folder that the images are in.

    Raises:
        InputError: no set, no folder, a set of another checkpoint, data set or preprocessing.
    """
    path = file or run_folder(source.name) / "calibration.json"
    if not path.is_file():
        fix = f"run: {COLLECT}" if file else f"run: {COLLECT}, then pass --calibration FILE"
        raise InputError(f"{precision} needs calibration images", f"no file {path}", "a calibration set", fix)
    if data is None:
        raise InputError(
            f"{precision} needs the images of {path}", fix="pass their labelled folder: --data DIR"
        )
    images = load_calibration_set(path)
    _check_fits(images, path, source)
    info = read_dataset(data)
    return CalibrationImages(images, info.root, hu_scale(info, source.preprocess))


def _check_fits(images: CalibrationSet, path: Path, source: Source) -> None:
    """Raise InputError for a set that was collected for something else."""
    rule = source.preprocess
    wanted = CalibrationPreprocess(rule.size, rule.resize, rule.interpolation, rule.mean, rule.std)
    for what, found, expected in (
        ("checkpoint", images.checkpoint_sha256 or source.sha256, source.sha256),
        ("preprocessing", images.preprocess, wanted),
    ):
        if found != expected:
            raise InputError(f"{path}: {what} is another's", found, expected, f"run: {COLLECT} [--size HxW]")
