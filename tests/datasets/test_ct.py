"""CT kinds of `prepare`: Hounsfield units kept, splits by patient, pairs that must fit, made-up patients."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest

from deploy.errors import InputError
from deploy.labels import read_dataset, read_mask
from deploy.slicetable import read_slices
from deploy.volumes import available
from pipeline.datasets import load_kind
from pipeline.datasets.ct_phantom import OPTIONS, draw_patient
from pipeline.datasets.ctslices.cases import COMMON, PATIENT, Case, split_by_patient

if reason := next(filter(None, available().values()), None):
    pytest.skip(reason, allow_module_level=True)
import nibabel

CLASSES = ["lung", "liver", "lesion", "bone"]
Prepare = Callable[..., Path]


@pytest.fixture(scope="module")
def phantoms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four patients of 6 slices of 48x48."""
    folder = tmp_path_factory.mktemp("phantoms")
    request = {option.name: option.default for option in OPTIONS}
    load_kind("ct_phantom").write(folder, {**request, "patients": 4, "pixels": 48, "depth": 6}, _quiet)
    return folder


def _quiet(done: int, total: int) -> None:
    pass


@pytest.fixture
def prepare(tmp_path: Path) -> Prepare:
    """prepare(kind, source, **options) -> the labelled folder."""

    def run(kind: str, source: Path, **options: object) -> Path:
        request = {option.name: option.default for option in (*COMMON, PATIENT)}
        out = tmp_path / f"out-{len(list(tmp_path.iterdir()))}"
        out.mkdir()
        load_kind(kind).write(out, {**request, "source": str(source), **options}, _quiet)
        return out

    return run


def _slices_of(root: Path, kind: str) -> dict[str, np.ndarray]:
    """Stored pixels by stem, of all splits."""
    return {path.stem: cv2.imread(str(path), -1) for path in sorted(root.glob(f"*/{kind}/*.png"))}


def test_hounsfield_units_stay_as_they_are(phantoms: Path) -> None:
    info = read_dataset(phantoms)
    assert (info.modality, info.hu_offset, info.name) == ("ct", 32768, "ct_phantom")
    stored = _slices_of(phantoms, "images")
    for number in range(4):
        hu, labels, _ = draw_patient(0, number, 6, 48)
        for index in range(6):
            stem = f"{number:03d}_{index:04d}"
            assert stored[stem].dtype == np.uint16
            assert np.array_equal(stored[stem].astype(int) - 32768, hu[index])
            split = next(phantoms.glob(f"*/masks/{stem}.png"))
            assert np.array_equal(read_mask(split), labels[index])


def test_dicom_and_nifti_of_one_patient_give_the_same_slices(phantoms: Path, prepare: Prepare) -> None:
    out = prepare("dicom", phantoms / "sources" / "dicom", classes=CLASSES)
    mine = {image.tobytes() for image in _slices_of(phantoms, "images").values()}
    theirs = {image.tobytes() for image in _slices_of(out, "images").values()}
    assert len(mine) == 24 and mine == theirs
    counts = [
        np.bincount(np.stack(list(_slices_of(root, "masks").values())).ravel()) for root in (phantoms, out)
    ]
    assert np.array_equal(*counts)
    assert "phantom-0-000" not in "".join(p.read_text() for p in (out / "slices.csv", out / "dataset.toml"))


def test_a_patients_slices_are_all_in_one_split(phantoms: Path, prepare: Prepare) -> None:
    source = phantoms / "sources" / "nifti"
    out = prepare("nifti", source, classes=CLASSES, holdout=0.4, patient="-00([01]|[23])")
    for root in (phantoms, out):
        splits: dict[str, set[str]] = {}
        for row in read_slices(root):
            splits.setdefault(row.patient, set()).add(row.split)
            assert (root / row.split / "images" / f"{row.stem}.png").is_file()
        assert all(len(found) == 1 for found in splits.values())
        assert {next(iter(found)) for found in splits.values()} == {"train", "val"}


def test_splits_at_their_ends() -> None:
    cases = [Case(f"v{i}", f"p{i // 2}", None, ()) for i in range(20)]  # type: ignore[arg-type]
    for share, expected in ((0.0, 0), (0.01, 1), (0.3, 3), (0.9, 9)):
        split = split_by_patient(cases, share, 0)
        assert sum(where == "val" for where in split.values()) == expected and len(split) == 10
    assert split_by_patient(cases[:2], 0.5, 0) == {"p0": "train"}
    drawn = {tuple(sorted(split_by_patient(cases, 0.3, seed).items())) for seed in range(9)}
    assert len(drawn) > 5, "the seed says which patients"


