"""Ctrl-C (and SIGTERM) between two steps instead of within one, so that a checkpoint can be written first."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType


class Interrupt:
    """Whether the user asked to stop."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """First signal: remember it. Second: stop at once."""
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


@contextmanager
def listening() -> Iterator[Interrupt]:
    """Handle the signals while the block runs (in the main thread only; elsewhere they cannot be)."""
    interrupt = Interrupt()
    numbers = (signal.SIGINT, signal.SIGTERM) if current_thread() is main_thread() else ()
    before = [signal.signal(number, interrupt) for number in numbers]
    try:
        yield interrupt
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
