"""Painting on a four-channel canvas: red, green, blue and the label, in one stroke.

Because colour and label are one pixel value, a mask can never disagree with its picture. The canvas is
supersampled (`SUPERSAMPLE` times the picture) and has no anti-aliasing of its own; cast shadows are kept
apart and applied to the ground when the picture is taken. Knows nothing of the things it is asked to paint.
"""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from pipeline.datasets.streetscene.camera import NEAR_M, Camera
from pipeline.datasets.streetscene.light import Fill, Light

SUPERSAMPLE = 2
_SHIFT = 4  # fractional bits of the coordinates given to OpenCV

Points = NDArray[np.float64]


def fixed(points: Points) -> NDArray[np.int32]:
    """Pixel positions as OpenCV's fixed-point integers."""
    return np.rint(points * (1 << _SHIFT)).astype(np.int32)


class Canvas:
    """Pixels `[height, width, 4]` uint8 (r, g, b, label) and shadows `[h, w]` uint8 (255 = fully lit)."""

    def __init__(self, camera: Camera, light: Light) -> None:
        self.camera = camera
        self.light = light
        self.pixels = np.zeros((camera.height, camera.width, 4), np.uint8)
        self.shadows = np.full((camera.height // SUPERSAMPLE, camera.width // SUPERSAMPLE), 255, np.uint8)

    def polygon(self, points: Points, fill: Fill, label: int) -> None:
        """Fill a polygon given in canvas pixels `[N, 2]`."""
        cv2.fillPoly(self.pixels, [fixed(points)], (*fill, label), cv2.LINE_8, _SHIFT)

    def polygons(self, many: Points, fill: Fill, label: int) -> None:
        """Fill polygons of one colour, `[K, N, 2]` canvas pixels; they must not overlap (even-odd rule)."""
        if len(many):
            cv2.fillPoly(self.pixels, list(fixed(many)), (*fill, label), cv2.LINE_8, _SHIFT)

    def face(self, points: Sequence[Sequence[float]] | Points, fill: Fill, label: int) -> None:
        """Fill a polygon given in the world `[N, 3]` (metres)."""
        self.polygon(self.camera.project(np.asarray(points, np.float64)), fill, label)

    def discs(self, points: Points, radius_m: Points, colours: Points, label: int) -> None:
        """Fill circles in order: centres `[N, 3]` and radii `[N]` in metres, shaded colours `[N, 3]`."""
        scale = self.camera.focal / np.maximum(points[:, 2], NEAR_M)
        centres = fixed(self.camera.project(points)).tolist()
        radii = (radius_m * scale * (1 << _SHIFT)).astype(np.int32).tolist()
        for (x, y), radius, fill in zip(centres, radii, colours.tolist(), strict=True):
            cv2.circle(self.pixels, (x, y), radius, (*fill, label), -1, cv2.LINE_8, _SHIFT)

    def shadow(self, points: Sequence[Sequence[float]] | Points, lit: float) -> None:
        """Let a ground polygon `[N, 3]` (metres) receive only the share `lit` (0..1) of the light."""
        flat = self.camera.project(np.asarray(points, np.float64)) / SUPERSAMPLE
        patch = np.full_like(self.shadows, 255)
        cv2.fillPoly(patch, [fixed(flat)], (float(int(255 * lit)),), cv2.LINE_8, _SHIFT)
        np.minimum(self.shadows, patch, out=self.shadows)
