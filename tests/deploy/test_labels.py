"""Labelled folders: dataset.toml, pairs, masks of every PNG kind, digest."""

from __future__ import annotations

import os
import shutil
import struct
import zlib
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from deploy.errors import InputError
from deploy.labels import dataset_digest, list_pairs, read_dataset, read_mask

PALETTE = [9, 9, 9, 200, 0, 0, 0, 200, 0, 0, 0, 200] + [0] * 752


def _pack(indices: np.ndarray, bits: int, colour_type: int) -> bytes:
    """A PNG written by hand: `indices` at `bits` a pixel, grey (0) or palette (3)."""
    per_byte = 8 // bits
    rows = b""
    for row in indices:
        padded = np.pad(row, (0, -len(row) % per_byte)).reshape(-1, per_byte)
        rows += b"\0" + bytes(
            sum(int(v) << (8 - bits * (i + 1)) for i, v in enumerate(group)) for group in padded
        )
    header = struct.pack(">IIBBBBB", indices.shape[1], indices.shape[0], bits, colour_type, 0, 0, 0)
    chunks = [(b"IHDR", header)]
    if colour_type == 3:
        chunks += [(b"PLTE", bytes(PALETTE[: 3 << bits])), (b"tRNS", b"\x00\x80")]
    chunks += [(b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    parts = [struct.pack(">I", len(b)) + n + b + struct.pack(">I", zlib.crc32(n + b)) for n, b in chunks]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@pytest.mark.parametrize("colour_type", [0, 3])
@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_masks_of_every_depth_are_read_as_indices(tmp_path: Path, bits: int, colour_type: int) -> None:
    indices = np.random.default_rng(bits).integers(0, 1 << bits, (13, 11)).astype(np.uint8)
    path = tmp_path / "mäsk 1.png"
    path.write_bytes(_pack(indices, bits, colour_type))
    assert np.array_equal(read_mask(path), indices)
    if colour_type == 3:
        assert np.array_equal(np.array(Image.open(path)), indices)  # the reference reader agrees


def test_palette_mask_by_pillow_keeps_its_indices(tmp_path: Path) -> None:
    indices = np.random.default_rng(0).integers(0, 4, (40, 50)).astype(np.uint8)
    picture = Image.fromarray(indices, mode="P")
    picture.putpalette(PALETTE)
    picture.save(tmp_path / "m.png", optimize=True)
    assert np.array_equal(read_mask(tmp_path / "m.png"), indices)


@pytest.mark.parametrize(
    ("mode", "words"), [("RGB", "RGB colours"), ("RGBA", "alpha"), ("LA", "alpha"), ("I;16", "16 bits")]
)
def test_masks_that_hold_no_indices_are_refused(tmp_path: Path, mode: str, words: str) -> None:
    path = tmp_path / "bad.png"
    Image.new(mode, (8, 8)).save(path)
    with pytest.raises(InputError, match=words) as error:
        read_mask(path)
    assert "bad.png" in str(error.value)


def test_jpeg_and_truncated_masks_are_refused(tmp_path: Path) -> None:
    Image.new("L", (30, 30)).save(tmp_path / "m.jpg")
    with pytest.raises(InputError, match=r"m\.jpg is not a PNG"):
        read_mask(tmp_path / "m.jpg")
    data = _pack(np.zeros((30, 30), np.uint8), 8, 0)
    for length in (20, len(data) // 2, len(data) - 13):
        (tmp_path / "cut.png").write_bytes(data[:length])
        with pytest.raises(InputError, match=r"cut\.png is truncated"):
            read_mask(tmp_path / "cut.png")


def test_reads_the_labelled_folder(colour_folder: Path) -> None:
    info = read_dataset(colour_folder)
    assert info.name == "colours" and info.classes == ("red", "green", "blue") and info.ignore_index == 255
    assert info.modality == "rgb" and info.palette[1] == (30, 200, 40)
    pairs = list_pairs(info, "val")
    assert [pair.stem for pair in pairs] == ["0", "1", "2"]
    assert all(pair.image.parent.name == "images" and pair.mask.parent.name == "masks" for pair in pairs)


@pytest.mark.parametrize("name", ["camvid", "rural", "ct_covid", "ct_aorta"])
def test_reads_the_real_folders(shared_data: Path, name: str) -> None:
    info = read_dataset(shared_data / name)
    pairs = list_pairs(info, "val")
    mask = read_mask(pairs[0].mask)
    assert set(np.unique(mask)) <= {*range(len(info.classes)), info.ignore_index}
    assert np.array_equal(mask, np.array(Image.open(pairs[0].mask)))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('classes = ["a", "b"]\nignore_indx = 3', "unknown key | got ignore_indx"),
        ('name = "x"', "classes"),
        ('classes = ["a"]', "2 to 255 distinct names"),
        ('classes = ["a", "a"]', "distinct"),
        ('classes = ["a", 3]', "a list of names"),
        ('classes = ["a", "  "]', "a list of names"),
        ('classes = ["a", "two\\nlines"]', "a list of names"),
        ('classes = ["a", "\\u001b[31m"]', "a list of names"),
        (f'classes = ["a", "{"b" * 201}"]', "a list of names"),
        (f"classes = {[str(i) for i in range(256)]}", "256 names"),
        ('name = "\\u0007"\nclasses = ["a", "b"]', "name"),
        ("ignore_index = 1" + "0" * 5000, "not valid TOML"),
        ('classes = ["a", "b"]\npalette = [[1, 2, 3]]', "palette"),
        ('classes = ["a", "b"]\npalette = [[1, 2, 3], [1, 2, 300]]', "palette"),
        ('classes = ["a", "b"]\nignore_index = 1', "ignore_index"),
        ('classes = ["a", "b"]\nignore_index = 256', "ignore_index"),
        ('classes = ["a", "b"]\nname = 7', "name"),
        ("classes = [", "not valid TOML"),
    ],
)
def test_bad_dataset_toml_is_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "dataset.toml").write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as error:
        read_dataset(tmp_path)
    assert words in str(error.value) and "dataset.toml" in str(error.value)


