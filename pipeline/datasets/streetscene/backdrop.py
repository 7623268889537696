"""What is behind the street: the sky with its clouds, and the far skyline of roofs or trees.

Drawn first; everything else occludes it.
"""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from pipeline.datasets.streetscene import noise, paint
from pipeline.datasets.streetscene.canvas import Canvas
from pipeline.datasets.streetscene.labels import BUILDING, SKY, TREE

_FAR_M = 70.0

Picture = NDArray[np.float32]


def draw_sky(canvas: Canvas, rng: np.random.Generator) -> None:
    """Fill the whole canvas with a vertical gradient and clouds, computed at a quarter of its size."""
    height, width = -(-canvas.camera.height // 4), -(-canvas.camera.width // 4)
    light = canvas.light
    ramp = np.clip(np.arange(height) / (canvas.camera.centre_y / 4), 0, 1).astype(np.float32)
    ramp = ramp ** float(rng.uniform(0.6, 1.8))
    sky = _blend(np.array(light.zenith, np.float32), np.array(light.horizon, np.float32), ramp[:, None, None])
    sky = np.broadcast_to(sky, (height, width, 3))
    if rng.random() < 0.7:
        sky = _with_clouds(sky, canvas, rng)
    canvas.pixels[..., :3] = cv2.resize(
        np.clip(sky, 0, 255).astype(np.uint8), (canvas.camera.width, canvas.camera.height)
    )
    canvas.pixels[..., 3] = SKY


def _blend(first: Picture, second: Picture, share: Picture) -> Picture:
    """`share` of the second, the rest of the first."""
    return np.asarray(first + (second - first) * share, np.float32)


def _with_clouds(sky: Picture, canvas: Canvas, rng: np.random.Generator) -> Picture:
    """Clouds lighter or darker than the sky, covering a random share of it, flattened towards the horizon."""
    height, width = sky.shape[:2]
    field = noise.crop(rng, "cloud", height * 2, width)[::2]
    cover = np.clip((field + np.float32(rng.uniform(-0.8, 0.8))) * np.float32(rng.uniform(0.5, 2.5)), 0, 1)
    cloud = paint.scale(
        canvas.light.horizon, float(rng.choice([rng.uniform(1.0, 1.5), rng.uniform(0.5, 0.95)]))
    )
    return _blend(sky, np.array(cloud, np.float32), cover[..., None] * np.float32(rng.uniform(0.3, 0.9)))


def draw_skyline(canvas: Canvas, rng: np.random.Generator) -> None:
    """Far roofs and tree lines along the horizon, in random stretches."""
    left, right = canvas.camera.lateral_reach(_FAR_M)
    at = left - 5
    tall = float(rng.uniform(0.4, 1.3))
    while at < right + 5:
        span = float(rng.uniform(6, 22))
        if rng.random() < 0.5:
            _far_block(canvas, rng, at, at + span, tall)
        else:
            _far_wood(canvas, rng, at, at + span, tall)
        at += span * float(rng.uniform(0.75, 1.15))


def _far_block(canvas: Canvas, rng: np.random.Generator, left: float, right: float, tall: float) -> None:
    """One far building, flat or gabled, with rows of windows."""
    top = tall * float(rng.uniform(5, 16))
    fill = canvas.light.shade(paint.made_thing(rng), (0, 0, -1), _FAR_M)
    outline = [(left, -1, _FAR_M), (left, top, _FAR_M), (right, top, _FAR_M), (right, -1, _FAR_M)]
    if rng.random() < 0.5:
        outline.insert(2, ((left + right) / 2, top + 0.25 * (right - left), _FAR_M))
    canvas.face(outline, fill, BUILDING)
    columns = np.arange(left + 1, right - 1.6, 2.6)
    rows = np.arange(1.5, top - 1.6, 3.0)
    if not len(columns) or not len(rows):
        return
    x, y = (grid.ravel() for grid in np.meshgrid(columns, rows))
    corner = np.stack([x, y, np.full_like(x, _FAR_M)], axis=1)
    offsets = np.array([(0, 0, 0), (1.3, 0, 0), (1.3, 1.6, 0), (0, 1.6, 0)])
    windows = canvas.camera.project((corner[:, None] + offsets).reshape(-1, 3)).reshape(-1, 4, 2)
    pane = canvas.light.shade(paint.scale(paint.made_thing(rng), 0.7), (0, 0, -1), _FAR_M)
    canvas.polygons(windows, pane, BUILDING)


def _far_wood(canvas: Canvas, rng: np.random.Generator, left: float, right: float, tall: float) -> None:
    """A far row of tree tops: a bumpy outline, darker and lighter blobs inside."""
    top, colour = tall * float(rng.uniform(4, 9)), paint.leaves(rng)
    base = canvas.light.shade(paint.scale(colour, 0.8), (0, 0.5, -0.5), _FAR_M)
    canvas.face(
        [(left, -1, _FAR_M), (left, top * 0.7, _FAR_M), (right, top * 0.7, _FAR_M), (right, -1, _FAR_M)],
        base,
        TREE,
    )
    count = int((right - left) * 1.2) + 3
    points = np.stack(
        [rng.uniform(left, right, count), rng.uniform(0.35, 0.85, count) * top, np.full(count, _FAR_M)], 1
    )
    tones = rng.uniform(0.6, 1.25, count)
    shaded = canvas.light.shade_many(np.array(colour) * tones[:, None], (0, 0.5, -0.5), points[:, 2])
    canvas.discs(points, top * (0.12 + 0.1 * tones), shaded, TREE)
