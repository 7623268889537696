"""RTSTRUCT: contours drawn in the patient's millimetres, filled to masks on the slices they lie on.

A pixel belongs to a structure when its centre is inside an odd number of its contours (holes are contours,
too). The frame of reference is not compared, as writers invent it; the referenced series is. Source: DICOM
PS3.3, C.8.8.6.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from deploy.errors import InputError
from deploy.volume import Mask
from deploy.volumes.dicom.header import reading, text

if TYPE_CHECKING:
    from deploy.volumes.dicom.series import Series

_AREAS = ("CLOSED_PLANAR", "CLOSEDPLANAR_XOR")
_OFF_SLICE = 0.1  # of the distance between slices
Points = npt.NDArray[np.float64]


def series_of(header: Any) -> set[str]:
    """Identifiers of the series that the structures were drawn on."""
    return {
        text(series, "SeriesInstanceUID")
        for frame in header.get("ReferencedFrameOfReferenceSequence", [])
        for study in frame.get("RTReferencedStudySequence", [])
        for series in study.get("RTReferencedSeriesSequence", [])
    }


def names(header: Any) -> list[str]:
    """Names of the structures that have an area."""
    return [name for name, contours in _structures(header) if contours]


def masks(path: Path, header: Any, series: Series) -> Iterator[tuple[str, Mask]]:
    """(name, mask) of every structure that has an area.

    Raises:
        InputError: a contour that is not flat, or lies between two slices or outside of the series.
    """
    from deploy.volumes.dicom.series import TO_RAS

    to_voxel = np.linalg.inv(TO_RAS @ series.affine)  # TO_RAS is its own inverse
    with reading(path):
        structures = _structures(header)
    for name, contours in structures:
        if not contours:
            continue
        mask = np.zeros(series.shape, np.bool_)
        for points in contours:
            voxels = points @ to_voxel[:3, :3].T + to_voxel[:3, 3]
            index = _slice_of(voxels[:, 2], series.shape[0], f"{path}: {name}")
            mask[index] ^= fill(voxels[:, :2], series.shape[1:])
        yield name, mask


def fill(points: Points, shape: tuple[int, int]) -> Mask:
    """`[rows, columns]`: pixels whose centre is inside a closed polygon (even-odd rule).

    Args:
        points: `[N, 2]` column and row of its corners; whole numbers are pixel centres.
    """
    inside = np.zeros(shape, np.bool_)
    (x0, y0), (x1, y1) = points.T, np.roll(points, -1, axis=0).T
    columns = np.arange(shape[1])
    first, last = np.ceil(points[:, 1].min()), np.floor(points[:, 1].max())
    for row in range(max(0, int(first)), min(shape[0] - 1, int(last)) + 1):
        crosses = (y0 <= row) != (y1 <= row)
        at = x0[crosses] + (row - y0[crosses]) * (x1 - x0)[crosses] / (y1 - y0)[crosses]
        inside[row] = (at[:, None] > columns).sum(axis=0) % 2 == 1
    return inside


def _slice_of(places: Points, count: int, where: str) -> int:
    """The slice that all points of a contour lie on."""
    index = round(float(np.median(places)))
    aside = float(np.abs(places - index).max())
    if aside > _OFF_SLICE or not 0 <= index < count:
        got = f"slice {places.min():.2f} to {places.max():.2f}"
        raise InputError(
            f"{where}: a contour on no slice", got, f"one of 0..{count - 1}", "is it of this series?"
        )
    return index


def _structures(header: Any) -> list[tuple[str, list[Points]]]:
    """(name, contours `[N, 3]` in mm) of every structure."""
    named = {int(roi.ROINumber): text(roi, "ROIName") for roi in header.get("StructureSetROISequence", [])}
    found = []
    for roi in header.get("ROIContourSequence", []):
        contours = [
            np.array(contour.ContourData, np.float64).reshape(-1, 3)
            for contour in roi.get("ContourSequence", [])
            if text(contour, "ContourGeometricType") in _AREAS and len(contour.ContourData) >= 9
        ]
        found.append((named.get(int(roi.ReferencedROINumber), ""), contours))
    return found
