"""DICOM: CT series with DICOM SEG and RTSTRUCT labels in, DICOM SEG out, by pydicom, highdicom and gdcm."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deploy.volumes.dicom.series import Series

_PACKAGES = ("pydicom", "highdicom", "gdcm")


def requires() -> str | None:
    """Pydicom, highdicom, gdcm."""
    missing = [name for name in _PACKAGES if not importlib.util.find_spec(name)]
    return f"no {', '.join(missing)}: pip install 'edgeseg[ct]'" if missing else None


def holds(path: Path) -> bool:
    """Whether `path` is a DICOM file, or a folder with one in it or below it."""
    from deploy.volumes.dicom.catalogue import files_in, is_dicom

    return is_dicom(path) if path.is_file() else any(is_dicom(file) for file in files_in(path))


def find(path: Path) -> list[Series]:
    """The CT series at `path`: of a folder all, of a file its own.

    Raises:
        InputError: no CT among what is there (it says what was found), or a damaged file.
    """
    from deploy.volumes.dicom.catalogue import read_catalogue

    return list(read_catalogue(path).require_ct().series)
