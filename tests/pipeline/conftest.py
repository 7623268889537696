"""A tiny labelled folder, a tiny recipe, and `python -m pipeline` in this process or in one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from deploy.errors import run_cli

ROOT = Path(__file__).resolve().parents[2]
SIZE = (48, 64)
CLASSES = ("ground", "box", "disc")
MakeData = Callable[..., Path]
Pipeline = Callable[..., int]

RECIPE = """
[data]
size = "48x64"
[augment]
crop = "32x48"
[train]
steps = 6
batch = 2
warmup = 1
eval_every = 3
log_every = 2
"""


def draw_pair(rng: np.random.Generator, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """A textured ground with a reddish box and a bluish disc: image BGR and mask."""
    height, width = size
    image = rng.integers(60, 120, (height, width, 3), np.uint8)
    mask = np.zeros(size, np.uint8)
    x, y = int(rng.integers(0, width // 2)), int(rng.integers(0, height // 2))
    for canvas, value in ((image, (40, 40, 220)), (mask, 1)):
        cv2.rectangle(canvas, (x, y), (x + width // 4, y + height // 4), value, -1)
    centre = (int(rng.integers(width // 2, width)), int(rng.integers(height // 2, height)))
    for canvas, value in ((image, (220, 80, 40)), (mask, 2)):
        cv2.circle(canvas, centre, height // 6, value, -1)
    return image, mask


@pytest.fixture
def make_data(tmp_path: Path) -> MakeData:
    """Write a labelled folder of so many pairs; returns its path."""

    def make(
        name: str = "data", train: int = 5, val: int = 3, size: tuple[int, int] = SIZE, seed: int = 0
    ) -> Path:
        root, rng = tmp_path / name, np.random.default_rng(seed)
        for split, count in (("train", train), ("val", val)):
            for kind in ("images", "masks"):
                (root / split / kind).mkdir(parents=True)
            for index in range(count):
                image, mask = draw_pair(rng, size)
                cv2.imwrite(str(root / split / "images" / f"{split}{index}.png"), image)
                cv2.imwrite(str(root / split / "masks" / f"{split}{index}.png"), mask)
        names = ", ".join(f'"{name}"' for name in CLASSES)
        (root / "dataset.toml").write_text(f'name = "tiny"\nclasses = [{names}]\nignore_index = 255\n')
        return root

    return make


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """A recipe file of six steps."""
    path = tmp_path / "tiny.toml"
    path.write_text(RECIPE)
    return path


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pipeline]:
    """`python -m pipeline ...` in this process, in the folder tmp_path; returns the exit status."""
    from pipeline.__main__ import main

    threads = torch.get_num_threads()
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> int:
        monkeypatch.setattr(sys, "argv", ["pipeline", *map(str, arguments)])
        return run_cli(main)

    yield call
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(False)


@pytest.fixture
def pipeline_process(tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """`python -m pipeline ...` as a process of its own, in the folder tmp_path."""

    def start(*arguments: object) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "pipeline", *map(str, arguments)],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return start
