"""Street furniture: lamp posts, telegraph poles, bollards, and traffic signs on their posts.

Posts are thicker and signs larger than life, so that they survive at an eighth of the resolution.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pipeline.datasets.streetscene import paint
from pipeline.datasets.streetscene.canvas import Canvas
from pipeline.datasets.streetscene.labels import POLE, SIGN

_FRONT = (0.0, 0.2, -0.98)
_RIM = (235.0, 235.0, 230.0)


def paint_pole(canvas: Canvas, x: float, z: float, inward: int, rng: np.random.Generator) -> None:
    """A lamp post, telegraph pole or bollard at (x, z); `inward` (-1 or +1) is the side of the road."""
    kind = str(rng.choice(["lamp", "lamp", "telegraph", "plain", "bollard"]))
    thick, colour = float(rng.uniform(0.34, 0.5)), paint.metal(rng)
    tall = {
        "lamp": rng.uniform(4.5, 8),
        "telegraph": rng.uniform(5, 8),
        "plain": rng.uniform(2.5, 6),
        "bollard": rng.uniform(0.9, 1.2),
    }[kind]
    _post(canvas, x, z, float(tall), thick, colour)
    if kind == "lamp":
        _lamp(canvas, x, z, float(tall), thick, inward, colour, rng)
    elif kind == "telegraph":
        for y in (tall - 0.4, tall - 1.1):
            _bar(canvas, (x - 1.0, float(y)), (x + 1.0, float(y)), z, 0.22, colour)


def paint_sign(canvas: Canvas, x: float, z: float, rng: np.random.Generator) -> None:
    """A traffic sign, name plate or parking board on its post."""
    size, height = float(rng.uniform(0.7, 1.0)), float(rng.uniform(2.0, 3.1))
    _post(canvas, x, z, height + size * 0.5, float(rng.uniform(0.28, 0.36)), paint.metal(rng))
    _board(canvas, x, height, z, size, rng)
    if rng.random() < 0.3:
        _board(canvas, x, height - 1.75 * size, z, size * 0.75, rng)


def _post(canvas: Canvas, x: float, z: float, tall: float, thick: float, colour: paint.Colour) -> None:
    """An upright round post: a lit and a shaded half, a thicker foot, and its shadow."""
    half = thick / 2
    lit_right = canvas.light.sun[0] > 0
    for left, right, bright in (
        (x - half, x + 0.1 * half, not lit_right),
        (x + 0.1 * half, x + half, lit_right),
    ):
        fill = canvas.light.shade(paint.scale(colour, 1.1 if bright else 0.75), _FRONT, z)
        canvas.face([(left, 0, z), (right, 0, z), (right, tall, z), (left, tall, z)], fill, POLE)
    foot = canvas.light.shade(paint.scale(colour, 0.8), _FRONT, z)
    canvas.face(
        [
            (x - thick * 0.7, 0, z),
            (x + thick * 0.7, 0, z),
            (x + thick * 0.7, 0.45, z),
            (x - thick * 0.7, 0.45, z),
        ],
        foot,
        POLE,
    )
    _shadow(canvas, x, z, tall, half)


def _lamp(
    canvas: Canvas,
    x: float,
    z: float,
    tall: float,
    thick: float,
    inward: int,
    colour: paint.Colour,
    rng: np.random.Generator,
) -> None:
    """An arm over the road with its lantern, or a globe on top."""
    glow = 1.0 if canvas.light.night else 0.1
    lamp = canvas.light.shade((250, 235, 190), _FRONT, z, glow)
    if rng.random() < 0.3:
        canvas.discs(np.array([[x, tall + 0.25, z]]), np.array([0.36]), np.array([lamp]), POLE)
        return
    reach = inward * float(rng.uniform(0.9, 2.0))
    _bar(canvas, (x, tall - thick / 2), (x + reach, tall + 0.15), z, thick * 0.8, colour)
    _bar(canvas, (x + reach * 0.75, tall), (x + reach * 1.3, tall + 0.1), z, thick * 1.1, colour)
    _bar(canvas, (x + reach * 0.8, tall - 0.12), (x + reach * 1.25, tall - 0.04), z, 0.14, lamp, lit=True)


def _bar(
    canvas: Canvas,
    start: tuple[float, float],
    end: tuple[float, float],
    z: float,
    thick: float,
    colour: paint.Colour,
    lit: bool = False,
) -> None:
    """A bar between two points (x, y) at one depth; `lit` means the colour is final."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    length = max(math.hypot(dx, dy), 1e-6)
    nx, ny = -dy / length * thick / 2, dx / length * thick / 2
    outline = [
        (start[0] + nx, start[1] + ny, z),
        (end[0] + nx, end[1] + ny, z),
        (end[0] - nx, end[1] - ny, z),
        (start[0] - nx, start[1] - ny, z),
    ]
    canvas.face(outline, colour if lit else canvas.light.shade(colour, _FRONT, z), POLE)


