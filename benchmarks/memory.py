"""Memory of this process and of the machine, as Linux tells it. Refuses to know what uses it."""

from __future__ import annotations

import os
from pathlib import Path

from deploy.memory import own_peak_bytes


def resident_bytes() -> int:
    """Resident set of this process now; its peak until now where there is no /proc (not Linux)."""
    found = _field(Path("/proc/self/status"), "VmRSS")
    return own_peak_bytes() if found is None else found


def available_bytes() -> int:
    """Memory that a new process can have without swapping; all of it where there is no /proc."""
    found = _field(Path("/proc/meminfo"), "MemAvailable")
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if found is None else found


def _field(path: Path, name: str) -> int | None:
    """Bytes of a line such as `VmRSS:   123 kB`."""
    lines = path.read_text().splitlines() if path.is_file() else []
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")), None)
