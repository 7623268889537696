"""A progress line on stderr, only where a person watches (a terminal), or $EDGESEG_PROGRESS asks for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from time import monotonic
from types import TracebackType
from typing import TypeVar

T = TypeVar("T")
_TERMINAL_S, _FILE_S = 0.2, 2.0


class Bar:
    """One line that is kept up to date: what, how much of how much, time left. A context manager.

    With $EDGESEG_PROGRESS set, also a line every two seconds where stderr is a file (for another process).
    """

    def __init__(self, what: str, total: float) -> None:
        self._what, self._total = what, total
        self._terminal = sys.stderr.isatty()
        self._shown = self._terminal or bool(os.environ.get("EDGESEG_PROGRESS"))
        self._interval_s = _TERMINAL_S if self._terminal else _FILE_S
        self._start = self._last = monotonic()

    def show(self, done: float) -> None:
        """Bring the line up to date, a few times a second at most."""
        now = monotonic()
        if self._shown and done and (now - self._last >= self._interval_s or done >= self._total):
            self._last = now
            left = (now - self._start) / done * (self._total - done)
            text = f"{self._what} {done:.0f}/{self._total:.0f}, {max(0.0, left):.0f} s left"
            sys.stderr.write(f"\r{text} \033[K" if self._terminal else f"{text}\n")
            sys.stderr.flush()

    def __enter__(self) -> Bar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._terminal:
            sys.stderr.write("\r\033[K")


def track(items: Sequence[T], what: str) -> Iterator[T]:
    """Yield the items; show how many are done."""
    with Bar(what, len(items)) as bar:
        for done, item in enumerate(items, 1):
            yield item
            bar.show(done)
