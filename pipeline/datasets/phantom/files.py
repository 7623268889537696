"""Phantoms as a hospital keeps them: CT slices in DICOM, and volumes with labels in NIfTI."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

CT_IMAGE = "1.2.840.10008.5.1.4.1.1.2"
INTERCEPT = -1024
Spacing = tuple[float, float, float]  # slice, row, column, mm


def write_nifti(path: Path, voxels: NDArray[Any], spacing_mm: Spacing) -> None:
    """An array `[S, H, W]` in canonical order, its middle at the world's origin."""
    import nibabel

    affine = np.diag([-spacing_mm[2], -spacing_mm[1], spacing_mm[0], 1.0])
    affine[:3, 3] = -(affine[:3, :3] @ (np.array(voxels.shape[::-1]) - 1) / 2)
    path.parent.mkdir(parents=True, exist_ok=True)
    nibabel.save(nibabel.Nifti1Image(voxels.transpose(2, 1, 0), affine), path)


def write_series(
    folder: Path, hu: NDArray[np.int16], spacing_mm: Spacing, patient: str, number: int = 1
) -> None:
    """Hounsfield units `[S, H, W]` as one CT image file a slice; file names say nothing of their order."""
    import pydicom
    from pydicom.uid import ExplicitVRLittleEndian, generate_uid

    folder.mkdir(parents=True, exist_ok=True)
    names = np.random.default_rng(len(hu)).permutation(len(hu))
    origin = -(np.array(hu.shape[::-1]) - 1) / 2 * np.array(spacing_mm[::-1])
    for index, plane in enumerate(hu):
        dataset = pydicom.Dataset()
        dataset.file_meta = pydicom.dataset.FileMetaDataset()
        dataset.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
        for name, value in _attributes(patient, number, index).items():
            setattr(dataset, name, value)
        dataset.file_meta.MediaStorageSOPClassUID = dataset.SOPClassUID
        dataset.file_meta.MediaStorageSOPInstanceUID = dataset.SOPInstanceUID
        dataset.FrameOfReferenceUID = generate_uid(entropy_srcs=["frame", patient, str(number)])
        dataset.ImagePositionPatient = _decimals([origin[0], origin[1], origin[2] + index * spacing_mm[0]])
        dataset.ImageOrientationPatient = [1, 0, 0, 0, 1, 0]
        dataset.PixelSpacing = _decimals(spacing_mm[1:])
        dataset.SliceThickness = _decimals(spacing_mm[:1])[0]
        dataset.Rows, dataset.Columns = plane.shape
        dataset.PixelData = (plane.astype(np.int32) - INTERCEPT).astype(np.uint16).tobytes()
        dataset.save_as(folder / f"IM{names[index]:04d}.dcm", enforce_file_format=True)


def _attributes(patient: str, number: int, index: int) -> dict[str, Any]:
    """All but geometry and pixels."""
    from pydicom.uid import generate_uid

    study, series = (generate_uid(entropy_srcs=[what, patient, str(number)]) for what in ("study", "series"))
    return {
        "SOPClassUID": CT_IMAGE,
        "SOPInstanceUID": generate_uid(entropy_srcs=[series, str(index)]),
        "StudyInstanceUID": study,
        "SeriesInstanceUID": series,
        "Modality": "CT",
        "ImageType": ["DERIVED", "PRIMARY", "AXIAL"],
        "PatientID": patient,
        "PatientName": f"Phantom^{patient}",
        "PatientBirthDate": "",
        "PatientSex": "O",
        "StudyDate": "20200101",
        "StudyTime": "120000",
        "StudyID": "1",
        "AccessionNumber": "",
        "ReferringPhysicianName": "",
        "Manufacturer": "edgeseg",
        "SeriesNumber": number,
        "InstanceNumber": index + 1,
        "PositionReferenceIndicator": "",
        "SamplesPerPixel": 1,
        "PhotometricInterpretation": "MONOCHROME2",
        "BitsAllocated": 16,
        "BitsStored": 16,
        "HighBit": 15,
        "PixelRepresentation": 0,
        "RescaleIntercept": INTERCEPT,
        "RescaleSlope": 1,
        "RescaleType": "HU",
    }


def _decimals(values: Sequence[float]) -> list[str]:
    """As DICOM writes numbers: at most 16 characters."""
    return [f"{value:.6f}" for value in values]
