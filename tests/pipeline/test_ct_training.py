"""Training on Hounsfield units: the window belongs to the recipe, and everything after training knows it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest

from deploy.errors import InputError
from deploy.preprocess import window_hu
from deploy.volumes import available
from pipeline.config import load_recipe, settings
from pipeline.job import Job

WINDOW = (-200.0, 300.0)
RECIPE = Path(__file__).resolve().parents[2] / "recipes" / "ct_phantom_b0.toml"


@pytest.fixture
def hu_folder(tmp_path: Path) -> Path:
    """Six slices of 40x40 Hounsfield units in two splits."""
    rng, root = np.random.default_rng(0), tmp_path / "hu"
    for split, count in (("train", 4), ("val", 2)):
        for part in ("images", "masks"):
            (root / split / part).mkdir(parents=True)
        for index in range(count):
            hu = rng.integers(-1000, 1000, (40, 40))
            cv2.imwrite(str(root / split / "images" / f"{split}{index}.png"), (hu + 32768).astype(np.uint16))
            cv2.imwrite(str(root / split / "masks" / f"{split}{index}.png"), (hu > 0).astype(np.uint8))
    text = 'name = "hu"\nmodality = "ct"\nclasses = ["low", "high"]\nhu_offset = 32768\nneighbour_mm = 3.0\n'
    (root / "dataset.toml").write_text(text)
    return root


def test_the_recipes_window_reaches_images_and_checkpoint(recipe: Path, hu_folder: Path) -> None:
    job = Job(load_recipe(recipe, ["data.hu_window=[-200, 300]"]), hu_folder)
    image, mask = job.val_set[0]
    stored = cv2.imread(str(job.val_set.pairs[0].image), -1).astype(np.int32) - 32768
    assert np.array_equal(image[..., 0], window_hu(stored.astype(np.int16), WINDOW)) and mask.max() == 1
    kept = job.describe({}).preprocess
    assert kept["hu_window"] == list(WINDOW) and kept["slices"]["neighbour_mm"] == 3.0
    assert job.stage.settings["data"]["hu_window"] == list(WINDOW)


def test_no_window_and_a_window_for_pictures(
    recipe: Path, hu_folder: Path, make_data: Callable[..., Path]
) -> None:
    with pytest.raises(InputError, match=r"no window.*data\.hu_window"):
        Job(load_recipe(recipe), hu_folder)
    with pytest.raises(InputError, match="pictures in"):
        Job(load_recipe(recipe, ["data.hu_window=[-200, 300]"]), make_data())
    with pytest.raises(InputError, match="low < high"):
        Job(load_recipe(recipe, ["data.hu_window=[5, 5]"]), hu_folder)


def test_pictures_keep_their_keys_and_descriptions(recipe: Path, make_data: Callable[..., Path]) -> None:
    """Results stored before there was CT stay what they were."""
    job = Job(load_recipe(recipe), make_data())
    assert "hu_window" not in settings(job.recipe)["data"]
    assert set(job.describe({}).preprocess) == {"size", "resize", "interpolation", "mean", "std"}


@pytest.mark.slow
def test_from_made_up_patients_to_labels_of_a_series(pipeline: Callable[..., int], tmp_path: Path) -> None:
    """prepare, train, evaluate, export, bench, run on a DICOM series and on a NIfTI volume."""
    if reason := next(filter(None, available().values()), None):
        pytest.skip(reason)
    assert (
        pipeline(
            "prepare", "--kind", "ct_phantom", "--out", "ct", "--patients", 5, "--pixels", 64, "--depth", 8
        )
        == 0
    )
    tiny = ["train.steps=60", "train.batch=8", "train.eval_every=60", "train.warmup=5"]
    sizes = ["data.size=64x64", "augment.crop=64x64"]
    sets = [part for text in (*tiny, *sizes) for part in ("--set", text)]
    assert pipeline("train", "--recipe", RECIPE, "--data", "ct", "--run", "ct", *sets) == 0
    assert pipeline("evaluate", "--checkpoint", "ct", "--data", "ct", "--json", "evaluation.json") == 0
    accuracy = json.loads(Path("evaluation.json").read_text())
    assert accuracy["dice"]["lung"] > 0.4 and len(accuracy["volumes"]) == 1
    _export_and_run(accuracy)


def _export_and_run(accuracy: dict) -> None:
    from deploy import bench, run
    from deploy.options import Parser
    from deploy.slicetable import read_slices
    from export import build

    def call(command: object, *arguments: object) -> None:
        parser = Parser()
        command.add_arguments(parser)
        assert command.run(parser.parse_args(list(map(str, arguments)))) == 0

    call(build, "--checkpoint", "ct", "--target", "onnxruntime", "--data", "ct", "--out", "b")
    call(bench, "b", "--data", "ct", "--frames", 8, "--threads", 1, "--json", "bench.json")
    assert json.loads(Path("bench.json").read_text())["miou"] == pytest.approx(accuracy["miou"], abs=1e-3)
    volume = next(row.volume for row in read_slices(Path("ct")) if row.split == "val")
    nifti, series = Path("ct/sources/nifti"), Path("ct/sources/dicom") / volume
    truths = nifti / f"segmentation-{volume}.nii.gz", next(series.glob("*_seg.dcm"))
    for source, truth, out in zip(
        (nifti / f"volume-{volume}.nii.gz", series), truths, ("n", "d"), strict=True
    ):
        call(run, "b", source, "--out", out, "--truth", truth, "--threads", 1)
        report = json.loads(next(Path(out).glob("*.json")).read_text())
        for name, value in accuracy["volumes"][volume]["dice"].items():
            assert report["dice"][name] == pytest.approx(value, abs=0.01), "the prepared slices' own figures"
