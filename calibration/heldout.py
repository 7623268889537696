"""Images to judge plans on: of the split that calibration images come from, but none of those.

A plan picked on the images it is later reported on would flatter itself; these are for picking. Refuses to
know plans.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from deploy.errors import InputError
from deploy.labels import hu_scale, list_pairs, read_dataset
from export.pictures import Pictures
from export.plan import CalibrationSet
from export.source import Source
from pipeline.evaluate import require_classes

IMAGES = 64


def held_out(images: CalibrationSet, data: Path, source: Source, count: int = IMAGES) -> Pictures:
    """`count` pairs of the set's split that are not in the set, drawn by its seed; fewer if there are fewer.

    Raises:
        InputError: other classes than the checkpoint's, or no image left.
    """
    info = read_dataset(data)
    require_classes(source.meta, info, data)
    used = {entry.path for entry in images.images}
    pairs = [
        p for p in list_pairs(info, images.split) if p.image.relative_to(info.root).as_posix() not in used
    ]
    if not pairs:
        raise InputError(
            f"no image of {info.name} {images.split} is left to judge plans on",
            got=f"{len(used)} calibration images",
            fix="collect fewer: python -m calibration collect --count N",
        )
    order = np.random.default_rng(images.seed).permutation(len(pairs))[:count]
    chosen = tuple(pairs[index] for index in sorted(order))
    where = f"{len(chosen)} of {info.name} {images.split}, none of them calibrated on"
    return Pictures(
        where, info.name, info.licence, chosen, True, info.ignore_index, hu_scale(info, source.preprocess)
    )
