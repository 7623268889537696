"""Weights that are stored small and widened before anything runs: quantised linearly, or by a palette.

Refuses to know where the bytes are from. Source: operations `constexpr_*` of CoreML6/7.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from export.mil.arithmetic import Arithmetic

Array = npt.NDArray[Any]


def constexpr_affine_dequantize(
    math: Arithmetic, quantized_data: Array, zero_point: Array | int, scale: Array | float, axis: int
) -> Array:
    """(quantized_data - zero_point) * scale; an array of these belongs to the axis."""
    shape = [1] * quantized_data.ndim
    shape[axis] = -1
    offset, factor = (np.asarray(x, np.float32) for x in (zero_point, scale))
    if offset.ndim or factor.ndim:
        offset, factor = (x.reshape(shape) if x.ndim else x for x in (offset, factor))
    return np.asarray((quantized_data.astype(np.float32) - offset) * factor)


def constexpr_lut_to_dense(math: Arithmetic, indices: Array, lut: Array, shape: Array) -> Array:
    """Palette entries by index; indices are packed, log2(palette) bits each, lowest bit first."""
    bits = len(lut).bit_length() - 1
    count = int(np.prod(shape, dtype=np.int64))
    stream = np.unpackbits(indices, bitorder="little")[: count * bits].reshape(count, bits)
    index = stream @ (1 << np.arange(bits))
    return np.asarray(lut.astype(np.float32)[index].reshape(shape.tolist()))
