"""Buildings along the street: fronts in perspective, gable ends, roofs, windows, shops, doors.

A building is a box with its front along the street at x = `front`, from z = `near` to `far`. Its side facing
the camera shows wherever the next building is lower or absent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.datasets.streetscene import paint
from pipeline.datasets.streetscene.canvas import Canvas
from pipeline.datasets.streetscene.labels import BUILDING

_STOREY_M = 3.0
_DEPTH_M = 11.0


@dataclass(frozen=True)
class House:
    """One building; metres. `side` is -1 left of the street, +1 right of it."""

    front: float
    side: int
    near: float
    far: float
    height: float
    ridge: float  # height of the gable roof above the wall, 0 for a flat roof
    wall: paint.Colour
    roof: paint.Colour
    glass: paint.Colour
    frame: paint.Colour
    windows: str  # "grid", "bands", "glazed" or "none"
    shop: bool
    setback: float


def draw_house(
    rng: np.random.Generator, front: float, side: int, near: float, far: float, storeys: float
) -> House:
    """A random building for a plot."""
    setback = float(rng.choice([0.0, 0.0, 0.0, rng.uniform(0.5, 3.0)]))
    wall = paint.made_thing(rng)
    contrast = float(rng.choice([rng.uniform(0.3, 0.65), rng.uniform(0.3, 0.65), rng.uniform(1.35, 1.9)]))
    return House(
        front=front + side * setback,
        side=side,
        near=near,
        far=far,
        height=_STOREY_M * max(1.0, storeys + float(rng.normal(0, 0.7))) + float(rng.uniform(0.3, 1.5)),
        ridge=float(rng.uniform(1.5, 4)) if rng.random() < 0.5 else 0.0,
        wall=wall,
        roof=paint.made_thing(rng),
        glass=paint.mix(paint.scale(wall, contrast), paint.scale(paint.made_thing(rng), 0.6), 0.5),
        frame=paint.scale(wall, float(rng.choice([0.7, 1.35]))),
        windows=str(rng.choice(["grid", "grid", "grid", "bands", "glazed", "none"])),
        shop=bool(rng.random() < 0.35),
        setback=setback,
    )


def paint_house(canvas: Canvas, house: House, rng: np.random.Generator) -> None:
    """Draw the building: gable end, roof, front, then what is on the front."""
    _gable_end(canvas, house, rng)
    _roof(canvas, house)
    _front(canvas, house)
    if house.windows == "none":
        _stripes(canvas, house, rng)
    elif house.windows == "bands":
        _bands(canvas, house)
    else:
        _window_grid(canvas, house, rng)
    if house.shop:
        _shop(canvas, house, rng)
    _shadow(canvas, house)


def _front_normal(house: House) -> tuple[float, float, float]:
    return (-float(house.side), 0.0, 0.0)


def _mid(house: House) -> float:
    return (house.near + house.far) / 2


def _on_front(
    canvas: Canvas, house: House, z: NDArray[np.float64], y: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Canvas positions of points of the front given by depth and height."""
    flat = np.stack([np.full(z.size, house.front), y.ravel(), z.ravel()], axis=1)
    return canvas.camera.project(flat).reshape(*z.shape, 2)


def _front(canvas: Canvas, house: House) -> None:
    """The wall along the street, in slices so that the air thickens along it, and a plinth."""
    edges = np.linspace(house.near, house.far, 4)
    for near, far in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        fill = canvas.light.shade(house.wall, _front_normal(house), (near + far) / 2)
        _panel(canvas, house, near, far, -0.3, house.height, fill)
    dark = canvas.light.shade(paint.scale(house.wall, 0.7), _front_normal(house), _mid(house))
    _panel(canvas, house, house.near, house.far, -0.3, 0.5, dark)
    trim = canvas.light.shade(house.frame, _front_normal(house), _mid(house))
    _panel(canvas, house, house.near, house.far, house.height - 0.35, house.height, trim)


def _panel(
    canvas: Canvas, house: House, near: float, far: float, low: float, high: float, fill: paint.Colour
) -> None:
    z, y = np.array([near, far, far, near]), np.array([low, low, high, high])
    canvas.polygon(_on_front(canvas, house, z, y), fill, BUILDING)


def _gable_end(canvas: Canvas, house: House, rng: np.random.Generator) -> None:
    """The wall that faces the camera, with a few windows."""
    back = house.front + house.side * _DEPTH_M
    middle, z = (house.front + back) / 2, house.near
    outline = [
        (house.front, -0.3, z),
        (house.front, house.height, z),
        (back, house.height, z),
        (back, -0.3, z),
    ]
    if house.ridge:
        outline.insert(2, (middle, house.height + house.ridge, z))
    canvas.face(outline, canvas.light.shade(house.wall, (0, 0, -1), z), BUILDING)
    pane = canvas.light.shade(house.glass, (0, 0, -1), z)
    windows = []
    for x in np.arange(1.5, _DEPTH_M - 2, 3.0).tolist():
        for y in np.arange(1.2, house.height - 1.7, _STOREY_M).tolist():
            if rng.random() < 0.6:
                left = house.front + house.side * x
                right = left + house.side * 1.2
                windows.append([(left, y, z), (right, y, z), (right, y + 1.5, z), (left, y + 1.5, z)])
    if windows:
        flat = np.array(windows, np.float64).reshape(-1, 3)
        canvas.polygons(canvas.camera.project(flat).reshape(-1, 4, 2), pane, BUILDING)


