"""What this device is and how it fares: this folder is the registry, one probe a platform.

A probe module has `rank(host)` (the highest one speaks), `describe(host) -> Machine` and `Meter(host)`, whose
`read()` gives a `Sample`. A figure that cannot be had is None, and `absent` says why. Refuses to guess: what
a system does not say is not filled in.
"""

from __future__ import annotations

import importlib
import pkgutil
import platform
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, cast

from deploy.device._host import Figures, Host
from deploy.runtimes import default_threads


@dataclass(frozen=True)
class Machine:
    """A device and its settings, as they were when it was asked.

    `cores`: those this process may use; `cpu_limit`: how many of them its container may keep busy;
    `memory_bytes`: the physical memory; `clocks_locked`: at their highest by jetson_clocks; `throttled`: what
    the firmware says has slowed it down. `absent`: name of a figure that is None -> why.
    """

    cpu_model: str | None
    architecture: str
    cores: int
    memory_bytes: int | None
    os: str
    python: str | None
    platform: str | None = None
    board: str | None = None
    software: str | None = None
    governor: str | None = None
    max_clock_mhz: float | None = None
    power_mode: str | None = None
    clocks_locked: bool | None = None
    cpu_limit: float | None = None
    memory_limit_bytes: int | None = None
    throttled: tuple[str, ...] | None = None
    absent: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Sample:
    """One moment: mean clock of the cores, hottest sensor, power drawn; `absent` as in `Machine`."""

    clock_mhz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    absent: dict[str, str] = field(default_factory=dict)


class DeviceMeter(Protocol):
    """Reads samples; may remember the last one (energy counters give power only between two readings)."""

    def __init__(self, host: Host) -> None: ...

    def read(self) -> Sample:
        """The present moment; raises nothing."""


class Probe(Protocol):
    """What a file in this folder offers."""

    Meter: type[DeviceMeter]

    def rank(self, host: Host) -> int:
        """0: another platform; 1: this operating system; 2: this very kind of device."""

    def describe(self, host: Host) -> Machine:
        """The device and its settings; raises nothing."""


def this_machine(host: Host | None = None) -> Machine:
    """What the best fitting probe says; raises nothing."""
    host = host or Host()
    name = platform_name(host)
    if name:
        return _probe(name).describe(host)
    figures = Figures()
    figures.leave(f"no probe for {host.system}", "cpu_model", "memory_bytes", "platform", "board")
    return make_machine(None, figures)


def open_meter(host: Host | None = None) -> DeviceMeter:
    """The meter of the best fitting probe; without one, a meter that says so."""
    host = host or Host()
    name = platform_name(host)
    return _probe(name).Meter(host) if name else _NoMeter(host)


def platform_name(host: Host) -> str | None:
    """Name of the best fitting probe, or None."""
    ranks = {name: _probe(name).rank(host) for name in names()}
    best = max(ranks, key=lambda name: ranks[name])
    return best if ranks[best] else None


def names() -> list[str]:
    """Every platform that has a probe."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))


def make_machine(name: str | None, figures: Figures) -> Machine:
    """The figures that a probe took, with what Python itself knows."""
    known: dict[str, Any] = {
        "platform": name,
        "architecture": platform.machine(),
        "cores": default_threads(),
        "os": platform.platform(),
        "python": platform.python_version(),
        "cpu_model": None,
        "memory_bytes": None,
    }
    found = {**known, **figures.found}
    rest = [
        entry.name for entry in fields(Machine) if entry.name != "absent" and found.get(entry.name) is None
    ]
    reasons = {name: figures.absent.get(name, "this platform has no such figure") for name in rest}
    return Machine(**found, absent=reasons)


class _NoMeter:
    def __init__(self, host: Host) -> None:
        reason = f"no probe for {host.system}"
        self._absent = dict.fromkeys(("clock_mhz", "temperature_c", "power_w"), reason)

    def read(self) -> Sample:
        return Sample(absent=self._absent)


def _probe(name: str) -> Probe:
    return cast(Probe, importlib.import_module(f"{__name__}.{name}"))
