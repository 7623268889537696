"""`slices.csv` of a prepared CT folder: of which volume every image is a slice, and where it lies.

One line an image: split, stem, patient (a pseudonym), volume, index (from the feet up), spacing in mm (slice,
row, column) and the affine of the volume's frames, sixteen numbers row by row: (column, row, index, 1) -> mm.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy.errors import InputError
from deploy.files import atomic_write_text

FILE = "slices.csv"
_COLUMNS = ("split", "stem", "patient", "volume", "index", "spacing_mm", "affine")
_LIMIT = 256 << 20


@dataclass(frozen=True)
class SliceRow:
    """One image of a prepared folder; `affine` is `[4, 4]` row by row."""

    split: str
    stem: str
    patient: str
    volume: str
    index: int
    spacing_mm: tuple[float, ...]
    affine: tuple[float, ...]


def write_slices(root: Path, rows: Sequence[SliceRow]) -> None:
    """Write `<root>/slices.csv`."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for row in rows:
        texts = (row.split, row.stem, row.patient, row.volume, row.index)
        writer.writerow((*texts, _joined(row.spacing_mm), _joined(row.affine)))
    atomic_write_text(root / FILE, stream.getvalue())


def read_slices(root: Path) -> list[SliceRow]:
    """The rows of `<root>/slices.csv`; none if there is no such file.

    Raises:
        InputError: damaged (the line is named).
    """
    path = root / FILE
    if not path.is_file():
        return []
    if path.stat().st_size > _LIMIT:
        raise InputError(f"{path} is too large", expected=f"at most {_LIMIT} bytes")
    with open(path, encoding="utf-8", newline="") as stream:
        try:
            header, *lines = csv.reader(stream)
            if tuple(header) != _COLUMNS:
                raise InputError(f"{path}: columns", ", ".join(header), ", ".join(_COLUMNS))
            return [_row(line, f"{path} line {number}") for number, line in enumerate(lines, start=2)]
        except (ValueError, csv.Error) as error:
            raise InputError(f"{path} is damaged", got=error, fix="prepare the folder again") from error


def volumes_of(root: Path, split: str) -> dict[str, str]:
    """Stem -> volume of a split's images; empty where images are no slices."""
    return {row.stem: row.volume for row in read_slices(root) if row.split == split}


def _joined(values: Sequence[float]) -> str:
    return " ".join(f"{value:.10g}" for value in values)


def _row(line: list[str], where: str) -> SliceRow:
    split, stem, patient, volume, index, *rest = line
    spacing, affine = (tuple(map(float, part.split())) for part in rest)
    if len(spacing) != 3 or len(affine) != 16:
        raise ValueError(f"{where}: {len(spacing)} spacings, {len(affine)} numbers of the affine")
    return SliceRow(split, stem, patient, volume, int(index), spacing, affine)