def _roof(canvas: Canvas, house: House) -> None:
    """The roof's slope towards the street, with a chimney."""
    if not house.ridge:
        return
    middle, top = house.front + house.side * _DEPTH_M / 2, house.height + house.ridge
    near, far = house.near, house.far
    slope = [
        (house.front, house.height, near),
        (house.front, house.height, far),
        (middle, top, far),
        (middle, top, near),
    ]
    normal = (-house.side * 0.5, 0.87, 0.0)
    canvas.face(slope, canvas.light.shade(house.roof, normal, _mid(house)), BUILDING)


def _cells(house: House, wide: float, gap: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Lower corners (z, y) of a grid of windows on the front, upper storeys only where there is a shop."""
    step = wide + gap
    columns = np.arange(house.near + gap / 2, house.far - wide, step)
    rows = np.arange(1.0 + (_STOREY_M if house.shop else 0), house.height - 1.4, _STOREY_M)
    z, y = np.meshgrid(columns, rows)
    return z.ravel(), y.ravel()


def _window_grid(canvas: Canvas, house: House, rng: np.random.Generator) -> None:
    """Rows of windows with frames; "glazed" fronts have hardly any wall between them."""
    glazed = house.windows == "glazed"
    wide, gap, tall = (
        (2.4, 0.35, 2.5) if glazed else (float(rng.uniform(0.9, 1.6)), float(rng.uniform(0.9, 2.2)), 1.6)
    )
    z, y = _cells(house, wide, gap)
    if not z.size:
        return
    normal, depth = _front_normal(house), _mid(house)
    if not glazed and rng.random() < 0.7:
        _quads(
            canvas,
            house,
            z - 0.15,
            y - 0.15,
            wide + 0.3,
            tall + 0.3,
            canvas.light.shade(house.frame, normal, depth),
        )
    lit = rng.random(z.size) < (0.4 if canvas.light.night else 0.04)
    _quads(canvas, house, z[~lit], y[~lit], wide, tall, canvas.light.shade(house.glass, normal, depth))
    lamp = paint.hsv(float(rng.uniform(25, 60)), float(rng.uniform(0.1, 0.6)), 235)
    _quads(canvas, house, z[lit], y[lit], wide, tall, canvas.light.shade(lamp, normal, depth, glow=0.8))


def _quads(
    canvas: Canvas,
    house: House,
    z: NDArray[Any],
    y: NDArray[Any],
    wide: float,
    tall: float,
    fill: paint.Colour,
) -> None:
    """Equal rectangles on the front, all of one colour."""
    if not z.size:
        return
    depth = z[:, None] + np.array([0, wide, wide, 0])
    height = y[:, None] + np.array([0, 0, tall, tall])
    canvas.polygons(_on_front(canvas, house, depth, height), fill, BUILDING)


def _bands(canvas: Canvas, house: House) -> None:
    """Ribbon windows: one strip of glass a storey."""
    rows = np.arange(1.0 + (_STOREY_M if house.shop else 0), house.height - 1.4, _STOREY_M)
    fill = canvas.light.shade(house.glass, _front_normal(house), _mid(house))
    for y in rows.tolist():
        _panel(canvas, house, house.near + 0.4, house.far - 0.4, y, y + 1.5, fill)


def _stripes(canvas: Canvas, house: House, rng: np.random.Generator) -> None:
    """A wall without windows: courses or panels in a second tone."""
    fill = canvas.light.shade(
        paint.scale(house.wall, float(rng.choice([0.85, 1.15]))), _front_normal(house), _mid(house)
    )
    if rng.random() < 0.5:
        for y in np.arange(0.8, house.height - 0.6, 1.2).tolist():
            _panel(canvas, house, house.near, house.far, y, y + 0.35, fill)
    else:
        z = np.arange(house.near, house.far - 0.5, 2.0)
        _quads(canvas, house, z, np.full_like(z, 0.3), 0.7, house.height - 0.9, fill)


def _shop(canvas: Canvas, house: House, rng: np.random.Generator) -> None:
    """A shop front: glass, pillars, a coloured fascia."""
    normal, depth = _front_normal(house), _mid(house)
    glow = 0.7 if canvas.light.night and rng.random() < 0.6 else 0.0
    _panel(
        canvas, house, house.near, house.far, 0.2, 2.4, canvas.light.shade(house.glass, normal, depth, glow)
    )
    z = np.arange(house.near, house.far, float(rng.uniform(2, 3.5)))
    _quads(canvas, house, z, np.full_like(z, 0.0), 0.4, 2.4, canvas.light.shade(house.frame, normal, depth))
    _panel(
        canvas,
        house,
        house.near,
        house.far,
        2.4,
        3.1,
        canvas.light.shade(paint.made_thing(rng), normal, depth, glow),
    )


def _shadow(canvas: Canvas, house: House) -> None:
    """The building's shadow across the street when the sun stands behind it."""
    light = canvas.light
    if light.direct < 0.15 or light.sun[0] * house.side < 0.1:
        return
    reach = house.height / light.sun[1]
    dx, dz = -light.sun[0] * reach, -light.sun[2] * reach
    near, far = house.near, house.far
    outline = [
        (house.front, 0, near),
        (house.front, 0, far),
        (house.front + dx, 0, max(far + dz, 1.0)),
        (house.front + dx, 0, max(near + dz, 0.8)),
    ]
    canvas.shadow(outline, light.ambient / (light.ambient + light.direct))
