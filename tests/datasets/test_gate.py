"""The label gate: what it lets through, and every reason to refuse, with the file's name."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest

from deploy.errors import GateError, InputError
from pipeline.datasets.gate import check_labels, print_report


def _save(path: Path, pixels: np.ndarray) -> None:
    path.write_bytes(cv2.imencode(path.suffix, pixels)[1].tobytes())


def _refused(folder: Path, *words: str) -> str:
    """The gate's one line, after checking its exit status and that it holds the words."""
    with pytest.raises(GateError) as caught:
        check_labels(folder)
    message = str(caught.value)
    assert caught.value.exit_status == 1 and "\n" not in message
    for word in words:
        assert word in message, (word, message)
    return message


def test_a_sound_folder_is_counted(tiny: Path) -> None:
    report = check_labels(tiny)
    train, val = report.splits
    assert (train.images, val.images) == (3, 2)
    assert train.ignored == 3 * 32 and train.labelled == 3 * 23 * 32
    assert train.images_with == (3, 3, 3) and report.notes == ()
    masks = [cv2.imread(str(path), cv2.IMREAD_UNCHANGED) for path in (tiny / "val/masks").iterdir()]
    assert val.pixels == tuple(int((np.stack(masks) == i).sum()) for i in range(3))


def test_the_table_shows_classes_splits_and_notes(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (tiny / "train/masks").iterdir():
        mask = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
        mask[mask == 2] = 1
        _save(path, mask)
    print_report(check_labels(tiny))
    text = capsys.readouterr().out
    assert re.search(r"0\s+■ x\s+\d+\s+\d+\.\d\d%\s+3\s+\d+\s+\d+\.\d\d%\s+2", text)
    assert "ignored" in text and "no pixel of z in train" in text


def test_undeclared_id(tiny: Path) -> None:
    mask = cv2.imread(str(tiny / "train/masks/b.png"), cv2.IMREAD_UNCHANGED)
    mask[5, :4] = 7
    _save(tiny / "train/masks/b.png", mask)
    _refused(tiny, "train/masks/b.png", "got 7 (4 pixels)", "expected 0..2 (ignore_index 255)")


def test_a_split_without_labels(tiny: Path) -> None:
    for path in (tiny / "val/masks").iterdir():
        _save(path, np.full_like(cv2.imread(str(path), cv2.IMREAD_UNCHANGED), 255))
    _refused(tiny, "no labelled pixel in split val", "only 255")


def test_the_ignore_value_must_be_declared(tiny: Path) -> None:
    (tiny / "dataset.toml").write_text('name = "tiny"\nclasses = ["x", "y", "z"]\n')
    message = _refused(tiny, "train/masks/a.png", "got 255 (32 pixels)", "no ignore_index")
    assert "4 more files" in message


@pytest.mark.parametrize("channels", [3, 4])
def test_masks_with_colours_or_alpha(tiny: Path, channels: int) -> None:
    _save(tiny / "val/masks/e.png", np.zeros((24, 32, channels), np.uint8))
    _refused(tiny, "val/masks/e.png", "RGB" if channels == 3 else "alpha")


def test_size_mismatch(tiny: Path) -> None:
    _save(tiny / "val/masks/d.png", np.zeros((32, 24), np.uint8))
    _refused(tiny, "val/masks/d.png", "got 32x24", "expected 24x32")


@pytest.mark.parametrize("part", ["images/a.jpg", "masks/a.png"])
def test_truncated_files(tiny: Path, part: str) -> None:
    path = tiny / "train" / part
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
    _refused(tiny, f"train/{part}", "truncated")


def test_a_file_that_is_no_image(tiny: Path) -> None:
    (tiny / "train/images/c.jpg").write_bytes(b"<html>not found</html>")
    _refused(tiny, "train/images/c.jpg")


@pytest.mark.parametrize(("gone", "left"), [("images/c.jpg", "masks/c.png"), ("masks/c.png", "images/c.jpg")])
def test_a_missing_partner(tiny: Path, gone: str, left: str) -> None:
    (tiny / "train" / gone).unlink()
    with pytest.raises(InputError, match=left):
        check_labels(tiny)


@pytest.mark.parametrize("suffix", [".jpg", ".png"])
def test_the_same_image_in_two_splits(tiny: Path, suffix: str) -> None:
    """By decoded pixels: another name or a lossless copy does not hide it."""
    copy = (tiny / "val/images/d.jpg").with_suffix(suffix)
    (tiny / "val/images/d.jpg").unlink()
    if suffix == ".jpg":
        shutil.copy(tiny / "train/images/a.jpg", copy)
    else:
        _save(copy, cv2.imread(str(tiny / "train/images/a.jpg")))
    _refused(tiny, f"val/images/d{suffix}", "train/images/a.jpg", "two splits")
    assert check_labels(tiny, ("val",)).notes == ()  # one split alone has no leak


def test_a_repeat_within_a_split_is_only_noted(tiny: Path) -> None:
    shutil.copy(tiny / "train/images/a.jpg", tiny / "train/images/b.jpg")
    (note,) = check_labels(tiny).notes
    assert "b.jpg" in note and "a.jpg" in note


def test_an_empty_split(tiny: Path) -> None:
    for path in (tiny / "val").rglob("*.*"):
        path.unlink()
    with pytest.raises(InputError, match="val/images"):
        check_labels(tiny)


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_missing_folder(tiny: Path, tmp_path: Path, split: str) -> None:
    folder = tmp_path / "nowhere" if split == "train" else tiny
    with pytest.raises(InputError, match="nowhere" if split == "train" else "test") as caught:
        check_labels(folder, (split,))
    assert caught.value.exit_status == 2


def test_progress_reaches_the_number_of_pairs(tiny: Path) -> None:
    calls: list[tuple[int, int]] = []
    check_labels(tiny, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(i, 5) for i in range(1, 6)]


@pytest.mark.parametrize(
    ("name", "images", "ignored"),
    [
        ("camvid", (367, 101), True),
        ("rural", (115, 50), False),
        ("ct_covid", (40, 10), False),
        ("ct_aorta", (420, 84), False),
    ],
)
def test_real_sets_pass(shared_data: Path, name: str, images: tuple[int, int], ignored: bool) -> None:
    report = check_labels(shared_data / name)
    assert tuple(count.images for count in report.splits) == images
    assert all(bool(count.ignored) is ignored for count in report.splits)
    assert report.notes == ()
