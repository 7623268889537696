"""Labelled folders as data: dataset.toml, the pairs of a split, and masks as raw class indices.

    <root>/dataset.toml   name, modality, classes, palette, ignore_index, source, licence; of CT in Hounsfield
                          units also hu_offset and how slices were made (spacing_mm, canvas, neighbour_mm)
    <root>/<split>/images/STEM.jpg|png|...    <root>/<split>/masks/STEM.png

Shared by training on the host and measuring on a device, so that both read one and the same truth. Refuses to
know what is done with the labels; it checks names and file formats, not whether the annotation makes sense.
"""

from __future__ import annotations

import colorsys
import hashlib
import struct
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from deploy import schema
from deploy.errors import InputError
from deploy.imagefile import decode, png_chunks, read_bytes
from deploy.manifest import Preprocess, SliceRule, check_ct
from deploy.preprocess import HuScale

Labels = npt.NDArray[np.uint8]
Colour = tuple[int, int, int]

IMAGE_SUFFIXES = (".bmp", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")
MAX_CLASSES = 255
_SLICE_KEYS = ("spacing_mm", "canvas", "neighbour_mm")
_CT_KEYS = ("hu_offset", *_SLICE_KEYS)
_KEYS = ("name", "modality", "classes", "palette", "ignore_index", "source", "licence", *_CT_KEYS)
_TOML_LIMIT = 1 << 20
_REFUSED_PNG = {2: "RGB colours", 4: "an alpha channel", 6: "RGB colours and an alpha channel"}


@dataclass(frozen=True)
class DatasetInfo:
    """What dataset.toml says. `palette` is RGB, one a class; `ignore_index` is a mask value or None.

    `hu_offset`: images hold Hounsfield units + this, in 16 bits; None: they are pictures. `slices`: how CT
    volumes were cut into them.
    """

    name: str
    modality: str
    classes: tuple[str, ...]
    palette: tuple[Colour, ...]
    ignore_index: int | None
    source: str
    licence: str
    root: Path
    hu_offset: int | None = None
    slices: SliceRule | None = None


@dataclass(frozen=True)
class Pair:
    """An image and its mask; both files bear the name `stem`."""

    stem: str
    image: Path
    mask: Path


def read_dataset(directory: Path | str) -> DatasetInfo:
    """Read `<directory>/dataset.toml`.

    Raises:
        InputError: no such folder or file, not TOML, an unknown or missing key, a value of the wrong kind.
    """
    root = Path(directory)
    if not root.is_dir():
        raise InputError(f"no data folder {root}", fix="pass --data with a folder that holds dataset.toml")
    return read_description(root / "dataset.toml")


def read_description(path: Path) -> DatasetInfo:
    """A labelled folder's description by itself, a file of any name; its folder is the root.

    Raises:
        InputError: as `read_dataset`.
    """
    root = path.parent
    return parse_dataset({"name": root.resolve().name, **_read_toml(path)}, str(path), root)


def parse_dataset(table: dict[str, Any], where: str, root: Path) -> DatasetInfo:
    """The description of a labelled folder, wherever it is kept (dataset.toml, a checkpoint).

    Args:
        where: the place it was read from, for errors. root: of the result.

    Raises:
        InputError: a value of the wrong kind.
    """
    classes = _class_names(table.get("classes"), where)
    return DatasetInfo(
        name=_text(table, "name", "unknown data", where),
        modality=_text(table, "modality", "rgb", where),
        classes=classes,
        palette=_palette(table.get("palette"), len(classes), where),
        ignore_index=_ignore_index(table.get("ignore_index"), len(classes), where),
        source=_text(table, "source", "", where),
        licence=_text(table, "licence", "", where),
        root=root,
        **_ct(table, where),
    )


def hu_scale(info: DatasetInfo, rule: Preprocess | None) -> HuScale | None:
    """How the folder's images are read for a network with this rule; None: as pictures.

    Raises:
        InputError: Hounsfield units and no window for them, or slices cut by another rule than the network's.
    """
    if info.hu_offset is None:
        return None
    if rule is None or rule.hu_window is None:
        fix = "set data.hu_window in the recipe, such as [-160, 240] for soft tissue"
        raise InputError(f"{info.root} holds Hounsfield units", "no window for them", "hu_window", fix)
    if rule.slices != info.slices:
        fix = "prepare the volumes again with the network's rule"
        raise InputError(f"{info.root}: slices cut by another rule", info.slices, rule.slices, fix)
    return HuScale(info.hu_offset, rule.hu_window)


def list_pairs(info: DatasetInfo, split: str) -> list[Pair]:
    """Image and mask files of one split, sorted by stem.

    Raises:
        InputError: no such split, an empty one, an image without a mask or the other way round (named).
    """
    folder = info.root / split
    if not folder.is_dir():
        found = sorted(p.parent.name for p in info.root.glob("*/images"))
        raise InputError(
            f"{info.root} has no split {split!r}",
            expected=f"one of {found}",
            fix="name one of them",
        )
    images = _by_stem(folder / "images", IMAGE_SUFFIXES)
    masks = _by_stem(folder / "masks", (".png",))
    for stems, have, lack in ((images, "image", "mask"), (masks, "mask", "image")):
        lone = sorted(set(stems) - set(masks if lack == "mask" else images))
        if lone:
            raise InputError(
                f"{have} without {lack}: {stems[lone[0]]}",
                got=f"{len(lone)} such {have}s",
                expected="images/STEM.jpg|png and masks/STEM.png",
                fix="add the missing files or remove these",
            )
    return [Pair(stem, images[stem], masks[stem]) for stem in sorted(images)]


def read_mask(path: Path | str) -> Labels:
    """Class indices of a PNG mask, exactly as stored: `[H, W]` uint8.

    Grey and palette PNGs of 1, 2, 4 or 8 bits are read; of a palette PNG the indices count, not the colours.

    Raises:
        InputError: not a PNG, truncated, RGB, with alpha, or 16 bits (the file is named).
    """
    path = Path(path)
    data = read_bytes(path)
    depth, grey = _as_grey_png(data, path)
    pixels = decode(grey, path, unchanged=True)
    if pixels.ndim != 2 or pixels.dtype != np.uint8:
        raise InputError(f"mask {path}", got=f"{pixels.shape} {pixels.dtype}", expected="one 8-bit channel")
    step = 255 // ((1 << depth) - 1)  # decoders stretch 1, 2 and 4 bits to 0..255
    return np.asarray(pixels // np.uint8(step), np.uint8)


def dataset_digest(pairs: Sequence[Pair]) -> str:
    """Hex SHA-256 over the stems and the bytes of all images and masks, in order."""
    digest = hashlib.sha256()
    for pair in pairs:
        digest.update(pair.stem.encode("utf-8", "surrogateescape") + b"\0")
        for path in (pair.image, pair.mask):
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def default_palette(count: int) -> tuple[Colour, ...]:
    """`count` distinct colours: hues by the golden ratio, two brightnesses in turn."""
    colours = []
    for index in range(count):
        red, green, blue = colorsys.hsv_to_rgb(index * 0.618034 % 1.0, 0.75, 0.95 if index % 2 else 0.65)
        colours.append((round(red * 255), round(green * 255), round(blue * 255)))
    return tuple(colours)


def _read_toml(path: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):  # here, so that what needs no labelled folder runs without tomli
        import tomllib
    else:
        import tomli as tomllib

    if not path.is_file():
        raise InputError(f"no {path}", expected="a labelled folder", fix="write dataset.toml (see README)")
    if path.stat().st_size > _TOML_LIMIT:
        raise InputError(
            f"{path} is too large", got=f"{path.stat().st_size} bytes", expected=f"<= {_TOML_LIMIT}"
        )
    try:
        table: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not valid TOML", got=error) from error
    unknown = sorted(set(table) - set(_KEYS))
    if unknown:
        raise InputError(f"{path}: unknown key", got=", ".join(unknown), expected=", ".join(_KEYS))
    return table


def _text(table: dict[str, Any], key: str, default: str, where: str) -> str:
    value = table.get(key, default)
    if not isinstance(value, str) or not schema.is_plain_text(value):
        raise InputError(f"{where}: {key}", got=repr(value), expected="a text without control characters")
    return value


def _class_names(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(map(_is_name, value)):
        expected = "a list of names, each one line of at most 200 characters"
        raise InputError(f"{where}: classes", got=repr(value), expected=expected)
    if not 2 <= len(value) <= MAX_CLASSES or len(set(value)) != len(value):
        got = f"{len(value)} names, {len(set(value))} of them distinct"
        raise InputError(f"{where}: classes", got=got, expected=f"2 to {MAX_CLASSES} distinct names")
    return tuple(value)


def _is_name(value: Any) -> bool:
    """One line that a table can show."""
    good = isinstance(value, str) and len(value.strip()) > 0 and len(value) <= 200
    return good and schema.is_plain_text(value) and "\n" not in value and "\t" not in value


def _palette(value: Any, count: int, where: str) -> tuple[Colour, ...]:
    if value is None:
        return default_palette(count)
    colours = value if isinstance(value, list) else []
    if len(colours) != count or not all(_is_colour(colour) for colour in colours):
        expected = f"{count} [red, green, blue] of 0..255, one a class"
        raise InputError(f"{where}: palette", got=repr(value), expected=expected)
    return tuple((red, green, blue) for red, green, blue in colours)


def _is_colour(value: Any) -> bool:
    whole = isinstance(value, list) and len(value) == 3 and all(type(part) is int for part in value)
    return whole and all(0 <= part <= 255 for part in value)


def _ignore_index(value: Any, count: int, where: str) -> int | None:
    if value is None:
        return None
    if type(value) is not int or not count <= value <= 255:
        expected = f"a mask value from {count} (after the last class) to 255"
        raise InputError(f"{where}: ignore_index", got=repr(value), expected=expected)
    return value


def _ct(table: dict[str, Any], where: str) -> dict[str, Any]:
    """`hu_offset` and `slices` of a table that has them."""
    given = {key: table[key] for key in _SLICE_KEYS if key in table}
    offset = table.get("hu_offset")
    if offset is None:
        if given:
            raise InputError(f"{where}: {', '.join(given)}", got="no hu_offset", expected="both, or neither")
        return {}
    if type(offset) is not int or not 0 <= offset <= 32768:
        raise InputError(f"{where}: hu_offset", got=repr(offset), expected="a whole number, 0 to 32768")
    slices = schema.decode(SliceRule, given, where)
    check_ct((0.0, 1.0), slices, where)
    return {"hu_offset": offset, "slices": slices}


def _by_stem(folder: Path, suffixes: tuple[str, ...]) -> dict[str, Path]:
    """Files of a folder by stem; hidden ones are left out."""
    if not folder.is_dir():
        raise InputError(f"no folder {folder}", expected="<split>/images and <split>/masks")
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() not in suffixes or path.name.startswith("."):
            continue
        if not path.is_file():
            raise InputError(f"{path} is no file", fix="remove or replace it")
        if path.stem in found:
            raise InputError(
                f"two files of one name: {found[path.stem]} and {path}", fix="rename or remove one"
            )
        found[path.stem] = path
    if not found:
        raise InputError(f"no files in {folder}", expected=" ".join(suffixes), fix="is the split empty?")
    return found


def _as_grey_png(data: bytes, path: Path) -> tuple[int, bytes]:
    """Bit depth, and the PNG with a palette image declared grey (same pixels, its palette dropped)."""
    chunks = list(png_chunks(data, path))
    header = chunks[0][1]
    depth, colour_type = header[8], header[9]
    if colour_type in _REFUSED_PNG or depth not in (1, 2, 4, 8):
        got = _REFUSED_PNG.get(colour_type, f"{depth} bits a pixel")
        fix = "save class indices (0, 1, 2, ...) as a grey or palette PNG"
        raise InputError(f"mask {path}", got=got, expected="one 8-bit channel of class indices", fix=fix)
    grey = header[:9] + b"\0" + header[10:]
    return depth, b"\x89PNG\r\n\x1a\n" + b"".join(_assemble(grey, chunks))


def _assemble(header: bytes, chunks: list[tuple[bytes, bytes]]) -> Iterator[bytes]:
    """The chunks that hold pixels, with the new header."""
    for name, body in [(b"IHDR", header), *[c for c in chunks if c[0] == b"IDAT"], (b"IEND", b"")]:
        yield struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
