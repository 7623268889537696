"""A labelled folder as a sequence, and its description written and read back."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from deploy.errors import InputError
from deploy.labels import DatasetInfo, read_dataset
from pipeline.datasets import open_dataset
from pipeline.datasets.folder import write_info


def test_pairs_in_order_and_undecorated(tiny: Path) -> None:
    data = open_dataset(tiny, "train")
    assert len(data) == 3 and [pair.stem for pair in data.pairs] == ["a", "b", "c"]
    image, mask = data[1]
    assert np.array_equal(image[..., ::-1], cv2.imread(str(tiny / "train/images/b.jpg")))
    assert np.array_equal(mask, cv2.imread(str(tiny / "train/masks/b.png"), cv2.IMREAD_UNCHANGED))


def test_iteration_ends(tiny: Path) -> None:
    assert len(list(open_dataset(tiny, "val"))) == 2


def test_another_size_names_the_mask(tiny: Path) -> None:
    (tiny / "val/masks/d.png").write_bytes(cv2.imencode(".png", np.zeros((8, 8), np.uint8))[1].tobytes())
    with pytest.raises(InputError, match=r"val/masks/d.png .*8x8.*24x32"):
        open_dataset(tiny, "val")[0]


@pytest.mark.parametrize("ignore_index", [None, 0xFE])
def test_description_round_trip(tmp_path: Path, ignore_index: int | None) -> None:
    info = DatasetInfo(
        name='a "quoted" \\ name',
        modality="rgb",
        classes=("himmel", "straße 😀"),
        palette=((1, 2, 3), (4, 5, 6)),
        ignore_index=ignore_index,
        source="two\nlines",
        licence="none",
        root=tmp_path,
    )
    write_info(tmp_path, info)
    assert read_dataset(tmp_path) == info
