"""What importers of published data sets share: originals in, labelled folder out, ids changed by a table.

Images are taken as they are (a hard link where the file system allows it, else a copy). Classes and colours
are in `published_classes.json`, one list for data and official weights. Source: Cityscapes (Cordts et al.,
CVPR 2016) and ADE20K (Zhou et al., CVPR 2017), as in mit-han-lab/efficientvit (Apache-2.0).
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deploy.errors import InputError
from pipeline.datasets import Progress

if TYPE_CHECKING:
    from deploy.labels import DatasetInfo

CLASS_LISTS = Path(__file__).with_name("published_classes.json")


@dataclass(frozen=True)
class Original:
    """An image and its labels where they were published, and the name that both get here."""

    image: Path
    labels: Path
    stem: str


def class_list(kind: str) -> dict[str, Any]:
    """`name`, `modality`, `classes`, `palette`, `ignore_index`, `licence` of a published data set."""
    found: dict[str, Any] = json.loads(CLASS_LISTS.read_text(encoding="utf-8"))[kind]
    return found


def published_info(kind: str, source: str, root: Path) -> DatasetInfo:
    """The same as a labelled folder's description; `source`: where the data is from, in words."""
    from deploy.labels import DatasetInfo

    known = class_list(kind)
    lists = {"classes": tuple(known["classes"]), "palette": tuple(map(tuple, known["palette"]))}
    return DatasetInfo(**known | lists, source=source, root=root)


def require_layout(folder: str, needed: Sequence[str], kind: str) -> Path:
    """The source folder.

    Raises:
        InputError: something of the published layout is not there.
    """
    source = Path(folder)
    missing = [name for name in needed if not (source / name).exists()]
    if missing:
        raise InputError(
            f"{source} is not {kind} as published", got=f"no {missing[0]}", expected=", ".join(needed)
        )
    return source


def import_splits(
    folder: Path, found: Mapping[str, Sequence[Original]], table: Sequence[int], progress: Progress
) -> None:
    """Write every split's images and masks; `table[id]` is the class of a published id.

    Raises:
        InputError: an empty split, two originals of one name, labels missing, unreadable or not in the table.
    """
    for split, originals in found.items():
        _require_sound(split, originals)
        for part in ("images", "masks"):
            (folder / split / part).mkdir(parents=True)
    jobs = [(folder / split, original) for split, originals in found.items() for original in originals]
    with ThreadPoolExecutor(min(os.cpu_count() or 1, 16)) as pool:
        done = pool.map(lambda job: _import_one(*job, table), jobs)
        for number, _ in enumerate(done, start=1):
            progress(number, len(jobs))


def _require_sound(split: str, originals: Sequence[Original]) -> None:
    if not originals:
        raise InputError(f"no image for split {split!r} in the source")
    if len({original.stem for original in originals}) != len(originals):
        raise InputError(f"two images of one name in split {split!r}")
    lone = [original for original in originals if not original.labels.is_file()]
    if lone:
        raise InputError(
            f"no labels for {lone[0].image}", got=f"{len(lone)} such images", expected=lone[0].labels
        )


def _import_one(folder: Path, original: Original, table: Sequence[int]) -> None:
    import cv2
    import numpy as np

    from deploy.labels import read_mask

    labels = read_mask(original.labels)
    if labels.max() >= len(table):
        raise InputError(f"{original.labels}", got=f"id {labels.max()}", expected=f"0..{len(table) - 1}")
    mask = np.asarray(table, np.uint8)[labels]
    (folder / "masks" / f"{original.stem}.png").write_bytes(cv2.imencode(".png", mask)[1].tobytes())
    _take(original.image, folder / "images" / f"{original.stem}{original.image.suffix}")


def _take(image: Path, target: Path) -> None:
    try:
        os.link(image.resolve(), target)
    except OSError:  # another file system, or one without links
        shutil.copyfile(image, target)
