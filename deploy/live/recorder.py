"""What the demo shows, as a file: every picture of a video, and of a live source in its true time.

The file is as large as the first picture; later ones of another size are scaled to it. It appears at the end,
whatever ended the demo: what was seen is kept. Refuses to know what is in the pictures.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import cv2

from deploy.errors import InputError
from deploy.live.sources import Source
from deploy.preprocess import Image
from deploy.video import writer


class Recorder:
    """A context manager that takes pictures.

    Raises:
        InputError: no .mp4; later, a place that cannot be written.
    """

    def __init__(self, path: Path, source: Source) -> None:
        if path.suffix.lower() != ".mp4":
            raise InputError(f"--record {path}", expected="a name that ends in .mp4")
        self._path, self._source, self._stack = path, source, ExitStack()
        self._encoder: Any = None
        self._size = (0, 0)
        self._begun, self._written = 0.0, 0

    def take(self, picture: Image) -> None:
        """Add `[H, W, 3]` uint8 RGB."""
        pixels = cv2.cvtColor(picture, cv2.COLOR_RGB2BGR)
        if self._encoder is None:
            self._begun = time.perf_counter()
            self._size = (pixels.shape[0], pixels.shape[1])
            self._encoder = self._stack.enter_context(writer(self._path, self._size, self._source.fps))
        if pixels.shape[:2] != self._size:
            pixels = cv2.resize(pixels, self._size[::-1], interpolation=cv2.INTER_AREA)
        for _ in range(self._due()):
            self._encoder.write(pixels)
            self._written += 1

    def _due(self) -> int:
        """How many frames of the file this picture stands for."""
        if not self._source.live:
            return 1
        return max(0, 1 + int((time.perf_counter() - self._begun) * self._source.fps) - self._written)

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.close()
