"""A progress line on stderr, only where a person watches (a terminal)."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from time import monotonic
from typing import TypeVar

T = TypeVar("T")
_INTERVAL_S = 0.2


def track(items: Sequence[T], what: str) -> Iterator[T]:
    """Yield the items; on a terminal, keep one line up to date: what, how many, time left."""
    shown = sys.stderr.isatty()
    start = last = monotonic()
    for done, item in enumerate(items):
        yield item
        now = monotonic()
        if shown and (now - last >= _INTERVAL_S or done + 1 == len(items)):
            last = now
            left = (now - start) / (done + 1) * (len(items) - done - 1)
            sys.stderr.write(f"\r{what} {done + 1}/{len(items)}, {left:.0f} s left \033[K")
            sys.stderr.flush()
    if shown:
        sys.stderr.write("\r\033[K")
