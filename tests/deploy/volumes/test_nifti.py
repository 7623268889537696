"""NIfTI: orientation, pairs by name, and every way in which a file is no CT volume."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from deploy.errors import InputError
from deploy.volumes import find_scans, load
from deploy.volumes.nifti import find, part_of_pair

if reason := load("nifti").requires():
    pytest.skip(reason, allow_module_level=True)
import nibabel

Ramp = Callable[..., np.ndarray]
AFFINE = np.array([[-1.5, 0, 0, 10], [0, -1.25, 0, 20], [0, 0, 3, -30], [0, 0, 0, 1]])


def _save(path: Path, voxels: np.ndarray, affine: np.ndarray | None = AFFINE, **header: object) -> Path:
    """`voxels` are [x, y, z] as NIfTI has them."""
    image = nibabel.Nifti1Image(voxels, affine)
    for key, value in header.items():
        image.header[key] = value
    nibabel.save(image, path)
    return path


@pytest.mark.parametrize("code", ["LPS", "RAS", "LAS", "SPL", "AIR", "PSR"])
def test_any_orientation_is_seen_alike_and_written_back_as_it_came(
    tmp_path: Path, ramp: Ramp, code: str
) -> None:
    from nibabel.orientations import axcodes2ornt, ornt_transform

    plain = nibabel.Nifti1Image(ramp((4, 5, 6)), AFFINE)
    turn = ornt_transform(axcodes2ornt("LPS"), axcodes2ornt(code))
    nibabel.save(plain.as_reoriented(turn), tmp_path / "ct.nii.gz")
    (scan,) = find_scans(tmp_path)
    volume = scan.read()
    assert np.array_equal(volume.hu, ramp((4, 5, 6)).transpose(2, 1, 0))
    np.testing.assert_allclose(volume.affine, AFFINE, atol=1e-5)
    labels = (volume.hu % 4).astype(np.uint8)
    path = scan.write_labels(labels, ("b", "x", "y", "z"), tmp_path / "out", "m")
    assert nibabel.aff2axcodes(nibabel.load(path).affine) == tuple(code)
    assert np.array_equal(scan.read_labels([path], volume, ("b", "x", "y", "z")), labels)


@pytest.mark.parametrize(
    ("volume", "labels"),
    [
        ("volume-0_yellow1-50mm.nii", "segmentation-0_yellow1_seg-50mm.nii"),
        ("imagesTr/liver_003_0000.nii.gz", "labelsTr/liver_003.nii.gz"),
        ("p1/ct.nii", "p1/seg.nii"),
        ("a/img_7.nii", "a/mask_7.nii"),
    ],
)
def test_pairs_by_name(volume: str, labels: str) -> None:
    root = Path("/data")
    (is_labels, key), (other_is_labels, other) = (
        part_of_pair(root / name, root) for name in (volume, labels)
    )
    assert (is_labels, other_is_labels) == (False, True) and key == other != ()


def test_label_volumes_are_no_scans(tmp_path: Path, ramp: Ramp) -> None:
    _save(tmp_path / "volume-1.nii", ramp())
    _save(tmp_path / "segmentation-1.nii", np.zeros((5, 12, 16), np.uint8))
    assert [scan.name for scan in find(tmp_path)] == ["volume-1"]


@pytest.mark.parametrize(
    ("voxels", "header", "message"),
    [
        (np.full((3, 3, 3), -20000, np.int16), {}, "far outside any CT"),
        (np.full((3, 3, 3), np.nan, np.float32), {}, "far outside any CT"),
        (np.full((3, 3, 3), 200, np.uint8), {}, "no Hounsfield units"),
        (np.zeros((3, 3, 3, 2), np.int16), {}, "size of the volume"),
        (np.zeros((3, 3, 3), np.complex64), {}, "real numbers"),
        (np.zeros((3, 3, 3), np.int16), {"sform_code": 0, "qform_code": 0}, "orientation unknown"),
        (np.zeros((3, 3, 3), np.int16), {"xyzt_units": 1}, "unit.*expected mm"),
        (np.zeros((3, 3, 3), np.int16), {"vox_offset": 0}, "header.*at byte 0"),
        (np.full((3, 3, 3), -9, np.int16), {"srow_x": [0, 0, 0, 0]}, "orientation unknown"),
    ],
)
def test_what_is_no_ct_volume_is_refused(
    tmp_path: Path, voxels: np.ndarray, header: dict[str, object], message: str
) -> None:
    path = _save(tmp_path / "x.nii", voxels)
    image = nibabel.load(path)
    data = bytearray(path.read_bytes())
    for key, value in {"vox_offset": 352, **header}.items():
        image.header[key] = value
    data[:348] = image.header.binaryblock
    path.write_bytes(data)
    with pytest.raises(InputError, match=message):
        find_scans(path)[0].read()


def test_no_more_is_unpacked_than_the_header_accounts_for(tmp_path: Path, ramp: Ramp) -> None:
    path = _save(tmp_path / "x.nii", ramp())
    small = path.read_bytes()
    (tmp_path / "bomb.nii.gz").write_bytes(gzip.compress(small + bytes(300 << 20)))
    assert np.array_equal(find_scans(tmp_path / "bomb.nii.gz")[0].read().hu.shape, (16, 12, 5))
    huge = bytearray(small)
    huge[42:48] = np.array([16000, 16000, 16000], "<i2").tobytes()
    path.write_bytes(huge)
    with pytest.raises(InputError, match="size of the volume"):
        find_scans(path)[0].read()


@pytest.mark.parametrize("data", [b"", b"x" * 40, b"\x1f\x8b\x08rubbish", b"\x5c\x01\0\0" + bytes(400)])
@pytest.mark.parametrize("suffix", [".nii", ".nii.gz"])
def test_rubbish_is_one_error(tmp_path: Path, data: bytes, suffix: str) -> None:
    path = tmp_path / f"x{suffix}"
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"x\.nii"):
        find_scans(path)[0].read()
    path.write_bytes(gzip.compress(data) if suffix.endswith("gz") else data)
    with pytest.raises(InputError, match=r"x\.nii"):
        find_scans(path)[0].read()


def test_a_truncated_file_is_one_error(tmp_path: Path, ramp: Ramp) -> None:
    path = _save(tmp_path / "x.nii", ramp())
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match=r"x\.nii is truncated"):
        find_scans(path)[0].read()


def test_labels_must_be_of_the_volume(tmp_path: Path, ramp: Ramp) -> None:
    _save(tmp_path / "ct.nii", ramp())
    (scan,) = find(tmp_path)
    volume, good = scan.read(), np.zeros((5, 12, 16), np.uint8)
    moved = AFFINE + np.array([[0, 0, 0, 5]] + [[0] * 4] * 3)
    for voxels, affine, message in (
        (good, moved, "another volume"),
        (good[:4], AFFINE, "another volume"),
        (good + 3, AFFINE, "class ids.*up to 3"),
        (good + np.float32(0.5), AFFINE, "whole numbers"),
    ):
        path = _save(tmp_path / "seg.nii", voxels, affine)
        with pytest.raises(InputError, match=message):
            scan.read_labels([path], volume, ("b", "x", "y"))
