"""run: an image or a folder -> masks and overlays, whatever the files are called or look like."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

from deploy import run
from deploy.bundle import Bundle
from deploy.errors import InputError
from deploy.labels import read_mask
from deploy.options import Parser
from deploy.preprocess import read_image


def _run(*arguments: object) -> int:
    parser = Parser()
    run.add_arguments(parser)
    return run.run(parser.parse_args([str(argument) for argument in arguments]))


def test_a_folder_gives_masks_and_overlays(tiny_bundle: Bundle, colour_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "aus gabe"
    assert _run(tiny_bundle.root, colour_folder / "val" / "images", "--out", out, "--threads", 1) == 0
    for index in range(3):
        truth = read_mask(colour_folder / "val" / "masks" / f"{index}.png")
        mask = read_mask(out / "masks" / f"{index}.png")
        assert mask.shape == truth.shape
        assert np.array_equal(mask[truth != 255], truth[truth != 255])
        assert read_image(out / "overlays" / f"{index}.png").shape == (*truth.shape, 3)
    assert sorted(p.name for p in out.rglob("*") if p.is_file()) == sorted(["0.png", "1.png", "2.png"] * 2)


def test_opacity(tiny_bundle: Bundle, colour_folder: Path, tmp_path: Path) -> None:
    image = colour_folder / "val" / "images" / "0.png"
    _run(tiny_bundle.root, image, "--out", tmp_path, "--opacity", 0)
    assert np.array_equal(read_image(tmp_path / "overlays" / "0.png"), read_image(image))
    with pytest.raises(InputError, match="from 0 to 1"):
        _run(tiny_bundle.root, image, "--out", tmp_path, "--opacity", 2)


def _kinds(folder: Path) -> list[str]:
    """Images of every kind that must simply work, on awkward paths; all of them red."""
    folder.mkdir()
    red = np.zeros((20, 30, 3), np.uint8)
    red[:, :, 0] = 200
    picture = Image.fromarray(red)
    exif = Image.Exif()
    exif[0x112] = 6
    picture.save(folder / "gedreht ü.jpg", exif=exif)
    picture.quantize(4).save(folder / "palette 図.png")
    picture.convert("RGBA").save(folder / "alpha.png")
    picture.convert("L").save(folder / "grey.png")
    done, data = cv2.imencode(".png", red[:, :, ::-1].astype(np.uint16) * 257)
    assert done
    (folder / "sechzehn.png").write_bytes(data.tobytes())
    picture.save(folder / "UPPER.JPG")
    picture.save(folder / ".hidden.png")
    (folder / "notes.txt").write_text("not an image")
    return ["gedreht ü", "palette 図", "alpha", "grey", "sechzehn", "UPPER"]


def test_images_of_every_kind_on_any_path(tiny_bundle: Bundle, tmp_path: Path) -> None:
    names = _kinds(tmp_path / "Bilder von ü")
    assert _run(tiny_bundle.root, tmp_path / "Bilder von ü", "--out", tmp_path / "o ü") == 0
    assert {path.stem for path in (tmp_path / "o ü" / "masks").iterdir()} == set(names)
    for name in names:
        mask = read_mask(tmp_path / "o ü" / "masks" / f"{name}.png")
        assert mask.shape == ((30, 20) if "gedreht" in name else (20, 30))
        assert (mask == 0).all()


def test_stems_that_collide_keep_their_full_names(tiny_bundle: Bundle, tmp_path: Path) -> None:
    (tmp_path / "i").mkdir()
    for name in ("a.png", "a.jpg", "b.png"):
        Image.new("RGB", (8, 8)).save(tmp_path / "i" / name)
    _run(tiny_bundle.root, tmp_path / "i", "--out", tmp_path / "o")
    assert {path.name for path in (tmp_path / "o" / "masks").iterdir()} == {"a.png.png", "a.jpg.png", "b.png"}


def test_a_damaged_image_does_not_stop_the_others(tiny_bundle: Bundle, tmp_path: Path, capfd: Any) -> None:
    (tmp_path / "i").mkdir()
    for name in ("a", "b", "c"):
        Image.new("RGB", (64, 64), "blue").save(tmp_path / "i" / f"{name}.jpg")
    data = (tmp_path / "i" / "b.jpg").read_bytes()
    (tmp_path / "i" / "b.jpg").write_bytes(data[:-100])
    with pytest.raises(InputError, match=r"b\.jpg is truncated"):
        _run(tiny_bundle.root, tmp_path / "i", "--out", tmp_path / "o")
    assert {path.name for path in (tmp_path / "o" / "masks").iterdir()} == {"a.png", "c.png"}
    captured = capfd.readouterr()
    assert "2 of 3 images" in captured.out and captured.err == ""


def test_a_place_that_cannot_be_written_stops_at_the_first_image(
    tiny_bundle: Bundle, colour_folder: Path, tmp_path: Path, capsys: Any
) -> None:
    (tmp_path / "overlays").write_text("a file where the folder should be")
    with pytest.raises(InputError, match="cannot write") as caught:
        _run(tiny_bundle.root, colour_folder / "val" / "images", "--out", tmp_path)
    assert "more image" not in str(caught.value) and len(list((tmp_path / "masks").iterdir())) == 1


def test_the_truth_is_never_overwritten(tiny_bundle: Bundle, colour_folder: Path) -> None:
    split = colour_folder / "val"
    before = (split / "masks" / "0.png").read_bytes()
    with pytest.raises(InputError, match="labels of its own"):
        _run(tiny_bundle.root, split / "images", "--out", split)
    assert (split / "masks" / "0.png").read_bytes() == before and not (split / "overlays").exists()


def test_missing_and_empty_input(tiny_bundle: Bundle, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no images in"):
        _run(tiny_bundle.root, tmp_path / "empty", "--out", tmp_path / "o")
    with pytest.raises(InputError, match="no image or folder"):
        _run(tiny_bundle.root, tmp_path / "none", "--out", tmp_path / "o")
    assert not (tmp_path / "o").exists()
