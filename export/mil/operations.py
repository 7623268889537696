"""The operations of ML Programs that segmenters use, one function each, in NumPy.

A function's parameters are the operation's, with its defaults; an operation, or a parameter, that is not
here is refused by name and not guessed. Each computes in float32 from the stored inputs; rounding its
result is `Arithmetic.finish`. Refuses to know where arguments come from.

Source: the operation set CoreML7 (iOS 17) as coremltools documents it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from export.mil.arithmetic import Arithmetic
from export.mil.convolution import conv
from export.mil.weights import constexpr_affine_dequantize, constexpr_lut_to_dense

Array = npt.NDArray[Any]
_CASTS = {"fp16": np.float32, "fp32": np.float32, "int32": np.int32, "uint8": np.uint8, "bool": np.bool_}


def const(math: Arithmetic, val: Array) -> Array:
    """A stored constant."""
    return val


def add(math: Arithmetic, x: Array, y: Array) -> Array:
    """x + y"""
    return np.asarray(np.add(x, y))


def sub(math: Arithmetic, x: Array, y: Array) -> Array:
    """x - y"""
    return np.asarray(np.subtract(x, y))


def mul(math: Arithmetic, x: Array, y: Array) -> Array:
    """x * y"""
    return np.asarray(np.multiply(x, y))


def real_div(math: Arithmetic, x: Array, y: Array) -> Array:
    """x / y; 0 / 0 is nan."""
    return np.asarray(np.divide(x, y))


def abs_(math: Arithmetic, x: Array) -> Array:
    """|x|"""
    return np.asarray(np.abs(x))


def inverse(math: Arithmetic, x: Array, epsilon: float = 1e-4) -> Array:
    """1 / (x + epsilon): the epsilon is the operation's own, and not 0 by default."""
    return np.asarray(1 / (x + np.float32(epsilon)))


def rsqrt(math: Arithmetic, x: Array, epsilon: float = 1e-12) -> Array:
    """1 / sqrt(x + epsilon)"""
    return np.asarray(1 / np.sqrt(x + np.float32(epsilon)))


def relu(math: Arithmetic, x: Array) -> Array:
    """max(x, 0)"""
    return np.asarray(np.maximum(x, np.float32(0)))


def clip(math: Arithmetic, x: Array, alpha: float, beta: float) -> Array:
    """x within alpha..beta."""
    return np.asarray(np.clip(x, np.float32(alpha), np.float32(beta)))


def thresholded_relu(math: Arithmetic, x: Array, alpha: float = 1.0) -> Array:
    """x where it is at least alpha, else 0; nan stays nan."""
    return np.where(x < np.float32(alpha), np.float32(0), x)


def sigmoid_hard(math: Arithmetic, x: Array, alpha: float = 0.2, beta: float = 0.5) -> Array:
    """alpha x + beta within 0..1."""
    return np.asarray(np.clip(np.float32(alpha) * x + np.float32(beta), np.float32(0), np.float32(1)))


def gelu(math: Arithmetic, x: Array, mode: str = "EXACT") -> Array:
    """The tanh form of x * Phi(x); the exact form is not used by these networks."""
    if mode != "TANH_APPROXIMATION":
        raise NotImplementedError(f"mode {mode}")
    inner = np.float32(np.sqrt(2 / np.pi)) * (x + np.float32(0.044715) * x * x * x)
    return np.asarray(np.float32(0.5) * x * (1 + np.tanh(inner)))


def softmax(math: Arithmetic, x: Array, axis: int = -1) -> Array:
    """e^x / sum of e^x along an axis, after subtracting the largest."""
    powers = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(powers / math.sum(powers, (axis % x.ndim,), True))


def matmul(
    math: Arithmetic, x: Array, y: Array, transpose_x: bool = False, transpose_y: bool = False
) -> Array:
    """Matrix product of the last two axes; the others broadcast."""
    return math.matmul(
        np.swapaxes(x, -1, -2) if transpose_x else x, np.swapaxes(y, -1, -2) if transpose_y else y
    )


