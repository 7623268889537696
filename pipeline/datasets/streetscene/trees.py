"""Trees and hedges: crowns built of many lit and unlit blobs on a trunk.

Crowns are round, tall or conical; colour comes from `paint.leaves`, so green is no proof of a tree.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.datasets.streetscene import paint
from pipeline.datasets.streetscene.canvas import Canvas
from pipeline.datasets.streetscene.labels import TREE

_TONES = (0.55, 0.74, 0.92, 1.1)  # from the inside of the crown to its lit leaves


@dataclass(frozen=True)
class _Crown:
    """Where a crown stands and what it is like; metres.

    Args:
        x, z: its middle. low, high: where it begins and ends. wide: half its width at the widest.
        shape: round, tall or cone.
    """

    x: float
    z: float
    low: float
    high: float
    wide: float
    shape: str

    def half_width(self, level: NDArray[np.float64]) -> NDArray[np.float64]:
        """Half its width (share of the widest) at a height 0..1 of it."""
        if self.shape == "cone":
            return 1 - level
        return np.sqrt(np.clip(1 - (2 * level - 1) ** 2, 0, 1))

    def height(self, level: NDArray[np.float64]) -> NDArray[np.float64]:
        """Metres above the ground at a height 0..1 of it."""
        return self.low + (self.high - self.low) * level


def paint_tree(canvas: Canvas, x: float, z: float, rng: np.random.Generator) -> None:
    """A tree standing at (x, z): trunk, crown, shadow. Heights 4 to 11 m."""
    tall = float(rng.uniform(4, 11))
    shape = str(rng.choice(["round", "round", "tall", "cone"]))
    bare = float(rng.uniform(0.05, 0.2) if shape == "cone" else rng.uniform(0.2, 0.42)) * tall
    wide = tall * {"round": 0.36, "tall": 0.16, "cone": 0.24}[shape] * float(rng.uniform(0.8, 1.2))
    bark = canvas.light.shade(
        paint.hsv(float(rng.uniform(0, 60)), float(rng.uniform(0, 0.5)), float(rng.uniform(40, 150))),
        (0, 0, -1),
        z,
    )
    half = max(0.022 * tall, 0.12)
    canvas.face(
        [(x - half, 0, z), (x + half, 0, z), (x + half * 0.7, bare + 1, z), (x - half * 0.7, bare + 1, z)],
        bark,
        TREE,
    )
    _paint_crown(canvas, _Crown(x, z, bare, tall, wide, shape), rng)
    _shadow(canvas, x, z, (bare + tall) / 2, wide)


def paint_hedge(canvas: Canvas, x: float, near: float, far: float, rng: np.random.Generator) -> None:
    """A hedge along the street at x, 1 to 3 m high."""
    tall, colour = float(rng.uniform(1.0, 3.0)), paint.leaves(rng)
    fill = canvas.light.shade(paint.scale(colour, 0.7), (0, 0.4, -0.6), (near + far) / 2)
    canvas.face([(x, 0, near), (x, tall, near), (x, tall, far), (x, 0, far)], fill, TREE)
    side = 6.0 if x > 0 else -6.0
    canvas.face([(x, 0, near), (x, tall, near), (x + side, tall, near), (x + side, 0, near)], fill, TREE)
    count = int(4 * (far - near)) + 10
    depth = np.sort(near + (far - near) * rng.uniform(0, 1, count) ** 1.5)[::-1]
    points = np.stack([np.full(count, x), tall * rng.uniform(0.15, 1.0, count), depth], axis=1)
    _blobs(canvas, points, tall * rng.uniform(0.1, 0.2, count), rng.uniform(0.55, 1.2, count), colour)


def _paint_crown(canvas: Canvas, crown: _Crown, rng: np.random.Generator) -> None:
    """A ragged dark body, then layers of leaf clusters, each smaller, lighter and nearer the sun's side."""
    colour, count = paint.leaves(rng), max(8, min(26, int(180 / crown.z)))
    _paint_body(canvas, crown, colour, rng)
    sun_side = 0.25 * crown.wide * (1 if canvas.light.sun[0] > 0 else -1)
    for layer, tone in enumerate(_TONES):
        level = rng.uniform(0.05, 0.95, count)
        reach = crown.wide * crown.half_width(level) * (1 - 0.1 * layer)
        across = rng.uniform(-1, 1, count) * reach + sun_side * layer / 3
        height = crown.height(np.clip(level + 0.03 * layer, 0, 0.97))
        size = crown.wide * rng.uniform(0.1, 0.25, count) * (1 - 0.18 * layer)
        size = size * (0.35 + 0.65 * crown.half_width(level))
        points = np.stack([crown.x + across, height, np.full(count, crown.z)], axis=1)
        _blobs(canvas, points, size, tone * rng.uniform(0.85, 1.15, count), colour)


def _paint_body(canvas: Canvas, crown: _Crown, colour: paint.Colour, rng: np.random.Generator) -> None:
    """The crown's inside: one polygon with a ragged edge."""
    level = np.linspace(0.03, 0.97, 12)
    half = crown.wide * crown.half_width(level)
    left, right = half * rng.uniform(0.75, 1.05, 12), half * rng.uniform(0.75, 1.05, 12)
    across = np.concatenate([crown.x - left, (crown.x + right)[::-1]])
    height = crown.height(np.concatenate([level, level[::-1]]))
    fill = canvas.light.shade(paint.scale(colour, _TONES[0] * 0.9), (0, 0.3, -0.5), crown.z)
    canvas.face(np.stack([across, height, np.full(24, crown.z)], axis=1), fill, TREE)


def _blobs(
    canvas: Canvas,
    points: NDArray[np.float64],
    radius_m: NDArray[np.float64],
    tone: NDArray[np.float64],
    colour: paint.Colour,
) -> None:
    """Discs in the world: `[N, 3]` centres, radii in metres, tones that scale the colour."""
    normal = (canvas.light.sun[0] * 0.5, 0.5, -0.5)
    shaded = canvas.light.shade_many(np.array(colour) * tone[:, None], normal, points[:, 2])
    canvas.discs(points, radius_m, shaded, TREE)


def _shadow(canvas: Canvas, x: float, z: float, height: float, wide: float) -> None:
    """The crown's shadow: an ellipse on the ground, away from the sun."""
    light = canvas.light
    if light.direct < 0.15:
        return
    reach = height / light.sun[1]
    centre_x, centre_z = x - light.sun[0] * reach, z - light.sun[2] * reach
    angle = np.linspace(0, 2 * np.pi, 12, endpoint=False)
    depth = centre_z + 1.3 * wide * np.sin(angle)
    if depth.min() < 1:
        return
    outline = np.stack([centre_x + wide * np.cos(angle), np.zeros(12), depth], axis=1)
    canvas.shadow(outline, light.ambient / (light.ambient + 0.8 * light.direct))
