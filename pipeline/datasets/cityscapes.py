"""Cityscapes as published -> a labelled folder of the 19 evaluated classes.

    SOURCE/leftImg8bit/{train,val}/CITY/NAME_leftImg8bit.png      from leftImg8bit_trainvaltest.zip
    SOURCE/gtFine/{train,val}/CITY/NAME_gtFine_labelIds.png       from gtFine_trainvaltest.zip

labelIds become trainIds; what the benchmark does not evaluate becomes 255 (ignored). The test split is left
out: its published labels are blank. Nothing is downloaded; the licence is Cityscapes' own. Source of the ids:
the data set's definition (Cordts et al., CVPR 2016; cityscapesscripts, `helpers/labels.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.datasets import SOURCE, Progress

VERSION = 1
OPTIONS = (SOURCE,)
SPLITS = ("train", "val")
LABEL_IDS = (7, 8, 11, 12, 13, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 32, 33)  # of trainId 0, 1, ...
KNOWN_IDS = 34  # labelIds 0..33


def requires() -> str | None:
    """Nothing beyond numpy and OpenCV."""
    return None


def write(folder: Path, request: Mapping[str, Any], progress: Progress) -> None:
    """Fill an empty folder with both splits.

    Raises:
        InputError: not the published layout, an image without its labels, a label that does not exist.
    """
    from pipeline.datasets.folder import write_info
    from pipeline.datasets.published import Original, import_splits, published_info, require_layout

    source = require_layout(request["source"], [f"leftImg8bit/{s}" for s in SPLITS], "cityscapes")
    info = published_info("cityscapes", "Cityscapes, fine annotations (Cordts et al., CVPR 2016)", folder)
    found = {
        split: [
            Original(path, source / "gtFine" / split / path.parent.name / f"{name}_gtFine_labelIds.png", name)
            for path in sorted((source / "leftImg8bit" / split).glob("*/*_leftImg8bit.png"))
            for name in [path.name.removesuffix("_leftImg8bit.png")]
        ]
        for split in SPLITS
    }
    table = [LABEL_IDS.index(i) if i in LABEL_IDS else info.ignore_index for i in range(KNOWN_IDS)]
    import_splits(folder, found, table, progress)
    write_info(folder, info)