def test_every_slice_says_where_it_lies(phantoms: Path, prepare: Prepare) -> None:
    out = prepare("nifti", phantoms / "sources" / "nifti", spacing=6.0, canvas=[56, 64], neighbours=6.0)
    info = read_dataset(out)
    assert info.slices.canvas == (56, 64) and info.classes[1:] == (
        "label_001",
        "label_002",
        "label_003",
        "label_004",
    )
    image = nibabel.load(phantoms / "sources" / "nifti" / "volume-000.nii.gz")
    rows = [row for row in read_slices(out) if row.volume == "000"]
    assert [row.index for row in rows] == list(range(6))
    assert rows[0].spacing_mm == pytest.approx(
        (6.0, 370 / 62, 370 / 62)
    )  # 48 pixels of 7.7 mm are 62 of about 6
    affine = np.reshape(rows[0].affine, (4, 4))
    middle = affine @ [63 / 2, 55 / 2, 5 / 2, 1]
    np.testing.assert_allclose(middle[:3], (image.affine @ [47 / 2, 47 / 2, 5 / 2, 1])[:3], atol=3.1)
    stored = _slices_of(out, "images")
    assert stored["000_0002"].shape == (56, 64, 3)
    assert np.array_equal(stored["000_0002"][..., 0], stored["000_0003"][..., 1]), "blue: the next slice"


def test_the_command_says_cached_and_refuses_half_a_rule(
    phantoms: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import argparse

    from pipeline import prepare as command

    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    asked = ["--kind", "nifti", "--source", str(phantoms / "sources" / "nifti"), "--out", str(tmp_path / "o")]
    for _ in range(2):
        assert command.run(parser.parse_args(asked)) == 0
    assert "cached" in capsys.readouterr().out
    assert json.loads((tmp_path / "o" / "prepared.json").read_text())["kind"] == "nifti"
    with pytest.raises(InputError, match="one of them"):
        command.run(parser.parse_args([*asked, "--spacing", "2", "--out", str(tmp_path / "x")]))
    assert not (tmp_path / "x").exists()


def _without_label(source: Path) -> None:
    next(source.glob("**/*seg*")).unlink()


def _without_volume(source: Path) -> None:
    next(source.glob("**/volume*")).unlink()


@pytest.mark.parametrize(
    ("kind", "spoil", "options", "message"),
    [
        ("nifti", _without_label, {}, "a volume without labels"),
        ("dicom", _without_label, {}, "a volume without labels"),
        ("nifti", _without_volume, {}, "labels without a volume"),
        (
            "dicom",
            lambda source: [p.unlink() for p in (source / "000").glob("IM*")],
            {},
            "labels another series",
        ),
        ("dicom", lambda source: None, {"classes": ["spleen"]}, "a volume without labels.*bone"),
        ("nifti", lambda source: None, {"classes": ["lung"]}, "class ids.*up to 4"),
        ("nifti", lambda source: None, {"patient": "nobody"}, "finds nothing"),
        ("nifti", lambda source: shutil.rmtree(source), {}, "no folder"),
        ("nifti", lambda source: [p.unlink() for p in source.iterdir()], {}, "no CT volumes"),
    ],
)
def test_what_cannot_be_prepared_is_refused(
    phantoms: Path,
    prepare: Prepare,
    tmp_path: Path,
    kind: str,
    spoil: Callable[[Path], object],
    options: dict,
    message: str,
) -> None:
    source = tmp_path / "source"
    shutil.copytree(phantoms / "sources" / kind, source)
    spoil(source)
    with pytest.raises(InputError, match=message):
        prepare(kind, source, **options)


def test_an_mr_series_beside_ct_is_left_out_and_said(
    phantoms: Path, prepare: Prepare, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import pydicom

    source = tmp_path / "source"
    shutil.copytree(phantoms / "sources" / "dicom" / "000", source / "ct")
    shutil.copytree(phantoms / "sources" / "dicom" / "001", source / "mr")
    for path in (source / "mr").iterdir():
        dataset = pydicom.dcmread(path)
        if "seg" in path.name:
            path.unlink()
            continue
        dataset.Modality, dataset.SOPClassUID = "MR", "1.2.840.10008.5.1.4.1.1.4"
        dataset.save_as(path)
    out = prepare("dicom", source)
    assert len(_slices_of(out, "images")) == 6
    said = capsys.readouterr().out
    assert "left out" in said and "modality MR" in said and "one patient" in said


def test_phantoms_differ_and_repeat(phantoms: Path) -> None:
    hu, labels, spacing = draw_patient(0, 1, 24, 64)
    again = draw_patient(0, 1, 24, 64)
    assert np.array_equal(hu, again[0]) and np.array_equal(labels, again[1])
    assert not np.array_equal(hu, draw_patient(0, 2, 24, 64)[0])
    assert set(np.unique(labels)) >= {0, 1, 2, 4} and spacing[0] == 6.0
    means = [hu[labels == index].mean() for index in (1, 2, 4)]
    assert means[0] < -700 and 40 < means[1] < 160 and means[2] > 200
    liver = np.argwhere(labels == 2)[:, 2].mean()
    assert liver < 28, "on the patient's right, left in the picture"
