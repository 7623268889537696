"""The labelled subset that a bundle carries, `eval/`: so that a device without the data can measure mIoU.

A labelled folder like any other, with its `val` split. Pictures are stored without loss, so that every
decoder gives the same pixels; masks and 16-bit slices are copied. Refuses to choose: it takes some, evenly
spaced, of the images that the artifact was compared on.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from deploy.errors import InputError
from deploy.labels import DatasetInfo, Pair
from deploy.manifest import Manifest
from export.pictures import Pictures
from pipeline.datasets.folder import write_info
from pipeline.picture import write_png

FOLDER = "eval"
SPLIT = "val"


def write_evaluation(folder: Path, pictures: Pictures, count: int, manifest: Manifest) -> Path:
    """Fill `folder` with `count` labelled images, and return it.

    Raises:
        InputError: the pictures have no masks of the network's classes, or there are fewer.
    """
    if not pictures.masks or count > len(pictures.pairs):
        got = len(pictures.pairs) if pictures.masks else "no masks of the network's classes"
        raise InputError(
            "--eval: labelled images", got=got, expected=f"{count}", fix="--data DIR --split val"
        )
    for part in ("images", "masks"):
        (folder / SPLIT / part).mkdir(parents=True)
    step = len(pictures.pairs) / count
    for pair in (pictures.pairs[int(index * step)] for index in range(count)):
        _write_image(folder / SPLIT / "images" / f"{pair.stem}.png", pictures, pair)
        shutil.copyfile(pair.mask, folder / SPLIT / "masks" / f"{pair.stem}.png")
    write_info(folder, _info(folder, pictures, manifest))
    return folder


def _write_image(target: Path, pictures: Pictures, pair: Pair) -> None:
    if pictures.hu:
        shutil.copyfile(pair.image, target)
        return
    write_png(target, pictures.read(pair))


def _info(root: Path, pictures: Pictures, manifest: Manifest) -> DatasetInfo:
    return DatasetInfo(
        name=pictures.dataset,
        modality="ct" if pictures.hu else "rgb",
        classes=tuple(entry.name for entry in manifest.classes),
        palette=tuple(entry.colour for entry in manifest.classes),
        ignore_index=pictures.ignore_index,
        source=f"{pictures.source}, chosen by export",
        licence=pictures.licence,
        root=root,
        hu_offset=pictures.hu.offset if pictures.hu else None,
        slices=manifest.preprocess.slices if pictures.hu else None,
    )
