"""What is in a folder of DICOM files: series told apart by their identifier, and label files.

Headers only; pixels are read later, by what was found. Localizers (scouts) and series that are no CT are
named and left out. Files without DICOM's mark are no concern of ours, unless their name claims it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.errors import InputError
from deploy.volumes.dicom.header import SLICE_TAGS, read_header, reading, text
from deploy.volumes.dicom.series import Series, SliceHeader
from deploy.volumes.dicom.structures import LABEL_KINDS

CT_IMAGE = "1.2.840.10008.5.1.4.1.1.2"
ENHANCED_CT = "1.2.840.10008.5.1.4.1.1.2.1"
DIRECTORY = "1.2.840.10008.1.3.10"  # a DICOMDIR: a list of the files beside it
_MAX_FILES = 100_000


@dataclass(frozen=True)
class Catalogue:
    """What was found: CT series by identifier, label files, and in words what was left out."""

    root: Path
    series: tuple[Series, ...]
    labels: tuple[Path, ...]
    left_out: tuple[str, ...]

    def require_ct(self) -> Catalogue:
        """Itself.

        Raises:
            InputError: there is no CT series.
        """
        if not self.series:
            got = "; ".join(self.left_out[:4]) or "no image series"
            raise InputError(f"{self.root} holds no CT series", got=got, expected="modality CT")
        return self


def files_in(path: Path) -> Iterator[Path]:
    """All files below a folder but hidden ones, sorted folder by folder; links to folders are not followed.

    Raises:
        InputError: too many.
    """
    count = 0
    for folder, below, names in os.walk(path):
        below[:] = sorted(name for name in below if not name.startswith("."))
        for name in sorted(names):
            count += 1
            if count > _MAX_FILES:
                raise InputError(f"{path}: too many files", expected=f"at most {_MAX_FILES}")
            if not name.startswith("."):
                yield Path(folder, name)


def is_dicom(path: Path) -> bool:
    """Whether a file has DICOM's mark."""
    if not path.is_file():
        return False
    with open(path, "rb") as stream:
        return stream.read(132)[128:] == b"DICM"


def read_catalogue(path: Path) -> Catalogue:
    """All series and label files below `path`; for a file, its series alone.

    Raises:
        InputError: a damaged file, or one that claims by its name to be DICOM and is not.
    """
    slices: dict[str, list[SliceHeader]] = {}
    labels: list[Path] = []
    left_out: dict[str, str] = {}
    for file in files_in(path.parent if path.is_file() else path):
        if is_dicom(file):
            with reading(file):
                _sort(file, slices, labels, left_out)
        elif file.suffix.lower() == ".dcm":
            raise InputError(f"{file} is no DICOM file", expected="DICM at byte 128", fix="remove it")
    only = text(read_header(path, SLICE_TAGS), "SeriesInstanceUID") if path.is_file() else None
    found = [Series(uid, tuple(headers)) for uid, headers in sorted(slices.items()) if only in (None, uid)]
    return Catalogue(path, tuple(found), tuple(labels), tuple(left_out.values()))


def _sort(
    file: Path, slices: dict[str, list[SliceHeader]], labels: list[Path], left_out: dict[str, str]
) -> None:
    """Put one file where it belongs."""
    header = read_header(file, SLICE_TAGS)
    kind = text(header, "SOPClassUID")
    if not kind and text(header.file_meta, "MediaStorageSOPClassUID") == DIRECTORY:
        return
    if not kind:
        raise InputError(f"{file} is cut off or damaged", got="no SOPClassUID", expected="a complete file")
    if kind in LABEL_KINDS:
        labels.append(file)
    elif reason := _no_ct(header, kind):
        left_out[text(header, "SeriesInstanceUID")] = f"{file}: {reason}"
    else:
        one = SliceHeader.of(file, header)
        slices.setdefault(one.series, []).append(one)


def _no_ct(header: Any, kind: str) -> str | None:
    """Why this is no slice of a CT volume, or None."""
    if kind == ENHANCED_CT:
        return "enhanced CT (all slices in one file) is not supported"
    modality = text(header, "Modality") or "unknown"
    if kind != CT_IMAGE or modality != "CT":
        return f"modality {modality}"
    return "a localizer" if "LOCALIZER" in text(header, "ImageType").upper() else None
