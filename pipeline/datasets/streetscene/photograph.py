"""From the painted canvas to a photograph: shadows, air, surface texture, lens, sensor, colour processing.

Everything here changes colours only; the label map is fixed once the canvas is reduced. Surface texture has
its own mixture per class and image, so it helps a network but never decides alone.
"""

from __future__ import annotations

import math

import cv2
import numpy as np
from numpy.typing import NDArray

from pipeline.datasets.streetscene import noise
from pipeline.datasets.streetscene.canvas import SUPERSAMPLE, Canvas
from pipeline.datasets.streetscene.labels import PAVEMENT, ROAD

Image = NDArray[np.float32]
Labels = NDArray[np.uint8]

# Largest relative amplitude of each noise field, one number a class in the order of labels.NAMES.
_TEXTURE = {
    "fine": (0.012, 0.05, 0.09, 0.08, 0.10, 0.02, 0.05, 0.04, 0.02),
    "leafy": (0.0, 0.05, 0.03, 0.06, 0.22, 0.02, 0.08, 0.03, 0.02),
    "blotchy": (0.0, 0.06, 0.06, 0.06, 0.10, 0.06, 0.05, 0.03, 0.03),
}


def expose(canvas: Canvas, rng: np.random.Generator) -> tuple[NDArray[np.uint8], Labels]:
    """The picture `[H, W, 3]` uint8 RGB and its label map `[H, W]` uint8 of a finished canvas."""
    height, width = canvas.shadows.shape
    labels = np.ascontiguousarray(canvas.pixels[::SUPERSAMPLE, ::SUPERSAMPLE, 3])
    image = cv2.resize(canvas.pixels, (width, height), interpolation=cv2.INTER_AREA)[..., :3].astype(
        np.float32
    )
    image *= _ground_light(canvas, labels, rng)[..., None]
    image *= _texture(labels, rng)[..., None]
    _ground_air(canvas, image, labels)
    if canvas.light.night:
        image *= _headlights(canvas, rng)[..., None]
    image = _lens(image, canvas.shadows.shape, rng)
    image = _develop(image, rng)
    return _sensor(image, rng), labels


def _ground_light(canvas: Canvas, labels: Labels, rng: np.random.Generator) -> Image:
    """Light on the ground from the shadow map, with a soft edge; 1 elsewhere."""
    blurred = cv2.GaussianBlur(canvas.shadows, (0, 0), float(rng.uniform(0.5, 2.0)))
    soft = np.asarray(blurred / np.float32(255), np.float32)
    soft[(labels != ROAD) & (labels != PAVEMENT)] = 1
    return soft


def _texture(labels: Labels, rng: np.random.Generator) -> Image:
    """Relative surface texture by class, its strength drawn per image, and a slow drift of light."""
    height, width = labels.shape
    total = 1 + noise.crop(rng, "smooth", height, width) * np.float32(rng.uniform(0.01, 0.07))
    for name, largest in _TEXTURE.items():
        table = np.zeros(256, np.float32)
        table[: len(largest)] = np.array(largest) * rng.uniform(0.4, 1.0, len(largest))
        total += noise.crop(rng, name, height, width) * table[labels]
    return np.asarray(np.maximum(total, 0.1, out=total))


def _ground_air(canvas: Canvas, image: Image, labels: Labels) -> None:
    """Haze over the ground, by the depth that each row shows."""
    camera = canvas.camera
    rows = (np.arange(labels.shape[0]) + 0.5) * SUPERSAMPLE - camera.centre_y
    depth = camera.focal * camera.eye_m / np.maximum(rows, camera.focal * camera.eye_m / 75)
    clear = np.exp(-depth / canvas.light.fog_depth_m).astype(np.float32)[:, None, None]
    ground = (labels == ROAD) | (labels == PAVEMENT)
    hazy = image * clear + np.array(canvas.light.fog, np.float32) * (1 - clear)
    np.copyto(image, hazy, where=ground[..., None])


