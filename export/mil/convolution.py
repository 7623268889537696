"""Convolution as a matrix product: the windows of an image as columns, the kernels as rows, group by group.

Refuses to know how products accumulate (`Arithmetic`). Source: operation `conv` of CoreML7.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from export.mil.arithmetic import Arithmetic

Array = npt.NDArray[Any]


def conv(
    math: Arithmetic,
    x: Array,
    weight: Array,
    bias: Array | None = None,
    strides: Array | None = None,
    pad_type: str = "valid",
    pad: Array | None = None,
    dilations: Array | None = None,
    groups: int = 1,
) -> Array:
    """`[B, C, H, W]` and kernels `[C', C / groups, h, w]` -> `[B, C', H', W']`; padding is zeros.

    `pad` (with pad_type "custom") is top, bottom, left, right.
    """
    if pad_type not in ("valid", "custom"):
        raise NotImplementedError(f"pad_type {pad_type}")
    if dilations is not None and any(dilations.tolist()[axis] != 1 for axis in (0, 1)):
        raise NotImplementedError("dilations")
    if pad is not None and pad_type == "custom":
        top, bottom, left, right = pad.tolist()
        x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    columns, size = _windows(x, weight.shape[2:], (1, 1) if strides is None else tuple(strides.tolist()))
    batch, count = len(x), len(weight)
    columns = columns.reshape(batch, groups, -1, size[0] * size[1])
    product = math.matmul(weight.reshape(groups, count // groups, -1), columns).reshape(batch, count, *size)
    return product if bias is None else product + bias.reshape(1, count, 1, 1)


def _windows(x: Array, kernel: tuple[int, int], strides: tuple[int, int]) -> tuple[Array, tuple[int, int]]:
    """`[B, C, H, W]` -> (`[B, C h w, H' W']`, (H', W'))."""
    if kernel == (1, 1):
        x = x[:, :, :: strides[0], :: strides[1]]
        return x.reshape(*x.shape[:2], -1), x.shape[2:]
    windows: Array = np.lib.stride_tricks.sliding_window_view(x, kernel, (2, 3))  # type: ignore[call-overload]
    windows = windows[:, :, :: strides[0], :: strides[1]]
    batch, channels, height, width = windows.shape[:4]
    columns = windows.transpose(0, 1, 4, 5, 2, 3).reshape(batch, channels * kernel[0] * kernel[1], -1)
    return columns, (height, width)
