"""The perspective of a scene: metres in the world to pixels on the canvas.

World axes: x to the right, y up, z forward along the road, in metres, the camera at x = z = 0 at `eye_m`
above the ground. Yaw and pitch are shifts of the vanishing point (a shift lens), so nothing can turn behind
the camera; the street itself may bend and climb, quadratically in z. Knows nothing of what is drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NEAR_M = 0.7  # closer points are moved here, so that nothing is divided by zero


@dataclass(frozen=True)
class Camera:
    """A camera over a bending, climbing street; lengths in canvas pixels unless named otherwise."""

    height: int
    width: int
    focal: float
    centre_x: float
    centre_y: float
    eye_m: float
    bend: float  # x += bend * z^2, per metre
    climb: float  # y += climb * z^2, per metre
    roll_rad: float

    def project(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Canvas positions `[N, 2]` (x, y) of world points `[N, 3]` (x, y, z in metres)."""
        z = np.maximum(points[:, 2], NEAR_M)
        u = points[:, 0] / z + self.bend * z
        v = (self.eye_m - points[:, 1]) / z - self.climb * z
        sine, cosine = self.focal * math.sin(self.roll_rad), self.focal * math.cos(self.roll_rad)
        places = np.empty((len(z), 2))
        places[:, 0] = u * cosine - v * sine + self.centre_x
        places[:, 1] = u * sine + v * cosine + self.centre_y
        return places

    def pixels_per_metre(self, z_m: float) -> float:
        """Scale at a depth."""
        return self.focal / max(z_m, NEAR_M)

    def lateral_reach(self, z_m: float) -> tuple[float, float]:
        """The x range (metres, before the bend) that the picture covers at a depth."""
        scale = self.pixels_per_metre(z_m)
        shift = self.bend * z_m * z_m
        return -self.centre_x / scale - shift, (self.width - self.centre_x) / scale - shift


def draw_camera(rng: np.random.Generator, height: int, width: int) -> Camera:
    """A random camera for a canvas of `height` x `width` pixels: a car's, a lorry's or a cyclist's view."""
    return Camera(
        height=height,
        width=width,
        focal=height * float(rng.uniform(0.85, 1.3)),
        centre_x=width * float(rng.uniform(0.3, 0.7)),
        centre_y=height * float(rng.uniform(0.36, 0.56)),
        eye_m=float(rng.uniform(1.25, 2.1)),
        bend=float(rng.normal(0, 0.0022)),
        climb=float(rng.uniform(-0.0006, 0.0016)),
        roll_rad=math.radians(float(rng.normal(0, 1.3))),
    )
