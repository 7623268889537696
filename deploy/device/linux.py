"""Any Linux: processor, board, governor, clocks, thermal zones, container limits, energy counters.

The other Linux probes take from here what their boards share with it. Sources: the kernel's documentation of
procfs, cpufreq, the thermal framework, powercap (RAPL) and cgroups.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from time import monotonic

from deploy.device import Machine, Sample, make_machine
from deploy.device._host import Figures, Host, Unreadable, first

_CPUFREQ = "sys/devices/system/cpu/cpu[0-9]*/cpufreq"
_RAPL = "sys/class/powercap/intel-rapl:*"
_NO_LIMIT = 1 << 60  # cgroup v1 writes its largest page count where there is no limit


def rank(host: Host) -> int:
    """A kernel that shows /proc."""
    return int(host.system == "Linux" and (host.root / "proc").is_dir())


def describe(host: Host) -> Machine:
    """Processor, board, settings and limits."""
    figures = common(host)
    figures.leave("no such setting on plain Linux (governor says it)", "power_mode")
    return make_machine("linux", figures)


def common(host: Host) -> Figures:
    """What every Linux board has, for the probes of particular boards to add to."""
    figures = Figures()
    figures.take("cpu_model", cpu_model, host)
    figures.take("board", board, host)
    figures.take("memory_bytes", memory_bytes, host)
    figures.take("software", distribution, host)
    figures.take("governor", governor, host)
    figures.take("max_clock_mhz", max_clock_mhz, host)
    figures.take("cpu_limit", cpu_limit, host)
    figures.take("memory_limit_bytes", memory_limit, host)
    return figures


class Meter:
    """Clock, temperature, and power from the RAPL energy counters between two readings."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._last: tuple[float, dict[str, float]] | None = None

    def read(self) -> Sample:
        """The present moment."""
        return read_sample(self._host, self._power_w)

    def _power_w(self) -> float:
        now = monotonic(), energy_uj(self._host)
        last, self._last = self._last, now
        if last is None or now[0] <= last[0]:
            raise Unreadable("an energy counter gives power from its second reading on")
        used = sum(
            _used_uj(self._host, zone, last[1].get(zone, value), value) for zone, value in now[1].items()
        )
        return used / 1e6 / (now[0] - last[0])


def read_sample(host: Host, power_w: Callable[[], float]) -> Sample:
    """Clock and temperature as every Linux shows them, power by the given reader."""
    figures = Figures()
    figures.take("clock_mhz", clock_mhz, host)
    figures.take("temperature_c", temperature_c, host)
    figures.take("power_w", power_w)
    return Sample(**figures.found, absent=figures.absent)


def cpu_model(host: Host) -> str:
    """The processor's name (x86), or the board's (arm, where the processor has none)."""
    for line in host.text("proc/cpuinfo").splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "Model") and value.strip():
            return value.strip()
    return device_tree_model(host)


def device_tree_model(host: Host) -> str:
    """The board's name in the device tree."""
    return host.text("proc/device-tree/model")


def board(host: Host) -> str:
    """The board's or computer's model, from the device tree or from DMI."""
    names = ("sys/class/dmi/id/sys_vendor", "sys/class/dmi/id/product_name")
    return first(lambda: device_tree_model(host), lambda: " ".join(host.text(name) for name in names))


def distribution(host: Host) -> str:
    """Name and version of the distribution."""
    for line in host.text("etc/os-release").splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip("\"'")
    raise Unreadable("/etc/os-release names no PRETTY_NAME")


def memory_bytes(host: Host) -> int:
    """Physical memory."""
    for line in host.text("proc/meminfo").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    raise Unreadable("/proc/meminfo has no MemTotal")


def governor(host: Host) -> str:
    """The frequency governor; several are joined where clusters differ."""
    return "+".join(dict.fromkeys(host.text(name) for name in host.glob(f"{_CPUFREQ}/scaling_governor")))


def max_clock_mhz(host: Host) -> float:
    """The highest clock that the settings allow any core."""
    return max(host.number(name) for name in host.glob(f"{_CPUFREQ}/scaling_max_freq")) / 1000


def clock_mhz(host: Host) -> float:
    """Mean clock of the cores now."""
    return first(lambda: _cpufreq_mhz(host), lambda: _cpuinfo_mhz(host))


def temperature_c(host: Host) -> float:
    """The hottest thermal zone that can be read and makes sense (-40..150 degrees)."""
    celsius = [value / 1000 for value in _readable(host, "sys/class/thermal/thermal_zone*/temp")]
    sensible = [value for value in celsius if -40 < value < 150]
    if not sensible:
        raise Unreadable("no thermal zone can be read")
    return max(sensible)


def energy_uj(host: Host) -> dict[str, float]:
    """RAPL counter of every package, in microjoules."""
    zones = [zone for zone in host.glob(_RAPL) if zone.count(":") == 1]  # 0:0 is a part of 0
    return {zone: host.number(f"{zone}/energy_uj") for zone in zones}


def cpu_limit(host: Host) -> float:
    """Cores that this process's control group, or one above it, may keep busy."""
    quotas = [quota for folder in _cgroups(host, "cpu") if (quota := _quota(host, folder)) is not None]
    if not quotas:
        raise Unreadable("no control group limits the processor")
    return min(quotas)


def memory_limit(host: Host) -> int:
    """The least memory that a control group of this process allows."""
    names = [
        f"{folder}/{name}"
        for folder in _cgroups(host, "memory")
        for name in ("memory.max", "memory.limit_in_bytes")
    ]
    limits = [value for name in names for value in _readable(host, name) if value < _NO_LIMIT]
    if not limits:
        raise Unreadable("no control group limits the memory")
    return int(min(limits))


def _cpufreq_mhz(host: Host) -> float:
    values = list(_readable(host, f"{_CPUFREQ}/scaling_cur_freq"))
    if not values:
        raise Unreadable("no cpufreq in /sys")
    return statistics.mean(values) / 1000


def _cpuinfo_mhz(host: Host) -> float:
    lines = host.text("proc/cpuinfo").splitlines()
    values = [float(line.partition(":")[2]) for line in lines if line.startswith("cpu MHz")]
    if not values:
        raise Unreadable("/proc/cpuinfo gives no clock")
    return statistics.mean(values)


def _used_uj(host: Host, zone: str, before: float, now: float) -> float:
    """Energy between two counter values; a counter starts again at 0 after its range."""
    return now - before if now >= before else now - before + host.number(f"{zone}/max_energy_range_uj")


def _quota(host: Host, folder: str) -> float | None:
    """Cores by one control group: "200000 100000" (v2), or two files (v1); None without a limit."""
    try:
        quota, period = host.text(f"{folder}/cpu.max").split()
    except (Unreadable, ValueError):
        try:
            quota, period = (host.text(f"{folder}/cpu.cfs_{name}_us") for name in ("quota", "period"))
        except Unreadable:
            return None
    return None if quota in ("max", "-1") else int(quota) / int(period)


def _cgroups(host: Host, controller: str) -> Iterator[str]:
    """Folders of this process's control group and of those above it, v2 and v1."""
    for line in host.text("proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        base = f"sys/fs/cgroup/{controller}" if controllers else "sys/fs/cgroup"
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for depth in range(len(parts), -1, -1):
            yield "/".join([base, *parts[:depth]])


def _readable(host: Host, pattern: str) -> Iterator[float]:
    """The numbers of all files of a pattern that can be read."""
    try:
        names = host.glob(pattern)
    except Unreadable:
        return
    for name in names:
        try:
            yield host.number(name)
        except Unreadable:
            continue
