"""What is written onto the demo's picture: model, speed, a bar of the stages, and the classes in view.

Refuses to know where figures come from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from deploy.manifest import ClassInfo
from deploy.postprocess import Labels
from deploy.preprocess import Image

STAGES = {"before": (40, 190, 150), "network": (80, 150, 255), "after": (255, 130, 70)}
MOST_CLASSES = 8
_INK, _SOFT, _BACK = (255, 255, 255), (190, 198, 208), (16, 20, 26)
_FONT = cv2.FONT_HERSHEY_SIMPLEX


@dataclass(frozen=True)
class Figures:
    """What the panel shows; `stages_ms` in the order of `STAGES`; `dropped` is None where nothing can be."""

    title: str
    fps: float
    stages_ms: tuple[float, float, float]
    dropped: int | None


def draw(picture: Image, labels: Labels, classes: Sequence[ClassInfo], figures: Figures) -> None:
    """Write onto `[H, W, 3]` uint8 RGB, in place."""
    unit = max(1.0, min(picture.shape[0], picture.shape[1]) / 360)
    _head(picture, figures, unit)
    _legend(picture, labels, classes, unit)


def in_view(labels: Labels, classes: Sequence[ClassInfo]) -> list[tuple[ClassInfo, float]]:
    """The largest classes with their share of the picture, largest first."""
    counts = np.bincount(labels.ravel(), minlength=256)
    shares = [(entry, float(counts[entry.id] / labels.size)) for entry in classes if counts[entry.id]]
    return sorted(shares, key=lambda pair: -pair[1])[:MOST_CLASSES]


def _head(picture: Image, figures: Figures, unit: float) -> None:
    total = sum(figures.stages_ms)
    lost = "" if figures.dropped is None else f"   {figures.dropped} dropped"
    lines = [figures.title, f"{figures.fps:.1f} fps   {total:.1f} ms{lost}"]
    width, line = int(270 * unit), int(18 * unit)
    width = min(picture.shape[1], max([width, *(int(_width(text, unit) + 20 * unit) for text in lines)]))
    _shade(picture, 0, 0, int(82 * unit), width)
    for number, text in enumerate(lines):
        _text(picture, text, int(10 * unit), int(line * (number + 1)), unit, _INK if number else _SOFT)
    x = int(10 * unit)
    for (name, colour), value in zip(STAGES.items(), figures.stages_ms, strict=True):
        text = f"{name} {value:.1f}"
        _text(picture, text, x, int(74 * unit), unit, colour)
        x += _width(text, unit) + int(14 * unit)
    _bar(picture, figures.stages_ms, int(10 * unit), int(46 * unit), width - int(20 * unit), int(8 * unit))


def _bar(picture: Image, stages_ms: Sequence[float], left: int, top: int, width: int, height: int) -> None:
    start, total = float(left), sum(stages_ms) or 1.0
    for value, colour in zip(stages_ms, STAGES.values(), strict=True):
        end = start + width * value / total
        cv2.rectangle(
            picture, (round(start), top), (max(round(start), round(end) - 1), top + height), colour, -1
        )
        start = end


def _legend(picture: Image, labels: Labels, classes: Sequence[ClassInfo], unit: float) -> None:
    rows = in_view(labels, classes)
    line, texts = int(17 * unit), [f"{entry.name} {100 * share:.0f}%" for entry, share in rows]
    height, width = line * len(rows) + int(8 * unit), int(max(_width(t, unit) for t in texts) + 36 * unit)
    top = picture.shape[0] - height
    if top < 90 * unit:
        return  # no room
    _shade(picture, top, 0, height, width)
    for number, ((entry, _), text) in enumerate(zip(rows, texts, strict=True)):
        y = top + int(4 * unit) + line * number
        corner = (int(22 * unit), y + int(13 * unit))
        cv2.rectangle(picture, (int(10 * unit), y + int(3 * unit)), corner, entry.colour, -1)
        _text(picture, text, int(28 * unit), y + int(13 * unit), unit, _INK)


def _shade(picture: Image, top: int, left: int, height: int, width: int) -> None:
    part = picture[top : top + height, left : left + width]
    part[:] = (part * 0.3 + np.array(_BACK) * 0.7).astype(np.uint8)


def _text(picture: Image, text: str, x: int, y: int, unit: float, colour: tuple[int, int, int]) -> None:
    cv2.putText(picture, text, (x, y), _FONT, 0.42 * unit, colour, max(1, round(unit)), cv2.LINE_AA)


def _width(text: str, unit: float) -> int:
    return int(cv2.getTextSize(text, _FONT, 0.42 * unit, max(1, round(unit)))[0][0])
