"""CT series in DICOM with their DICOM SEG or RTSTRUCT -> a labelled folder of slices in Hounsfield units.

A folder may hold many series and label files in any order; each label file says which series it is of. Every
CT series must be labelled. Patients and series get pseudonyms; no name or identifier is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deploy.errors import InputError
from pipeline.datasets import Progress
from pipeline.datasets.ctslices.cases import COMMON, Case, class_names, pseudonym

if TYPE_CHECKING:
    from deploy.volumes.dicom.catalogue import Catalogue

VERSION = 1
OPTIONS = COMMON


def requires() -> str | None:
    """The packages of `edgeseg[ct]` for DICOM."""
    from deploy.volumes import load

    return load("dicom").requires()


def write(folder: Path, request: Mapping[str, Any], progress: Progress) -> None:
    """Fill an empty folder from the series below `request["source"]`.

    Raises:
        InputError: no CT, a series without labels, labels of a series that is not there, anything damaged.
    """
    from deploy.volumes.dicom import structures
    from deploy.volumes.dicom.catalogue import read_catalogue
    from pipeline.datasets.ctslices.writing import write_cases

    source = Path(request["source"])
    if not source.is_dir():
        raise InputError(f"no folder {source}", fix="pass --source with the folder of the series")
    catalogue = read_catalogue(source).require_ct()
    for text in catalogue.left_out:
        print(f"left out: {text}")
    cases = _cases(catalogue)
    found = [name for file in catalogue.labels for name in structures.names(file)]
    write_cases(folder, cases, class_names(request, found), request, progress)


def _cases(catalogue: Catalogue) -> list[Case]:
    """Every series with its label files."""
    from deploy.volumes.dicom import structures

    labels: dict[str, list[Path]] = {series.name: [] for series in catalogue.series}
    for file in catalogue.labels:
        series = structures.series_of(file)
        if series not in labels:
            expected = f"one of {', '.join(sorted(labels))}"
            raise InputError(
                f"{file} labels another series", series, expected, "add that series, or remove it"
            )
        labels[series].append(file)
    for series in catalogue.series:
        if not labels[series.name]:
            where = f"{series.files[0].path.parent}: series {series.name}"
            fix = "add its label file, or remove the series"
            raise InputError(f"{where}: a volume without labels", expected="a DICOM SEG or RTSTRUCT", fix=fix)
    return [
        Case(pseudonym("s", one.name), one.patient, one, tuple(labels[one.name])) for one in catalogue.series
    ]
