"""The screen: a window where OpenCV has a GUI, else a view in a browser on loopback, or nothing at all.

Refuses to know what keys mean.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import cv2

from deploy.errors import InputError
from deploy.preprocess import Image

_TITLE = "edgeseg"


class Display(Protocol):
    """Shows pictures and tells keys."""

    def show(self, picture: Image) -> None:
        """`[H, W, 3]` uint8 RGB."""

    def key(self) -> str:
        """The key pressed since, or "" (waits a millisecond at most)."""


@contextmanager
def open_display(kind: str, port: int) -> Iterator[Display]:
    """The display of a kind; "auto" is a window, or else the browser.

    Raises:
        InputError: no GUI, or the browser view's packages are missing.
    """
    if kind == "none":
        yield Nothing()
    elif kind == "window" or (kind == "auto" and has_gui()):
        if not has_gui():
            fix = "--view browser, or the system's OpenCV (apt-get install python3-opencv)"
            raise InputError("a window", "an OpenCV or a session without a GUI", "both with one", fix)
        cv2.namedWindow(_TITLE, cv2.WINDOW_NORMAL)
        try:
            yield Window()
        finally:
            cv2.destroyAllWindows()
    else:
        from deploy.live.browser import open_view

        with open_view(port) as view:
            yield view


def has_gui() -> bool:
    """Whether OpenCV can open a window here."""
    lines = map(str.strip, cv2.getBuildInformation().splitlines())
    built = next((line for line in lines if line.startswith("GUI:")), "")
    screen = sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    return screen and bool(built) and "NONE" not in built


class Window:
    """OpenCV's own."""

    def show(self, picture: Image) -> None:
        """Put the picture up."""
        cv2.imshow(_TITLE, cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))

    def key(self) -> str:
        """What OpenCV saw; a closed window is "q"."""
        code = cv2.waitKey(1)
        if cv2.getWindowProperty(_TITLE, cv2.WND_PROP_VISIBLE) < 1:
            return "q"
        return "q" if code == 27 else chr(code & 0xFF) if code >= 0 else ""


class Nothing:
    """For recording alone."""

    def show(self, picture: Image) -> None:
        """Nothing."""

    def key(self) -> str:
        """None."""
        return ""
