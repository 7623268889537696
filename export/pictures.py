"""The images an artifact is compared on: of a labelled folder, of the run, or drawn if there is nothing else.

Without --data the eight images that training keeps beside the checkpoint; with it 32 of the split, evenly
spaced. A checkpoint that came without images (imported weights) is compared on drawn street scenes, and that
is said. Refuses to know what is done with the images.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy.typing as npt

from deploy.errors import InputError
from deploy.labels import DatasetInfo, Pair, hu_scale, list_pairs, read_dataset
from deploy.manifest import Manifest, Preprocess
from deploy.preprocess import HuScale, Image, prepare_input, read_image
from pipeline.evaluate import require_classes
from pipeline.models.checkpoints import CheckpointMeta

FROM_DATA = 32
DRAWN = 8


@dataclass(frozen=True)
class Pictures:
    """Images with what is known about them.

    Args:
        source: where they are from, for the reader. dataset, licence: their data set, and its licence or "".
        masks: whether the pairs' masks are of the network's classes. ignore_index: of the masks.
        hu: how images in Hounsfield units are read.
    """

    source: str
    dataset: str
    licence: str
    pairs: tuple[Pair, ...]
    masks: bool
    ignore_index: int | None
    hu: HuScale | None = None

    def read(self, pair: Pair) -> Image:
        """The image of a pair, `[H, W, 3]` uint8 RGB."""
        return read_image(pair.image, self.hu)

    def inputs(self, manifest: Manifest) -> Iterator[npt.NDArray[Any]]:
        """The images as the network's inputs, one at a time."""
        for pair in self.pairs:
            yield prepare_input(self.read(pair), manifest.preprocess, manifest.inputs[0])


def from_data(
    directory: Path, split: str, meta: CheckpointMeta, rule: Preprocess, most: int | None = FROM_DATA
) -> Pictures:
    """At most 32 of a labelled folder's split, evenly spaced; masks count if its classes are the network's.

    Args:
        rule: the network's, for the window of CT. most: so many instead; None: all of the split.

    Raises:
        InputError: no such folder or split, or a file without its partner.
    """
    info = read_dataset(directory)
    pairs = list_pairs(info, split)
    count = len(pairs) if most is None else min(most, len(pairs))
    spaced = tuple(pairs[index * len(pairs) // count] for index in range(count))
    same = _same_classes(meta, info)
    share = f"all {count}" if most is None else count
    source = f"{share} of {info.name} {split}" + ("" if same else " (its classes are not the network's)")
    return Pictures(source, info.name, info.licence, spaced, same, info.ignore_index, hu_scale(info, rule))


def _same_classes(meta: CheckpointMeta, info: DatasetInfo) -> bool:
    try:
        require_classes(meta, info, info.root)
    except InputError:
        return False
    return True


def from_run(samples: Path, info: DatasetInfo) -> Pictures:
    """The images kept beside a checkpoint, `samples/{images,masks}`; `info` is the data it was trained on.

    Raises:
        InputError: a file without its partner, or an empty folder.
    """
    pairs = tuple(list_pairs(info, samples.name))
    return Pictures(
        f"{len(pairs)} kept with the checkpoint", info.name, info.licence, pairs, True, info.ignore_index
    )


@contextmanager
def drawn() -> Iterator[Pictures]:
    """Street scenes from the project's generator, in a temporary folder; their masks are not used."""
    from pipeline.datasets import synthetic

    with TemporaryDirectory(prefix="edgeseg-") as folder:
        request = {"train": 1, "val": DRAWN, "size": (192, 256), "seed": 0}
        synthetic.write(Path(folder), request, lambda done, total: None)
        pairs = tuple(list_pairs(read_dataset(Path(folder)), "val"))
        yield Pictures(f"{DRAWN} drawn scenes (no --data, no images kept)", "drawn", "", pairs, False, None)
