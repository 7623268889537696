"""DICOM: what makes a volume, and every way in which a folder is none."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from deploy.errors import InputError
from deploy.volumes import find_scans, load

if reason := load("dicom").requires():
    pytest.skip(reason, allow_module_level=True)
import pydicom

MakeSeries = Callable[..., Path]
Ramp = Callable[..., np.ndarray]
SPACING = (2.0, 1.5, 1.25)


def test_a_series_is_read_as_it_was_written(ramp: Ramp, make_series: MakeSeries) -> None:
    (scan,) = find_scans(make_series())
    volume = scan.read()
    assert np.array_equal(volume.hu, ramp()) and scan.patient == "p1"
    assert volume.spacing_mm == pytest.approx(SPACING)
    assert volume.voxel_ml == pytest.approx(np.prod(SPACING) / 1000)


def test_series_in_one_folder_are_told_apart(ramp: Ramp, make_series: MakeSeries, tmp_path: Path) -> None:
    first, second = make_series("a", patient="p1"), make_series("b", ramp((3, 8, 8)), patient="p2")
    (tmp_path / "all").mkdir()
    for folder in (first, second):
        for path in folder.iterdir():
            shutil.copy(path, tmp_path / "all" / f"{folder.name}{path.name}")
    (tmp_path / "all" / "README").write_text("no DICOM")
    shapes = {scan.patient: scan.read().hu.shape for scan in find_scans(tmp_path / "all")}
    assert shapes == {"p1": (5, 12, 16), "p2": (3, 8, 8)}


def test_a_file_means_its_series(make_series: MakeSeries) -> None:
    folder = make_series()
    (scan,) = find_scans(next(folder.iterdir()))
    assert len(scan.read().hu) == 5


def test_slope_and_intercept_are_each_slices_own(
    ramp: Ramp, change_files: Callable[..., None], make_series: MakeSeries
) -> None:
    def halve(dataset: pydicom.Dataset) -> None:
        dataset.RescaleSlope, dataset.RescaleIntercept = "0.5", "-500"

    folder = make_series()
    change_files(folder, halve, only=2)
    hu = find_scans(folder)[0].read().hu
    assert np.array_equal(hu[2], np.rint((ramp()[2].astype(float) + 1024) / 2 - 500))
    assert np.array_equal(hu[[0, 1, 3, 4]], ramp()[[0, 1, 3, 4]])


@pytest.mark.parametrize("codec", ["RLELossless", "JPEGLSLossless", "JPEGLossless", "JPEG2000"])
def test_compressed_pixels_are_the_same(ramp: Ramp, make_series: MakeSeries, codec: str) -> None:
    folder = make_series(hu=ramp((2, 32, 32)))
    for path in folder.iterdir():
        _compress(path, codec)
        assert pydicom.dcmread(path).file_meta.TransferSyntaxUID.is_compressed
    assert np.array_equal(find_scans(folder)[0].read().hu, ramp((2, 32, 32)))


def _compress(path: Path, codec: str) -> None:
    if codec in ("RLELossless", "JPEGLSLossless"):
        dataset = pydicom.dcmread(path)
        dataset.compress(getattr(pydicom.uid, codec))
        dataset.save_as(path)
        return
    import gdcm

    syntax = {
        "JPEGLossless": gdcm.TransferSyntax.JPEGLosslessProcess14_1,
        "JPEG2000": gdcm.TransferSyntax.JPEG2000Lossless,
    }
    reader, change, writer = gdcm.ImageReader(), gdcm.ImageChangeTransferSyntax(), gdcm.ImageWriter()
    reader.SetFileName(str(path))
    assert reader.Read()
    change.SetTransferSyntax(gdcm.TransferSyntax(syntax[codec]))
    change.SetInput(reader.GetImage())
    assert change.Change()
    writer.SetFileName(str(path))
    writer.SetFile(reader.GetFile())
    writer.SetImage(change.GetOutput())
    assert writer.Write()


def test_a_sagittal_series_is_turned_and_its_seg_turned_back(
    ramp: Ramp, change_files: Callable[..., None], make_series: MakeSeries, tmp_path: Path
) -> None:
    """Slices from left to right, rows from head to feet, columns from front to back."""
    shape = (4, 6, 8)

    def lie(dataset: pydicom.Dataset) -> None:
        dataset.ImageOrientationPatient = [0, 1, 0, 0, 0, -1]
        dataset.ImagePositionPatient = [-2.0 * dataset.InstanceNumber, 0, 0]

    folder = make_series(hu=ramp(shape))
    change_files(folder, lie)
    (scan,) = find_scans(folder)
    volume = scan.read()
    # stored [x from left, z from head, y from front] -> [z from feet, y from front, x from right]
    assert np.array_equal(volume.hu, ramp(shape).transpose(1, 2, 0)[::-1, :, ::-1])
    labels = (volume.hu % 3).astype(np.uint8)
    path = scan.write_labels(labels, ("b", "one", "two"), tmp_path, "m")
    assert np.array_equal(scan.read_labels([path], volume, ("b", "one", "two")), labels)


def test_an_empty_result_is_a_seg_too(make_series: MakeSeries, tmp_path: Path) -> None:
    (scan,) = find_scans(make_series())
    volume = scan.read()
    labels = np.zeros(volume.hu.shape, np.uint8)
    path = scan.write_labels(labels, ("b", "liver"), tmp_path, "m")
    assert np.array_equal(scan.read_labels([path], volume, ("b", "liver")), labels)


@pytest.mark.parametrize(("kind", "value"), [("SS", -32768), ("US", 32768)])
def test_padding_beyond_any_hu_is_no_error(
    make_series: MakeSeries, ramp: Ramp, kind: str, value: int
) -> None:
    folder = make_series()
    path = next(folder.iterdir())
    dataset = pydicom.dcmread(path)
    pixels = dataset.pixel_array.astype(np.int16)
    pixels[0] = -32768
    dataset.PixelRepresentation, dataset.PixelData = 1, pixels.tobytes()
    dataset.save_as(path)
    with pytest.raises(InputError, match="far outside any CT"):
        find_scans(folder)[0].read()
    dataset.add_new("PixelPaddingValue", kind, value)
    dataset.save_as(path)
    hu = find_scans(folder)[0].read().hu
    index = int(dataset.InstanceNumber) - 1
    assert (hu[index, 0] == -4096).all() and np.array_equal(hu[index, 1:], ramp()[index, 1:])


@pytest.mark.parametrize("kind", ["FRACTIONAL", "LABELMAP"])
def test_other_kinds_of_seg_are_read(make_series: MakeSeries, tmp_path: Path, kind: str) -> None:
    import highdicom

    from deploy.volumes.dicom import seg

    (scan,) = find_scans(make_series())
    volume, names = scan.read(), ("b", "one", "two")
    labels = (volume.hu % 3).astype(np.uint8)
    sources = [seg._source(one.path) for one in scan.slices]
    whole = (
        labels if kind == "LABELMAP" else np.stack([labels == 1, labels == 2], -1).astype(np.float32) * 0.7
    )
    uids = [pydicom.uid.generate_uid() for _ in range(2)]
    described = [seg._describe(index, name, "m") for index, name in enumerate(names) if index]
    identity = {"manufacturer": "m", "manufacturer_model_name": "m", "software_versions": "1"}
    made = highdicom.seg.Segmentation(
        sources, whole, kind, described, uids[0], 1, uids[1], 1, device_serial_number="1", **identity
    )
    made.save_as(tmp_path / "other.dcm")
    assert np.array_equal(scan.read_labels([tmp_path / "other.dcm"], volume, names), labels)


def _remove(name: str) -> Callable[[pydicom.Dataset], None]:
    return lambda dataset: delattr(dataset, name)


def _set(**values: object) -> Callable[[pydicom.Dataset], None]:
    return lambda dataset: [setattr(dataset, name, value) for name, value in values.items()]


@pytest.mark.filterwarnings("ignore:Invalid value for VR UI")
@pytest.mark.parametrize(
    ("change", "only", "message"),
    [
        (_remove("RescaleSlope"), 3, "no RescaleSlope"),
        (
            _set(Modality="MR", SOPClassUID="1.2.840.10008.5.1.4.1.1.4"),
            None,
            "modality MR.*expected modality CT",
        ),
        (_set(RescaleType="US"), None, "RescaleType.*expected HU"),
        (_remove("ImageOrientationPatient"), 0, "orientation unknown"),
        (_set(ImageOrientationPatient=[1, 0, 0, 1, 0, 0]), None, "orientation unknown"),
        (_set(ImageOrientationPatient=[0, 1, 0, 1, 0, 0]), 2, "inconsistent orientation"),
        (_set(PixelSpacing=[3, 3]), 2, "inconsistent pixel spacing"),
        (_remove("ImagePositionPatient"), 1, "no ImagePositionPatient"),
        (_set(ImagePositionPatient=[0, 0, 0.7]), 2, "inconsistent spacing|on no line"),
        (_set(RescaleIntercept="-20000"), None, "far outside any CT"),
        (_set(RescaleSlope="100"), None, "far outside any CT"),
        (_set(RescaleIntercept="0"), None, "no Hounsfield units"),
        (_set(SeriesInstanceUID="../../etc"), None, "SeriesInstanceUID.*digits and dots"),
        (_set(ImageType=["ORIGINAL", "PRIMARY", "LOCALIZER"]), None, "a localizer"),
        (_set(Rows=11), 1, "inconsistent size"),
        (_set(Rows=65535, Columns=65535), None, "size of the volume"),
    ],
)
def test_what_is_no_ct_volume_is_refused(
    change_files: Callable[..., None],
    make_series: MakeSeries,
    change: Callable[[pydicom.Dataset], None],
    only: int | None,
    message: str,
) -> None:
    folder = make_series()
    change_files(folder, change, only)
    with pytest.raises(InputError, match=message):
        find_scans(folder)[0].read()


def test_a_missing_slice_and_a_doubled_one(make_series: MakeSeries) -> None:
    folder = make_series()
    by_number = {int(pydicom.dcmread(path).InstanceNumber): path for path in folder.iterdir()}
    kept = by_number[3].read_bytes()
    by_number[3].unlink()
    with pytest.raises(InputError, match=r"1 missing slice.*4\.000 mm.*expected 2\.000 mm"):
        find_scans(folder)[0].read()
    by_number[3].write_bytes(kept)
    (folder / "again.dcm").write_bytes(kept)
    with pytest.raises(InputError, match="two slices at one position"):
        find_scans(folder)[0].read()


@pytest.mark.parametrize("keep", [140, 600, -40])
def test_a_damaged_file_is_one_error(make_series: MakeSeries, keep: int) -> None:
    folder = make_series()
    path = sorted(folder.iterdir())[1]
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(InputError, match=path.name):
        find_scans(folder)[0].read()


def test_a_file_that_only_claims_to_be_dicom(make_series: MakeSeries) -> None:
    folder = make_series()
    (folder / "x.dcm").write_text("hello")
    with pytest.raises(InputError, match=r"x\.dcm is no DICOM file"):
        find_scans(folder)


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no CT volume"):
        find_scans(tmp_path)
    with pytest.raises(InputError, match="no file or folder"):
        find_scans(tmp_path / "none")
