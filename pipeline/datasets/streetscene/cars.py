"""Cars: a side profile extruded to a body, seen from any side, with glass, wheels, lights and plate.

A profile is a closed outline in metres, `(along, up)`, from the rear (along = 0) to the front; each of its
edges becomes a face across the car. Faces turned away are left out, the others drawn from far to near.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.datasets.streetscene import paint
from pipeline.datasets.streetscene.canvas import Canvas
from pipeline.datasets.streetscene.labels import CAR

_BODY, _GLASS = "body", "glass"
_DARK: paint.Colour = (24.0, 24.0, 26.0)


@dataclass(frozen=True)
class Shape:
    """One kind of car: outline, what each edge (from its point to the next) is, side windows, wheels."""

    outline: tuple[tuple[float, float], ...]
    edges: tuple[str, ...]
    windows: tuple[tuple[tuple[float, float], ...], ...]
    wheels: tuple[float, float]
    width: float


SHAPES = {
    "hatchback": Shape(
        outline=(
            (0, 0.3),
            (0.02, 0.9),
            (0.35, 1.42),
            (0.8, 1.5),
            (2.1, 1.48),
            (2.9, 1.0),
            (3.75, 0.82),
            (3.9, 0.3),
        ),
        edges=(_BODY, _GLASS, _BODY, _BODY, _GLASS, _BODY, _BODY, _BODY),
        windows=(
            ((0.45, 0.95), (0.65, 1.36), (1.4, 1.38), (1.4, 0.95)),
            ((1.5, 0.95), (1.5, 1.38), (2.05, 1.36), (2.65, 0.97)),
        ),
        wheels=(0.7, 3.15),
        width=1.7,
    ),
    "saloon": Shape(
        outline=(
            (0, 0.3),
            (0.02, 0.92),
            (0.75, 0.98),
            (1.25, 1.4),
            (2.4, 1.42),
            (3.15, 0.98),
            (4.4, 0.78),
            (4.55, 0.3),
        ),
        edges=(_BODY, _BODY, _GLASS, _BODY, _GLASS, _BODY, _BODY, _BODY),
        windows=(
            ((1.05, 0.95), (1.38, 1.3), (1.8, 1.33), (1.8, 0.95)),
            ((1.9, 0.95), (1.9, 1.33), (2.35, 1.32), (2.9, 0.97)),
        ),
        wheels=(0.85, 3.7),
        width=1.8,
    ),
    "estate": Shape(
        outline=(
            (0, 0.35),
            (0.0, 1.05),
            (0.25, 1.6),
            (0.6, 1.72),
            (2.6, 1.7),
            (3.2, 1.12),
            (4.3, 0.98),
            (4.45, 0.35),
        ),
        edges=(_BODY, _GLASS, _BODY, _BODY, _GLASS, _BODY, _BODY, _BODY),
        windows=(
            ((0.35, 1.1), (0.5, 1.58), (1.5, 1.6), (1.5, 1.1)),
            ((1.6, 1.1), (1.6, 1.6), (2.5, 1.58), (2.95, 1.12)),
        ),
        wheels=(0.85, 3.6),
        width=1.85,
    ),
    "van": Shape(
        outline=(
            (0, 0.35),
            (0.0, 1.3),
            (0.05, 2.05),
            (0.3, 2.2),
            (3.4, 2.2),
            (4.1, 1.3),
            (4.75, 1.1),
            (4.85, 0.35),
        ),
        edges=(_BODY, _GLASS, _BODY, _BODY, _GLASS, _BODY, _BODY, _BODY),
        windows=(((2.55, 1.25), (2.55, 1.95), (3.35, 1.95), (3.85, 1.3)),),
        wheels=(0.95, 3.95),
        width=1.95,
    ),
    "pickup": Shape(
        outline=(
            (0, 0.4),
            (0.0, 1.05),
            (1.75, 1.05),
            (1.9, 1.72),
            (2.9, 1.72),
            (3.45, 1.15),
            (4.75, 1.02),
            (4.85, 0.4),
        ),
        edges=(_BODY, _BODY, _GLASS, _BODY, _GLASS, _BODY, _BODY, _BODY),
        windows=(((2.0, 1.1), (2.05, 1.6), (2.8, 1.6), (3.2, 1.14)),),
        wheels=(0.95, 3.95),
        width=1.85,
    ),
}


@dataclass(frozen=True)
class Car:
    """A car in the world: its middle (x, z) in metres, its heading (0 = away, turning right)."""

    x: float
    z: float
    heading_rad: float
    shape: Shape
    colour: paint.Colour
    glass: paint.Colour
    stretch: float


def draw_car(rng: np.random.Generator, x: float, z: float, heading_rad: float) -> Car:
    """A random car at a place."""
    return Car(
        x=x,
        z=z,
        heading_rad=heading_rad,
        shape=SHAPES[str(rng.choice(list(SHAPES)))],
        colour=paint.made_thing(rng),
        glass=paint.hsv(
            float(rng.uniform(180, 260)), float(rng.uniform(0, 0.3)), float(rng.uniform(25, 110))
        ),
        stretch=float(rng.uniform(0.95, 1.12)),
    )


def paint_car(canvas: Canvas, car: Car) -> None:
    """Draw a car and its shadow."""
    _shadow(canvas, car)
    _underside(canvas, car)
    outline = np.array(car.shape.outline)
    order = sorted(range(len(outline)), key=lambda i: -_depth(car, outline, i))
    for i in order:
        _across(canvas, car, outline[i], outline[(i + 1) % len(outline)], car.shape.edges[i])
    for side in (-1, 1):
        if _facing(car, side):
            _flank(canvas, car, side)
    _ends(canvas, car)


def _world(
    car: Car, along: NDArray[np.float64], up: NDArray[np.float64], across: NDArray[np.float64]
) -> NDArray[np.float64]:
    """World points `[N, 3]` of car coordinates in metres (along from the rear, across to the right)."""
    length = car.shape.outline[-1][0]
    forward, right = (along - length / 2) * car.stretch, across * car.stretch
    sine, cosine = math.sin(car.heading_rad), math.cos(car.heading_rad)
    x = car.x + forward * sine + right * cosine
    z = car.z + forward * cosine - right * sine
    return np.stack([x, up * car.stretch, z], axis=1)


def _direction(car: Car, along: float, up: float, across: float) -> tuple[float, float, float]:
    """A direction in car coordinates turned into world axes."""
    sine, cosine = math.sin(car.heading_rad), math.cos(car.heading_rad)
    return along * sine + across * cosine, up, along * cosine - across * sine


def _seen(canvas: Canvas, points: NDArray[np.float64], normal: tuple[float, float, float]) -> bool:
    """Does a face with this outward normal look towards the camera?"""
    x, y, z = points.mean(axis=0).tolist()
    return bool(normal[0] * x + normal[1] * (y - canvas.camera.eye_m) + normal[2] * z < 0)


def _depth(car: Car, outline: NDArray[np.float64], edge: int) -> float:
    """Depth of the middle of an edge's face."""
    middle = (outline[edge] + outline[(edge + 1) % len(outline)]) / 2
    return float(_world(car, middle[:1], middle[1:], np.zeros(1))[0, 2])


