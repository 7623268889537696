"""Reading DICOM files that come from anywhere: bounded, without pixels, any failure one error with the file.

Refuses to know what the attributes mean. Deflated files are refused: they unpack to any size.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from deploy import foreign

MAX_BYTES = 2 << 30
SLICE_TAGS = (
    "SOPClassUID",
    "SOPInstanceUID",
    "SeriesInstanceUID",
    "Modality",
    "ImageType",
    "PatientID",
    "ImagePositionPatient",
    "ImageOrientationPatient",
    "PixelSpacing",
    "SliceThickness",
    "Rows",
    "Columns",
    "RescaleSlope",
    "RescaleIntercept",
    "RescaleType",
)
_DEFLATED = "1.2.840.10008.1.2.1.99"


def read_header(path: Path, tags: Sequence[str] | None = None) -> Any:
    """The dataset of a file without its pixels; `tags`: only these attributes.

    Raises:
        InputError: damaged, deflated or too large (the file is named).
    """
    import pydicom

    with reading(path):
        size = path.stat().st_size
        meta = pydicom.filereader.read_file_meta_info(path)
        if size > MAX_BYTES or meta.get("TransferSyntaxUID") == _DEFLATED:
            raise ValueError(f"{size} bytes, {meta.get('TransferSyntaxUID')}: too large, or deflated")
        return pydicom.dcmread(path, stop_before_pixels=True, specific_tags=list(tags) if tags else None)


def reading(path: Path) -> AbstractContextManager[None]:
    """Around everything that touches a dataset of `path`: values are parsed when they are asked for."""
    return foreign.reading(path, "DICOM")


def text(dataset: Any, name: str) -> str:
    """An attribute as text, "" if it is absent or empty; several values joined by a backslash."""
    value = dataset.get(name)
    if value is None:
        return ""
    many = not isinstance(value, str) and hasattr(value, "__iter__")
    return "\\".join(map(str, value)) if many else str(value).strip()


def numbers(dataset: Any, name: str, count: int) -> tuple[float, ...] | None:
    """An attribute's `count` numbers; None if it is absent, empty or has another number of them."""
    value = dataset.get(name)
    if value is None or value == "":
        return None
    values = tuple(float(part) for part in value) if hasattr(value, "__iter__") else (float(value),)
    return values if len(values) == count else None
