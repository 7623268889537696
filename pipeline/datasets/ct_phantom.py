"""Made-up CT patients: a labelled folder of slices, and beside it the volumes as NIfTI and as DICOM series.

    DIR/train, DIR/val                    the labelled folder, made from the NIfTI files by the kind `nifti`
    DIR/sources/nifti/volume-000.nii.gz   with segmentation-000.nii.gz
    DIR/sources/dicom/000/*.dcm           a CT series and its DICOM SEG

A patient depends only on (seed, number). Simple solids, no anatomy to learn medicine from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deploy.errors import InputError
from pipeline.datasets import Option, Progress
from pipeline.datasets.ctslices.cases import SLICES, SPLIT

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pipeline.datasets.phantom.files import Spacing

VERSION = 1
FIELD_MM, SLICE_MM = 370.0, 6.0  # of view across, and between slices


def _between(what: str, low: int, high: int) -> Any:
    def parse(text: str) -> int:
        if not text.isdecimal() or not low <= int(text[:9]) <= high:
            raise InputError(f"--{what}", got=repr(text), expected=f"a whole number, {low} to {high}")
        return int(text)

    return parse


OPTIONS = (
    Option("patients", "how many", 12, _between("patients", 1, 999)),
    Option("pixels", "rows and columns of a slice", 128, _between("pixels", 32, 512)),
    Option("depth", "slices of a volume", 24, _between("depth", 1, 200)),
    *SPLIT,
    *SLICES,
)


def requires() -> str | None:
    """The packages of `edgeseg[ct]`."""
    from deploy.volumes import available

    return next(filter(None, available().values()), None)


def write(folder: Path, request: Mapping[str, Any], progress: Progress) -> None:
    """Fill an empty folder by the values of `OPTIONS`."""
    from deploy.labels import read_dataset
    from pipeline.datasets import nifti
    from pipeline.datasets.folder import write_info
    from pipeline.datasets.phantom.anatomy import CLASSES, PALETTE

    for number in range(request["patients"]):
        write_patient(folder / "sources", number, request)
        progress(number + 1, request["patients"])
    inner = {
        **request,
        "source": str(folder / "sources" / "nifti"),
        "classes": list(CLASSES[1:]),
        "patient": "(.*)",
        "licence": "CC0-1.0",
    }
    nifti.write(folder, inner, progress)
    text = f"drawn by edgeseg (pipeline/datasets/ct_phantom.py, version {VERSION}, seed {request['seed']})"
    write_info(folder, replace(read_dataset(folder), name="ct_phantom", palette=PALETTE, source=text))


def draw_patient(
    seed: int, number: int, depth: int, pixels: int
) -> tuple[NDArray[np.int16], NDArray[np.uint8], Spacing]:
    """(Hounsfield units `[S, H, W]`, labels `[S, H, W]`, spacing) of one patient."""
    import numpy as np

    from pipeline.datasets.phantom.anatomy import Space, draw_body
    from pipeline.datasets.phantom.scan import scan

    rng = np.random.default_rng([seed, number])
    spacing = (SLICE_MM, FIELD_MM / pixels, FIELD_MM / pixels)
    body = draw_body(rng, Space.of((depth, pixels, pixels), spacing))
    return scan(rng, body), body.labels, spacing


def write_patient(sources: Path, number: int, request: Mapping[str, Any]) -> None:
    """One patient's volume and labels, in both formats."""
    from deploy.volumes.dicom import find
    from pipeline.datasets.phantom.anatomy import CLASSES
    from pipeline.datasets.phantom.files import write_nifti, write_series

    hu, labels, spacing = draw_patient(request["seed"], number, request["depth"], request["pixels"])
    name, series = f"{number:03d}", sources / "dicom" / f"{number:03d}"
    write_nifti(sources / "nifti" / f"volume-{name}.nii.gz", hu, spacing)
    write_nifti(sources / "nifti" / f"segmentation-{name}.nii.gz", labels, spacing)
    write_series(series, hu, spacing, f"phantom-{request['seed']}-{name}")
    find(series)[0].write_labels(labels, CLASSES, series, "phantom")