def _facing(car: Car, side: int) -> bool:
    """Is the left (-1) or right (+1) flank turned to the camera?"""
    normal = _direction(car, 0, 0, side)
    half = side * car.shape.width / 2
    x, z = car.x + normal[0] * abs(half), car.z + normal[2] * abs(half)
    return normal[0] * x + normal[2] * z < 0


def _across(
    canvas: Canvas, car: Car, start: NDArray[np.float64], end: NDArray[np.float64], kind: str
) -> None:
    """The face of one outline edge over the car's width, with its window where it has one."""
    step = end - start
    length = max(float(np.hypot(*step)), 1e-6)
    normal = _direction(car, -step[1] / length, step[0] / length, 0)
    half = car.shape.width / 2
    points = _band(car, start, end, half)
    if not _seen(canvas, points, normal):
        return
    canvas.face(points, canvas.light.shade(car.colour, normal, car.z), CAR)
    if kind == _GLASS:
        inner = _band(car, start + 0.12 * step, end - 0.1 * step, half * 0.86)
        canvas.face(inner, canvas.light.shade(car.glass, normal, car.z), CAR)


def _band(car: Car, start: NDArray[np.float64], end: NDArray[np.float64], half: float) -> NDArray[np.float64]:
    along, up = np.array([start[0], start[0], end[0], end[0]]), np.array([start[1], start[1], end[1], end[1]])
    return _world(car, along, up, np.array([-half, half, half, -half]))


