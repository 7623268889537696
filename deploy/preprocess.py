"""From an image file to the network's input: read, window, resize, normalise. One code for host and device.

Linear interpolation is OpenCV's bit-exact variant, so that every processor gives the same bytes. Refuses to
know how the network came about; everything it needs is in the manifest's `Preprocess` and `TensorSpec`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from deploy.errors import InputError
from deploy.imagefile import decode, read_bytes
from deploy.manifest import Preprocess, TensorSpec

Image = npt.NDArray[np.uint8]
Hounsfield = npt.NDArray[np.int16]
Size = tuple[int, int]
Window = tuple[float, float]


@dataclass(frozen=True)
class HuScale:
    """How stored 16-bit pixels are shown: they are Hounsfield units + `offset`; `window` is (low, high)."""

    offset: int
    window: Window


def read_image(path: Path | str, hu: HuScale | None = None) -> Image:
    """A file's pixels: `[H, W, 3]` uint8 RGB.

    EXIF orientation is applied; 16 bits are scaled to 8 by 255/65535 and rounded; grey becomes three equal
    channels; palettes are expanded; alpha is dropped, leaving the stored colours. Any path is fine. With `hu`
    the pixels are Hounsfield units, windowed instead.

    Raises:
        InputError: missing, truncated, unreadable, too large, floating point, or not 16 bits with `hu` (the
            file is named).
    """
    path = Path(path)
    if hu:
        return window_hu(read_hu(path, hu.offset), hu.window)
    pixels = decode(read_bytes(path), path)
    if pixels.dtype == np.uint16:
        pixels = cv2.convertScaleAbs(pixels, alpha=255 / 65535)
    if pixels.dtype != np.uint8 or pixels.ndim != 3:
        raise InputError(
            f"{path}", got=f"{pixels.dtype} pixels", expected="8 or 16 bits", fix="convert the image"
        )
    return np.asarray(cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB), np.uint8)


def read_hu(path: Path, offset: int) -> Hounsfield:
    """A 16-bit file's Hounsfield units, stored value - `offset`: `[H, W, 3]` int16.

    Raises:
        InputError: as `read_image`, not 16 bits, or values that leave int16 (the file is named).
    """
    pixels = decode(read_bytes(path), path)
    if pixels.dtype != np.uint16:
        got, fix = f"{pixels.dtype} pixels", "prepare the folder again"
        raise InputError(f"{path}", got, "16 bits: Hounsfield units + hu_offset", fix)
    values = cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB).astype(np.int32) - offset
    if values.min() < -32768 or values.max() > 32767:
        raise InputError(f"{path}: Hounsfield units", f"{values.min()}..{values.max()}", "-32768..32767")
    return values.astype(np.int16)


def window_hu(hu: Hounsfield, window: Window) -> Image:
    """Hounsfield units of any shape -> uint8: clipped to the window, low -> 0, high -> 255, rounded."""
    low, high = (np.float32(value) for value in window)
    inside = np.clip(hu.astype(np.float32), low, high)
    return np.asarray(np.rint((inside - low) * (np.float32(255) / (high - low))), np.uint8)


def prepare_input(image: Image, rule: Preprocess, spec: TensorSpec) -> npt.NDArray[Any]:
    """`[H, W, 3]` uint8 RGB frame -> the network's input, shape `spec.shape`, dtype `spec.dtype`.

    In the graph: `[1, h, w, 3]` uint8. Otherwise floats, `[1, 3, h, w]` or `[1, h, w, 3]` by the layout,
    (value / 255 - mean) / std.

    Raises:
        InputError: the manifest asks for an input this code cannot make.
    """
    resized = resize_image(image, rule.size, rule.resize, rule.interpolation, pad_colour(rule))
    if rule.in_graph and (spec.layout, spec.dtype) == ("NHWC", "uint8"):
        return resized[None]
    if not rule.in_graph and spec.dtype in ("float32", "float16"):
        planes = normalise(resized, rule).astype(spec.dtype, copy=False)
        return (planes if spec.layout == "NCHW" else np.ascontiguousarray(planes.transpose(1, 2, 0)))[None]
    got = f"{spec.dtype} {spec.layout}, in_graph {rule.in_graph}"
    raise InputError(
        f"input {spec.name}", got=got, expected="uint8 NHWC in graph, or floats", fix="update deploy"
    )


def normalise(image: Image, rule: Preprocess) -> npt.NDArray[np.float32]:
    """`[h, w, 3]` uint8 -> `[3, h, w]` float32, (value / 255 - mean) / std."""
    scale = (1 / (255 * np.asarray(rule.std))).astype(np.float32)
    shift = (-np.asarray(rule.mean) / np.asarray(rule.std)).astype(np.float32)
    planes = np.empty((3, *image.shape[:2]), np.float32)
    for channel in range(3):
        np.multiply(image[:, :, channel], scale[channel], out=planes[channel])
        planes[channel] += shift[channel]
    return planes


def resize_image(
    image: Image, size: Size, rule: str, interpolation: str, pad: tuple[int, int, int] = (0, 0, 0)
) -> Image:
    """`[H, W, 3]` -> `[h, w, 3]` uint8; "stretch" fills the size, "letterbox" keeps the aspect and pads."""
    if image.shape[:2] == tuple(size):
        return np.ascontiguousarray(image)
    if rule == "stretch":
        return _scale(image, size, interpolation)
    top, left, height, width = letterbox_window((image.shape[0], image.shape[1]), size)
    canvas = np.empty((*size, 3), np.uint8)
    canvas[:] = pad
    canvas[top : top + height, left : left + width] = _scale(image, (height, width), interpolation)
    return canvas


def letterbox_window(frame: Size, size: Size) -> tuple[int, int, int, int]:
    """(top, left, height, width) of a frame that is scaled to fit into `size`, centred."""
    ratio = min(size[0] / frame[0], size[1] / frame[1])
    height, width = (max(1, min(limit, round(side * ratio))) for side, limit in zip(frame, size, strict=True))
    return (size[0] - height) // 2, (size[1] - width) // 2, height, width


def pad_colour(rule: Preprocess) -> tuple[int, int, int]:
    """The mean colour, which normalises to about 0."""
    red, green, blue = (min(255, max(0, round(255 * value))) for value in rule.mean)
    return red, green, blue


def _scale(image: Image, size: Size, interpolation: str) -> Image:
    shrinks = size[0] <= image.shape[0] and size[1] <= image.shape[1]
    method = cv2.INTER_AREA if interpolation == "area" and shrinks else cv2.INTER_LINEAR_EXACT
    return np.asarray(cv2.resize(image, (size[1], size[0]), interpolation=method), np.uint8)