def _board(canvas: Canvas, x: float, y: float, z: float, size: float, rng: np.random.Generator) -> None:
    """The sign itself: a white rim, a border, a field in a contrasting colour, a symbol."""
    outline = _outline(str(rng.choice(["disc", "triangle", "square", "wide", "octagon", "diamond"])), rng)
    border, field = paint.signal(rng), paint.made_thing(rng)
    if abs(sum(border) - sum(field)) < 150:
        field = paint.scale(field, 0.4) if sum(field) < 380 else paint.mix(field, (255, 255, 255), 0.7)
    symbol = paint.scale(border, 0.6)
    glow = 0.35 if canvas.light.night else 0.0  # reflective
    for share, colour in ((1.0, _RIM), (0.9, border), (0.62, field)):
        _plate(canvas, x, y, z, outline * size * share, canvas.light.shade(colour, _FRONT, z, glow))
    marks = rng.uniform(-0.35, 0.35, (2, 2))
    for centre in marks:
        mark = centre + np.array([(-0.3, -0.09), (0.3, -0.09), (0.3, 0.09), (-0.3, 0.09)]) * float(
            rng.uniform(0.5, 1)
        )
        _plate(canvas, x, y, z, mark * size, canvas.light.shade(symbol, _FRONT, z, glow))


def _outline(kind: str, rng: np.random.Generator) -> NDArray[np.float64]:
    """A unit outline `[N, 2]` of a sign."""
    if kind == "square":
        return np.array([(-0.85, -0.85), (0.85, -0.85), (0.85, 0.85), (-0.85, 0.85)])
    if kind == "wide":
        half = float(rng.uniform(0.55, 0.75))
        return np.array([(-1.4, -half), (1.4, -half), (1.4, half), (-1.4, half)])
    corners = {"disc": 16, "triangle": 3, "octagon": 8, "diamond": 4}[kind]
    turn = math.pi / 8 if kind == "octagon" else math.pi / 2
    if kind == "triangle" and rng.random() < 0.25:
        turn = -turn
    angle = turn + np.linspace(0, 2 * np.pi, corners, endpoint=False)
    return np.stack([np.cos(angle), np.sin(angle)], axis=1) * (
        1.15 if kind in ("triangle", "diamond") else 1.0
    )


def _plate(
    canvas: Canvas, x: float, y: float, z: float, outline: NDArray[np.float64], fill: paint.Colour
) -> None:
    points = np.stack([x + outline[:, 0], y + outline[:, 1], np.full(len(outline), z)], axis=1)
    canvas.face(points, fill, SIGN)


def _shadow(canvas: Canvas, x: float, z: float, tall: float, half: float) -> None:
    """The post's shadow: a thin strip away from the sun."""
    light = canvas.light
    if light.direct < 0.15:
        return
    reach = tall / light.sun[1]
    dx, dz = -light.sun[0] * reach, max(-light.sun[2] * reach, 1.2 - z)
    strip = [(x - half, 0, z), (x + half, 0, z), (x + dx + half, 0, z + dz), (x + dx - half, 0, z + dz)]
    canvas.shadow(strip, light.ambient / (light.ambient + light.direct))
