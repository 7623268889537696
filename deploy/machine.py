"""What this machine is: CPU model, cores, memory, system. A figure that cannot be read is None."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path

from deploy.runtimes import default_threads


@dataclass(frozen=True)
class Machine:
    """`cores`: those this process may use; `memory_bytes`: the physical memory."""

    cpu_model: str | None
    architecture: str
    cores: int
    memory_bytes: int | None
    os: str
    python: str


def this_machine() -> Machine:
    """Read from the system; raises nothing."""
    return Machine(
        cpu_model=cpu_model(Path("/proc/cpuinfo"), Path("/proc/device-tree/model")),
        architecture=platform.machine(),
        cores=default_threads(),
        memory_bytes=_memory_bytes(),
        os=platform.platform(),
        python=platform.python_version(),
    )


def cpu_model(cpuinfo: Path, device_tree: Path) -> str | None:
    """The name of the processor (x86), or of the board (arm), else what the platform says."""
    for line in _text(cpuinfo).splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "Model") and value.strip():
            return value.strip()
    return _text(device_tree).strip("\0 \n") or platform.processor() or None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # not POSIX
        return None
