"""The layout of a street scene: what stands where, drawn from far to near.

Plots of buildings, hedges and gaps line both sides; trees, poles, signs and people stand on the pavements,
cars drive, park and cross. Thin things keep to depths at which they are still several pixels wide.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pipeline.datasets.streetscene import buildings, cars, furniture, paint, people, trees
from pipeline.datasets.streetscene.backdrop import draw_sky, draw_skyline
from pipeline.datasets.streetscene.camera import draw_camera
from pipeline.datasets.streetscene.canvas import SUPERSAMPLE, Canvas
from pipeline.datasets.streetscene.ground import Street, draw_ground, draw_street
from pipeline.datasets.streetscene.labels import IGNORE
from pipeline.datasets.streetscene.light import draw_light
from pipeline.datasets.streetscene.photograph import expose

Thing = tuple[float, Callable[[], None]]  # depth that decides the order, and what to paint
Place = tuple[float, float, float]  # x and z in metres, heading in radians
_PLOTS_END_M = 62.0


def draw_scene(
    rng: np.random.Generator, size: tuple[int, int]
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """One random street scene: picture `[H, W, 3]` uint8 RGB and label map `[H, W]` uint8, size (H, W)."""
    height, width = size
    camera = draw_camera(rng, height * SUPERSAMPLE, width * SUPERSAMPLE)
    canvas = Canvas(camera, draw_light(rng))
    street = draw_street(rng)
    draw_sky(canvas, rng)
    draw_skyline(canvas, rng)
    draw_ground(canvas, street, rng)
    things = _sides(canvas, street, rng) + _traffic(canvas, street, rng) + _kerbside(canvas, street, rng)
    things += _pedestrians(canvas, street, rng)
    for _, paint_it in sorted(things, key=lambda thing: -thing[0]):
        paint_it()
    if rng.random() < 0.3:
        _bonnet(canvas, rng)
    return expose(canvas, rng)


def _visible(canvas: Canvas, x: float, z: float, margin_m: float = 0.3) -> bool:
    left, right = canvas.camera.lateral_reach(z)
    return left + margin_m < x < right - margin_m


def _sides(canvas: Canvas, street: Street, rng: np.random.Generator) -> list[Thing]:
    """Plots along both sides, from beside the camera to far away."""
    things: list[Thing] = []
    for side, front in ((-1, street.left - street.left_walk), (1, street.right + street.right_walk)):
        storeys, built = float(rng.uniform(1, 5.5)), float(rng.choice([0.25, 0.7, 0.95]))
        z = 0.7
        while z < _PLOTS_END_M:
            end = z + float(rng.uniform(5, 15))
            if street.side_road and z < street.side_road[1] and end > street.side_road[0] - 1:
                if z < street.side_road[0] - 4:
                    end = street.side_road[0] - 1
                else:
                    z = street.side_road[1] + 1
                    continue
            things += _plot(canvas, rng, front, side, (z, end), storeys, built)
            z = end + (float(rng.uniform(1, 6)) if rng.random() < 0.2 else 0.0)
    return things


def _plot(
    canvas: Canvas,
    rng: np.random.Generator,
    front: float,
    side: int,
    span: tuple[float, float],
    storeys: float,
    built: float,
) -> list[Thing]:
    """A house, a garden with hedge and trees, or an empty plot."""
    near, far = span
    if rng.random() < built:
        house = buildings.draw_house(rng, front, side, near, far, storeys)
        return [(far, partial(buildings.paint_house, canvas, house, rng))]
    things: list[Thing] = []
    if rng.random() < 0.7:
        things.append((far, partial(trees.paint_hedge, canvas, front, near, far, rng)))
    for _ in range(int(rng.integers(0, 3))):
        x, z = front + side * float(rng.uniform(1.5, 8)), float(rng.uniform(max(near, 6), max(far, 7)))
        things.append((z, partial(trees.paint_tree, canvas, x, z, rng)))
    return things


def _traffic(canvas: Canvas, street: Street, rng: np.random.Generator) -> list[Thing]:
    """Cars in both lanes, parked at the kerbs, crossing; none through another."""
    taken: list[tuple[float, float, bool]] = []
    things: list[Thing] = []
    for x, z, heading in _driving(street, rng) + _parked(street, rng) + _crossing(street, rng):
        place = (x, z, abs(math.sin(heading)) > 0.5)
        if any(_clash(place, other) for other in taken) or not _visible(canvas, x, z, -1.5):
            continue
        taken.append(place)
        things.append((z, partial(cars.paint_car, canvas, cars.draw_car(rng, x, z, heading))))
    return things


def _driving(street: Street, rng: np.random.Generator) -> list[Place]:
    """Up to four cars in the lanes, those of one lane coming towards the camera."""
    away = 1 if rng.random() < 0.5 else -1  # the lane of those driving away: right- or left-hand traffic
    quarter = (street.right - street.left) / 4
    places = []
    for _ in range(int(rng.choice([0, 1, 2, 3, 4], p=[0.15, 0.25, 0.25, 0.2, 0.15]))):
        lane = 1 if rng.random() < 0.5 else -1
        x = street.centre + lane * quarter + float(rng.normal(0, 0.25))
        heading = float(rng.normal(0, 0.08)) + (0 if lane == away else math.pi)
        places.append((x, float(rng.uniform(5, 30)), heading))
    return places


def _parked(street: Street, rng: np.random.Generator) -> list[Place]:
    """A row of cars at either kerb, sometimes."""
    places = []
    for kerb in (street.left + 0.9, street.right - 0.9):
        if rng.random() < 0.4:
            heading, start = float(rng.choice([0.0, math.pi])), float(rng.uniform(3.5, 12))
            for i in range(int(rng.integers(1, 5))):
                places.append((kerb, start + 6.2 * i, heading + float(rng.normal(0, 0.03))))
    return places


def _crossing(street: Street, rng: np.random.Generator) -> list[Place]:
    """A car seen from the side, in the side road if there is one."""
    if rng.random() >= 0.25:
        return []
    z = float(rng.uniform(*street.side_road)) if street.side_road else float(rng.uniform(8, 20))
    turn = float(rng.choice([-1, 1])) * float(rng.uniform(0.9, 1.9))
    return [(street.centre + float(rng.uniform(-3, 3)), z, turn)]


def _clash(one: tuple[float, float, bool], other: tuple[float, float, bool]) -> bool:
    """Would two cars overlap on the ground?"""
    wide = 5.5 if one[2] or other[2] else 2.1
    return abs(one[0] - other[0]) < wide and abs(one[1] - other[1]) < 5.6


def _kerbside(canvas: Canvas, street: Street, rng: np.random.Generator) -> list[Thing]:
    """Street trees, poles and signs along the kerbs."""
    things: list[Thing] = []
    for side in (-1, 1):
        kerb = street.left - 0.45 if side < 0 else street.right + 0.45
        walk = street.left_walk if side < 0 else street.right_walk
        if rng.random() < 0.35 and walk > 2.2:
            start, step = float(rng.uniform(6, 12)), float(rng.uniform(6, 11))
            for z in np.arange(start, 40, step).tolist():
                things.append((z, partial(trees.paint_tree, canvas, kerb + side * 0.4, z, rng)))
        if rng.random() < 0.75:
            start, step = float(rng.uniform(3.2, 9)), float(rng.uniform(3.5, 8))
            for z in np.arange(start, 10.5, step).tolist():
                x = kerb + side * float(rng.uniform(0, 0.8))
                if _visible(canvas, x, z, 0):
                    things.append((z, partial(furniture.paint_pole, canvas, x, z, -side, rng)))
        for _ in range(int(rng.choice([0, 1, 2], p=[0.1, 0.4, 0.5]))):
            z = float(rng.uniform(4, 10))
            x = kerb + side * float(rng.uniform(0, max(walk - 1.2, 0.2)))
            if _visible(canvas, x, z):
                things.append((z, partial(furniture.paint_sign, canvas, x, z, rng)))
    return things


def _pedestrians(canvas: Canvas, street: Street, rng: np.random.Generator) -> list[Thing]:
    """People on the pavements, alone and in pairs, and on the road, mostly at the zebra."""
    things: list[Thing] = []
    for _ in range(int(rng.choice([0, 1, 2, 3, 4, 5], p=[0.06, 0.14, 0.22, 0.24, 0.2, 0.14]))):
        for _ in range(6):  # tries for a place inside the picture
            x, z = _place(street, rng)
            if _visible(canvas, x, z):
                break
        else:
            continue
        company = 2 if rng.random() < 0.25 else 1
        for i in range(company):
            beside, behind = x + 0.75 * i, z + 0.2 * i
            things.append((behind, partial(people.paint_person, canvas, beside, behind, rng)))
    return things


def _place(street: Street, rng: np.random.Generator) -> tuple[float, float]:
    """A place for a person."""
    if rng.random() < (0.7 if street.zebra else 0.2):
        z = float(rng.uniform(*street.zebra)) if street.zebra else float(rng.uniform(4.5, 10))
        return float(rng.uniform(street.left, street.right)), min(z, 11.0)
    z = float(rng.uniform(3.2, 8.5))
    if rng.random() < 0.5:
        return street.left - float(rng.uniform(0.4, max(street.left_walk - 0.5, 0.5))), z
    return street.right + float(rng.uniform(0.4, max(street.right_walk - 0.5, 0.5))), z


def _bonnet(canvas: Canvas, rng: np.random.Generator) -> None:
    """The ego car's bonnet along the lower edge: unlabelled."""
    height, width = canvas.camera.height, canvas.camera.width
    high = height * float(rng.uniform(0.03, 0.09))
    middle = width * float(rng.uniform(0.4, 0.6))
    angle = np.linspace(0, np.pi, 24)
    points = np.stack(
        [middle + width * 0.62 * np.cos(angle), height + 4 - high * np.sin(angle) ** 0.6], axis=1
    )
    colour = paint.made_thing(rng)
    for share in (1.0, 0.55):
        scaled = points.copy()
        scaled[:, 1] = height + 4 - (height + 4 - points[:, 1]) * share
        canvas.polygon(
            scaled, canvas.light.shade(paint.scale(colour, 0.6 + 0.5 * share), (0, 1, 0), 0), IGNORE
        )
