"""A trunk of simple solids, lower chest to upper belly, other for every patient: Hounsfield units and labels.

Right and left differ as in people (the liver lies on the right), and spleen, stomach and aorta have the
liver's grey or near it but are background, so place and shape count, not grey alone. Refuses to know scanners
and files.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CLASSES = ("background", "lung", "liver", "lesion", "bone")
PALETTE = ((0, 0, 0), (60, 160, 230), (200, 120, 60), (240, 230, 60), (230, 230, 230))
Grid = NDArray[np.float32]
Mask = NDArray[np.bool_]
Point = tuple[float, float, float]


@dataclass(frozen=True)
class Space:
    """Where voxel centres are, mm from the trunk's middle: x to the left, y to the back, z to the head."""

    x: Grid  # [1, 1, W]
    y: Grid  # [1, H, 1]
    z: Grid  # [S, 1, 1]

    @classmethod
    def of(cls, shape: tuple[int, int, int], spacing_mm: tuple[float, float, float]) -> Space:
        """Of an array `shape` (slices, rows, columns), spacing in the same order."""
        sides = zip(shape, spacing_mm, strict=True)
        z, y, x = ((np.arange(n, dtype=np.float32) - (n - 1) / 2) * mm for n, mm in sides)
        return cls(x[None, None], y[None, :, None], z[:, None, None])

    def ellipsoid(self, centre: Point, radii: Point) -> Mask:
        """Voxels inside; a radius of infinity makes a cylinder."""
        parts = zip((self.x, self.y, self.z), centre, radii, strict=True)
        return np.asarray(sum(((axis - at) / radius) ** 2 for axis, at, radius in parts) <= 1)


class Body:
    """A patient being built: later solids replace what earlier ones put there."""

    def __init__(self, space: Space) -> None:
        self.space = space
        shape = (space.z.size, space.y.size, space.x.size)
        self.hu: Grid = np.full(shape, -1000, np.float32)
        self.labels: NDArray[np.uint8] = np.zeros(shape, np.uint8)

    def put(self, mask: Mask, hu: float, name: str = "background") -> None:
        """Fill a solid with one value and class."""
        self.hu[mask] = hu
        self.labels[mask] = CLASSES.index(name)


def draw_body(rng: np.random.Generator, space: Space) -> Body:
    """A patient by the random numbers alone."""
    body = Body(space)
    wide, deep = rng.uniform(145, 175), rng.uniform(100, 125)
    outline = space.ellipsoid((0, 0, 0), (wide, deep, np.inf))
    fat = rng.uniform(6, 18)
    inner = space.ellipsoid((0, 0, 0), (wide - fat, deep - fat, np.inf))
    body.put(
        space.ellipsoid((0, deep + 330, 0), (400, 334, np.inf)) & ~outline & (space.y > deep), -700
    )  # table
    body.put(outline, rng.normal(-100, 8))
    body.put(inner, rng.normal(50, 6))
    cavity = space.ellipsoid((0, -8, 0), (wide - fat - 16, deep - fat - 14, np.inf))
    body.put(cavity, rng.normal(-90, 8))
    dome = rng.uniform(0, 40)  # height of the diaphragm
    _put_belly(rng, body, cavity, wide, dome)
    _put_lungs(rng, body, cavity, wide, dome)
    _put_bones(rng, body, wide - fat, deep - fat)
    return body


def _put_belly(rng: np.random.Generator, body: Body, cavity: Mask, wide: float, dome: float) -> None:
    """Stomach, spleen, aorta, liver with its lesions."""
    space = body.space
    stomach = space.ellipsoid((0.30 * wide, -35, dome - 60), (40, 38, 55)) & cavity
    body.put(stomach, rng.normal(15, 8))
    body.put(stomach & (space.y < rng.uniform(-60, -40)), -950)  # air rises
    body.put(space.ellipsoid((0.62 * wide, 30, dome - 50), (28, 42, 50)) & cavity, rng.normal(110, 12))
    grey = rng.normal(100, 12)
    centre = (-0.38 * wide, -5 + rng.normal(0, 6), dome - rng.uniform(55, 75))
    liver = space.ellipsoid(centre, (0.52 * wide, rng.uniform(62, 76), rng.uniform(70, 90)))
    left_lobe = space.ellipsoid((0.05 * wide, -45, dome - 50), (0.35 * wide, 28, 40))
    liver = (liver | left_lobe) & cavity
    body.put(liver, grey, "liver")
    for _ in range(rng.integers(0, 5)):
        _put_lesion(rng, body, liver, grey)


def _put_lesion(rng: np.random.Generator, body: Body, liver: Mask, grey: float) -> None:
    """A darker ball around a random place in the liver, and only within it."""
    places = np.argwhere(liver)
    if not len(places):
        return
    k, j, i = places[rng.integers(len(places))]
    space, radius = body.space, rng.uniform(7, 20)
    centre = (float(space.x[0, 0, i]), float(space.y[0, j, 0]), float(space.z[k, 0, 0]))
    radii = (radius, radius * rng.uniform(0.8, 1.25), radius * rng.uniform(0.8, 1.25))
    body.put(space.ellipsoid(centre, radii) & liver, grey - rng.uniform(40, 75), "lesion")


def _put_lungs(rng: np.random.Generator, body: Body, cavity: Mask, wide: float, dome: float) -> None:
    """Above the diaphragm, a dome that is higher on the right; a heart between, vessels within."""
    space = body.space
    for side, lift in ((-1, 12.0), (1, 0.0)):
        bell = dome + lift - ((space.x - side * 0.45 * wide) ** 2 + (space.y + 5) ** 2) / 90
        half = side * space.x > rng.uniform(18, 28)
        lung = cavity & half & (space.z > bell)
        body.put(lung, rng.normal(-840, 25), "lung")
        for _ in range(14):
            x, y = side * rng.uniform(30, 0.8 * wide), rng.uniform(-70, 60)
            vessel = space.ellipsoid((x, y, dome + 40), (rng.uniform(2, 5), rng.uniform(2, 5), 60))
            body.put(vessel & lung, rng.normal(20, 20), "lung")
    heart = space.ellipsoid((15, -35, dome + 55), (rng.uniform(50, 60), 48, 55)) & cavity
    body.put(heart & (space.z > dome), rng.normal(120, 15))


def _put_bones(rng: np.random.Generator, body: Body, wide: float, deep: float) -> None:
    """Spine with its canal and process, the aorta before it, and slanted ribs."""
    space = body.space
    back = deep - 48
    body.put(space.ellipsoid((14, back - 32, 0), (11, 11, np.inf)), rng.normal(150, 15))  # aorta
    for radius, hu in ((20.0, rng.normal(450, 60)), (16.5, rng.normal(190, 25))):
        body.put(space.ellipsoid((0, back, 0), (radius, radius * 0.85, np.inf)), hu, "bone")
    body.put(space.ellipsoid((0, back + 32, 0), (5, 16, np.inf)), rng.normal(400, 50), "bone")
    body.put(space.ellipsoid((0, back + 19, 0), (9, 8, np.inf)), 25)  # canal
    pitch, hu = rng.uniform(26, 32), rng.normal(420, 60)
    for number in range(-6, 13):
        below = space.z + 14 - number * pitch  # 0 at the spine; ribs run down from there to the front
        for side in (-1, 1):
            turn = np.pi / 2 + side * below / 45
            at = (wide - 9) * np.cos(turn), (deep - 9) * np.sin(turn)
            near = ((space.x - at[0]) / 9) ** 2 + ((space.y - at[1]) / 6) ** 2 <= 1
            body.put(near & (below <= 0) & (below > -110), hu, "bone")
