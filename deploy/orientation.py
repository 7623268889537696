"""Which way a volume lies: from any order and direction of its axes to the one all code here sees, and back.

Canonical: slices from feet to head, rows from front to back, columns from the patient's right to left, so
that a slice looks as on a radiologist's screen. World coordinates are NIfTI's, in mm: +x right, +y front, +z
head. Whole axes are swapped and flipped; nothing is interpolated, so an oblique volume stays oblique. Refuses
to know file formats.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from deploy.errors import InputError

Affine = npt.NDArray[np.float64]  # [4, 4]: (column, row, slice, 1) -> world mm
_CANONICAL = np.array([[-1, 0, 0], [0, -1, 0], [0, 0, 1]], np.float64)  # directions of column, row, slice


@dataclass(frozen=True)
class Orientation:
    """The way back: `axes[a]` is the stored axis that canonical axis a was, `flips[a]`: it was turned."""

    axes: tuple[int, int, int]
    flips: tuple[bool, bool, bool]

    def canonical(self, stored: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """An array as stored (axes: slice, row, column) -> its canonical view `[S, H, W]`."""
        return np.asarray(np.flip(stored.transpose(self.axes), self._flipped))

    def stored(self, canonical: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """`[S, H, W]` -> a view with the stored order of axes; undoes `canonical`."""
        return np.asarray(np.flip(canonical, self._flipped).transpose(tuple(np.argsort(self.axes))))

    @property
    def _flipped(self) -> tuple[int, ...]:
        return tuple(axis for axis in range(3) if self.flips[axis])


def orient(affine: Affine, shape: tuple[int, int, int], where: str) -> tuple[Orientation, Affine]:
    """How a stored array `shape` (slices, rows, columns) is made canonical, and the canonical array's affine.

    Raises:
        InputError: an affine that gives the axes no direction; `where` names the volume.
    """
    if affine.shape != (4, 4) or not np.isfinite(affine).all() or abs(np.linalg.det(affine[:3, :3])) < 1e-9:
        got, expected = affine.tolist(), "three independent directions"
        raise InputError(f"{where}: orientation unknown", got, expected, "save it with its orientation")
    spacing = np.linalg.norm(affine[:3, :3], axis=0)
    match = _CANONICAL.T @ (affine[:3, :3] / spacing)  # [canonical axis, stored axis], by column, row, slice
    order = max(itertools.permutations(range(3)), key=lambda p: sum(abs(match[a, p[a]]) for a in range(3)))
    turned = [bool(match[axis, order[axis]] < 0) for axis in range(3)]
    axes = tuple(2 - order[2 - axis] for axis in range(3))  # arrays have their axes the other way round
    orientation = Orientation((axes[0], axes[1], axes[2]), (turned[2], turned[1], turned[0]))
    return orientation, affine @ _voxel_map(order, turned, shape)


def _voxel_map(order: tuple[int, ...], turned: list[bool], shape: tuple[int, int, int]) -> Affine:
    """`[4, 4]`: canonical (column, row, slice, 1) -> stored (column, row, slice, 1)."""
    matrix = np.zeros((4, 4))
    matrix[3, 3] = 1
    for new, old in enumerate(order):
        matrix[old, new] = -1 if turned[new] else 1
        matrix[old, 3] = shape[2 - old] - 1 if turned[new] else 0
    return matrix
