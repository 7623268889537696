"""A CT series as a volume: slices ordered by their position, checked, rescaled to Hounsfield units.

Neither file names nor instance numbers nor the slice thickness say where a slice lies; its position does.
Compressed pixels are decoded by what pydicom finds (gdcm, CharLS). Source: DICOM PS3.3, C.7.6.2 and C.11.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from deploy.errors import InputError
from deploy.orientation import Affine, Orientation, orient
from deploy.volume import Labels, Mask, Volume, check_shape, paint, require_ct, to_hounsfield
from deploy.volumes.dicom.header import numbers, reading, text

TO_RAS = np.diag([-1.0, -1.0, 1.0, 1.0])  # DICOM's world has +x left, +y back
SAME_PLACE_MM = 0.02  # positions are written with two to six decimals


@dataclass(frozen=True)
class SliceHeader:
    """One file of a series; lengths in mm, in DICOM's world."""

    path: Path
    series: str
    instance: str
    patient: str
    position: tuple[float, ...]
    orientation: tuple[float, ...]
    spacing: tuple[float, ...]
    thickness: float | None
    shape: tuple[int, int]

    @property
    def normal(self) -> npt.NDArray[np.float64]:
        """Direction at right angles to rows and columns."""
        return np.asarray(np.cross(self.orientation[:3], self.orientation[3:]), np.float64)

    @classmethod
    def of(cls, path: Path, header: Any) -> SliceHeader:
        """From a file's header.

        Raises:
            InputError: position, orientation or rescale slope missing, or no Hounsfield units.
        """
        with reading(path):
            _require_rescale(header, path)
            thickness = numbers(header, "SliceThickness", 1)
            return cls(
                path,
                _uid(header, "SeriesInstanceUID", path),
                _uid(header, "SOPInstanceUID", path),
                text(header, "PatientID"),
                _required(header, "ImagePositionPatient", 3, path),
                _directions(header, path),
                _required(header, "PixelSpacing", 2, path),
                thickness[0] if thickness else None,
                (int(header.Rows), int(header.Columns)),
            )


