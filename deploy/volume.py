"""A CT volume in memory: Hounsfield units in canonical order, with its place in the patient.

What is no CT is refused here, whatever file it came from: values that no scanner gives, sizes out of bounds.
Refuses to know files and networks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from deploy.errors import InputError
from deploy.orientation import Affine

Hounsfield = npt.NDArray[np.int16]
Labels = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]

NOTICE = "Not for clinical use"
AIR = -1024
MAX_VOXELS = 1 << 29  # 2048 slices of 512x512
MAX_SIDE = 16384
LOWEST, HIGHEST = -4096, 32767  # padding outside the scanned circle goes to -3072, metal to 31743


@dataclass(frozen=True)
class Volume:
    """A CT volume.

    Attributes:
        name: a file name for what is made of it.
        hu: `[S, H, W]` int16, slices from feet to head, rows from front to back, columns from right to left.
        affine: (column, row, slice, 1) -> mm in NIfTI's world (deploy/orientation.py).
    """

    name: str
    hu: Hounsfield
    affine: Affine

    @property
    def spacing_mm(self) -> tuple[float, float, float]:
        """Distance between voxels along columns' rows and slices: (slice, row, column)."""
        column, row, slices = np.linalg.norm(self.affine[:3, :3], axis=0).tolist()
        return slices, row, column

    @property
    def voxel_ml(self) -> float:
        """Volume of one voxel in millilitres."""
        return float(abs(np.linalg.det(self.affine[:3, :3]))) / 1000


def check_shape(shape: Sequence[int], where: str) -> None:
    """Raise InputError unless `shape` is three sides within bounds; before anything of that size exists."""
    good = len(shape) == 3 and all(1 <= side <= MAX_SIDE for side in shape)
    if not good or int(np.prod(np.array(shape, np.int64))) > MAX_VOXELS:
        expected = f"three axes, at most {MAX_VOXELS} voxels"
        raise InputError(f"{where}: size of the volume", got="x".join(map(str, shape)), expected=expected)


def to_hounsfield(values: npt.NDArray[Any], where: str, padding: Mask | None = None) -> Hounsfield:
    """Rescaled values -> int16 Hounsfield units, rounded.

    Args:
        padding: pixels that the scanner marks as outside of what it saw; the nearest allowed value is theirs.

    Raises:
        InputError: not finite, or far outside any CT.
    """
    if padding is not None and padding.any():
        values = np.where(padding, np.clip(values, LOWEST, HIGHEST), values)
    low, high = float(values.min()), float(values.max())
    if not (low >= LOWEST and high <= HIGHEST):  # nan fails it, too
        expected = f"{LOWEST} to {HIGHEST} HU"
        fix = "is the rescale slope and intercept right, and is it CT?"
        raise InputError(f"{where}: values far outside any CT", f"{low:g} to {high:g}", expected, fix)
    return np.asarray(np.rint(values), np.int16)


def require_ct(hu: Hounsfield, where: str) -> None:
    """Raise InputError for a volume without any value below that of water: no body, no air, no fat."""
    lowest = int(hu.min())
    if lowest >= 0:
        fix = "is it MR, windowed to grey levels, or without its intercept?"
        got = f"{lowest} to {int(hu.max())}"
        raise InputError(f"{where}: values are no Hounsfield units", got, "some below 0 (air is -1000)", fix)


def paint(
    shape: tuple[int, int, int],
    masks: Iterable[tuple[str, Mask]],
    names: Sequence[str],
    where: str,
    ranked: bool = True,
) -> Labels:
    """Named masks `[S, H, W]` -> one label map of class ids.

    Args:
        names: class names, the background first; masks of other names are left out.
        ranked: the order of names is meant: a later class covers an earlier one. Else no two may overlap.

    Raises:
        InputError: none of the masks is of a class, or they overlap and nobody said which counts.
    """
    labels = np.zeros(shape, np.uint8)
    found = []
    for name, mask in masks:
        found.append(name)
        number = names.index(name) if name in names else 0
        if not ranked and number and np.isin(labels[mask], (0, number), invert=True).any():
            fix = "say the order: --classes outer,inner (a later one covers an earlier one)"
            raise InputError(f"{where}: {name} overlaps another structure", fix=fix)
        np.copyto(labels, np.uint8(number), where=mask & (labels < number))
    if not set(found) & set(names[1:]):
        got, expected = ", ".join(sorted(set(found))) or "none", f"some of {', '.join(names[1:])}"
        raise InputError(f"{where}: a volume without labels", got, expected, "label it, or see --classes")
    return labels
