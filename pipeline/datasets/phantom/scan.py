"""From a body to what a scanner makes of it: blurred edges, noise with grain, streaks, the circle it sees."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from pipeline.datasets.phantom.anatomy import Body, Grid

OUTSIDE = -1024
METAL = 2500


def scan(rng: np.random.Generator, body: Body) -> NDArray[np.int16]:
    """Hounsfield units `[S, H, W]` int16 of a body; labels are untouched."""
    hu = np.stack([cv2.GaussianBlur(plane, (0, 0), 0.6) for plane in body.hu])
    _add_texture(rng, hu)
    _add_noise(rng, hu, rng.uniform(8, 22))
    if rng.random() < 0.5:
        _add_streaks(rng, body, hu)
    radius = 0.5 * min(hu.shape[1:]) * 1.02
    rows, columns = np.ogrid[: hu.shape[1], : hu.shape[2]]
    centre = (np.array(hu.shape[1:]) - 1) / 2
    hu[:, (rows - centre[0]) ** 2 + (columns - centre[1]) ** 2 > radius**2] = OUTSIDE
    return np.clip(np.rint(hu), -1024, 3071).astype(np.int16)


def _add_texture(rng: np.random.Generator, hu: Grid) -> None:
    """Slow variations within tissue, such as fat in muscle and uneven contrast."""
    tissue = hu > -300
    for plane, inside in zip(hu, tissue, strict=True):
        field = cv2.GaussianBlur(rng.standard_normal(plane.shape, np.float32), (0, 0), 4)
        plane += 12 * inside * field / field.std()


def _add_noise(rng: np.random.Generator, hu: Grid, deviation: float) -> None:
    """Grain of two or three pixels, as the reconstruction's filter leaves it."""
    for plane in hu:
        grain = rng.standard_normal(plane.shape, np.float32)
        grain = cv2.GaussianBlur(grain, (0, 0), 0.7) - cv2.GaussianBlur(grain, (0, 0), 3)
        plane += deviation * grain / grain.std()


def _add_streaks(rng: np.random.Generator, body: Body, hu: Grid) -> None:
    """A bit of metal at the surface; bright and dark rays leave it, weaker with the distance."""
    space, angle = body.space, rng.uniform(0, 2 * np.pi)
    x, y = 120 * np.cos(angle), 80 * np.sin(angle)
    first = rng.integers(len(hu))
    rays = rng.integers(5, 12)
    for index in range(first, min(len(hu), first + rng.integers(1, 4))):
        dx, dy = space.x[0] - x, space.y[0] - y
        distance, direction = np.hypot(dx, dy), np.arctan2(dy, dx)
        pattern = np.cos(rays * direction + rng.uniform(0, 6)) * np.cos(3 * direction + rng.uniform(0, 6))
        hu[index] += rng.uniform(40, 120) * pattern * np.exp(-distance / 90)
        hu[index][distance < 4] = METAL
