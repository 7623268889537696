"""A bank of periodic noise fields, made once per process from a fixed seed and cropped at random.

Cropping a stored field costs a tenth of drawing a new one; the field is the same in every process, so a
sample depends only on its own draws. Fields have mean 0 and standard deviation 1.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SIDE = 512
_BLUR = {"fine": 0.0, "leafy": 1.6, "blotchy": 7.0, "smooth": 28.0}  # standard deviation in pixels


@cache
def _field(name: str) -> NDArray[np.float32]:
    """A field, stored two by two so that any crop is a slice: blurred white noise; "cloud" sums octaves."""
    if name == "cloud":
        octaves = [
            _blurred(seed, sigma) * sigma for seed, sigma in ((5, 3.0), (6, 7.0), (7, 16.0), (8, 36.0))
        ]
        return np.tile(_normalised(sum(octaves[1:], octaves[0])), (2, 2))
    return np.tile(_blurred(sorted(_BLUR).index(name), _BLUR[name]), (2, 2))


def _blurred(seed: int, sigma: float) -> NDArray[np.float32]:
    """Gaussian-blurred white noise, periodic (the blur is a product in the Fourier domain)."""
    white = np.random.default_rng(9000 + seed).standard_normal((_SIDE, _SIDE))
    frequency = np.fft.fftfreq(_SIDE)
    gain = np.exp(-2 * (np.pi * sigma) ** 2 * frequency**2)
    return _normalised(np.fft.ifft2(np.fft.fft2(white) * gain[:, None] * gain[None, :]).real)


def _normalised(field: NDArray[Any]) -> NDArray[np.float32]:
    return np.asarray((field - field.mean()) / field.std(), np.float32)


def crop(rng: np.random.Generator, name: str, height: int, width: int) -> NDArray[np.float32]:
    """A random `[height, width]` float32 crop of a field, randomly mirrored, wrapping at the edges."""
    field = _field(name)
    top, left = int(rng.integers(_SIDE)), int(rng.integers(_SIDE))
    mirrored = rng.random() < 0.5
    if height > _SIDE or width > _SIDE:
        field = np.tile(field, (-(-(top + height) // (2 * _SIDE)), -(-(left + width) // (2 * _SIDE))))
    cut = field[top : top + height, left : left + width]
    return cut[:, ::-1] if mirrored else cut
