"""The ground of a street: pavement everywhere, the road on it, its markings, kerbs, slabs and patches.

The street's plan (`Street`) says where road and pavement are; objects are placed by it elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.datasets.streetscene import paint
from pipeline.datasets.streetscene.canvas import Canvas
from pipeline.datasets.streetscene.labels import PAVEMENT, ROAD

FAR_M = 75.0
_UP = (0.0, 1.0, 0.0)
_STEPS = np.array([0.7, 2, 3, 4, 5.5, 7, 9, 12, 16, 22, 30, 42, 58, FAR_M])


@dataclass(frozen=True)
class Street:
    """Plan of a street, in metres: the road lies between x = left and right; crossings are z intervals."""

    left: float
    right: float
    left_walk: float  # width of the pavement up to the house fronts
    right_walk: float
    side_road: tuple[float, float] | None
    zebra: tuple[float, float] | None

    @property
    def centre(self) -> float:
        """The x of the road's middle line."""
        return (self.left + self.right) / 2


def draw_street(rng: np.random.Generator) -> Street:
    """A random plan; the camera (x = 0) drives on either side, or stands on a pavement."""
    width = float(rng.uniform(5, 10))
    on_walk = rng.random() < 0.18
    place = float(rng.choice([-0.16, 1.16])) if on_walk else float(rng.uniform(0.15, 0.85))
    left, room = -place * width, (0.16 * width + 1.8 if on_walk else 2.0)
    side = float(rng.uniform(12, 28))
    near = float(rng.uniform(4.5, 13))
    return Street(
        left=left,
        right=left + width,
        left_walk=float(rng.uniform(room, room + 4.4)),
        right_walk=float(rng.uniform(room, room + 4.4)),
        side_road=(side, side + float(rng.uniform(5, 9))) if rng.random() < 0.3 else None,
        zebra=(near, near + float(rng.uniform(2.2, 3.5))) if rng.random() < 0.25 else None,
    )


def draw_ground(canvas: Canvas, street: Street, rng: np.random.Generator) -> None:
    """Paint the ground plane: pavement with slabs, road with wear and markings, kerbs."""
    walk, road = paint.paving(rng), paint.asphalt(rng)
    _strip(canvas, -400, 400, walk, PAVEMENT)
    _slabs(canvas, street, walk, rng)
    kerb = paint.scale(walk, float(rng.choice([rng.uniform(0.5, 0.7), rng.uniform(1.35, 1.6)])))
    _strip(canvas, street.left - 0.25, street.right + 0.25, kerb, PAVEMENT)
    _strip(canvas, street.left, street.right, road, ROAD)
    if street.side_road:
        _cross(canvas, -300, 300, street.side_road, road, ROAD)
    _wear(canvas, street, road, rng)
    _markings(canvas, street, rng)


def _fill(canvas: Canvas, colour: paint.Colour) -> paint.Colour:
    """Ground colour near the camera; the air between is added when the picture is taken."""
    return canvas.light.shade(colour, _UP, 0.0)


def _strip(canvas: Canvas, left: float, right: float, colour: paint.Colour, label: int) -> None:
    """A strip along the street, following its bend."""
    outline = np.concatenate([_line(left, _STEPS), _line(right, _STEPS[::-1])])
    canvas.face(outline, _fill(canvas, colour), label)


def _line(x: float, z: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.stack([np.full_like(z, x), np.zeros_like(z), z], axis=1)


def _cross(
    canvas: Canvas, left: float, right: float, span: tuple[float, float], colour: paint.Colour, label: int
) -> None:
    """A rectangle across the street between two depths."""
    near, far = span
    outline = [(left, 0, near), (right, 0, near), (right, 0, far), (left, 0, far)]
    canvas.face(outline, _fill(canvas, colour), label)


def _slabs(canvas: Canvas, street: Street, walk: paint.Colour, rng: np.random.Generator) -> None:
    """Joints between paving slabs, along and across the pavement; few pavements have none."""
    if rng.random() < 0.05:
        return
    side, tone = (
        float(rng.uniform(0.6, 1.2)),
        float(rng.choice([rng.uniform(0.6, 0.78), rng.uniform(1.22, 1.4)])),
    )
    joint, half = paint.scale(walk, tone), 0.035
    for kerb, sign in ((street.left, -1), (street.right, 1)):
        for step in range(1, 7):
            x = kerb + sign * step * side
            _strip(canvas, x - half, x + half, joint, PAVEMENT)
    for z in np.arange(1.2, 14, side * 1.2).tolist():
        thick = half + 0.012 * z
        _cross(canvas, street.left - 6 * side, street.right + 6 * side, (z, z + thick), joint, PAVEMENT)


def _wear(canvas: Canvas, street: Street, road: paint.Colour, rng: np.random.Generator) -> None:
    """Tyre tracks, repair patches and manholes on the road."""
    width = street.right - street.left
    if rng.random() < 0.6:
        tone = float(rng.uniform(0.85, 1.12))
        for share in (0.17, 0.37, 0.63, 0.83):
            x = street.left + share * width
            _strip(canvas, x - 0.3, x + 0.3, paint.scale(road, tone), ROAD)
    for _ in range(int(rng.integers(0, 5))):
        x, z = float(rng.uniform(street.left, street.right - 1.6)), float(rng.uniform(2.5, 20))
        patch = paint.scale(road, float(rng.uniform(0.7, 1.25)))
        _cross(canvas, x, x + float(rng.uniform(0.5, 1.6)), (z, z + float(rng.uniform(0.5, 4))), patch, ROAD)


def _markings(canvas: Canvas, street: Street, rng: np.random.Generator) -> None:
    """Centre line, edge lines, stop line and zebra, in white or yellow, fresh or worn."""
    paint_colour = paint.hsv(
        float(rng.uniform(35, 55)), float(rng.choice([0.03, 0.03, 0.6])), float(rng.uniform(150, 245))
    )
    half = float(rng.uniform(0.06, 0.12))
    if rng.random() < 0.85:
        _centre_line(canvas, street, paint_colour, half, rng)
    if rng.random() < 0.5:
        for x in (street.left + 0.35, street.right - 0.35):
            _strip(canvas, x - half, x + half, paint_colour, ROAD)
    if street.zebra:
        for x in np.arange(street.left + 0.4, street.right - 0.5, 1.1).tolist():
            _cross(canvas, x, x + 0.55, street.zebra, paint_colour, ROAD)
    if street.side_road:
        _cross(
            canvas,
            street.centre,
            street.right,
            (street.side_road[0] - 0.9, street.side_road[0] - 0.5),
            paint_colour,
            ROAD,
        )


def _centre_line(
    canvas: Canvas, street: Street, colour: paint.Colour, half: float, rng: np.random.Generator
) -> None:
    """A dashed or continuous line along the middle."""
    if rng.random() < 0.25:
        _strip(canvas, street.centre - half, street.centre + half, colour, ROAD)
        return
    dash, gap = float(rng.uniform(1.5, 4)), float(rng.uniform(1.5, 5))
    for z in np.arange(float(rng.uniform(0.7, 3)), 45, dash + gap).tolist():
        _cross(canvas, street.centre - half, street.centre + half, (z, z + dash), colour, ROAD)