def _headlights(canvas: Canvas, rng: np.random.Generator) -> Image:
    """Extra light low in the middle of the picture, from the ego car's lamps."""
    height, width = canvas.shadows.shape
    y = (np.arange(height, dtype=np.float32) / height - float(rng.uniform(0.62, 0.8))) / 0.2
    x = (np.arange(width, dtype=np.float32) / width - canvas.camera.centre_x / canvas.camera.width) / 0.3
    return np.asarray(1 + np.float32(rng.uniform(0, 1.6)) * np.exp(-(y[:, None] ** 2) - x[None, :] ** 2))


def _lens(image: Image, shape: tuple[int, int], rng: np.random.Generator) -> Image:
    """Vignette, then defocus or motion blur (in pixels at 192 rows; larger pictures blur in proportion)."""
    height, width = shape
    y, x = np.linspace(-1, 1, height, dtype=np.float32), np.linspace(-1, 1, width, dtype=np.float32)
    image *= (1 - np.float32(rng.uniform(0, 0.3)) * 0.5 * (y[:, None] ** 2 + x[None, :] ** 2))[..., None]
    kind, unit = rng.random(), height / 192
    if kind < 0.3:
        return np.asarray(cv2.GaussianBlur(image, (0, 0), float(rng.uniform(0.3, 0.7)) * unit), np.float32)
    if kind < 0.36:
        smear = 2 * round(unit * float(rng.uniform(0.5, 0.9))) + 1
        return np.asarray(cv2.blur(image, (smear, 1)), np.float32)
    return image


def _develop(image: Image, rng: np.random.Generator) -> Image:
    """Exposure, white balance, saturation and hue, gamma, contrast, brightness."""
    exposed = image.reshape(-1, 3) @ (_colour_matrix(rng) * np.float32(_exposure(image, rng)))
    contrast, gamma = float(rng.uniform(0.9, 1.15)), float(rng.uniform(0.8, 1.1))
    curve = 255 * np.clip((np.arange(1025) / 1024) ** gamma, 0, 1)
    curve = (curve - 118) * contrast + 118 + float(rng.uniform(-8, 10))
    steps = np.clip(exposed * (1024 / 255), 0, 1024).astype(np.int16)
    return np.asarray(curve.astype(np.float32)[steps].reshape(image.shape))


def _sensor(image: Image, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Noise of brightness and of colour, then rounding to 8 bits."""
    height, width = image.shape[:2]
    level = min(float(rng.exponential(1.3)), 6.0)
    image += (noise.crop(rng, "fine", height, width) * np.float32(level))[..., None]
    for channel in range(3):
        image[..., channel] += noise.crop(rng, "fine", height, width) * np.float32(level * 0.5)
    return np.clip(np.rint(image), 0, 255).astype(np.uint8)


def _exposure(image: Image, rng: np.random.Generator) -> float:
    """Factor that brings the mean half-way to a random grey, as a camera's automatic exposure would."""
    mean = float(image.mean())
    return float((rng.uniform(85, 165) / max(mean, 8.0)) ** 0.6)


def _colour_matrix(rng: np.random.Generator) -> NDArray[np.float32]:
    """A 3x3 colour transform: turn of hue about grey, saturation, white balance; now and then grey only."""
    angle = math.radians(float(rng.normal(0, 5)))
    saturation = 0.0 if rng.random() < 0.03 else float(rng.uniform(0.6, 1.3))
    grey = np.full((3, 3), 1 / 3)
    cross = np.array([(0, -1, 1), (1, 0, -1), (-1, 1, 0)]) / math.sqrt(3)
    turn = grey + (np.eye(3) - grey) * math.cos(angle) + cross * math.sin(angle)
    matrix = (grey * (1 - saturation) + np.eye(3) * saturation) @ turn @ np.diag(rng.normal(1, 0.05, 3))
    return np.asarray(matrix, np.float32)
