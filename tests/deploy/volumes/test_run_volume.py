"""`run` on volumes: a network whose answer is known, from file to file, in the source's own geometry."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from deploy import run
from deploy.bundle import Bundle, Preprocess
from deploy.errors import InputError
from deploy.manifest import SliceRule
from deploy.preprocess import read_image, window_hu
from deploy.slices import slice_frame
from deploy.volume import Volume
from deploy.volumes import available, find_scans

if reason := next(filter(None, available().values()), None):
    pytest.skip(reason, allow_module_level=True)
import highdicom
import nibabel

SIZE = (24, 32)
WINDOW = (-500.0, 500.0)
RULE = SliceRule(neighbour_mm=2.0)


@pytest.fixture(scope="module")
def ct_bundle(make_bundle: Callable[..., Bundle]) -> Bundle:
    """The network tells which of three neighbouring slices is the brightest."""
    preprocess = Preprocess(SIZE, (0.5,) * 3, (0.25,) * 3, in_graph=True, hu_window=WINDOW, slices=RULE)
    return make_bundle(preprocess=preprocess)


@pytest.fixture
def hu() -> np.ndarray:
    return np.random.default_rng(0).integers(-900, 900, (5, *SIZE)).astype(np.int16)


def _run(*arguments: object) -> int:
    parser = argparse.ArgumentParser()
    run.add_arguments(parser)
    return run.run(parser.parse_args(["--threads", "1", *map(str, arguments)]))


def _expected(volume: Volume) -> np.ndarray:
    frames = [window_hu(slice_frame(volume, index, RULE), WINDOW) for index in range(len(volume.hu))]
    return np.stack(frames).argmax(-1).astype(np.uint8)


def test_a_series_gives_a_seg_of_it(
    ct_bundle: Bundle,
    make_series: Callable[..., Path],
    hu: np.ndarray,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder, out = make_series(hu=hu), tmp_path / "aus gabe"
    assert _run(ct_bundle.root, folder, "--out", out) == 0
    (scan,) = find_scans(folder)
    volume, names = scan.read(), [info.name for info in ct_bundle.manifest.classes]
    path = out / f"{scan.name}_seg.dcm"
    labels = scan.read_labels([path], volume, names)
    assert np.array_equal(labels, _expected(volume)) and len(np.unique(labels)) == 3
    assert highdicom.seg.segread(path).ReferencedSeriesSequence[0].SeriesInstanceUID == scan.name
    report = json.loads((out / f"{scan.name}.json").read_text())
    assert report["notice"] == "Not for clinical use" and report["bundle_sha256"] == ct_bundle.sha256
    for index, name in enumerate(names[1:], start=1):
        assert report["ml"][name] == pytest.approx((labels == index).sum() * 2 * 1.5 * 1.25 / 1000, abs=1e-3)
    assert read_image(out / f"{scan.name}.png").shape[1] == 4 * 256
    assert "Not for clinical use" in capsys.readouterr().out


def test_a_nifti_volume_keeps_its_own_axes(ct_bundle: Bundle, hu: np.ndarray, tmp_path: Path) -> None:
    affine = np.array([[0.0, 0, -1.5, 4], [0, 1.25, 0, 5], [2, 0, 0, 6], [0, 0, 0, 1]])
    stored = np.ascontiguousarray(hu[:, ::-1].transpose(0, 1, 2))
    nibabel.save(nibabel.Nifti1Image(stored, affine), tmp_path / "ct.nii")
    assert _run(ct_bundle.root, tmp_path / "ct.nii", "--out", tmp_path / "o") == 0
    made = nibabel.load(tmp_path / "o" / "ct_labels.nii.gz")
    assert made.shape == stored.shape and np.array_equal(
        made.affine, nibabel.load(tmp_path / "ct.nii").affine
    )
    volume = find_scans(tmp_path / "ct.nii")[0].read()
    assert np.array_equal(volume.hu, hu)
    assert np.array_equal(np.asanyarray(made.dataobj)[:, ::-1], _expected(volume))


def test_truth_gives_dice_and_iou(
    ct_bundle: Bundle, make_series: Callable[..., Path], hu: np.ndarray, tmp_path: Path
) -> None:
    folder = make_series(hu=hu)
    (scan,) = find_scans(folder)
    volume = scan.read()
    truth = _expected(volume)
    truth[:, :8] = 0
    path = scan.write_labels(truth, ("red", "green", "blue"), tmp_path / "truth", "m")
    _run(ct_bundle.root, folder, "--out", tmp_path / "o", "--truth", path)
    report = json.loads((tmp_path / "o" / f"{scan.name}.json").read_text())
    found = _expected(volume)
    for index, name in enumerate(("red", "green", "blue")):
        a, b = found == index, truth == index
        assert report["dice"][name] == pytest.approx(2 * (a & b).sum() / (a.sum() + b.sum()))
        assert report["iou"][name] == pytest.approx((a & b).sum() / (a | b).sum())
    assert report["dice"]["green"] < 1


def test_info_tells_the_window_and_the_neighbours(ct_bundle: Bundle) -> None:
    from deploy.info import describe

    assert dict(describe(ct_bundle))["CT"] == "Hounsfield units -500 to 500, neighbours at 2 mm"


def test_what_does_not_fit_is_refused(
    ct_bundle: Bundle,
    tiny_bundle: Bundle,
    make_series: Callable[..., Path],
    colour_folder: Path,
    tmp_path: Path,
) -> None:
    folder = make_series()
    with pytest.raises(InputError, match="no CT volume"):
        _run(ct_bundle.root, colour_folder / "val" / "images", "--out", tmp_path / "o")
    with pytest.raises(InputError, match="no images"):
        _run(tiny_bundle.root, folder, "--out", tmp_path / "o")
    with pytest.raises(InputError, match="--truth is for CT"):
        _run(tiny_bundle.root, colour_folder / "val" / "images", "--out", tmp_path / "o", "--truth", folder)
    with pytest.raises(InputError, match="is no label file"):
        _run(ct_bundle.root, folder, "--out", tmp_path / "o", "--truth", next(folder.iterdir()))
    assert not (tmp_path / "o").exists()
