"""Label files of DICOM of any kind: which series one labels, what it calls its structures, their masks.

Each kind (seg.py, rtstruct.py) has `series_of(header)`, `names(header)` and `masks(path, header, series)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from deploy.errors import InputError
from deploy.volume import Mask
from deploy.volumes.dicom import rtstruct, seg
from deploy.volumes.dicom.header import read_header, reading, text

if TYPE_CHECKING:
    from deploy.volumes.dicom.series import Series

LABEL_KINDS: dict[str, ModuleType] = {
    "1.2.840.10008.5.1.4.1.1.66.4": seg,
    "1.2.840.10008.5.1.4.1.1.66.7": seg,  # the kind whose pixels are segment numbers
    "1.2.840.10008.5.1.4.1.1.481.3": rtstruct,
}


def series_of(path: Path) -> str:
    """Identifier of the series that a label file is of.

    Raises:
        InputError: no label file, damaged, or it does not say.
    """
    header, kind = _open(path)
    with reading(path):
        found: set[str] = kind.series_of(header)
    if len(found) != 1:
        raise InputError(
            f"{path}: the series it labels", got=", ".join(sorted(found)) or "none", expected="one"
        )
    return found.pop()


def names(path: Path) -> list[str]:
    """What a label file calls its structures, in its order."""
    header, kind = _open(path)
    with reading(path):
        found: list[str] = kind.names(header)
    return found


def masks(path: Path, series: Series) -> Iterator[tuple[str, Mask]]:
    """(name, mask `[slices, rows, columns]` in the series' stored order) of every structure in a label file.

    Raises:
        InputError: it is of another series, or its grid is not the series'.
    """
    if (labelled := series_of(path)) != series.name:
        fix = "keep each label file with its series"
        raise InputError(f"{path} labels another series", labelled, series.name, fix)
    header, kind = _open(path)
    yield from kind.masks(path, header, series)


def _open(path: Path) -> tuple[Any, ModuleType]:
    header = read_header(path)
    with reading(path):
        kind = text(header, "SOPClassUID")
    if kind not in LABEL_KINDS:
        raise InputError(f"{path} is no label file", expected="a DICOM SEG or an RTSTRUCT")
    return header, LABEL_KINDS[kind]
