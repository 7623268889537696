"""People: standing and walking figures of head, torso, arms and legs, a little stouter than life.

A figure is flat and faces the camera's plane; its parts are polygons in metres around its feet. Stouter, so
that a person in the middle distance stays visible at an eighth of the resolution.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pipeline.datasets.streetscene import paint
from pipeline.datasets.streetscene.canvas import Canvas
from pipeline.datasets.streetscene.labels import PERSON

Part = tuple[NDArray[np.float64], paint.Colour]
_OVAL = np.stack(
    [
        np.cos(np.linspace(0, 2 * np.pi, 12, endpoint=False)),
        np.sin(np.linspace(0, 2 * np.pi, 12, endpoint=False)),
    ],
    1,
)


def paint_person(canvas: Canvas, x: float, z: float, rng: np.random.Generator) -> None:
    """A random person standing at (x, z), and the shadow."""
    tall = float(rng.uniform(1.55, 1.95)) if rng.random() < 0.88 else float(rng.uniform(1.1, 1.4))
    parts = _parts(rng)
    outline = np.concatenate([part for part, _ in parts]) * (tall / 1.75)
    world = np.stack([x + outline[:, 0], outline[:, 1], np.full(len(outline), z)], axis=1)
    places, start = canvas.camera.project(world), 0
    for part, colour in parts:
        fill = canvas.light.shade(colour, (0, 0.3, -0.95), z)
        canvas.polygon(places[start : start + len(part)], fill, PERSON)
        start += len(part)
    _shadow(canvas, x, z, tall)


def _parts(rng: np.random.Generator) -> list[Part]:
    """The figure from back to front, 1.75 m tall, feet at the origin."""
    top, bottom, skin = paint.made_thing(rng), paint.made_thing(rng), paint.skin(rng)
    stride, lean = float(rng.uniform(0, 0.33)), float(rng.normal(0, 0.03))
    swing = float(rng.uniform(-0.3, 0.35))
    hair = paint.hsv(float(rng.uniform(10, 50)), float(rng.uniform(0, 0.6)), float(rng.uniform(15, 190)))
    back_arm = _limb((-0.24 + lean, 1.42), (-0.32 - swing * 0.8, 0.85), 0.17, 0.13)
    front_arm = _limb((0.24 + lean, 1.42), (0.32 + swing * 0.8, 0.85), 0.17, 0.13)
    parts: list[Part] = [
        (back_arm, paint.scale(top, 0.75)),
        *_legs(rng, bottom, skin, stride),
        _torso(rng, top, lean),
    ]
    if rng.random() < 0.5:
        parts.append((front_arm, paint.scale(top, 0.88)))
    else:
        parts.insert(0, (front_arm, paint.scale(top, 0.88)))
    head = np.array([lean * 1.5, 1.61])
    parts.append((head + np.array([0.0, 0.03]) + _OVAL * (0.16, 0.18), hair))
    parts.append((head + np.array([float(rng.uniform(-0.04, 0.04)), -0.02]) + _OVAL * (0.12, 0.145), skin))
    return parts + _luggage(rng)


def _legs(rng: np.random.Generator, cloth: paint.Colour, skin: paint.Colour, stride: float) -> list[Part]:
    """Two legs in trousers, or a skirt over bare ones, with shoes."""
    skirt = rng.random() < 0.25
    leg = skin if skirt else cloth
    shoe = paint.scale(paint.made_thing(rng), 0.5)
    left, right = (-0.11 - stride, 0.06), (0.11 + stride * 0.8, 0.04)
    parts = [
        (_limb((-0.09, 0.92), left, 0.23, 0.17), paint.scale(leg, 0.8)),
        (_limb((left[0] - 0.04, 0.05), (left[0] + 0.15, 0.05), 0.1, 0.1), shoe),
        (_limb((0.09, 0.92), right, 0.23, 0.17), leg),
        (_limb((right[0] - 0.04, 0.05), (right[0] + 0.15, 0.05), 0.1, 0.1), shoe),
    ]
    if skirt:
        parts.append((np.array([(-0.19, 0.98), (0.19, 0.98), (0.3, 0.48), (-0.3, 0.48)]), cloth))
    return parts


def _torso(rng: np.random.Generator, cloth: paint.Colour, lean: float) -> Part:
    """A jacket, or a coat down to the knees."""
    hem = float(rng.choice([0.85, 0.85, 0.5]))
    flare = 0.23 if hem > 0.8 else 0.31
    shape = [
        (-0.31 + lean, 1.38),
        (-0.14 + lean, 1.5),
        (0.14 + lean, 1.5),
        (0.31 + lean, 1.38),
        (flare, hem),
        (-flare, hem),
    ]
    return np.array(shape), cloth


def _luggage(rng: np.random.Generator) -> list[Part]:
    """Sometimes a bag at the hand."""
    if rng.random() > 0.25:
        return []
    x, colour = float(rng.choice([-0.38, 0.38])), paint.made_thing(rng)
    return [(np.array([(x - 0.15, 0.85), (x + 0.15, 0.85), (x + 0.17, 0.5), (x - 0.17, 0.5)]), colour)]


def _limb(
    start: tuple[float, float], end: tuple[float, float], thick: float, thin: float
) -> NDArray[np.float64]:
    """A tapering quad from one point to another."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    length = max(math.hypot(dx, dy), 1e-6)
    nx, ny = -dy / length / 2, dx / length / 2
    return np.array(
        [
            (start[0] + nx * thick, start[1] + ny * thick),
            (end[0] + nx * thin, end[1] + ny * thin),
            (end[0] - nx * thin, end[1] - ny * thin),
            (start[0] - nx * thick, start[1] - ny * thick),
        ]
    )


def _shadow(canvas: Canvas, x: float, z: float, tall: float) -> None:
    """A soft spot at the feet; with the sun out, a long strip."""
    spot = np.stack([x + _OVAL[:, 0] * 0.4, np.zeros(12), z + _OVAL[:, 1] * 0.25], axis=1)
    canvas.shadow(spot, 0.65)
    light = canvas.light
    if light.direct < 0.15:
        return
    reach = tall / light.sun[1]
    dx, dz = -light.sun[0] * reach, max(-light.sun[2] * reach, 1.2 - z)
    strip = [(x - 0.22, 0, z), (x + 0.22, 0, z), (x + dx + 0.2, 0, z + dz), (x + dx - 0.2, 0, z + dz)]
    canvas.shadow(strip, light.ambient / (light.ambient + light.direct))
