"""From the network's output to a label map at the frame's own size, and pictures of label maps.

Nearest neighbour follows the pixel-centre rule in whole numbers, source = floor((i + 1/2) * n / N), which
OpenCV's INTER_NEAREST_EXACT only approximates. Refuses to know the network: the manifest says what came out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from deploy.errors import GateError, InputError
from deploy.manifest import ClassInfo, Preprocess, TensorSpec
from deploy.preprocess import Image, Size, letterbox_window

Labels = npt.NDArray[np.uint8]
_UPSAMPLE = {"bilinear": cv2.INTER_LINEAR, "bicubic": cv2.INTER_CUBIC}


def output_to_labels(
    output: npt.NDArray[Any], spec: TensorSpec, size: Size, upsample: str = "bilinear"
) -> Labels:
    """A runtime's raw output for one frame -> `[h, w]` uint8 label map at the network's input size.

    Args:
        output: NHW label map of any integer type, or NCHW or NHWC logits.
        spec: the manifest's description of it.
        size: the network's input size.
        upsample: how logits are enlarged (`logits_to_labels`).

    Raises:
        GateError: logits that are not finite.
    """
    if spec.layout == "NHW":
        return np.asarray(output[0], np.uint8)
    logits = np.asarray(channels_first(output, spec), np.float32)
    if spec.scale is not None:
        logits = (logits - np.float32(spec.zero_point or 0)) * np.float32(spec.scale)
    return logits_to_labels(logits, size, upsample)


def channels_first(output: npt.NDArray[Any], spec: TensorSpec) -> npt.NDArray[Any]:
    """Logits in the manifest's layout -> `[N, C, h, w]`; a label map stays as it is."""
    return output.transpose(0, 3, 1, 2) if spec.layout == "NHWC" else output


def logits_to_labels(logits: npt.NDArray[np.float32], size: Size, upsample: str = "bilinear") -> Labels:
    """`[1, C, h, w]` logits -> `[H, W]` uint8: enlarged (bilinear or bicubic, pixel centres), then argmax.

    One class at a time against a running maximum: full-size logits of all classes never exist.

    Raises:
        GateError: a logit is nan or infinite (an overflow in half precision, most often).
        InputError: an unknown `upsample`.
    """
    if upsample not in _UPSAMPLE:
        raise InputError("upsample rule", got=upsample, expected=" or ".join(_UPSAMPLE))
    if not np.isfinite(logits).all():
        raise GateError(
            "the network's logits are not finite", fix="export with another precision, then verify"
        )
    planes = np.asarray(logits[0], np.float32)
    best = _enlarge(planes[0], size, upsample)
    labels = np.zeros(size, np.uint8)
    for index in range(1, len(planes)):
        plane = _enlarge(planes[index], size, upsample)
        np.copyto(labels, np.uint8(index), where=plane > best)
        np.maximum(best, plane, out=best)
    return labels


def to_frame_size(label_map: Labels, rule: Preprocess, frame_size: Size) -> Labels:
    """`[h, w]` label map at the network's size -> `[H, W]` at the frame's: undoes stretch or letterbox.

    Equal sizes return the array itself.
    """
    if label_map.shape == tuple(frame_size):
        return label_map
    if rule.resize == "letterbox":
        top, left, height, width = letterbox_window(frame_size, (label_map.shape[0], label_map.shape[1]))
        label_map = label_map[top : top + height, left : left + width]
    return nearest(label_map, frame_size)


def nearest(label_map: Labels, size: Size) -> Labels:
    """`[h, w]` -> `[H, W]` by nearest neighbour, pixel-centre rule; the smaller axis order is taken first."""
    rows, columns = (_source_index(n, wanted) for n, wanted in zip(label_map.shape, size, strict=True))
    if size[0] < label_map.shape[0]:
        return np.take(np.take(label_map, rows, axis=0), columns, axis=1)
    return np.take(np.take(label_map, columns, axis=1), rows, axis=0)


def colour_table(classes: Sequence[ClassInfo]) -> npt.NDArray[np.uint8]:
    """`[256, 3]` uint8 RGB colour of every label value; ids without a class are black."""
    table = np.zeros((256, 3), np.uint8)
    for info in classes:
        table[info.id] = info.colour
    return table


def colourise(label_map: Labels, classes: Sequence[ClassInfo]) -> Image:
    """`[H, W]` label map -> `[H, W, 3]` uint8 RGB in the classes' colours."""
    return np.asarray(cv2.applyColorMap(label_map, colour_table(classes)[:, None]), np.uint8)


def overlay(image: Image, label_map: Labels, classes: Sequence[ClassInfo], opacity: float = 0.5) -> Image:
    """`[H, W, 3]` uint8 RGB frame with the classes' colours over it; opacity 0 (frame) to 1 (colours)."""
    mixed = cv2.addWeighted(image, 1 - opacity, colourise(label_map, classes), opacity, 0)
    return np.asarray(mixed, np.uint8)


def _source_index(count: int, wanted: int) -> npt.NDArray[np.intp]:
    return (2 * np.arange(wanted, dtype=np.intp) + 1) * count // (2 * wanted)


def _enlarge(plane: npt.NDArray[np.float32], size: Size, upsample: str) -> npt.NDArray[np.float32]:
    if plane.shape == tuple(size):
        return np.array(plane, np.float32)
    return np.asarray(cv2.resize(plane, (size[1], size[0]), interpolation=_UPSAMPLE[upsample]), np.float32)
