"""Cityscapes as published -> a labelled folder of the 19 evaluated classes.

    SOURCE/leftImg8bit/{train,val}/CITY/NAME_leftImg8bit.png      from leftImg8bit_trainvaltest.zip
    SOURCE/gtFine/{train,val}/CITY/NAME_gtFine_labelIds.png       from gtFine_trainvaltest.zip

labelIds become trainIds; what the benchmark does not evaluate becomes 255 (ignored). The test split is left
out: its published labels are blank. Nothing is downloaded; the licence is Cityscapes' own. Source of ids and
colours: the data set's definition (Cordts et al., CVPR 2016; cityscapesscripts, `helpers/labels.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.datasets import SOURCE, Progress

VERSION = 1
OPTIONS = (SOURCE,)
SPLITS = ("train", "val")
IGNORE = 255
# (name, labelId, colour); a class's trainId is its place here
CLASSES = (
    ("road", 7, (128, 64, 128)),
    ("sidewalk", 8, (244, 35, 232)),
    ("building", 11, (70, 70, 70)),
    ("wall", 12, (102, 102, 156)),
    ("fence", 13, (190, 153, 153)),
    ("pole", 17, (153, 153, 153)),
    ("traffic light", 19, (250, 170, 30)),
    ("traffic sign", 20, (220, 220, 0)),
    ("vegetation", 21, (107, 142, 35)),
    ("terrain", 22, (152, 251, 152)),
    ("sky", 23, (70, 130, 180)),
    ("person", 24, (220, 20, 60)),
    ("rider", 25, (255, 0, 0)),
    ("car", 26, (0, 0, 142)),
    ("truck", 27, (0, 0, 70)),
    ("bus", 28, (0, 60, 100)),
    ("train", 31, (0, 80, 100)),
    ("motorcycle", 32, (0, 0, 230)),
    ("bicycle", 33, (119, 11, 32)),
)
KNOWN_IDS = 34  # labelIds 0..33


def requires() -> str | None:
    """Nothing beyond numpy and OpenCV."""
    return None


def write(folder: Path, request: Mapping[str, Any], progress: Progress) -> None:
    """Fill an empty folder with both splits.

    Raises:
        InputError: not the published layout, an image without its labels, a label that does not exist.
    """
    from deploy.labels import DatasetInfo
    from pipeline.datasets.folder import write_info
    from pipeline.datasets.published import Original, import_splits, require_layout

    source = require_layout(request["source"], [f"leftImg8bit/{s}" for s in SPLITS], "cityscapes")
    found = {
        split: [
            Original(path, source / "gtFine" / split / path.parent.name / f"{name}_gtFine_labelIds.png", name)
            for path in sorted((source / "leftImg8bit" / split).glob("*/*_leftImg8bit.png"))
            for name in [path.name.removesuffix("_leftImg8bit.png")]
        ]
        for split in SPLITS
    }
    new_ids = {label: place for place, (_, label, _) in enumerate(CLASSES)}
    table = [new_ids.get(label, IGNORE) for label in range(KNOWN_IDS)]
    import_splits(folder, found, table, progress)
    info = DatasetInfo(
        name="cityscapes",
        modality="rgb",
        classes=tuple(name for name, _, _ in CLASSES),
        palette=tuple(colour for _, _, colour in CLASSES),
        ignore_index=IGNORE,
        source="Cityscapes, fine annotations (Cordts et al., CVPR 2016)",
        licence="Cityscapes terms of use: non-commercial research",
        root=folder,
    )
    write_info(folder, info)
