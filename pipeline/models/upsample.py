"""Bicubic and bilinear resizing as two constant matrices: the same function as torch's, in matmuls only.

An interpolation along one axis is linear in the pixels, so it is a matrix; columns first, then rows. No
target then needs a Resize operator (slow or missing in most runtimes), and the sizes may be anything.

Matrices are made by NumPy, outside any traced code, and reach an exported graph as buffers: built inside
`forward` they hang torch.export. Refuses to know: what is resized.

Source: torch's `interpolate(align_corners=False)`; Keys, "Cubic convolution interpolation", 1981 (a = -0.75).
"""

from __future__ import annotations

import copy
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

Size = tuple[int, int]
Model = TypeVar("Model", bound=nn.Module)
CUBIC_A = -0.75


def _cubic_weights(t: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Keys' kernel at distances 1 + t, t, 1 - t, 2 - t: `[4, n]`."""
    near = lambda x: ((CUBIC_A + 2) * x - (CUBIC_A + 3)) * x * x + 1  # noqa: E731
    far = lambda x: ((CUBIC_A * x - 5 * CUBIC_A) * x + 8 * CUBIC_A) * x - 4 * CUBIC_A  # noqa: E731
    return np.stack([far(1 + t), near(t), near(1 - t), far(2 - t)])


@lru_cache(maxsize=512)
def interpolation_matrix(n_in: int, n_out: int, mode: str = "bicubic") -> npt.NDArray[np.float32]:
    """Matrix M with `M @ column` = the column resized: `[n_out, n_in]` float32, read-only.

    Args:
        mode: "bicubic" or "bilinear", with the semantics of `interpolate(size=n_out, align_corners=False)`.
    """
    if mode not in ("bicubic", "bilinear"):
        raise ValueError(f"unknown interpolation {mode!r}")
    # float32 steps as in torch, so that odd ratios round to the same source positions
    step = np.float32(n_in) / np.float32(n_out)
    source = (np.arange(n_out, dtype=np.float32) + np.float32(0.5)) * step - np.float32(0.5)
    if mode == "bilinear":
        source = np.maximum(source, np.float32(0))
    first = np.floor(source).astype(np.int64)
    t = source.astype(np.float64) - first
    weights = _cubic_weights(t) if mode == "bicubic" else np.stack([1 - t, t])
    matrix = np.zeros((n_out, n_in))
    offset = -1 if mode == "bicubic" else 0
    for tap, weight in enumerate(weights):
        column = np.clip(first + tap + offset, 0, n_in - 1)  # borders repeat
        np.add.at(matrix, (np.arange(n_out), column), weight)
    result = matrix.astype(np.float32)
    result.flags.writeable = False
    return result


def matrix_tensor(n_in: int, n_out: int, mode: str) -> Tensor:
    """`interpolation_matrix` as a fresh torch tensor."""
    return torch.from_numpy(interpolation_matrix(n_in, n_out, mode).copy())


@lru_cache(maxsize=256)
def _cached(n_in: int, n_out: int, mode: str, dtype: torch.dtype, device: torch.device) -> Tensor:
    with torch.inference_mode(False):  # a tensor made in inference mode could not be used in training later
        return matrix_tensor(n_in, n_out, mode).to(device=device, dtype=dtype)


def resize(x: Tensor, size: Size, mode: str = "bicubic") -> Tensor:
    """`[B, C, h, w]` -> `[B, C, *size]`, differentiable, with cached matrices. For training and eager use.

    Raises:
        ValueError: unknown mode.
    """
    (height, width), (rows, columns) = x.shape[-2:], size
    if columns != width:
        x = x @ _cached(width, columns, mode, x.dtype, x.device).T
    if rows != height:
        x = _cached(height, rows, mode, x.dtype, x.device) @ x
    return x


class Upsample(nn.Module):
    """Resizes to whatever size it is asked for (`resize` as a module, to be exchanged by `freeze_size`)."""

    def __init__(self, mode: str = "bicubic") -> None:
        super().__init__()
        self.mode = mode

    def forward(self, x: Tensor, size: Size) -> Tensor:
        """`[B, C, h, w]` -> `[B, C, *size]`."""
        return resize(x, size, self.mode)


class StaticUpsample(nn.Module):
    """Resizes from one fixed size to another with constant matrices (buffers outside the state dict)."""

    columns: Tensor
    rows: Tensor

    def __init__(self, size_in: Size, size_out: Size, mode: str = "bicubic") -> None:
        super().__init__()
        columns = matrix_tensor(size_in[1], size_out[1], mode).T.contiguous()
        self.register_buffer("columns", columns, persistent=False)
        self.register_buffer("rows", matrix_tensor(size_in[0], size_out[0], mode), persistent=False)

    def forward(self, x: Tensor, size: Size | None = None) -> Tensor:
        """`[B, C, *size_in]` -> `[B, C, *size_out]`; `size` is ignored: the matrices know it."""
        return self.rows @ (x @ self.columns)


def stage_size(size: Size, stride: int) -> Size:
    """Size of a feature map at a power-of-two stride: each halving rounds up."""
    return -(-size[0] // stride), -(-size[1] // stride)


def freeze_size(model: Model, size: Size) -> Model:
    """A copy of a segmenter whose upsampling is constant: ready for torch.export at inputs of `size`."""
    frozen = copy.deepcopy(model)
    head: Any = frozen.head
    target = stage_size(size, head.strides[-1])
    for index, stride in enumerate(head.strides[:-1]):
        mode = head.upsample[index].mode
        head.upsample[index] = StaticUpsample(stage_size(size, stride), target, mode)
    parameter = next(frozen.parameters())
    return frozen.to(device=parameter.device, dtype=parameter.dtype)
