"""A split of a labelled folder as a sequence of (image, mask), and the writing of `dataset.toml`.

The format is `deploy.labels`' (a device measures on it too); this module only decodes. It knows nothing of
augmentation, tensors or batches: a `torch.utils.data.DataLoader` takes it as it is.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deploy.errors import InputError
from deploy.files import atomic_write_text
from deploy.labels import DatasetInfo, hu_scale, list_pairs, read_mask
from deploy.manifest import Preprocess
from deploy.preprocess import read_image
from deploy.schema import encode


class LabelledFolder:
    """Pairs of one split, decoded when asked for.

    Attributes:
        info: what dataset.toml says.
        split: name of the split.
        pairs: files, sorted by stem.
    """

    def __init__(self, info: DatasetInfo, split: str, rule: Preprocess | None = None) -> None:
        """`rule`: the network's, whose window images in Hounsfield units are shown in.

        Raises:
            InputError: no such split, an empty one, an image or mask without its partner, or no window.
        """
        self.info = info
        self.split = split
        self.pairs = list_pairs(info, split)
        self.hu = hu_scale(info, rule)

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Image `[H, W, 3]` uint8 RGB and mask `[H, W]` uint8 class indices, of one size.

        Raises:
            InputError: unreadable, truncated, RGB mask, or the two differ in size (the file is named).
        """
        pair = self.pairs[index]
        image, mask = read_image(pair.image, self.hu), read_mask(pair.mask)
        require_same_size(pair.mask, mask, image)
        return image, mask


def require_same_size(path: Path, mask: NDArray[np.uint8], image: NDArray[np.integer]) -> None:
    """Refuse a mask `[H, W]` of another size than its image `[H, W, 3]`.

    Raises:
        InputError: names the mask's file.
    """
    if mask.shape != image.shape[:2]:
        got, expected = ("x".join(map(str, shape)) for shape in (mask.shape, image.shape[:2]))
        fix = "save the mask at its image's size (nearest neighbour), or remove the image's EXIF rotation"
        raise InputError(f"mask {path} has another size than its image", got, expected, fix)


def write_info(root: Path, info: DatasetInfo) -> None:
    """Write `<root>/dataset.toml` from a description (its `root` is not used)."""
    entries = [
        ("name", info.name),
        ("modality", info.modality),
        ("classes", info.classes),
        ("palette", info.palette),
        ("ignore_index", info.ignore_index),
        ("source", info.source),
        ("licence", info.licence),
        ("hu_offset", info.hu_offset),
        *(encode(info.slices).items() if info.slices else ()),
    ]
    # JSON's texts, whole numbers and lists are TOML's too
    lines = [
        f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in entries if value is not None
    ]
    atomic_write_text(Path(root) / "dataset.toml", "\n".join(lines) + "\n")
