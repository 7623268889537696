"""The page of all measurements in a folder: made anew only where the folder has changed, once at a time.

A file that is no measurement stops no other: the page names it. Refuses to know who sent a file.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from deploy.errors import InputError
from deploy.measurement import Measurement, read_measurement
from deploy.page import page

State = list[tuple[str, int, int]]


class Board:
    """The page of one folder, kept in memory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._one_at_a_time = asyncio.Lock()
        self._made_of: State | None = None
        self._html = ""

    async def html(self) -> str:
        """The page of what is in the folder now."""
        async with self._one_at_a_time:
            return await asyncio.to_thread(self._current)

    def _current(self) -> str:
        if (state := self._state()) != self._made_of:
            self._html, self._made_of = self._make(), state
        return self._html

    def _state(self) -> State:
        found = [(path.name, path.stat()) for path in sorted(self._folder.glob("*.json"))]
        return [(name, told.st_mtime_ns, told.st_size) for name, told in found]

    def _make(self) -> str:
        rows: list[Measurement] = []
        left_out: list[str] = []
        for path in sorted(self._folder.glob("*.json")):
            try:
                rows.append(read_measurement(path))
            except InputError as error:
                left_out.append(str(error).replace(f"{self._folder}{os.sep}", ""))
        return page(rows, left_out, home="/")
