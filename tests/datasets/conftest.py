"""Labelled folders for the tests of this package: a drawn one, and a tiny one to be spoiled."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from pipeline.datasets.synthetic import generate


@pytest.fixture(scope="session")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """96 + 32 drawn scenes of 192x256 (enough for several processes)."""
    return generate(tmp_path_factory.mktemp("drawn") / "scenes", train=96, val=32, size=(192, 256), seed=3)


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A sound folder: 3 + 2 random images of 24x32, 3 classes, ignore_index 255, stems a, b, c and d, e."""
    root = tmp_path / "tiny"
    rng = np.random.default_rng(0)
    for split, stems in (("train", "abc"), ("val", "de")):
        for part in ("images", "masks"):
            (root / split / part).mkdir(parents=True)
        for stem in stems:
            save(root / split / "images" / f"{stem}.jpg", rng.integers(0, 256, (24, 32, 3), np.uint8))
            mask = rng.integers(0, 3, (24, 32), np.uint8)
            mask[0] = 255
            save(root / split / "masks" / f"{stem}.png", mask)
    (root / "dataset.toml").write_text('name = "tiny"\nclasses = ["x", "y", "z"]\nignore_index = 255\n')
    return root


def save(path: Path, pixels: np.ndarray) -> None:
    """Write pixels as OpenCV would, to any path."""
    path.write_bytes(cv2.imencode(path.suffix, pixels)[1].tobytes())
