"""ADE20K's scene-parsing set as published (ADEChallengeData2016) -> a labelled folder of its 150 classes.

    SOURCE/images/{training,validation}/NAME.jpg    SOURCE/annotations/{training,validation}/NAME.png

Annotation k is class k - 1; annotation 0 is "other objects", which the benchmark does not evaluate, and
becomes 255 (ignored). Nothing is downloaded. Source: Zhou et al., CVPR 2017 (MIT scene parsing benchmark).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.datasets import SOURCE, Progress

VERSION = 1
OPTIONS = (SOURCE,)
SPLITS = {"train": "training", "val": "validation"}


def requires() -> str | None:
    """Nothing beyond numpy and OpenCV."""
    return None


def write(folder: Path, request: Mapping[str, Any], progress: Progress) -> None:
    """Fill an empty folder with both splits.

    Raises:
        InputError: not the published layout, an image without its annotation, one with unknown ids.
    """
    from pipeline.datasets.folder import write_info
    from pipeline.datasets.published import Original, import_splits, published_info, require_layout

    source = require_layout(request["source"], [f"images/{theirs}" for theirs in SPLITS.values()], "ade20k")
    info = published_info("ade20k", "ADE20K, scene parsing challenge 2016 (Zhou et al., CVPR 2017)", folder)
    found = {
        ours: [
            Original(path, source / "annotations" / theirs / f"{path.stem}.png", path.stem)
            for path in sorted((source / "images" / theirs).glob("*.jpg"))
        ]
        for ours, theirs in SPLITS.items()
    }
    import_splits(folder, found, [info.ignore_index, *range(len(info.classes))], progress)
    write_info(folder, info)
