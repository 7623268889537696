"""The drawn street scenes: same bytes every time, unequal areas, shape that matters, colour that does not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

from deploy.errors import InputError
from deploy.labels import list_pairs, read_dataset
from deploy.metrics import ConfusionMatrix
from pipeline.datasets import open_dataset
from pipeline.datasets.folder import LabelledFolder
from pipeline.datasets.gate import check_labels
from pipeline.datasets.streetscene import labels, noise
from pipeline.datasets.synthetic import draw_sample, generate

ROOT = Path(__file__).resolve().parents[2]


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_sample_depends_on_seed_split_and_index_alone() -> None:
    first = draw_sample(1, "train", 7, (96, 128))
    draw_sample(1, "train", 8, (96, 128))
    again = draw_sample(1, "train", 7, (96, 128))
    assert np.array_equal(first[0], again[0]) and np.array_equal(first[1], again[1])
    for other in ((2, "train", 7), (1, "val", 7), (1, "train", 8)):
        assert not np.array_equal(first[0], draw_sample(*other, (96, 128))[0]), other


def test_one_process_and_several_write_the_same_bytes(drawn: Path, tmp_path: Path) -> None:
    few = _files(generate(tmp_path / "few", train=5, val=2, size=(192, 256), seed=3))  # too few for processes
    many = _files(drawn)
    assert len([name for name in few if name.startswith("train")]) == 10
    assert {name: many[name] for name in few} == few


def test_a_fresh_interpreter_draws_the_same_sample() -> None:
    code = (
        "import hashlib; from pipeline.datasets.synthetic import draw_sample;"
        "i, m = draw_sample(5, 'val', 3, (96, 128));"
        "print(hashlib.sha256(i.tobytes() + m.tobytes()).hexdigest())"
    )
    outputs = set()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        )
        outputs.add(done.stdout)
    assert len(outputs) == 1


def test_the_folder_passes_the_gate_with_very_unequal_classes(drawn: Path) -> None:
    report = check_labels(drawn)
    assert report.info.classes == labels.NAMES and report.info.ignore_index == 255
    assert [count.images for count in report.splits] == [96, 32]
    for count in report.splits:
        shares = np.array(count.pixels) / count.labelled
        assert shares.min() > 0.003 and shares.max() > 10 * shares.min()
        assert min(count.images_with) >= 0.3 * count.images
        assert count.ignored > 0


def test_no_two_pictures_are_alike(drawn: Path) -> None:
    assert not check_labels(drawn).notes
    pictures = [open_dataset(drawn, "val")[i][0] for i in range(8)]
    for i, one in enumerate(pictures):
        for other in pictures[i + 1 :]:
            assert np.abs(one.astype(int) - other.astype(int)).mean() > 10


@pytest.mark.parametrize("size", [(64, 64), (97, 131), (540, 600)])
def test_any_size(size: tuple[int, int]) -> None:
    image, mask = draw_sample(0, "train", 0, size)
    assert image.shape == (*size, 3) and mask.shape == size and image.dtype == mask.dtype == np.uint8
    assert set(np.unique(mask).tolist()) <= {*range(len(labels.NAMES)), 255}
    assert image.std() > 10


@pytest.mark.parametrize("size", [(63, 256), (192, 4096)])
def test_sizes_out_of_bounds_are_refused(tmp_path: Path, size: tuple[int, int]) -> None:
    with pytest.raises(InputError, match=f"{size[0]}x{size[1]}"):
        generate(tmp_path / "x", train=1, val=1, size=size)
    assert not list(tmp_path.iterdir())


def test_a_noise_crop_wraps_around() -> None:
    rng = np.random.default_rng(0)
    wide = noise.crop(rng, "leafy", 600, 1300)
    assert wide.shape == (600, 1300)
    assert np.array_equal(wide[:88], wide[512:]) and np.array_equal(wide[:, :788], wide[:, 512:])
    assert abs(float(wide.mean())) < 0.1 and abs(float(wide.std()) - 1) < 0.1


def test_shapes_survive_an_eighth_of_the_resolution(drawn: Path) -> None:
    """Perfect class shares at stride 8, enlarged again, must still find the thin classes."""
    data, matrix = open_dataset(drawn, "val"), ConfusionMatrix(len(labels.NAMES), 255)
    for i in range(len(data)):
        mask = data[i][1]
        height, width = mask.shape
        shares = (mask[..., None] == np.arange(len(labels.NAMES))).astype(np.float32)
        small = cv2.resize(shares, (width // 8, height // 8), interpolation=cv2.INTER_AREA)
        matrix.update(
            cv2.resize(small, (width, height), interpolation=cv2.INTER_CUBIC).argmax(-1).astype(np.uint8),
            mask,
        )
    assert matrix.miou() > 0.85 and np.nanmin(matrix.iou()) > 0.65


def _pixels(data: LabelledFolder, per_image: int) -> tuple[np.ndarray, np.ndarray]:
    """Random labelled pixels of every image: features [N, 5] (r, g, b, y, x) and classes [N]."""
    features, classes = [], []
    for i in range(len(data)):
        image, mask = data[i]
        y, x = np.divmod(np.random.default_rng(i).integers(0, mask.size, per_image), mask.shape[1])
        features.append(np.column_stack([image[y, x], y, x]))
        classes.append(mask[y, x])
    known = np.concatenate(classes) != 255
    return np.concatenate(features)[known].astype(np.float32), np.concatenate(classes)[known]


def _miou(classifier: object, train: LabelledFolder, val: LabelledFolder, columns: int) -> float:
    """mIoU on val of a classifier of single pixels that sees the first columns of the features."""
    features, classes = _pixels(train, 600)
    classifier.fit(features[:, :columns], classes)  # type: ignore[attr-defined]
    matrix = ConfusionMatrix(len(labels.NAMES), 255)
    features, classes = _pixels(val, 2000)
    matrix.update(classifier.predict(features[:, :columns]).astype(np.uint8), classes)  # type: ignore[attr-defined]
    return matrix.miou()


@pytest.mark.parametrize(
    ("columns", "least", "most"), [(3, 0.05, 0.20), (5, 0.12, 0.32)], ids=["rgb", "rgb+yx"]
)
def test_colour_alone_does_not_segment(drawn: Path, columns: int, least: float, most: float) -> None:
    tree = pytest.importorskip("sklearn.tree").DecisionTreeClassifier(
        max_depth=12, min_samples_leaf=30, random_state=0
    )
    reached = _miou(tree, open_dataset(drawn, "train"), open_dataset(drawn, "val"), columns)
    assert least < reached < most  # below `least` the classifier itself would be broken


@pytest.mark.slow
def test_colour_alone_does_not_segment_even_with_boosted_trees(tmp_path: Path) -> None:
    """The figures in synthetic.py's docstring: 0.12 from RGB, 0.23 with position."""
    ensemble = pytest.importorskip("sklearn.ensemble")
    generate(tmp_path / "s", train=400, val=100, seed=11)
    for columns, expected in ((3, 0.12), (5, 0.23)):
        trees = ensemble.HistGradientBoostingClassifier(max_iter=80, random_state=0)
        reached = _miou(
            trees, open_dataset(tmp_path / "s", "train"), open_dataset(tmp_path / "s", "val"), columns
        )
        assert reached == pytest.approx(expected, abs=0.03)


def test_pictures_are_jpeg_and_masks_png(drawn: Path) -> None:
    pair = list_pairs(read_dataset(drawn), "train")[0]
    assert pair.image.read_bytes()[:2] == b"\xff\xd8" and pair.mask.read_bytes()[1:4] == b"PNG"