def _flank(canvas: Canvas, car: Car, side: int) -> None:
    """One side: body, side windows, door line, wheels."""
    normal = _direction(car, 0, 0, side)
    _on_side(canvas, car, side, np.array(car.shape.outline), canvas.light.shade(car.colour, normal, car.z))
    glass = canvas.light.shade(car.glass, normal, car.z)
    for window in car.shape.windows:
        _on_side(canvas, car, side, np.array(window), glass)
    tyre, hub = canvas.light.shade(_DARK, normal, car.z), canvas.light.shade((150, 150, 155), normal, car.z)
    for along in car.shape.wheels:
        _on_side(canvas, car, side, _circle(along, 0.33, 0.36), tyre)
        _on_side(canvas, car, side, _circle(along, 0.33, 0.19), hub)


def _circle(along: float, up: float, radius: float) -> NDArray[np.float64]:
    angle = np.linspace(0, 2 * np.pi, 12, endpoint=False)
    return np.stack([along + radius * np.cos(angle), up + radius * np.sin(angle)], axis=1)


def _on_side(canvas: Canvas, car: Car, side: int, flat: NDArray[np.float64], fill: paint.Colour) -> None:
    """A polygon `(along, up)` on a flank."""
    across = np.full(len(flat), side * car.shape.width / 2)
    canvas.face(_world(car, flat[:, 0], flat[:, 1], across), fill, CAR)


def _underside(canvas: Canvas, car: Car) -> None:
    """The dark gap under the body and the tyres seen from the ends."""
    length, half = car.shape.outline[-1][0], car.shape.width / 2
    dark = canvas.light.shade(_DARK, (0, -1, 0), car.z)
    for along in (0.4, length - 0.4):
        flat = np.full(4, along)
        across = np.array([-half, half, half, -half]) * 0.95
        canvas.face(_world(car, flat, np.array([0.08, 0.08, 0.45, 0.45]), across), dark, CAR)
    for along in (0.35, length - 0.35):
        for middle in (-half + 0.16, half - 0.16):
            across = middle + np.array([-0.13, 0.13, 0.13, -0.13])
            canvas.face(_world(car, np.full(4, along), np.array([0.0, 0.0, 0.4, 0.4]), across), dark, CAR)


def _ends(canvas: Canvas, car: Car) -> None:
    """Lights and plate of the end that is turned to the camera."""
    toward = _direction(car, 1, 0, 0)
    shows_front = toward[0] * car.x + toward[2] * car.z < 0
    end = car.shape.outline[-1][0] - 0.1 if shows_front else 0.01
    half = car.shape.width / 2
    lamp: paint.Colour = (250, 245, 225) if shows_front else (190, 25, 25)
    glow = 0.9 if canvas.light.night else 0.1
    normal = (toward[0], 0.0, toward[2]) if shows_front else (-toward[0], 0.0, -toward[2])
    fill = canvas.light.shade(lamp, normal, car.z, glow)
    for middle in (-half + 0.24, half - 0.24):
        _patch(canvas, car, end, (0.62, 0.82), (middle - 0.18, middle + 0.18), fill)
    _patch(canvas, car, end, (0.44, 0.58), (-0.27, 0.27), canvas.light.shade((225, 220, 190), normal, car.z))


def _patch(
    canvas: Canvas,
    car: Car,
    along: float,
    up: tuple[float, float],
    across: tuple[float, float],
    fill: paint.Colour,
) -> None:
    """A rectangle across the car at one place along it."""
    points = _world(
        car,
        np.full(4, along),
        np.array([up[0], up[0], up[1], up[1]]),
        np.array([*across, across[1], across[0]]),
    )
    canvas.face(points, fill, CAR)


def _shadow(canvas: Canvas, car: Car) -> None:
    """Dark under the car in any light; with the sun out, its cast shadow too."""
    length, half, light = car.shape.outline[-1][0], car.shape.width / 2, canvas.light
    along, across = (
        np.array([-0.15, -0.15, length + 0.15, length + 0.15]),
        np.array([-half, half, half, -half]) * 1.08,
    )
    foot = _world(car, along, np.zeros(4), across)
    canvas.shadow(foot, 0.4)
    if light.direct >= 0.15:
        reach = 1.2 / light.sun[1]
        cast = foot - np.array([light.sun[0] * reach, 0, light.sun[2] * reach])
        if cast[:, 2].min() > 1:
            canvas.shadow(cast, light.ambient / (light.ambient + light.direct))
