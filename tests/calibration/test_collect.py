"""`python -m calibration collect` on a drawn labelled folder."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest

from calibration.__main__ import main
from deploy.errors import run_cli
from export.plan import load_calibration_set
from pipeline.models.checkpoints import CheckpointMeta, save_checkpoint
from pipeline.models.efficientvit import create_model

Collect = Callable[..., int]


@pytest.fixture
def collect(monkeypatch: pytest.MonkeyPatch) -> Collect:
    """collect("--data", ...) -> exit status, as `python -m calibration collect` has it."""

    def call(*words: object) -> int:
        monkeypatch.setattr(sys, "argv", ["calibration", "collect", *map(str, words)])
        return run_cli(main)

    return call


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """48 noise images of 16x24; class `pole` is in one of them, `sign` in none; some pixels are ignored."""
    root = tmp_path_factory.mktemp("data") / "yard"
    rng = np.random.default_rng(0)
    for part in ("images", "masks"):
        (root / "train" / part).mkdir(parents=True)
    for index in range(48):
        mask = rng.integers(0, 2, (16, 24), np.uint8)
        mask[0] = 255
        mask[5, 5] = 2 if index == 29 else 0
        cv2.imwrite(
            str(root / "train" / "images" / f"{index:02}.png"), rng.integers(0, 256, (16, 24, 3), np.uint8)
        )
        cv2.imwrite(str(root / "train" / "masks" / f"{index:02}.png"), mask)
    classes = '["road", "sky", "pole", "sign"]'
    (root / "dataset.toml").write_text(f'name = "yard"\nclasses = {classes}\nignore_index = 255\n')
    return root


def test_file_lists_images_with_hashes_and_shows_the_rare_class(
    collect: Collect, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "set.json"
    assert collect("--data", folder, "--count", 32, "--size", "16x24", "--out", out) == 0
    chosen = load_calibration_set(out)
    assert len(chosen.images) == 32 and chosen.split == "train" and chosen.preprocess.size == (16, 24)
    assert chosen.class_images["pole"] == 1 and chosen.class_images["sign"] == 0
    assert chosen.checkpoint_sha256 is None
    assert "train/images/29.png" in {image.path for image in chosen.images}
    for image in chosen.images:
        assert hashlib.sha256((folder / image.path).read_bytes()).hexdigest() == image.sha256
    shown = capsys.readouterr().out
    assert "never calibrated" in shown and chosen.key in shown


def test_same_arguments_same_file(collect: Collect, folder: Path, tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        assert (
            collect(
                "--data", folder, "--count", 32, "--size", "16x24", "--seed", seed, "--out", tmp_path / name
            )
            == 0
        )
    first, second, third = ((tmp_path / name).read_bytes() for name in "abc")
    assert first == second != third


def test_stdout_is_only_json(collect: Collect, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert collect("--data", folder, "--count", 32, "--size", "16x24", "--out", "-") == 0
    assert len(json.loads(capsys.readouterr().out)["images"]) == 32


def test_checkpoint_gives_preprocessing_and_its_hash(collect: Collect, folder: Path, tmp_path: Path) -> None:
    preprocess = {"size": [32, 48], "resize": "letterbox", "mean": [0.1, 0.2, 0.3], "std": [0.4, 0.5, 0.6]}
    spec = {"variant": "b0", "attention": "linear", "classes": 4, "head": "cityscapes"}
    dataset = {"classes": ["road", "sky", "pole", "sign"]}
    checkpoint = tmp_path / "net.safetensors"
    save_checkpoint(checkpoint, create_model("b0", 4).state_dict(), CheckpointMeta(spec, dataset, preprocess))
    words = ("--data", folder, "--count", 32, "--checkpoint", checkpoint)
    assert collect(*words, "--out", tmp_path / "set.json") == 0
    chosen = load_calibration_set(tmp_path / "set.json")
    assert chosen.checkpoint_sha256 == hashlib.sha256(checkpoint.read_bytes()).hexdigest()
    assert chosen.preprocess.size == (32, 48) and chosen.preprocess.resize == "letterbox"
    assert chosen.preprocess.std == (0.4, 0.5, 0.6)
    assert collect(*words, "--size", "16x16", "--out", tmp_path / "small.json") == 0
    assert load_calibration_set(tmp_path / "small.json").preprocess.size == (16, 16)
    other = {"classes": ["road", "sky", "lamp", "sign"]}
    save_checkpoint(checkpoint, create_model("b0", 4).state_dict(), CheckpointMeta(spec, other, preprocess))
    assert collect(*words, "--out", tmp_path / "other.json") == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--count", "31"], "got 31 | expected at least 32"),
        (["--count", "49"], "at most 48"),
        (["--count", "many"], "--count"),
        (["--split", "test"], "no split 'test'"),
        (["--data", "nowhere"], "no data folder nowhere"),
        (["--size", "16"], "HEIGHTxWIDTH"),
        (["--seed", "-1"], "--seed"),
        (["--checkpoint", "no-run"], "no checkpoint 'no-run'"),
    ],
)
def test_wrong_use_is_one_line_and_status_2(
    collect: Collect, folder: Path, tmp_path: Path, monkeypatch, capsys, words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert collect("--data", folder, "--count", 32, "--size", "16x24", "--out", "set.json", *words) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and error.count("\n") == 1 and message in error
    assert not (tmp_path / "set.json").exists()


def test_without_checkpoint_the_size_must_be_given(
    collect: Collect, folder: Path, tmp_path: Path, capsys
) -> None:
    assert collect("--data", folder, "--count", 32, "--out", tmp_path / "set.json") == 2
    assert "--size" in capsys.readouterr().err


def test_an_undeclared_id_names_the_mask(collect: Collect, folder: Path, tmp_path: Path, capsys) -> None:
    spoiled = folder / "train" / "masks" / "07.png"
    good = spoiled.read_bytes()
    cv2.imwrite(str(spoiled), np.full((16, 24), 9, np.uint8))
    try:
        assert (
            collect("--data", folder, "--count", 32, "--size", "16x24", "--out", tmp_path / "set.json") == 2
        )
    finally:
        spoiled.write_bytes(good)
    assert "07.png" in capsys.readouterr().err


def test_real_data(collect: Collect, shared_data: Path, tmp_path: Path) -> None:
    out = tmp_path / "set.json"
    assert collect("--data", shared_data / "ct_covid", "--count", 32, "--size", "256x256", "--out", out) == 0
    assert all(load_calibration_set(out).class_images.values())


def test_names_are_no_markup(collect: Collect, folder: Path, tmp_path: Path, capsys) -> None:
    """A class, a file or a data set may be called anything; a table shows it as it is."""
    shutil.copytree(folder, tmp_path / "odd")
    text = (
        (tmp_path / "odd" / "dataset.toml")
        .read_text(encoding="utf-8")
        .replace('"sign"', '"[/b] :car: [red]"')
    )
    (tmp_path / "odd" / "dataset.toml").write_text(text, encoding="utf-8")
    words = ["--data", tmp_path / "odd", "--count", 32, "--size", "16x16", "--out", tmp_path / "[bold].json"]
    assert collect(*words) == 0
    shown = capsys.readouterr().out
    assert "[/b] :car: [red]" in shown and "[bold].json" in shown