def test_palette_and_texts_may_be_left_out(tmp_path: Path) -> None:
    (tmp_path / "dataset.toml").write_text(
        'classes = ["a", "b", "c"]', encoding="utf-8-sig"
    )  # as Notepad does
    info = read_dataset(tmp_path)
    assert info.name == tmp_path.name and len(set(info.palette)) == 3 and info.ignore_index is None


def test_missing_folder_split_pair_and_empty_split(colour_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no data folder"):
        read_dataset(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"dataset\.toml"):
        read_dataset(tmp_path)
    copy = tmp_path / "copy"
    shutil.copytree(colour_folder, copy)
    with pytest.raises(InputError, match=r"no split 'train'.*'val'"):
        list_pairs(read_dataset(copy), "train")
    (copy / "val" / "masks" / "1.png").unlink()
    with pytest.raises(InputError, match=r"image without mask: .*1\.png"):
        list_pairs(read_dataset(copy), "val")
    (copy / "val" / "images" / "1.png").rename(copy / "val" / "images" / "0.jpg")
    with pytest.raises(InputError, match="two files of one name"):
        list_pairs(read_dataset(copy), "val")
    for path in (copy / "val" / "images").iterdir():
        path.unlink()
    with pytest.raises(InputError, match="is the split empty"):
        list_pairs(read_dataset(copy), "val")


def test_what_is_no_file_is_named_before_it_is_read(colour_folder: Path, tmp_path: Path) -> None:
    """A pipe among the masks once stopped the digest for ever; a link to nowhere was found late."""
    shutil.copytree(colour_folder, tmp_path / "data")
    mask = tmp_path / "data" / "val" / "masks" / "1.png"
    mask.unlink()
    for make in (os.mkfifo, os.mkdir, lambda path: os.symlink("nowhere", path)):
        make(mask)
        with pytest.raises(InputError, match=r"1\.png is no file"):
            list_pairs(read_dataset(tmp_path / "data"), "val")
        shutil.rmtree(mask) if mask.is_dir() else mask.unlink()


def test_digest_follows_bytes_and_names(colour_folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(colour_folder, copy)
    first = dataset_digest(list_pairs(read_dataset(colour_folder), "val"))
    assert dataset_digest(list_pairs(read_dataset(copy), "val")) == first
    for part in ("images", "masks"):
        (copy / "val" / part / "2.png").rename(copy / "val" / part / "3.png")
    renamed = dataset_digest(list_pairs(read_dataset(copy), "val"))
    mask = cv2.imread(str(copy / "val" / "masks" / "3.png"), cv2.IMREAD_UNCHANGED)
    mask[-1, -1] = 255
    cv2.imwrite(str(copy / "val" / "masks" / "3.png"), mask)
    assert len({first, renamed, dataset_digest(list_pairs(read_dataset(copy), "val"))}) == 3