@dataclass(frozen=True)
class Series:
    """A CT series. `name` is its identifier; `files` come in any order."""

    name: str
    files: tuple[SliceHeader, ...]

    @property
    def patient(self) -> str:
        """PatientID of the first file, "" if it has none."""
        return self.files[0].patient

    @cached_property
    def slices(self) -> tuple[SliceHeader, ...]:
        """The files by position along the slices' normal.

        Raises:
            InputError: slices differ in size, spacing or direction, two lie at one place, one is missing.
        """
        first = self.files[0]
        for other in self.files:
            _require_same_grid(first, other)
        normal = first.normal
        ordered = tuple(sorted(self.files, key=lambda one: float(np.dot(normal, one.position))))
        check_shape((len(ordered), *first.shape), str(first.path.parent))
        _require_even(ordered, normal)
        return ordered

    @cached_property
    def affine(self) -> Affine:
        """(column, row, slice, 1) -> mm in NIfTI's world, slices in the order of `slices`."""
        first, last = self.slices[0], self.slices[-1]
        matrix = np.eye(4)
        matrix[:3, 0] = np.array(first.orientation[:3]) * first.spacing[1]
        matrix[:3, 1] = np.array(first.orientation[3:]) * first.spacing[0]
        matrix[:3, 2] = self._step(first, last)
        matrix[:3, 3] = first.position
        return np.asarray(TO_RAS @ matrix, np.float64)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Slices, rows, columns."""
        return len(self.slices), *self.slices[0].shape

    @property
    def geometry(self) -> tuple[Orientation, Affine]:
        """How the stored slices become canonical, and the canonical affine."""
        return orient(self.affine, self.shape, f"series {self.name}")

    def read(self) -> Volume:
        """The volume.

        Raises:
            InputError: as `slices`, undecodable pixels, or values far outside any CT.
        """
        orientation, affine = self.geometry
        stored = np.stack([_hounsfield(one) for one in self.slices])
        require_ct(stored, f"series {self.name}")
        return Volume(self.name, np.ascontiguousarray(orientation.canonical(stored)), affine)

    def read_labels(
        self, files: Sequence[Path], volume: Volume, names: Sequence[str], ranked: bool = True
    ) -> Labels:
        """Labels of the structures in SEG and RTSTRUCT files, matched to `names` by their labels.

        Raises:
            InputError: a file of another series or grid, or none of its structures is a class.
        """
        from deploy.volumes.dicom import structures

        masks = (found for file in files for found in structures.masks(file, self))
        labels = paint(self.shape, masks, names, f"{', '.join(map(str, files))}", ranked)
        return np.ascontiguousarray(self.geometry[0].canonical(labels))

    def write_labels(self, labels: Labels, names: Sequence[str], folder: Path, model: str) -> Path:
        """Write `<folder>/<series>_seg.dcm`, a DICOM SEG that references the series."""
        from deploy.volumes.dicom import seg

        return seg.write(self, self.geometry[0].stored(labels), names, folder, model)

    def index_of(self, position: npt.NDArray[np.float64]) -> int | None:
        """The slice whose first pixel lies at `position` (DICOM's world, mm); None if none does."""
        places = np.array([one.position for one in self.slices])
        distance = np.linalg.norm(places - position, axis=1)
        nearest = int(distance.argmin())
        return nearest if distance[nearest] <= SAME_PLACE_MM else None

    def _step(self, first: SliceHeader, last: SliceHeader) -> npt.NDArray[np.float64]:
        """From one slice to the next; a single slice is as far from the next as it is thick."""
        if len(self.slices) > 1:
            return np.asarray(np.subtract(last.position, first.position)) / (len(self.slices) - 1)
        if not first.thickness:
            raise InputError(
                f"{first.path}: a single slice", got="no SliceThickness", expected="its thickness"
            )
        return first.normal * first.thickness


def _hounsfield(one: SliceHeader) -> npt.NDArray[np.int16]:
    """One slice's pixels, `[rows, columns]`."""
    import pydicom

    with reading(one.path):
        dataset = pydicom.dcmread(one.path)
        pixels = dataset.pixel_array
        if pixels.shape != one.shape:
            raise ValueError(f"pixels {pixels.shape}, header {one.shape}")
        padding = _padding(dataset, pixels)
        values = pixels * float(dataset.RescaleSlope) + float(dataset.RescaleIntercept)
    return to_hounsfield(values, str(one.path), padding)


def _padding(dataset: Any, pixels: npt.NDArray[Any]) -> Mask | None:
    """Pixels outside of what was scanned, if the header says which value they have."""
    value = dataset.get("PixelPaddingValue")
    if value is None:
        return None
    return np.asarray(pixels == np.asarray(int(value)).astype(pixels.dtype))  # some write -2000 as 63536


def _require_rescale(header: Any, path: Path) -> None:
    """CT values mean nothing without their slope and intercept."""
    slope, intercept = (numbers(header, name, 1) for name in ("RescaleSlope", "RescaleIntercept"))
    if slope is None or intercept is None or slope[0] == 0 or not np.isfinite([*slope, *intercept]).all():
        got = f"slope {slope and slope[0]}, intercept {intercept and intercept[0]}"
        fix = "export the series again from the scanner or archive"
        raise InputError(f"{path}: no RescaleSlope and RescaleIntercept", got, "both, as CT has", fix)
    if (unit := text(header, "RescaleType")) not in ("", "HU"):
        raise InputError(f"{path}: RescaleType", got=unit, expected="HU")


def _directions(header: Any, path: Path) -> tuple[float, ...]:
    """Six cosines: of the rows and of the columns, at right angles."""
    values = _required(header, "ImageOrientationPatient", 6, path)
    row, column = np.array(values[:3]), np.array(values[3:])
    lengths = np.array([np.linalg.norm(row), np.linalg.norm(column)])
    if np.abs(lengths - 1).max() > 1e-2 or abs(float(row @ column)) > 1e-2:
        raise InputError(f"{path}: orientation unknown", values, "two directions at right angles")
    return values


def _required(header: Any, name: str, count: int, path: Path) -> tuple[float, ...]:
    values = numbers(header, name, count)
    if values is None or not np.isfinite(values).all() or (name == "PixelSpacing" and min(values) <= 0):
        what = "orientation unknown" if "Orientation" in name else f"no {name}"
        raise InputError(
            f"{path}: {what}", values, f"{name} of {count} numbers", "it is needed to place the slice"
        )
    return values


def _uid(header: Any, name: str, path: Path) -> str:
    """An identifier that can be a file's name."""
    value = text(header, name)
    if not 1 <= len(value) <= 64 or set(value) - set("0123456789."):
        raise InputError(f"{path}: {name}", got=repr(value)[:80], expected="digits and dots")
    return value


def _require_same_grid(first: SliceHeader, other: SliceHeader) -> None:
    for what, mine, theirs in (
        ("size", first.shape, other.shape),
        ("pixel spacing", first.spacing, other.spacing),
        ("orientation", first.orientation, other.orientation),
    ):
        if not np.allclose(mine, theirs, atol=1e-3):
            raise InputError(
                f"{other.path}: inconsistent {what} in its series", theirs, f"{mine} as {first.path}"
            )


def _require_even(ordered: Sequence[SliceHeader], normal: npt.NDArray[np.float64]) -> None:
    """Raise InputError unless slices follow each other in equal steps along one line."""
    positions = np.array([one.position for one in ordered])
    gaps = np.diff(positions @ normal)
    if not gaps.size:
        return
    usual = float(np.median(gaps))
    for index in np.flatnonzero((gaps <= SAME_PLACE_MM) | (np.abs(gaps - usual) > _tolerance(usual))):
        what, fix = _unevenness(float(gaps[index]), usual)
        got = f"{gaps[index]:.3f} mm between {ordered[index].path.name} and {ordered[index + 1].path.name}"
        raise InputError(f"series {ordered[0].series}: {what}", got, f"{usual:.3f} mm", fix)
    line = np.linspace(positions[0], positions[-1], len(positions))
    if (aside := float(np.abs(positions - line).max())) > 10 * _tolerance(usual):
        raise InputError(
            f"series {ordered[0].series}: slices on no line", f"{aside:.2f} mm aside", "one line"
        )


def _tolerance(gap: float) -> float:
    return max(SAME_PLACE_MM, 0.01 * gap)


def _unevenness(gap: float, usual: float) -> tuple[str, str]:
    """What is wrong with a gap, and what to do."""
    if gap <= SAME_PLACE_MM:
        return "two slices at one position", "several phases in one series? keep one"
    times = gap / usual
    if times > 1.5 and abs(times - round(times)) < 0.1:
        return f"{round(times) - 1} missing slice(s)", "export the whole series again"
    return "inconsistent spacing", "export the series again, without gaps"