def reduce_sum(math: Arithmetic, x: Array, axes: Array | None = None, keep_dims: bool = False) -> Array:
    """Sum over axes (None: all)."""
    return math.sum(x, _axes(x, axes), keep_dims)


def reduce_max(math: Arithmetic, x: Array, axes: Array | None = None, keep_dims: bool = False) -> Array:
    """Largest over axes (None: all)."""
    return np.asarray(x.max(_axes(x, axes), keepdims=keep_dims))


def reduce_argmax(
    math: Arithmetic, x: Array, axis: int = -1, keep_dims: bool = False, output_dtype: str = "int32"
) -> Array:
    """Index of the largest along an axis, the first one where several are."""
    found = x.argmax(axis, keepdims=keep_dims)
    return np.asarray(found, _CASTS[output_dtype])


def cast(math: Arithmetic, x: Array, dtype: str) -> Array:
    """To another type; floats are cut off towards zero, integers wrap."""
    return np.asarray(x).astype(_CASTS[dtype])


def reshape(math: Arithmetic, x: Array, shape: Array) -> Array:
    """0 keeps a side, -1 is what remains."""
    sides = [x.shape[index] if side == 0 else int(side) for index, side in enumerate(shape.tolist())]
    return x.reshape(sides)


def transpose(math: Arithmetic, x: Array, perm: Array) -> Array:
    """Axes in another order."""
    return np.asarray(x.transpose(perm.tolist()))


def expand_dims(math: Arithmetic, x: Array, axes: Array) -> Array:
    """New axes of 1, counted in the result."""
    return np.expand_dims(x, tuple(axes.tolist()))


def concat(math: Arithmetic, values: tuple[Array, ...], axis: int, interleave: bool = False) -> Array:
    """One after the other along an axis."""
    if interleave:
        raise NotImplementedError("interleave")
    return np.concatenate(values, axis)


def split(
    math: Arithmetic,
    x: Array,
    axis: int,
    num_splits: int | None = None,
    split_sizes: Array | None = None,
) -> list[Array]:
    """Equal parts, or parts of the given sizes."""
    if split_sizes is None:
        assert num_splits is not None, "one of the two is given"
        return list(np.split(x, num_splits, axis))
    return list(np.split(x, np.cumsum(split_sizes)[:-1].tolist(), axis))


def slice_by_index(
    math: Arithmetic,
    x: Array,
    begin: Array,
    end: Array,
    stride: Array | None = None,
    begin_mask: Array | None = None,
    end_mask: Array | None = None,
    squeeze_mask: Array | None = None,
) -> Array:
    """Python's slices, an axis each; a masked begin or end is the axis's own."""
    count = len(begin)
    open_begin, open_end, single = (_mask(mask, count) for mask in (begin_mask, end_mask, squeeze_mask))
    steps = [1] * count if stride is None else stride.tolist()
    slices = [
        int(begin[axis])
        if single[axis]
        else slice(
            None if open_begin[axis] else int(begin[axis]),
            None if open_end[axis] else int(end[axis]),
            steps[axis],
        )
        for axis in range(count)
    ]
    return np.asarray(x[tuple(slices)])


def _mask(mask: Array | None, count: int) -> Sequence[bool]:
    return [False] * count if mask is None else mask.tolist()


def _axes(x: Array, axes: Array | None) -> tuple[int, ...]:
    return tuple(range(x.ndim)) if axes is None else tuple(axis % x.ndim for axis in axes.tolist())


Function = Callable[..., "Array | list[Array]"]
OPERATIONS: dict[str, Function] = {
    function.__name__.rstrip("_"): function
    for function in (
        *(abs_, add, cast, clip, concat, const, constexpr_affine_dequantize, constexpr_lut_to_dense, conv),
        *(expand_dims, gelu, inverse, matmul, mul, real_div, reduce_argmax, reduce_max, reduce_sum, relu),
        *(reshape, rsqrt, sigmoid_hard, slice_by_index, softmax, split, sub, thresholded_relu, transpose),
    )
}
