"""A bundle's base and its domains as segmenters in one process: each loaded when first asked for, then kept.

Changing the domain from one frame to the next then costs no load. Refuses to know which frame is of which
domain.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from deploy.bundle import load_bundle
from deploy.segmenter import Segmenter


class Switch:
    """Segmenters by domain, `None` for the base; a context manager that frees all of them at the end.

    Args:
        root: the bundle's folder. threads: of each runtime; None takes every core of this process.

    Raises:
        InputError: when a domain is asked for: no such one, a damaged bundle, or a runtime that refuses it.
    """

    def __init__(self, root: Path | str, threads: int | None = None) -> None:
        self._root, self._threads = root, threads
        self._open: dict[str | None, Segmenter] = {}

    def __getitem__(self, domain: str | None) -> Segmenter:
        """The segmenter of this domain."""
        if domain not in self._open:
            self._open[domain] = Segmenter(load_bundle(self._root, domain=domain), self._threads)
        return self._open[domain]

    def __enter__(self) -> Switch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._open:
            self._open.popitem()[1].close()
