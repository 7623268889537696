"""Importers of published data sets, on small trees of the published layouts."""

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
from deploy.preprocess import read_image
from pipeline import prepare
from pipeline.__main__ import main
from pipeline.datasets import cityscapes

# From cityscapesscripts' definition, by name: what a published id must become (names as in that definition).
TRAIN_IDS = {
    7: "road",
    8: "sidewalk",
    11: "building",
    19: "traffic light",
    24: "person",
    25: "rider",
    26: "car",
    28: "bus",
    31: "train",
    33: "bicycle",
}
NOT_EVALUATED = (0, 1, 4, 5, 6, 9, 10, 14, 15, 16, 18, 29, 30)
Run = Callable[..., int]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """`python -m pipeline prepare --kind KIND --source source --out out` in tmp_path."""
    from deploy.errors import run_cli

    monkeypatch.chdir(tmp_path)

    def call(kind: str, *more: str) -> int:
        arguments = ["prepare", "--kind", kind, "--out", "out", *(more or ("--source", "source"))]
        monkeypatch.setattr("sys.argv", ["pipeline", *arguments])
        return run_cli(main)

    return call


def save(path: Path, array: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    assert cv2.imwrite(str(path), array)


def picture(rng: np.random.Generator) -> np.ndarray:
    return cv2.GaussianBlur(rng.integers(0, 256, (16, 34, 3), np.uint8), (5, 5), 0)


@pytest.fixture
def cityscapes_tree(tmp_path: Path) -> Path:
    """Two cities in train, one in val, a test split with blank labels: every id from 0 to 33 in each mask."""
    root, rng = tmp_path / "source", np.random.default_rng(0)
    frames = {"train": ("aachen", "ulm"), "val": ("münster",), "test": ("berlin",)}
    for split, cities in frames.items():
        for city in cities:
            stem = f"{city}_000001_000019"
            save(root / f"leftImg8bit/{split}/{city}/{stem}_leftImg8bit.png", picture(rng))
            labels = np.tile(np.arange(34, dtype=np.uint8), (16, 1)) * (split != "test")
            for kind in ("labelIds", "instanceIds"):
                save(root / f"gtFine/{split}/{city}/{stem}_gtFine_{kind}.png", labels)
    return root


@pytest.fixture
def ade20k_tree(tmp_path: Path) -> Path:
    """Annotations with the ids 0, 1, 2, 150."""
    root, rng = tmp_path / "source", np.random.default_rng(0)
    for split, count in (("training", 3), ("validation", 2)):
        for number in range(count):
            stem = f"ADE_{split[:5]}_{number + 1:08d}"
            save(root / f"images/{split}/{stem}.jpg", picture(rng))
            mask = np.repeat(np.array([0, 1, 2, 150], np.uint8), 4)[:, None].repeat(34, 1)
            save(root / f"annotations/{split}/{stem}.png", mask)
    return root


def test_cityscapes_label_ids_become_train_ids(run: Run, cityscapes_tree: Path, tmp_path: Path) -> None:
    assert run("cityscapes") == 0
    info, out = read_dataset("out"), tmp_path / "out"
    assert len(info.classes) == 19 and info.ignore_index == 255
    assert info.classes[0] == "road" and info.classes[18] == "bicycle"
    assert sorted(p.name for p in out.iterdir()) == ["dataset.toml", "prepared.json", "train", "val"]
    mask = read_mask(out / "val/masks/münster_000001_000019.png")
    for label, name in TRAIN_IDS.items():
        assert info.classes[mask[0, label]] == name
    assert all(mask[0, label] == 255 for label in NOT_EVALUATED)
    assert sorted(set(mask[0].tolist()) - {255}) == list(range(19))
    original = cityscapes_tree / "leftImg8bit/train/ulm/ulm_000001_000019_leftImg8bit.png"
    ours = out / "train/images/ulm_000001_000019.png"
    assert ours.read_bytes() == original.read_bytes() and len(list(ours.parent.iterdir())) == 2


def test_ade20k_loses_its_zero_label(run: Run, ade20k_tree: Path, tmp_path: Path) -> None:
    assert run("ade20k") == 0
    info, out = read_dataset("out"), tmp_path / "out"
    assert len(info.classes) == 150 and info.ignore_index == 255
    assert info.classes[:3] == ("wall", "building", "sky") and info.classes[149] == "flag"
    mask = read_mask(out / "train/masks/ADE_train_00000002.png")
    assert mask[::4, 0].tolist() == [255, 0, 1, 149]
    assert len(list((out / "val/images").iterdir())) == 2
    assert read_image(out / "val/images/ADE_valid_00000001.jpg").shape == (16, 34, 3)


def test_the_source_stays_when_the_result_goes(run: Run, ade20k_tree: Path, tmp_path: Path) -> None:
    before = {p: p.read_bytes() for p in ade20k_tree.rglob("*") if p.is_file()}
    assert run("ade20k") == 0
    shutil.rmtree(tmp_path / "out")
    assert {p: p.read_bytes() for p in ade20k_tree.rglob("*") if p.is_file()} == before


def test_asked_again_it_is_cached(run: Run, ade20k_tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("ade20k") == 0 and run("ade20k", "--source", str(ade20k_tree)) == 0
    assert "cached" in capsys.readouterr().out
    assert json.loads(Path("out", prepare.STAMP).read_text())["request"] == {"source": str(ade20k_tree)}


@pytest.mark.parametrize("case", ["no source", "layout", "labels", "id", "empty", "other option"])
def test_what_is_not_as_published_is_refused(
    run: Run, ade20k_tree: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    labels = ade20k_tree / "annotations/training/ADE_train_00000002.png"
    more: tuple[str, ...] = ("--source", "source")
    if case == "no source":
        more, words = ("--out", "out"), "'ade20k' needs --source"
    elif case == "layout":
        (ade20k_tree / "images/validation").rename(ade20k_tree / "images/val")
        words = "no images/validation"
    elif case == "labels":
        labels.unlink()
        words = labels.name
    elif case == "id":
        save(labels, np.full((16, 34), 151, np.uint8))
        words = "id 151"
    elif case == "empty":
        shutil.rmtree(ade20k_tree / "images/training")
        (ade20k_tree / "images/training").mkdir()
        words = "no image for split 'train'"
    else:
        more, words = ("--source", "source", "--seed", "1"), "--seed is no option of kind 'ade20k'"
    assert run("ade20k", *more) == 2
    error = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error:")]
    assert len(error) == 1 and words in error[0]
    assert not Path("out").exists()


def test_a_source_of_another_layout_is_named() -> None:
    with pytest.raises(InputError, match="nowhere is not cityscapes as published"):
        cityscapes.write(Path("nowhere"), {"source": "nowhere"}, lambda done, total: None)


@pytest.mark.parametrize("kind", ["cityscapes", "ade20k"])
def test_data_and_official_weights_name_their_classes_alike(
    run: Run, cityscapes_tree: Path, ade20k_tree: Path, kind: str
) -> None:
    """Both trees are in one source folder; an imported official checkpoint must be measurable on either."""
    from pipeline.evaluate import require_classes
    from pipeline.models.official import Identity, describe

    assert run(kind) == 0
    info = read_dataset("out")
    require_classes(describe(Identity("b1", kind, len(info.classes)), {}), info, "out")
