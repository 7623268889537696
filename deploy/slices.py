"""From a slice of a volume to a frame, and from the frame's labels back onto the slice's own pixels.

One code for preparing training data and for the device. In plane a slice is resampled to one pixel spacing,
then cut or padded with air to one canvas, centred (`SliceRule`); both are undone for labels by nearest
neighbour. Refuses to know windows and networks: frames here are Hounsfield units.
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from deploy.manifest import SliceRule
from deploy.orientation import Affine
from deploy.postprocess import nearest
from deploy.volume import AIR, Hounsfield, Labels, Volume

Size = tuple[int, int]
Place = tuple[int, int]  # row and column of the canvas' corner in the resampled slice; negative: padded


def slice_frame(volume: Volume, index: int, rule: SliceRule) -> Hounsfield:
    """A slice as a frame: `[h, w, 3]` int16, three times the slice, or its neighbours around it."""
    planes = [_plane(volume.hu[at], volume, rule) for at in _channels(volume, index, rule)]
    return np.ascontiguousarray(np.stack(planes if len(planes) == 3 else planes * 3, axis=-1))


def slice_mask(labels: Labels, volume: Volume, rule: SliceRule) -> Labels:
    """Labels `[H, W]` of a slice on the frame's pixels, `[h, w]`; padding is background."""
    size, corner = layout(volume, rule)
    resampled = labels if size == labels.shape else nearest(labels, size)
    return resampled if rule.canvas is None else _window(resampled, corner, rule.canvas, 0)


def labels_of_slice(frame_labels: Labels, volume: Volume, rule: SliceRule) -> Labels:
    """Labels `[h, w]` of a frame on the slice's own pixels, `[H, W]`; outside of the canvas is background."""
    size, (top, left) = layout(volume, rule)
    resampled = frame_labels if rule.canvas is None else _window(frame_labels, (-top, -left), size, 0)
    full = (volume.hu.shape[1], volume.hu.shape[2])
    return np.ascontiguousarray(resampled if size == full else nearest(resampled, full))


def layout(volume: Volume, rule: SliceRule) -> tuple[Size, Place]:
    """(size of a resampled slice, where the canvas begins in it)."""
    _, height, width = volume.hu.shape
    if rule.spacing_mm is None or rule.canvas is None:
        return (height, width), (0, 0)
    _, row_mm, column_mm = volume.spacing_mm
    tall, wide = (
        max(1, round(height * row_mm / rule.spacing_mm)),
        max(1, round(width * column_mm / rule.spacing_mm)),
    )
    return (tall, wide), ((tall - rule.canvas[0]) // 2, (wide - rule.canvas[1]) // 2)


def frame_affine(volume: Volume, rule: SliceRule) -> Affine:
    """(column, row, slice, 1) of the frames -> mm: the volume's affine after resampling and cutting."""
    (tall, wide), (top, left) = layout(volume, rule)
    scale = np.array([volume.hu.shape[2] / wide, volume.hu.shape[1] / tall])
    matrix = np.eye(4)
    matrix[[0, 1], [0, 1]] = scale
    matrix[:2, 3] = (np.array([left, top]) + 0.5) * scale - 0.5  # pixel centres
    return volume.affine @ matrix


def _channels(volume: Volume, index: int, rule: SliceRule) -> list[int]:
    """Slices that a frame shows; at the ends of the volume the last one stands for those beyond."""
    if rule.neighbour_mm is None:
        return [index]
    step = max(1, round(rule.neighbour_mm / volume.spacing_mm[0]))
    last = len(volume.hu) - 1
    return [max(0, index - step), index, min(last, index + step)]


def _plane(hu: Hounsfield, volume: Volume, rule: SliceRule) -> Hounsfield:
    """One slice, resampled (area average where it shrinks, else linear) and cut."""
    size, corner = layout(volume, rule)
    if size != hu.shape:
        shrinks = size[0] <= hu.shape[0] and size[1] <= hu.shape[1]
        method = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
        hu = np.asarray(cv2.resize(hu, (size[1], size[0]), interpolation=method), np.int16)
    return hu if rule.canvas is None else _window(hu, corner, rule.canvas, AIR)


def _window(plane: npt.NDArray[Any], corner: Place, size: Size, pad: int) -> npt.NDArray[Any]:
    """`size` pixels of a plane from `corner` on; what lies outside of it gets the value `pad`."""
    result = np.full(size, pad, plane.dtype)
    (top, left), (height, width) = corner, plane.shape
    rows = slice(max(0, top), min(height, top + size[0]))
    columns = slice(max(0, left), min(width, left + size[1]))
    if rows.start < rows.stop and columns.start < columns.stop:
        result[rows.start - top : rows.stop - top, columns.start - left : columns.stop - left] = plane[
            rows, columns
        ]
    return result
