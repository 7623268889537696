"""ADE20K's scene-parsing set as published (ADEChallengeData2016) -> a labelled folder of its 150 classes.

    SOURCE/images/{training,validation}/NAME.jpg    SOURCE/annotations/{training,validation}/NAME.png
    SOURCE/objectInfo150.txt                        the classes' names

Annotation k is class k - 1; annotation 0 is "other objects", which the benchmark does not evaluate, and
becomes 255 (ignored). Nothing is downloaded. Source: Zhou et al., CVPR 2017 (MIT scene parsing benchmark).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deploy.errors import InputError
from pipeline.datasets import SOURCE, Progress

VERSION = 1
OPTIONS = (SOURCE,)
SPLITS = {"train": "training", "val": "validation"}
CLASSES, IGNORE = 150, 255
NAMES = "objectInfo150.txt"


def requires() -> str | None:
    """Nothing beyond numpy and OpenCV."""
    return None


def write(folder: Path, request: Mapping[str, Any], progress: Progress) -> None:
    """Fill an empty folder with both splits.

    Raises:
        InputError: not the published layout, an image without its annotation, one with unknown ids.
    """
    from deploy.labels import DatasetInfo, default_palette
    from pipeline.datasets.folder import write_info
    from pipeline.datasets.published import Original, import_splits, require_layout

    needed = [NAMES, *(f"images/{theirs}" for theirs in SPLITS.values())]
    source = require_layout(request["source"], needed, "ade20k")
    found = {
        ours: [
            Original(path, source / "annotations" / theirs / f"{path.stem}.png", path.stem)
            for path in sorted((source / "images" / theirs).glob("*.jpg"))
        ]
        for ours, theirs in SPLITS.items()
    }
    names = read_names(source / NAMES)
    import_splits(folder, found, [IGNORE, *range(CLASSES)], progress)
    info = DatasetInfo(
        name="ade20k",
        modality="rgb",
        classes=names,
        palette=default_palette(CLASSES),
        ignore_index=IGNORE,
        source="ADE20K, scene parsing challenge 2016 (Zhou et al., CVPR 2017)",
        licence="ADE20K terms of use: non-commercial research and education",
        root=folder,
    )
    write_info(folder, info)


def read_names(path: Path) -> tuple[str, ...]:
    """The 150 names of objectInfo150.txt: a header, then tab-separated rows; names are the last column.

    A class goes by its first name, or by all of them where another class begins with the same one.

    Raises:
        InputError: another number of rows, or two classes with the same names.
    """
    rows = path.read_text(encoding="utf-8").splitlines()[1:]
    full = [", ".join(part.strip() for part in row.split("\t")[-1].split(",")) for row in rows if row.strip()]
    first = [name.split(",")[0] for name in full]
    names = [short if first.count(short) == 1 else long for short, long in zip(first, full, strict=True)]
    if len(set(names)) != CLASSES or len(names) != CLASSES:
        raise InputError(f"{path}", got=f"{len(set(names))} names", expected=f"{CLASSES} different ones")
    return tuple(names)
