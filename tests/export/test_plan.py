"""The calibration set as a file: it comes back as it was, and what does not fit is refused."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from deploy.errors import InputError
from export.plan import (
    CalibrationImage,
    CalibrationPreprocess,
    CalibrationSet,
    load_calibration_set,
    save_calibration_set,
)

PREPROCESS = CalibrationPreprocess((96, 128), "stretch", "linear", (0.5, 0.4, 0.3), (0.2, 0.2, 0.2))


def make(count: int = 32, **changes: object) -> CalibrationSet:
    images = tuple(CalibrationImage(f"train/images/{index}.png", f"{index:064x}") for index in range(count))
    values = {
        "dataset": "yard",
        "split": "train",
        "seed": 3,
        "checkpoint_sha256": "a" * 64,
        "preprocess": PREPROCESS,
        "class_images": {"ground": 32, "fence": 2},
        "images": images,
    }
    return CalibrationSet(**{**values, **changes}).sealed()


def edit(path: Path, **changes: object) -> Path:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    save_calibration_set(tmp_path / "set.json", make())
    return tmp_path / "set.json"


def test_round_trip(file: Path) -> None:
    assert load_calibration_set(file) == make()


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 4},
        {"checkpoint_sha256": None},
        {"dataset": "other"},
        {"preprocess": dataclasses.replace(PREPROCESS, size=(96, 129))},
        {"images": tuple(CalibrationImage(f"train/images/{i}.png", f"{i + 1:064x}") for i in range(32))},
    ],
)
def test_key_depends_on_everything(changes: dict[str, object]) -> None:
    assert make(**changes).key != make().key


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": 4}, "was changed after it was collected"),
        ({"colour": "red"}, "unknown key"),
        ({"schema_version": 2}, "schema_version"),
        ({"images": "all"}, "expected a list"),
        ({"key": "0" * 64}, "was changed after it was collected"),
    ],
)
def test_an_edited_file_is_refused(file: Path, changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_calibration_set(edit(file, **changes))


def test_fewer_than_32_images_are_refused(tmp_path: Path) -> None:
    save_calibration_set(tmp_path / "set.json", make(31))
    with pytest.raises(InputError, match=r"got 31 .* at least 32"):
        load_calibration_set(tmp_path / "set.json")


@pytest.mark.parametrize("path", ["../secret.png", "/etc/passwd", "train/images/0.png"])
def test_paths_that_leave_the_folder_or_come_twice_are_refused(tmp_path: Path, path: str) -> None:
    images = (*make().images, CalibrationImage(path, "0" * 64))
    save_calibration_set(tmp_path / "set.json", make(images=images))
    with pytest.raises(InputError, match=r"path|twice"):
        load_calibration_set(tmp_path / "set.json")
