"""Pictures of a training: its curves, and a sheet of images, truth and predictions with the classes' colours.

Refuses to know models; what it draws is handed to it. Curves by matplotlib, imported only here.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import cv2
import numpy as np

from deploy.errors import InputError
from deploy.files import atomic_write_bytes
from deploy.labels import DatasetInfo
from deploy.manifest import ClassInfo
from deploy.postprocess import Labels, overlay
from deploy.preprocess import Image, resize_image

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CELL_HEIGHT, GAP, BAR = 192, 6, 26
Row = tuple[Image, Labels, Labels]  # image, truth, prediction


def class_infos(info: DatasetInfo) -> list[ClassInfo]:
    """The classes with their colours, as deploy's drawing takes them."""
    return [ClassInfo(i, n, c) for i, (n, c) in enumerate(zip(info.classes, info.palette, strict=True))]


def draw_curves(rows: Sequence[dict[str, float]], path: Path) -> None:
    """Loss and learning rate over the steps, validation mIoU below, as one PNG. `rows`: logbook.read_log."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 6), layout="constrained")
    loss_axes, miou_axes = figure.subplots(2, 1, sharex=True)
    loss_axes.plot(*_series(rows, "loss"), color="tab:blue", linewidth=1)
    loss_axes.set(ylabel="training loss", ylim=(0, None))
    rate_axes = loss_axes.twinx()
    rate_axes.plot(*_series(rows, "lr"), color="tab:orange", linewidth=1)
    rate_axes.set(ylabel="learning rate (orange)", ylim=(0, None))
    miou_axes.plot(*_series(rows, "val_miou"), color="tab:green", marker="o", markersize=3)
    miou_axes.set(xlabel="optimizer step", ylabel="mIoU on val", ylim=(0, 1))
    for axes in (loss_axes, miou_axes):
        axes.grid(alpha=0.3)
    save_figure(figure, path)


def draw_sheet(rows: Sequence[Row], info: DatasetInfo, path: Path) -> None:
    """Rows of image | truth | prediction, with a legend, as one PNG."""
    classes = class_infos(info)
    cells = [_cells(row, classes, info) for row in rows]
    width = max(cell.shape[1] for row in cells for cell in row)
    lines = [np.hstack([_framed(cell, width) for cell in row]) for row in cells]
    heading = _heading(lines[0].shape[1], width)
    write_png(path, np.vstack([heading, *lines, _legend(classes, lines[0].shape[1])]))


def write_png(path: Path, image: Image | Labels) -> None:
    """Write `[H, W, 3]` RGB or `[H, W]` uint8 losslessly and atomically."""
    array = image if image.ndim == 2 else cv2.cvtColor(image, cv2.COLOR_RGB2BGR)
    done, data = cv2.imencode(".png", array)
    if not done:
        raise InputError(f"cannot encode {path}", got=f"{array.shape} {array.dtype}")
    atomic_write_bytes(path, data.tobytes())


def save_figure(figure: Figure, path: Path) -> None:
    """Write a matplotlib figure as PNG, atomically and without matplotlib's version in it."""
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=100, metadata={"Software": None})
    atomic_write_bytes(path, picture.getvalue())


def _series(rows: Sequence[dict[str, float]], name: str) -> tuple[list[float], list[float]]:
    found = [(row["step"], row[name]) for row in rows if name in row]
    return [step for step, _ in found], [value for _, value in found]


def _cells(row: Row, classes: list[ClassInfo], info: DatasetInfo) -> list[Image]:
    """Image, truth and prediction at one height; ignored pixels of the truth are dark."""
    image, truth, prediction = row
    drawn_truth = overlay(image, truth, classes, 0.65)
    cells = [image, drawn_truth, overlay(image, prediction, classes, 0.65)]
    width = max(1, round(image.shape[1] * CELL_HEIGHT / image.shape[0]))
    return [resize_image(cell, (CELL_HEIGHT, width), "stretch", "area") for cell in cells]


def _framed(cell: Image, width: int) -> Image:
    canvas = np.full((CELL_HEIGHT + GAP, width + GAP, 3), 255, np.uint8)
    canvas[:CELL_HEIGHT, : cell.shape[1]] = cell
    return canvas


def _heading(total: int, width: int) -> Image:
    canvas = np.full((BAR, total, 3), 255, np.uint8)
    for column, text in enumerate(("image", "truth", "prediction")):
        _write(canvas, text, (column * (width + GAP) + 4, BAR - 8))
    return canvas


def _legend(classes: list[ClassInfo], total: int) -> Image:
    """Colour boxes with names, as many lines as they need."""
    places, x, y = [], 4, 0
    for info in classes:
        wide = 40 + 9 * len(info.name)
        if x + wide > total and x > 4:
            x, y = 4, y + BAR
        places.append((x, y))
        x += wide
    canvas = np.full((y + BAR, total, 3), 255, np.uint8)
    for info, (left, top) in zip(classes, places, strict=True):
        canvas[top + 5 : top + 19, left : left + 20] = info.colour
        _write(canvas, info.name, (left + 26, top + 18))
    return canvas


def _write(canvas: Image, text: str, place: tuple[int, int]) -> None:
    cv2.putText(canvas, text, place, cv2.FONT_HERSHEY_SIMPLEX, 0.45, (40, 40, 40), 1, cv2.LINE_AA)
