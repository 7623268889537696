"""A contact sheet of a segmented volume: evenly spaced slices, windowed, the classes' colours, a legend."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np

from deploy.manifest import ClassInfo
from deploy.postprocess import overlay
from deploy.preprocess import Image, Window, window_hu
from deploy.volume import NOTICE, Labels, Volume

COLUMNS, ROWS, CELL, BAR = 4, 3, 256, 24


def contact_sheet(
    volume: Volume, labels: Labels, classes: Sequence[ClassInfo], window: Window, opacity: float
) -> bytes:
    """PNG of up to twelve slices, from feet to head, each as large as the patient is (square pixels)."""
    shown = _spread(labels, COLUMNS * ROWS)
    cells = [_cell(volume, labels, index, classes, window, opacity) for index in shown]
    blank = np.zeros_like(cells[0])
    wide = min(COLUMNS, len(cells))
    cells += [blank] * (-len(cells) % wide)
    grid = np.vstack([np.hstack(cells[i : i + wide]) for i in range(0, len(cells), wide)])
    sheet = np.vstack([grid, _legend(classes, grid.shape[1])])
    done, data = cv2.imencode(".png", cv2.cvtColor(sheet, cv2.COLOR_RGB2BGR))
    assert done
    return data.tobytes()


def _spread(labels: Labels, count: int) -> list[int]:
    """At most `count` slices, evenly spaced over those that show something (over all, if none does)."""
    used = np.flatnonzero(labels.any(axis=(1, 2)))
    candidates = used if used.size else np.arange(len(labels))
    picked = np.linspace(0, len(candidates) - 1, min(count, len(candidates)))
    return [int(candidates[round(float(place))]) for place in picked]


def _cell(
    volume: Volume, labels: Labels, index: int, classes: Sequence[ClassInfo], window: Window, opacity: float
) -> Image:
    grey = np.repeat(window_hu(volume.hu[index], window)[..., None], 3, axis=-1)
    coloured = overlay(grey, labels[index], classes, opacity)
    coloured[labels[index] == 0] = grey[labels[index] == 0]  # the background is shown as it is
    _, row_mm, column_mm = volume.spacing_mm
    height = round(CELL * grey.shape[0] * row_mm / (grey.shape[1] * column_mm))
    size = (CELL, max(1, min(4 * CELL, height)))
    cell = np.asarray(cv2.resize(coloured, size, interpolation=cv2.INTER_AREA), np.uint8)
    _write(cell, f"slice {index}", (4, 14))
    return cell


def _legend(classes: Sequence[ClassInfo], width: int) -> Image:
    """Boxes with names, and the notice on a line of its own."""
    lines, x, y = [], 4, 0
    for info in classes[1:]:
        needed = 34 + 8 * len(info.name)
        if x + needed > width and x > 4:
            x, y = 4, y + BAR
        lines.append((info, x, y))
        x += needed
    canvas = np.zeros((y + 2 * BAR, width, 3), np.uint8)
    for info, left, top in lines:
        canvas[top + 6 : top + 18, left : left + 14] = info.colour
        _write(canvas, info.name, (left + 20, top + 17))
    _write(canvas, NOTICE, (4, y + BAR + 17))
    return canvas


def _write(canvas: Image, text: str, place: tuple[int, int]) -> None:
    cv2.putText(canvas, text, place, cv2.FONT_HERSHEY_SIMPLEX, 0.42, (255, 255, 255), 1, cv2.LINE_AA)
