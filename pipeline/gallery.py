"""The pictures that a finished training leaves: curves, a sheet of overlays, and a few validation pairs.

The pairs (samples/images, samples/masks, lossless) stay with the run: an export compares itself with the
checkpoint on them when no data is at hand.
"""

from __future__ import annotations

from pathlib import Path

from deploy.files import atomic_folder
from pipeline.datasets.folder import LabelledFolder
from pipeline.logbook import read_log
from pipeline.picture import draw_curves, draw_sheet, write_png
from pipeline.predict import Predictor

SAMPLES = 8


def sample_indices(images: int) -> list[int]:
    """At most `SAMPLES` of so many images, evenly spaced."""
    wanted = min(SAMPLES, images)
    return [index * images // wanted for index in range(wanted)]


def draw_gallery(folder: Path, predict: Predictor, dataset: LabelledFolder) -> None:
    """Write curves.png, samples.png and samples/ into a training's folder."""
    draw_curves(read_log(folder / "log.csv"), folder / "curves.png")
    rows = []
    with atomic_folder(folder / "samples") as samples:
        for index in sample_indices(len(dataset)):
            image, mask = dataset[index]
            name = f"{dataset.pairs[index].stem}.png"
            write_png(samples / "images" / name, image)
            write_png(samples / "masks" / name, mask)
            rows.append((image, mask, predict(image)))
    draw_sheet(rows, dataset.info, folder / "samples.png")
