"""CT volumes in NIfTI with their label volumes -> a labelled folder of slices in Hounsfield units.

Pairs are found by their names (deploy/volumes/nifti.py). NIfTI knows no patients: every volume counts as a
patient of its own unless --patient says which part of the path names one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deploy.errors import InputError
from pipeline.datasets import Progress
from pipeline.datasets.ctslices.cases import COMMON, PATIENT, Case, class_names

VERSION = 1
OPTIONS = (*COMMON, PATIENT)


def requires() -> str | None:
    """The package of `edgeseg[ct]` for NIfTI."""
    from deploy.volumes import load

    return load("nifti").requires()


def write(folder: Path, request: Mapping[str, Any], progress: Progress) -> None:
    """Fill an empty folder from the pairs below `request["source"]`.

    Raises:
        InputError: no volumes, one without labels or the other way round, anything damaged.
    """
    from deploy.volumes.nifti import highest_label
    from pipeline.datasets.ctslices.writing import write_cases

    source = Path(request["source"])
    if not source.is_dir():
        raise InputError(f"no folder {source}", fix="pass --source with the folder of the volumes")
    cases = _cases(source, request["patient"])
    highest = 0
    if request["classes"] == "all":
        highest = max(highest_label(case.labels[0]) for case in cases)
    found = [f"label_{number:03d}" for number in range(1, highest + 1)]
    write_cases(folder, cases, class_names(request, found), request, progress)


def _cases(source: Path, pattern: str) -> list[Case]:
    """Every volume with its label volume, by what their names have in common."""
    from deploy.volumes.nifti import NiftiScan, files_in, part_of_pair

    volumes: dict[tuple[str, ...], Path] = {}
    labels: dict[tuple[str, ...], Path] = {}
    for path in files_in(source):
        is_labels, key = part_of_pair(path, source)
        place = labels if is_labels else volumes
        if key in place:
            raise InputError(f"{place[key]} and {path} have the same name", fix="rename one, or remove it")
        place[key] = path
    _require_pairs(source, volumes, labels)
    return [
        Case("-".join(key) or "volume", _patient(path, source, pattern), NiftiScan(path), (labels[key],))
        for key, path in volumes.items()
    ]


def _require_pairs(
    source: Path, volumes: Mapping[tuple[str, ...], Path], labels: Mapping[tuple[str, ...], Path]
) -> None:
    expected = "pairs such as volume-0.nii and segmentation-0.nii"
    if not volumes:
        raise InputError(f"no CT volumes in {source}", got=f"{len(labels)} label volumes", expected=expected)
    for key in [*volumes, *labels]:
        if key not in labels:
            raise InputError(f"{volumes[key]}: a volume without labels", expected=expected)
        if key not in volumes:
            raise InputError(f"{labels[key]}: labels without a volume", expected=expected)


def _patient(path: Path, source: Path, pattern: str) -> str:
    """What the pattern finds in the path below the source: its first group, or all of it."""
    name = path.relative_to(source).as_posix()
    match = re.search(pattern, name)
    if not match or not (found := match[1] if match.re.groups else match[0]):
        raise InputError(
            f"--patient {pattern!r} finds nothing in {name}", expected="the patient's part of it"
        )
    return found
