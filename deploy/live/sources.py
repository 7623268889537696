"""Where the demo's frames come from: a camera, a stream, a GStreamer pipeline, a video or a folder.

A live source is read in a thread of its own that keeps only the newest frame and counts the ones nobody took;
of a video or a folder every frame comes, in order. Refuses to know what is done with frames.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Condition, Thread
from typing import Any, Protocol

import cv2

from deploy.errors import InputError
from deploy.preprocess import Image, read_image
from deploy.run import list_images
from deploy.video import UNPLAYABLE, frame_rate, open_capture, to_rgb

LIVE_FPS, FOLDER_FPS = 15.0, 2.0
_SCHEMES = ("rtsp://", "rtsps://", "rtmp://", "udp://", "http://", "https://")
_PATIENCE_S = 10.0


class Source(Protocol):
    """Frames, one by one.

    `fps`: how many a second are meant to be seen; `live`: they do not wait; `dropped`: live ones not taken;
    `failures`: images that were skipped.
    """

    fps: float
    live: bool
    dropped: int
    failures: list[InputError]

    def next(self) -> Image | None:
        """`[H, W, 3]` uint8 RGB, or None at the end."""


@contextmanager
def open_source(text: str) -> Iterator[Source]:
    """A camera's number, a video file, a folder of images, an address, or a GStreamer pipeline (with "!").

    Raises:
        InputError: it is none of these, or cannot be opened.
    """
    if os.path.isdir(text):
        yield FolderSource(Path(text))
        return
    live = text.isdecimal() or not os.path.isfile(text)
    capture = _capture(text)
    source = LiveSource(capture, text) if live else VideoSource(capture)
    try:
        yield source
    finally:
        if isinstance(source, LiveSource):
            source.stop()  # before the capture goes that its thread reads
        capture.release()


def has_gstreamer() -> bool:
    """Whether this OpenCV was built with it (the packages of PyPI are not)."""
    return bool(cv2.videoio_registry.hasBackend(cv2.CAP_GSTREAMER))


def _capture(text: str) -> Any:
    if text.isdecimal():
        return open_capture(int(text), "is it there, free and readable? Another program may hold the camera")
    if os.path.isfile(text):
        return open_capture(text, UNPLAYABLE)
    if text.startswith(_SCHEMES):
        return open_capture(text, "does it answer, and does another player show it?")
    if "!" not in text:
        expected = "a camera's number, a video, a folder, or rtsp://..."
        raise InputError(f"no source {text!r}", expected=expected)
    if not has_gstreamer():
        fix = "use the system's OpenCV: JetPack's, or apt-get install python3-opencv"
        raise InputError("a GStreamer source", "an OpenCV without GStreamer", "one that has it", fix)
    return open_capture(text, "does gst-launch-1.0 play it?", cv2.CAP_GSTREAMER)


class VideoSource:
    """Every frame of a file."""

    live = False
    dropped = 0

    def __init__(self, capture: Any) -> None:
        self.fps = frame_rate(capture)
        self.failures: list[InputError] = []
        self._capture = capture

    def next(self) -> Image | None:
        """The next frame."""
        found, pixels = self._capture.read()
        return to_rgb(pixels) if found else None


class FolderSource:
    """Every image of a folder, by name; a damaged one does not stop the others.

    Raises:
        InputError: there is none.
    """

    live = False
    dropped = 0
    fps = FOLDER_FPS

    def __init__(self, folder: Path) -> None:
        self.failures: list[InputError] = []
        self._paths = list(list_images(folder).values())

    def next(self) -> Image | None:
        """The next image that can be read."""
        while self._paths:
            try:
                return read_image(self._paths.pop(0))
            except InputError as error:
                self.failures.append(error)
        return None


class LiveSource:
    """The newest frame of a source that does not wait.

    Raises:
        InputError: no frame came for ten seconds.
    """

    live = True
    fps = LIVE_FPS

    def __init__(self, capture: Any, name: str) -> None:
        self.dropped = 0
        self.failures: list[InputError] = []
        self._capture, self._name = capture, name
        self._newest: Any = None
        self._ended = False
        self._changed = Condition()
        self._thread = Thread(target=self._read, daemon=True)
        self._thread.start()

    def next(self) -> Image | None:
        """The newest frame; waits where it was already taken."""
        with self._changed:
            came = self._changed.wait_for(lambda: self._newest is not None or self._ended, _PATIENCE_S)
            pixels, self._newest = self._newest, None
        if not came:
            raise InputError(f"{self._name}: no frame for {_PATIENCE_S:.0f} s", fix="is it still connected?")
        return None if pixels is None else to_rgb(pixels)

    def stop(self) -> None:
        """End the thread."""
        with self._changed:
            self._ended = True
        self._thread.join(_PATIENCE_S)

    def _read(self) -> None:
        while not self._ended:
            found, pixels = self._capture.read()
            with self._changed:
                self.dropped += found and self._newest is not None
                self._newest = pixels if found else self._newest
                self._ended = self._ended or not found
                self._changed.notify()
