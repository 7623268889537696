"""Drawn street scenes: a labelled folder made from nothing but a seed.

A sample depends only on (seed, split, index), so one process or many, and any order, write the same bytes.
The drawing itself is in `streetscene`. Colour is made to say little: boosted trees on single pixels, fitted
on 400 images, reach mIoU 0.12 from RGB and 0.23 from RGB and position (tests/datasets/test_synthetic.py).
The bytes are those of one version of numpy and OpenCV on one kind of processor.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deploy.errors import InputError
from pipeline.datasets import Option, Progress

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from deploy.labels import DatasetInfo

VERSION = 2
JPEG_QUALITY = 92
_SMALLEST, _LARGEST = 64, 2048
_WORTH_PROCESSES = 64  # fewer samples are drawn sooner than a process starts

Job = tuple[str, str, int, tuple[int, int], int]  # folder, split, index, size, seed


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1_000_000:
        raise InputError("number of images", got=repr(text), expected="a whole number of 1 or more")
    return int(text)


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise InputError("--seed", got=repr(text), expected="a whole number of 0 or more")
    return int(text)


def _size(text: str) -> tuple[int, int]:
    from deploy.options import parse_size

    return parse_size(text)


OPTIONS = (
    Option("train", "images in the train split", 1600, _count),
    Option("val", "images in the val split", 160, _count),
    Option("size", "height x width", (192, 256), _size),
    Option("seed", "the whole set depends on it", 0, _seed),
)


def requires() -> str | None:
    """Nothing beyond numpy and OpenCV."""
    return None


def write(folder: Path, request: Mapping[str, Any], progress: Progress) -> None:
    """Fill an empty folder with the data set of a request (keys: the names in `OPTIONS`)."""
    from pipeline.datasets.folder import write_info

    size = _checked_size(tuple(request["size"]))
    counts = {"train": request["train"], "val": request["val"]}
    jobs = [
        (str(folder), split, index, size, request["seed"])
        for split, count in counts.items()
        for index in range(count)
    ]
    for split, part in itertools.product(counts, ("images", "masks")):
        (folder / split / part).mkdir(parents=True)
    for done, _ in enumerate(_draw_all(jobs), start=1):
        progress(done, len(jobs))
    write_info(folder, _info(folder, request["seed"]))


def generate(
    out_dir: Path, train: int = 1600, val: int = 160, size: tuple[int, int] = (192, 256), seed: int = 0
) -> Path:
    """Make the labelled folder `out_dir` (replaced only when the new one is complete) and return its path.

    Args:
        out_dir: the folder to make.
        train: images in the train split.
        val: images in the val split.
        size: (height, width) in pixels.
        seed: everything depends on it.

    Raises:
        InputError: a size out of bounds, or a folder that cannot be written.
    """
    from deploy.files import atomic_folder

    request = {"train": train, "val": val, "size": size, "seed": seed}
    with atomic_folder(Path(out_dir)) as folder:
        write(folder, request, lambda done, total: None)
    return Path(out_dir)


def draw_sample(
    seed: int, split: str, index: int, size: tuple[int, int]
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """One picture `[H, W, 3]` uint8 RGB and its label map `[H, W]` uint8, by the arguments alone."""
    import numpy as np

    from pipeline.datasets.streetscene.scene import draw_scene

    return draw_scene(np.random.default_rng([seed, zlib.crc32(split.encode()), index]), size)


def _checked_size(size: tuple[int, ...]) -> tuple[int, int]:
    if len(size) != 2 or not all(_SMALLEST <= side <= _LARGEST for side in size):
        got, bounds = "x".join(map(str, size)), f"HxW, each side {_SMALLEST} to {_LARGEST}"
        raise InputError("size of the synthetic images", got=got, expected=bounds)
    return size[0], size[1]


def _info(root: Path, seed: int) -> DatasetInfo:
    from deploy.labels import DatasetInfo
    from pipeline.datasets.streetscene import labels

    return DatasetInfo(
        name="synthetic",
        modality="rgb",
        classes=labels.NAMES,
        palette=labels.DISPLAY,
        ignore_index=labels.IGNORE,
        source=f"drawn by edgeseg (pipeline/datasets/synthetic.py, version {VERSION}, seed {seed})",
        licence="CC0-1.0",
        root=root,
    )


def _draw_all(jobs: list[Job]) -> Iterator[None]:
    """Draw and write every job, in several processes when it is worth it."""
    cores = min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, 16)
    if cores == 1 or len(jobs) < _WORTH_PROCESSES:
        yield from map(_draw_one, jobs)
        return
    with ExitStack() as stack:
        spawn = multiprocessing.get_context("spawn")  # a forked child could inherit locks of other threads
        pool = stack.enter_context(ProcessPoolExecutor(cores, mp_context=spawn, initializer=_one_thread))
        stack.callback(pool.shutdown, wait=False, cancel_futures=True)
        yield from pool.map(_draw_one, jobs, chunksize=16)


def _one_thread() -> None:
    """Keep OpenCV from starting threads of its own in each process."""
    import cv2

    cv2.setNumThreads(1)


def _draw_one(job: Job) -> None:
    """Draw one sample and write its two files."""
    import cv2

    folder, split, index, size, seed = job
    image, labels = draw_sample(seed, split, index, size)
    jpeg = cv2.imencode(".jpg", image[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])[1]
    png = cv2.imencode(".png", labels)[1]
    root = Path(folder) / split
    (root / "images" / f"{index:05d}.jpg").write_bytes(jpeg.tobytes())
    (root / "masks" / f"{index:05d}.png").write_bytes(png.tobytes())
