"""CT as hospitals store it: a series with a DICOM SEG, one with an RTSTRUCT, a NIfTI pair."""

from __future__ import annotations

import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest

from deploy.errors import InputError
from deploy.volumes import available, find_scans
from deploy.volumes.dicom import structures

if reason := next(filter(None, available().values()), None):
    pytest.skip(reason, allow_module_level=True)
import nibabel

LIVER_HU = {-126.69: 33.0, -127.69: 38.4, -128.69: 40.5}
CLASSES = ("background", "Liver")


def _liver_means(formats: Path, flip: bool = False) -> dict[float, float]:
    """Mean HU under the liver SEG by the slice's place in the patient."""
    folder = formats / "dicom_series_seg"
    (scan,) = find_scans(folder)
    volume = scan.read()
    labels = scan.read_labels([folder / "liver_seg.dcm"], volume, CLASSES)
    labels = labels[:, :, ::-1] if flip else labels
    places = [round(float((volume.affine @ [0, 0, k, 1])[2]), 2) for k in range(len(labels))]
    return {z: float(hu[mask == 1].mean()) for z, hu, mask in zip(places, volume.hu, labels, strict=True)}


def test_mean_hu_under_the_liver_seg(formats: Path) -> None:
    means = _liver_means(formats)
    assert set(means) == set(LIVER_HU)
    for z, expected in LIVER_HU.items():
        assert means[z] == pytest.approx(expected, abs=0.1)


def test_flipped_left_to_right_the_liver_is_elsewhere(formats: Path) -> None:
    for z, mean in _liver_means(formats, flip=True).items():
        assert abs(mean - LIVER_HU[z]) > 50


def test_order_is_by_position_not_by_file_name(formats: Path, tmp_path: Path) -> None:
    for new, old in (("c", "01"), ("a", "02"), ("b", "03")):
        shutil.copy(formats / "dicom_series_seg" / f"{old}.dcm", tmp_path / f"{new}.dcm")
    (scan,) = find_scans(tmp_path)
    (plain,) = find_scans(formats / "dicom_series_seg")
    assert np.array_equal(scan.read().hu, plain.read().hu)
    assert scan.read().spacing_mm[0] == pytest.approx(1.0)  # SliceThickness says 1.25


def test_rtstruct_becomes_masks_on_the_right_slices(formats: Path) -> None:
    folder = formats / "rtstruct"
    (scan,) = find_scans(folder)
    volume = scan.read()
    labels = scan.read_labels([folder / "rt.dcm"], volume, ("background", "ROI-1"))
    assert (volume.affine @ [0, 0, 0, 1])[2] == 60 and not labels[1].any()
    assert np.array_equal(labels[0], _ring(volume.hu.shape[1:]))


def _ring(shape: tuple[int, int]) -> np.ndarray:
    """The two contours of that file by OpenCV's point test, pixel centre by pixel centre."""
    to_pixel = lambda points: ((np.array(points, np.float64) + 125) / 0.488281).astype(np.float32)  # noqa: E731
    outer = to_pixel([(-51, -51), (-51, -27), (-27, -27), (-27, -51)])
    hole = [(-47, -46), (-46, -47), (-32, -47), (-32, -46), (-32, -32), (-46, -32), (-47, -32)]
    inside = [
        [[cv2.pointPolygonTest(polygon, (x, y), False) > 0 for x in range(140, 210)] for y in range(140, 210)]
        for polygon in (outer, to_pixel(hole))
    ]
    mask = np.zeros(shape, np.uint8)
    mask[140:210, 140:210] = np.array(inside[0]) ^ np.array(inside[1])
    assert mask.sum() > 1000
    return mask


def test_nifti_keeps_its_affine_from_in_to_out(formats: Path, tmp_path: Path) -> None:
    (scan,) = find_scans(formats / "nifti")
    truth = formats / "nifti" / "segmentation-0_yellow1_seg-50mm.nii"
    volume = scan.read()
    labels = scan.read_labels([truth], volume, ("background", "liver", "tumour"))
    written = nibabel.load(scan.write_labels(labels, ("background", "liver", "tumour"), tmp_path, "m"))
    original = nibabel.load(formats / "nifti" / "volume-0_yellow1-50mm.nii")
    assert np.array_equal(written.affine, original.affine) and written.shape == original.shape
    assert np.array_equal(np.asanyarray(written.dataobj), np.asanyarray(nibabel.load(truth).dataobj))
    assert b"Not for clinical use" in written.header["descrip"].item()
    assert 50 < volume.hu[labels == 1].mean() < 200


def test_a_written_seg_reads_back_equal(formats: Path, tmp_path: Path) -> None:
    import highdicom

    (scan,) = find_scans(formats / "dicom_series_seg")
    volume = scan.read()
    labels = scan.read_labels([formats / "dicom_series_seg" / "liver_seg.dcm"], volume, CLASSES)
    labels[1, 100:140, 200:230] = 2
    classes = (*CLASSES, "cyst", "never there")
    path = scan.write_labels(labels, classes, tmp_path, "model")
    assert np.array_equal(scan.read_labels([path], volume, classes), labels)
    made = highdicom.seg.segread(path)
    assert "Not for clinical use" in (made.SeriesDescription, made.ContentDescription)
    assert structures.series_of(path) == scan.name and structures.names(path) == list(classes[1:])


def test_a_seg_of_another_series_is_refused(formats: Path) -> None:
    (scan,) = find_scans(formats / "rtstruct")
    with pytest.raises(InputError, match=r"liver_seg\.dcm labels another series"):
        scan.read_labels([formats / "dicom_series_seg" / "liver_seg.dcm"], scan.read(), CLASSES)
